// Walks the calls of a run, with the joins of those that may have something in progress (plan/Joins.h). In: prices and bytes of the works
// of each call. Out: what an OverlapPlayer adds up, and the device's waits for the host.
#pragma once

#include "plan/Joins.h"
#include "plan/cost/OverlapPlayer.h"

namespace mgc::cost {

// The lanes of a run's works, by the target and the stack.
class RunLanes {
public:
  explicit RunLanes(const Cluster &cluster)
      : hasLanes_(plan::leavesCoresToProducts(cluster.target)), overlap_(cluster.stack.overlap) {}
  // `id`: of the work; no other of its run has it.
  int64_t laneOf(const PricedWork &work, bool isOfUnit, int64_t id) const;
  bool hasSlices() const;
  bool isSliced(const PricedWork &work, bool isOfUnit) const { return ruleOf(work, isOfUnit) == Overlap::sliced; }

private:
  Overlap ruleOf(const PricedWork &work, bool isOfUnit) const {
    return !work.collective || !hasLanes_ ? Overlap::waits : isOfUnit ? overlap_.units : work.collective->rule;
  }
  const bool hasLanes_;
  const StackOverlap &overlap_;
};

// The bytes of the program's works; none where nothing runs concurrently.
plan::ProgramWorks worksOn(const Cluster &cluster, const plan::Program &program);

class RunWalk {
public:
  explicit RunWalk(const Cluster &cluster) : kernel_(cluster.stack.kernel), lanes_(cluster) {}

  void call(std::span<const PricedWork> prices, const plan::ProgramWorks &works, std::span<const int64_t> bases,
            bool isOfUnit);
  // The device waits where the host needs longer for the starts of kernels than it does. Calls of units have none of their own on its
  // main stream: the host starts them along with those of the next call.
  void endCall();
  void finish();
  // A call of `size` works that takes so long, with this left in progress.
  void jump(const ProgramTime &time, std::span<const CollectiveInProgress> left, const plan::ProgramWorks &works,
            std::span<const int64_t> bases, int64_t size, bool isOfUnit);
  // Adds what is no work of the plan.
  void add(bool isOfUnit, const ProgramTime &time);

  // Whether nothing is in progress, on the device or the host.
  bool isFresh() const { return !player_.isBusy() && host_ == 0; }
  const OverlapPlayer &player() const { return player_; }

private:
  void play(const PricedWork &price, const plan::ProgramWorks &works, size_t work, std::span<const int64_t> bases);
  double addLaunches(); // since the last call that had some

  const double kernel_;
  const RunLanes lanes_;
  OverlapPlayer player_;
  plan::JoinPoints points_;
  int64_t next_ = 0;      // number of the next work
  bool isOfUnit_ = false; // the call
  double host_ = 0;       // seconds that it needs for the starts of kernels, since `begin_`
  double begin_ = 0;      // where launches were last added
  bool hasMain_ = false;  // a work of the main lane is there since then
};

} // namespace mgc::cost
