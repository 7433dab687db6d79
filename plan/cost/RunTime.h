// Seconds of a run of a chunk, and of a pair of runs, on one rank. In: a plan and the devices. Out: what its layers take, and apart what
// gathers units, and clears and sums up their gradients (ZeRO-2 and 3).
//
// On a target whose collectives leave its cores to matrix products (plan::leavesCoresToProducts), collectives are in lanes of
// their own, those of layers and those of units, and are joined where plan/Joins.h says, beyond their call too. OverlapPlayer.h
// says what hides them. A stack (Stack.h) may have other rules. Slots lie where those of the first microbatch do; a chunk that runs in
// parts is taken as one run, but each call of the task gradients is a run.
#pragma once

#include "plan/Joins.h"
#include "plan/cost/OverlapPlayer.h"

#include <map>

namespace mgc::cost {

struct RunTime {
  ProgramTime layers, units;
  ProgramTime all() const { return ProgramTime(layers) += units; }
  RunTime &operator+=(const RunTime &other);
  RunTime operator*(double times) const { return {layers * times, units * times}; }
};

class RunTimes {
public:
  // The plan must outlive it.
  RunTimes(const Cluster &cluster, const plan::Plan &plan);
  // Copies between host and device are left out: HostCopyTime.h has them.
  RunTime secondsOf(const plan::StagePlan &stage, const plan::Chunk &chunk);
  // In alternating turns (plan/PairTurns.h): the collectives of each overlap the matrix products of both.
  RunTime secondsOfPair(const plan::StagePlan &stage, const plan::Chunk &first, const plan::Chunk &second);
  // A run of the program alone, whatever it binds.
  ProgramTime secondsOf(int64_t program);
  // The share of the device's units that the collectives of a chunk take: the mean over its seconds, where nothing hides them.
  double takenBy(const plan::Chunk &chunk) const;

private:
  // A call of a run whose slots begin at `slots`.
  struct PlacedCall {
    const plan::Call &call;
    int64_t iteration = 0; // number in its repeat
    std::span<const int64_t> slots;
    bool isOfLayers = false, isOfUnit = false; // its chunk is forward or backward; plan::isOfUnit
    std::vector<int64_t> bases() const { return basesOf(call, iteration, slots); }
  };
  // A call that begins when nothing is in progress, and what is behind it.
  struct OpenCall {
    ProgramTime time;
    std::vector<CollectiveInProgress> left; // `id` is the number of the work
    bool hasLanes = false;
  };
  template <typename Visit> void forEachCall(const plan::StagePlan &, const plan::Chunk &, const Visit &) const;
  void play(const PlacedCall &call, class RunWalk &walk);
  bool jump(const PlacedCall &call, class RunWalk &walk);
  bool areApart(const plan::Program &program, std::span<const int64_t> bases) const;
  const OpenCall &openCall(const PlacedCall &call);
  // None where nothing runs concurrently.
  const plan::ProgramWorks &worksOf(int64_t program);

  const Cluster cluster_;
  const plan::Plan &plan_;
  // By program of the plan.
  std::vector<std::vector<PricedWork>> prices_;
  std::vector<std::optional<plan::ProgramWorks>> works_; // as far as they were needed
  std::vector<ProgramTime> repeated_;                    // the rest of a call: RepeatedProducts.h
  std::map<std::pair<int64_t, bool>, OpenCall> open_;    // also by whether the call is a unit's
};

} // namespace mgc::cost
