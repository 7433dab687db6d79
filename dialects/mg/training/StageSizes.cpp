// See StageSizes.h.
#include "dialects/mg/training/StageSizes.h"

#include <algorithm>
#include <charconv>
#include <fmt/ranges.h>
#include <optional>

namespace mgc {

// A whole number from 1 to `most`.
static std::optional<int64_t> positiveNumber(std::string_view text, int64_t most) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0 && number <= most
             ? std::optional(number)
             : std::nullopt;
}

Result<std::vector<int64_t>> parseStageSizes(std::string_view text) {
  std::vector<int64_t> sizes;
  for (std::string_view rest = text;;) {
    const std::string_view word = rest.substr(0, rest.find(','));
    const size_t times = word.find('x');
    const std::optional<int64_t> layers = positiveNumber(word.substr(0, times), kMostLayersOfChunk),
                                 count = times == word.npos ? 1 : positiveNumber(word.substr(times + 1), INT64_MAX);
    if (!layers || !count)
      return errorf("'{}' in '{}' is no number of layers, and no such number x chunks\n  possible: 4, or 4x14", word,
                    text);
    if (*count > kMostChunks - int64_t(sizes.size()))
      return errorf("'{}' has more than {} chunks", text, kMostChunks);
    sizes.insert(sizes.end(), size_t(*count), *layers);
    if (word.size() == rest.size())
      return sizes;
    rest.remove_prefix(word.size() + 1);
  }
}

std::string stageSizesText(std::span<const int64_t> sizes) {
  std::vector<std::string> words;
  for (size_t begin = 0, end = 0; begin < sizes.size(); begin = end) {
    end = size_t(std::ranges::find_if(sizes.subspan(begin), [&](int64_t size) { return size != sizes[begin]; }) -
                 sizes.begin());
    words.push_back(end - begin > 1 ? fmt::format("{}x{}", sizes[begin], end - begin) : fmt::to_string(sizes[begin]));
  }
  return fmt::format("{}", fmt::join(words, ","));
}

} // namespace mgc
