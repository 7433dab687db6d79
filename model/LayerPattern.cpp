// See LayerPattern.h.
#include "model/LayerPattern.h"

#include "model/SizeLimits.h"

#include <cctype>
#include <charconv>
#include <optional>

namespace mgc::frontend {

namespace {

using List = std::vector<bool>;

// sum := product (+ product)*;  product := (sum) or [0, 1, ..], (* number)*. Nothing: the text is no such sum, or its
// list is longer than any model.
class PatternParser {
public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  std::optional<List> run() {
    std::optional<List> list = sum(0);
    return isNext('\0') ? list : std::nullopt;
  }

private:
  static constexpr int kDeepest = 16;
  std::string_view text_;

  void skipBlanks() {
    while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_.front())))
      text_.remove_prefix(1);
  }
  bool isNext(char c) {
    skipBlanks();
    return c == '\0' ? text_.empty() : text_.starts_with(c);
  }
  bool take(char c) {
    const bool found = isNext(c);
    if (found)
      text_.remove_prefix(1);
    return found;
  }
  std::optional<int64_t> number() {
    skipBlanks();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc())
      return std::nullopt;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return value;
  }

  std::optional<List> sum(int depth) {
    std::optional<List> all = product(depth);
    while (all && take('+')) {
      const std::optional<List> more = product(depth);
      if (!more || std::ssize(*all) + std::ssize(*more) > kMaxLayers)
        return std::nullopt;
      all->insert(all->end(), more->begin(), more->end());
    }
    return all;
  }
  std::optional<List> product(int depth) {
    std::optional<List> one = depth < kDeepest && take('(') ? inBrackets(depth) : list();
    while (one && take('*')) {
      const std::optional<int64_t> times = number();
      if (!times || *times < 0 || *times > kMaxLayers || *times * std::ssize(*one) > kMaxLayers)
        return std::nullopt;
      List all;
      for (int64_t i = 0; i < *times; ++i)
        all.insert(all.end(), one->begin(), one->end());
      one = std::move(all);
    }
    return one;
  }
  std::optional<List> inBrackets(int depth) {
    std::optional<List> inner = sum(depth + 1);
    return take(')') ? inner : std::nullopt;
  }
  std::optional<List> list() {
    List values;
    if (!take('['))
      return std::nullopt;
    do {
      const std::optional<int64_t> value = number();
      if (!value || *value < 0 || *value > 1 || std::ssize(values) == kMaxLayers)
        return std::nullopt;
      values.push_back(*value == 1);
    } while (take(','));
    return take(']') ? std::optional(values) : std::nullopt;
  }
};

// `isOf`: whether a layer is one of those that a number means.
Result<List> layersOf(std::string_view text, int64_t layers, bool (*isOf)(int64_t layer, int64_t every)) {
  MGC_ASSIGN(pattern, parseLayerPattern(text));
  if (pattern.every == 0 && std::ssize(pattern.layers) != layers)
    return errorf("'{}' is for {} layers, expected {}", text, pattern.layers.size(), layers);
  List all(static_cast<size_t>(layers));
  for (int64_t layer = 0; layer < layers; ++layer)
    all[layer] = pattern.every > 0 ? isOf(layer, pattern.every) : pattern.layers[layer];
  return all;
}

} // namespace

Result<LayerPattern> parseLayerPattern(std::string_view text) {
  int64_t every = 0;
  const char *end = text.data() + text.size();
  if (const auto [stop, error] = std::from_chars(text.data(), end, every); error == std::errc() && stop == end) {
    if (every < 1)
      return errorf("found '{}', expected a whole number, at least 1", text);
    return LayerPattern{every, {}};
  }
  std::optional<List> list = PatternParser(text).run();
  if (!list)
    return errorf("found '{}', expected a whole number, or a list of 0 and 1 as [0]*3+[1]*58", text);
  return LayerPattern{0, std::move(*list)};
}

Result<List> layersWithExperts(std::string_view text, int64_t layers) {
  return layersOf(text, layers, [](int64_t layer, int64_t every) { return layer % every == 0; });
}

Result<List> layersWithWindow(std::string_view text, int64_t layers) {
  return layersOf(text, layers, [](int64_t layer, int64_t every) { return (layer + 1) % every != 0; });
}

std::string patternOf(const List &layers) {
  std::string text;
  for (size_t begin = 0, end = 0; begin < layers.size(); begin = end) {
    while (end < layers.size() && layers[end] == layers[begin])
      ++end;
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", layers[begin] ? 1 : 0, end - begin);
  }
  return text;
}

} // namespace mgc::frontend
