// See TextSplit.h.
#include "runtime/tokenizers/TextSplit.h"

#include <algorithm>

namespace mgc {

static std::vector<TextPart> mergeForward(const std::vector<TextPart> &parts) {
  std::vector<TextPart> merged;
  bool isBehindMatch = false;
  for (const TextPart &part : parts) {
    if (part.isMatch && !isBehindMatch && !merged.empty())
      merged.back().end = part.end;
    else
      merged.push_back(part);
    isBehindMatch = part.isMatch;
  }
  return merged;
}

static std::vector<TextPart> mergeBackward(const std::vector<TextPart> &parts) {
  std::vector<TextPart> merged;
  bool isBeforeMatch = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->isMatch && !isBeforeMatch && !merged.empty())
      merged.back().begin = part->begin;
    else
      merged.push_back(*part);
    isBeforeMatch = part->isMatch;
  }
  std::ranges::reverse(merged);
  return merged;
}

std::vector<TextPart> TextParts::merged(SplitBehavior behavior, bool invert) {
  addRest(size_);
  if (invert)
    for (TextPart &part : parts_)
      part.isMatch = !part.isMatch;
  switch (behavior) {
  case SplitBehavior::isolated:
    break;
  case SplitBehavior::removed:
    std::erase_if(parts_, [](const TextPart &part) { return part.isMatch; });
    break;
  case SplitBehavior::mergedWithPrevious:
    return mergeForward(parts_);
  case SplitBehavior::mergedWithNext:
    return mergeBackward(parts_);
  case SplitBehavior::contiguous: {
    std::vector<TextPart> merged;
    for (const TextPart &part : parts_)
      if (!merged.empty() && merged.back().isMatch == part.isMatch)
        merged.back().end = part.end;
      else
        merged.push_back(part);
    return merged;
  }
  }
  return std::move(parts_);
}

} // namespace mgc
