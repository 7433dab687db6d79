// See RunWalk.h.
#include "plan/cost/RunWalk.h"

#include <algorithm>

namespace mgc::cost {

int64_t RunLanes::laneOf(const PricedWork &work, bool isOfUnit, int64_t id) const {
  switch (ruleOf(work, isOfUnit)) {
  case Overlap::follows:
    return isOfUnit ? kUnitsLane : kLayersLane;
  case Overlap::sliced:
    return work.collective->isGather ? kFirstSlices + id : plan::JoinPoints::kMain;
  case Overlap::waits:
    break;
  }
  return plan::JoinPoints::kMain;
}

bool RunLanes::hasSlices() const {
  return hasLanes_ &&
         std::ranges::count(std::array{overlap_.tensor, overlap_.context, overlap_.experts}, Overlap::sliced) > 0;
}

plan::ProgramWorks worksOn(const Cluster &cluster, const plan::Program &program) {
  return plan::leavesCoresToProducts(cluster.target) ? plan::ProgramWorks(cluster.mesh, program) : plan::ProgramWorks();
}

void RunWalk::call(std::span<const PricedWork> prices, const plan::ProgramWorks &works, std::span<const int64_t> bases,
                   bool isOfUnit) {
  isOfUnit_ = isOfUnit;
  for (size_t i = 0; i < prices.size(); ++i, ++next_)
    if (!isHostCopy(prices[i]))
      play(prices[i], works, i, bases);
}

void RunWalk::play(const PricedWork &price, const plan::ProgramWorks &works, size_t work,
                   std::span<const int64_t> bases) {
  host_ += kernel_;
  const int64_t lane = lanes_.laneOf(price, isOfUnit_, next_);
  hasMain_ |= lane == plan::JoinPoints::kMain;
  if (lane == plan::JoinPoints::kMain && !player_.isBusy() && !lanes_.hasSlices())
    return player_.play({price, next_, lane, isOfUnit_});
  if (!player_.isBusy())
    points_ = {}; // all that is pending is done
  const plan::Touched touched = works.touched(work, bases);
  const std::vector<int64_t> joins = points_.enqueue(next_, lane, touched);
  player_.play({price, next_, lane, isOfUnit_, lanes_.isSliced(price, isOfUnit_), joins, &touched});
}

void RunWalk::endCall() {
  player_.endCall();
  if (hasMain_ && kernel_ > 0)
    player_.idle(addLaunches());
}

void RunWalk::finish() {
  player_.finish();
  addLaunches();
}

double RunWalk::addLaunches() {
  const double seconds = std::max(0.0, host_ - (player_.seconds() - begin_));
  player_.addLaunches(isOfUnit_, seconds);
  host_ = 0, hasMain_ = false;
  begin_ = player_.seconds();
  return seconds;
}

void RunWalk::jump(const ProgramTime &time, std::span<const CollectiveInProgress> left, const plan::ProgramWorks &works,
                   std::span<const int64_t> bases, int64_t size, bool isOfUnit) {
  player_.add(isOfUnit, time);
  begin_ = player_.seconds();
  points_ = {}; // all that is pending is done
  for (CollectiveInProgress work : left) {
    const plan::Touched touched = works.touched(work.id, bases);
    work.id += next_;
    work.lane += work.lane >= kFirstSlices ? next_ : 0;
    points_.enqueue(work.id, work.lane, touched);
    player_.begin(std::move(work));
  }
  next_ += size;
}

void RunWalk::add(bool isOfUnit, const ProgramTime &time) {
  player_.add(isOfUnit, time);
  begin_ += time.seconds();
}

} // namespace mgc::cost
