// See Bytes.h.
#include "plan/prove/Bytes.h"

#include <algorithm>

namespace mgc::plan {

void ByteSet::add(ByteRange range) {
  if (range.begin >= range.end)
    return;
  auto first = std::ranges::lower_bound(ranges_, range.begin, {}, &ByteRange::end);
  auto last = first;
  for (; last != ranges_.end() && last->begin <= range.end; ++last) {
    range.begin = std::min(range.begin, last->begin);
    range.end = std::max(range.end, last->end);
  }
  ranges_.insert(ranges_.erase(first, last), range);
}

bool ByteSet::contains(ByteRange range) const {
  if (range.begin >= range.end)
    return true;
  const auto found = std::ranges::upper_bound(ranges_, range.begin, {}, &ByteRange::end);
  return found != ranges_.end() && found->begin <= range.begin && range.end <= found->end;
}

bool ByteSet::meets(ByteRange range) const {
  const auto found = std::ranges::upper_bound(ranges_, range.begin, {}, &ByteRange::end);
  return range.begin < range.end && found != ranges_.end() && found->begin < range.end;
}

} // namespace mgc::plan
