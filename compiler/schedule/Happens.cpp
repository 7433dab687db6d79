// See Happens.h.
#include "compiler/schedule/Happens.h"

#include <algorithm>

namespace mgc::schedule {

void HappensBefore::join(int64_t step) {
  std::vector<uint64_t> &into = done.back();
  const std::vector<uint64_t> &from = done[step];
  for (size_t i = 0; i < from.size(); ++i)
    into[i] |= from[i];
}

void HappensBefore::addWait(int64_t step) {
  join(step);
  add(step);
  if (partner[step] >= 0)
    add(partner[step]);
}

void HappensBefore::append(int64_t stream, const std::vector<int64_t> &waits, bool isPaired) {
  int64_t index = int64_t(done.size());
  partner.push_back(-1);
  done.emplace_back(index / 64 + 1, 0);
  auto before = std::find_if(last.begin(), last.end(), [&](const Last &l) { return l.stream == stream; });
  if (before == last.end())
    before = last.insert(last.end(), {stream, -1});
  else if (isPaired)
    join(before->step), partner.back() = before->step, partner[before->step] = index;
  else if (stream == kCompute || stream == kGradients)
    addWait(before->step);
  else
    join(before->step);
  before->step = index;
  for (int64_t wait : waits)
    addWait(wait);
}

MemoryTracker::MemoryTracker(std::vector<int64_t> cuts) {
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  segments.resize(cuts.size());
  for (size_t i = 0; i < cuts.size(); ++i)
    segments[i].begin = cuts[i];
}

std::size_t MemoryTracker::find(int64_t offset) const {
  auto after = std::upper_bound(segments.begin(), segments.end(), offset,
                                [](int64_t value, const Segment &segment) { return value < segment.begin; });
  return after == segments.begin() ? 0 : size_t(after - segments.begin()) - 1;
}

} // namespace mgc::schedule
