// Cutting a text at the matches of a pattern, as a tokenizer.json says what becomes of a match.
//
//   "a b", matches of " "   removed a|b   isolated a| |b   mergedWithPrevious "a "|b   mergedWithNext a|" b"
//   contiguous: as isolated, neighbouring matches together
#pragma once

#include <functional>
#include <string_view>
#include <vector>

namespace mgc {

enum class SplitBehavior { removed, isolated, mergedWithPrevious, mergedWithNext, contiguous };

// A part of a text, and whether it is a match.
struct TextPart {
  size_t begin = 0, end = 0;
  bool isMatch = false;
};

// The parts of a text of so many bytes between and at its matches, which are added in their order.
class TextParts {
public:
  explicit TextParts(size_t size) : size_(size) {}
  void addMatch(size_t begin, size_t end) {
    addRest(begin);
    parts_.push_back({begin, end, true});
    done_ = end;
  }
  // Merged by the behavior; `invert`: what is between matches counts as one.
  std::vector<TextPart> merged(SplitBehavior behavior, bool invert);

private:
  void addRest(size_t end) {
    if (end > done_)
      parts_.push_back({done_, end, false});
  }
  size_t size_, done_ = 0;
  std::vector<TextPart> parts_;
};

} // namespace mgc
