#include "runtime/exec/JoinPoints.h"

#include <algorithm>

namespace mgc {

namespace {

using Accesses = std::vector<JoinPoints::Access>;

bool collide(const JoinPoints::Access &a, const JoinPoints::Access &b) {
  return (a.isWritten || b.isWritten) && std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

bool collide(const Accesses &some, const Accesses &others) {
  return std::ranges::any_of(some, [&](const JoinPoints::Access &a) {
    return std::ranges::any_of(others, [&](const JoinPoints::Access &b) { return collide(a, b); });
  });
}

} // namespace

std::vector<int64_t> JoinPoints::enqueue(int64_t lane, std::vector<Access> accesses) {
  std::vector<int64_t> joined;
  for (auto &[other, works] : pending_) {
    const auto isInTheWay = [&](const Work &work) { return collide(work.accesses, accesses); };
    const auto last = other == lane ? works.rend() : std::find_if(works.rbegin(), works.rend(), isInTheWay);
    if (last == works.rend())
      continue;
    joined.push_back(last->number);
    works.erase(works.begin(), last.base());
  }
  if (lane != kMain)
    pending_[lane].push_back({next_, std::move(accesses)});
  ++next_;
  return joined;
}

std::vector<int64_t> JoinPoints::finish() {
  std::vector<int64_t> joined;
  for (const auto &[lane, works] : pending_)
    if (!works.empty())
      joined.push_back(works.back().number);
  pending_.clear();
  return joined;
}

} // namespace mgc
