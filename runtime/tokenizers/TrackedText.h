// A text that is changed step by step, and where each of its bytes stood in the text that it began as.
//
//   " Ja", with "▁" for " "    ▁ ▁ ▁ J a      from [0, 1) three times, [1, 2), [2, 3)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mgc {

// Bytes [begin, end) of a text.
struct TextRange {
  uint32_t begin = 0, end = 0;
  bool operator==(const TextRange &) const = default;
};

class TrackedText {
public:
  // Bytes of the text come from as many of the first one at `begin` on. `isTracked` false: nothing is known of them, and
  // nothing is kept.
  void assign(std::string_view text, bool isTracked, uint32_t begin = 0);
  std::string_view view() const { return text_; }
  size_t size() const { return text_.size(); }
  bool isTracked() const { return isTracked_; }
  const TextRange *origins() const {
    return isTracked_ ? origins_.data() : nullptr;
  } // one for each byte; null: not tracked

private:
  friend class TextRewrite;
  std::string text_;
  std::vector<TextRange> origins_;
  bool isTracked_ = false;
};

// Bytes of the first text from which the bytes [begin, end) with these origins come.
TextRange originOf(const TextRange *origins, size_t begin, size_t end);

// The text that takes the place of another one.
class TextRewrite {
public:
  explicit TextRewrite(TrackedText &text) : text_(text) { out_.reserve(text.size()); }
  std::string_view before() const { return text_.view(); }
  std::string &out() { return out_; }
  // All that was appended since the last call comes from the bytes [begin, end) of the text before.
  void comesFrom(size_t begin, size_t end);
  void copy(size_t begin, size_t end);
  void finish(); // puts it in place

private:
  TrackedText &text_;
  std::string out_;
  std::vector<TextRange> origins_;
};

} // namespace mgc
