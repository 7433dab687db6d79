// The calls around those of a chunk's instances that gather values of units, clear their gradients and sum these up (ZeRO-2 and 3), in
// the order in which compiler/assemble/Stages puts them, and what of them products hide, by the rule of plan/cost/OverlapPlayer.h.
#pragma once

#include "planner/search/StepEnd.h"

#include <set>

namespace mgc::planner {

// The places of a stage's parameters, by block and argument of its forward.
class UnitPlaces {
public:
  UnitPlaces() = default;
  UnitPlaces(const StageContents &stage, const Blocks &blocks);
  struct Place {
    int64_t first = 0, count = 0, bucket = 0; // StageContents::Place
  };
  using Places = std::vector<Place>;
  const Places &of(const ModelBlock &block, int64_t argument) const;

private:
  std::map<std::pair<const ModelBlock *, int64_t>, Places> places_; // variants have their own entries
};

class UnitCalls {
public:
  // isInLine: runs are paired, and values and sums of units stand before and behind the call that they are for.
  UnitCalls(const StageContents &stage, const UnitPlaces &places, const StepEnd &prices, bool hides, bool isInLine)
      : stage_(stage), places_(places), prices_(prices), hides_(hides), isInLine_(isInLine) {}

  struct Call {
    const BlockFunction *function = nullptr; // it computes something
    const Instance *instance = nullptr;
    double hiding = 0;                           // ShapeBlocks::hidingIn
    std::map<int64_t, double> hidingBefore = {}; // likewise before an argument of forward is read
    bool keepsGathered = false; // it is no forward, and the instance's forward has gathered what stays until then
    // Buckets of which a unit is gathered in the first microbatch (FirstGathers), though the call may compute nothing.
    std::vector<int64_t> gathersOnce = {};
  };
  // Seconds that the calls of units add to these, which are all of a run of a chunk, in order.
  // isFirst: the first microbatch's.
  double secondsBeside(const std::vector<Call> &calls, bool isFirst) const;

private:
  void addBuckets(const Call &call, int64_t argument, std::set<int64_t> &buckets) const;
  std::vector<int64_t> bucketsOf(const Call &call, bool gradients) const;
  std::vector<std::pair<double, int64_t>> readsOf(const Call &call) const;

  const StageContents &stage_;
  const UnitPlaces &places_;
  const StepEnd &prices_;
  const bool hides_, isInLine_;
};

} // namespace mgc::planner
