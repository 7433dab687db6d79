// See OverlapPlayer.h.
#include "plan/cost/OverlapPlayer.h"

#include <algorithm>

namespace mgc::cost {

namespace {

double &partOf(ProgramTime &time, plan::WorkKind kind) {
  switch (kind) {
  case plan::WorkKind::product:
    return time.products;
  case plan::WorkKind::attention:
    return time.attention;
  case plan::WorkKind::row:
    return time.rows;
  default:
    return time.moves;
  }
}

bool has(std::span<const int64_t> joins, const CollectiveInProgress &work) {
  return std::ranges::find(joins, work.id) != joins.end();
}

} // namespace

void OverlapPlayer::play(const PlayedWork &work) {
  wait(work.joins);
  const std::optional<PricedCollective> &collective = work.price.collective;
  if (!collective)
    return run(work);
  takeSlices(work.joins, false);
  CollectiveInProgress begun{work.id, work.lane, work.isOfUnit, work.price.seconds, *collective};
  if (work.lane != plan::JoinPoints::kMain)
    begin(std::move(begun));
  else if (work.isSliced)
    slice(std::move(begun), *work.touched);
  else
    expose(begun);
}

void OverlapPlayer::run(const PlayedWork &work) {
  ProgramTime &time = times_[work.isOfUnit];
  double &part = partOf(time, work.price.kind);
  part += work.price.seconds;
  const bool hides = hidesCollectives(work.price.kind);
  product_ = hides ? Product{&part, work.price.seconds, work.touched ? *work.touched : plan::Touched()} : Product();
  takeSlices(work.joins, hides);
  if (!hides)
    return;
  time.flops += work.price.flops;
  for (std::vector<CollectiveInProgress> &lane : lanes_)
    while (product_.left > 0 && !lane.empty()) {
      hide(lane.front(), lane.front().left);
      if (lane.front().left <= 0)
        lane.erase(lane.begin());
    }
}

void OverlapPlayer::idle(double seconds) {
  for (std::vector<CollectiveInProgress> &lane : lanes_)
    while (seconds > 0 && !lane.empty()) {
      CollectiveInProgress &work = lane.front();
      const double part = std::min(seconds, work.left);
      times_[work.isOfUnit].hidden[work.collective.use] += part;
      seconds -= part;
      work.left -= part;
      if (work.left <= 0)
        lane.erase(lane.begin());
    }
}

void OverlapPlayer::finish() {
  for (std::vector<CollectiveInProgress> &lane : lanes_) {
    std::ranges::for_each(lane, [&](const CollectiveInProgress &work) { expose(work); });
    lane.clear();
  }
  std::ranges::for_each(gathers_, [&](const CollectiveInProgress &work) { expose(work); });
  gathers_.clear();
  product_ = {};
}

std::vector<CollectiveInProgress> OverlapPlayer::inProgress() const {
  std::vector<CollectiveInProgress> works = gathers_;
  for (const std::vector<CollectiveInProgress> &lane : lanes_)
    works.insert(works.end(), lane.begin(), lane.end());
  std::ranges::sort(works, {}, &CollectiveInProgress::id);
  return works;
}

void OverlapPlayer::begin(CollectiveInProgress work) {
  if (work.lane >= kFirstSlices)
    gathers_.push_back(std::move(work));
  else
    lanes_[work.lane - kLayersLane].push_back(std::move(work));
}

// A join is one of all works before it in its lane.
void OverlapPlayer::wait(std::span<const int64_t> joins) {
  if (joins.empty())
    return;
  for (std::vector<CollectiveInProgress> &lane : lanes_) {
    const auto last = std::find_if(lane.rbegin(), lane.rend(), [&](const auto &work) { return has(joins, work); });
    std::for_each(lane.begin(), last.base(), [&](const CollectiveInProgress &work) { expose(work); });
    lane.erase(lane.begin(), last.base());
  }
}

void OverlapPlayer::takeSlices(std::span<const int64_t> joins, bool isProduct) {
  for (auto gather = gathers_.begin(); !joins.empty() && gather != gathers_.end();)
    if (has(joins, *gather)) {
      isProduct ? hideSlices(*gather) : expose(*gather);
      gather = gathers_.erase(gather);
    } else {
      ++gather;
    }
}

void OverlapPlayer::slice(CollectiveInProgress work, const plan::Touched &touched) {
  if (!collide(touched, product_.touched))
    product_ = {};
  hideSlices(work);
}

// Concurrently with what is left of the product, which takes longer by the units that the collective has.
void OverlapPlayer::hide(CollectiveInProgress &work, double most) {
  const double share = 1 - work.collective.taken;
  const double part = std::min(most, product_.left / share);
  times_[work.isOfUnit].hidden[work.collective.use] += part;
  *product_.part += part * work.collective.taken;
  work.left -= part;
  product_.left -= part * share;
}

// The first slice is waited for, or the last.
void OverlapPlayer::hideSlices(CollectiveInProgress &work) {
  if (product_.left > 0)
    hide(work, work.left * (1 - 1 / double(work.collective.ranks)));
  expose(work);
}

void OverlapPlayer::expose(const CollectiveInProgress &work) {
  times_[work.isOfUnit].exposed[work.collective.use] += work.left;
}

} // namespace mgc::cost
