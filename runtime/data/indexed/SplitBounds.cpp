// See SplitBounds.h.
#include "runtime/data/indexed/SplitBounds.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace mgc {

std::string_view toString(Split split) {
  constexpr std::array<std::string_view, 3> names = {"train", "valid", "test"};
  return names[static_cast<size_t>(split)];
}

// The sum of numpy.sum: eight partial sums from eight elements on, halves of halves above 128.
static double numpySum(std::span<const double> values) {
  const size_t size = values.size();
  if (size < 8) {
    double sum = 0;
    for (const double value : values)
      sum += value;
    return sum;
  }
  if (size > 128) {
    const size_t half = size / 2 - size / 2 % 8;
    return numpySum(values.first(half)) + numpySum(values.subspan(half));
  }
  std::array<double, 8> parts;
  std::copy_n(values.begin(), 8, parts.begin());
  size_t done = 8;
  for (; done + 8 <= size; done += 8)
    for (size_t i = 0; i < 8; ++i)
      parts[i] += values[done + i];
  double sum = ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
  for (; done < size; ++done)
    sum += values[done];
  return sum;
}

std::vector<double> normalized(std::span<const double> weights) {
  const double sum = numpySum(weights);
  std::vector<double> all(weights.begin(), weights.end());
  for (double &weight : all)
    weight /= sum;
  return all;
}

static std::optional<double> numberOf(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(number) ? std::optional(number)
                                                                                           : std::nullopt;
}

Result<SplitFractions> parseSplit(const std::string &text) {
  const auto isPart = [](char c) { return c == '.' || (c >= '0' && c <= '9'); };
  std::vector<double> numbers;
  for (auto begin = std::ranges::find_if(text, isPart); begin != text.end();) {
    const auto end = std::find_if_not(begin, text.end(), isPart);
    const std::optional<double> number = numberOf({begin, end});
    if (!number)
      return errorf("--split {}: \"{}\" is no number; expected three, such as 969,30,1", text,
                    std::string_view(begin, end));
    numbers.push_back(*number);
    begin = std::find_if(end, text.end(), isPart);
  }
  const bool hasOther =
      std::ranges::any_of(text, [](char c) { return c == '-' || std::isalpha(static_cast<unsigned char>(c)); });
  if (hasOther || numbers.size() > 3 || numbers.empty() || !(numpySum(numbers) > 0) ||
      !std::isfinite(numpySum(numbers)))
    return errorf("--split {}: expected up to three numbers that are not negative, of train, valid and test, "
                  "such as 969,30,1",
                  text);
  numbers.resize(3);
  SplitFractions fractions;
  double begin = 0;
  const std::vector<double> shares = normalized(numbers);
  for (size_t i = 0; i < 3; ++i) {
    const double end = begin + shares[i];
    if (end > begin)
      fractions.parts[i] = {begin, end};
    begin = end;
  }
  return fractions;
}

std::optional<SequenceRange> SplitFractions::of(Split split, int64_t sequences) const {
  const auto &part = parts[static_cast<size_t>(split)];
  if (!part)
    return std::nullopt;
  // Halves are rounded to even, as Python's round() does.
  const auto bound = [&](double fraction) {
    return std::min(sequences, static_cast<int64_t>(std::nearbyint(fraction * static_cast<double>(sequences))));
  };
  return SequenceRange{bound(part->begin), bound(part->end)};
}

Result<BlendWords> parseBlend(std::string_view flag, const std::vector<std::string> &words) {
  BlendWords blend;
  bool hasWeights = !words.empty() && words.size() % 2 == 0;
  for (size_t i = 0; i < words.size(); i += 2)
    hasWeights = hasWeights && numberOf(words[i]);
  if (!hasWeights) {
    blend.prefixes = words;
    return blend;
  }
  for (size_t i = 0; i < words.size(); i += 2) {
    blend.weights.push_back(*numberOf(words[i]));
    blend.prefixes.push_back(words[i + 1]);
    if (blend.weights.back() <= 0)
      return errorf("{}: the weight of {} is {}, expected more than 0", flag, words[i + 1], words[i]);
  }
  if (!std::isfinite(numpySum(blend.weights)))
    return errorf("{}: the sum of the weights is not finite; expected smaller ones", flag);
  return blend;
}

} // namespace mgc
