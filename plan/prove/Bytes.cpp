// See Bytes.h.
#include "plan/prove/Bytes.h"

#include <algorithm>

namespace mgc::plan {

void ByteSet::add(ByteInterval range) {
  if (range.begin >= range.end)
    return;
  auto first = std::ranges::lower_bound(ranges_, range.begin, {}, &ByteInterval::end);
  auto last = first;
  for (; last != ranges_.end() && last->begin <= range.end; ++last) {
    range.begin = std::min(range.begin, last->begin);
    range.end = std::max(range.end, last->end);
  }
  ranges_.insert(ranges_.erase(first, last), range);
}

bool ByteSet::contains(ByteInterval range) const {
  if (range.begin >= range.end)
    return true;
  const auto found = std::ranges::upper_bound(ranges_, range.begin, {}, &ByteInterval::end);
  return found != ranges_.end() && found->begin <= range.begin && range.end <= found->end;
}

bool ByteSet::meets(ByteInterval range) const {
  const auto found = std::ranges::upper_bound(ranges_, range.begin, {}, &ByteInterval::end);
  return range.begin < range.end && found != ranges_.end() && found->begin < range.end;
}

} // namespace mgc::plan
