// Plays the works of a run, or of two runs in turns, with what runs concurrently. In: works in the order in which they are enqueued,
// with the joins of plan/Joins.h. Out: a ProgramTime of the layers' works and one of the units'.
//
// A collective of another lane is hidden by the products and attention that follow it, second for second, until it is joined: row
// kernels and moves hide nothing, as they want the memory that the collective uses. The rest is exposed, and takes the time of the run.
// Collectives of a lane follow each other, and units' are hidden by what layers' leave. A product concurrent with a collective is slower
// by the units that the collective takes (LinkLevel::units).
//
//   dgrad 3 s   reduce 4 s   norm 1 s   wgrad 3 s   reads reduce's result
//               |----------- hidden ----3 s|1 s exposed|
//
// A sliced gather is in a lane of its own up to the product that takes it, which hides all of it but a slice; a sliced sum goes along
// with the product before it in the same way.
#pragma once

#include "plan/Joins.h"
#include "plan/cost/PricedWork.h"
#include "plan/cost/ProgramTime.h"

#include <array>
#include <vector>

namespace mgc::cost {

// Lanes of a run, as plan/Joins.h has them; a sliced gather has one for itself, from kFirstSlices on.
enum : int64_t { kLayersLane = plan::JoinPoints::kMain + 1, kUnitsLane, kFirstSlices };

// A work as it is enqueued.
struct PlayedWork {
  const PricedWork &price;
  int64_t id = 0; // no other work of the runs has it
  int64_t lane = 0;
  bool isOfUnit = false;
  bool isSliced = false;                  // a sum in slices, on the main lane
  std::span<const int64_t> joins = {};    // works that it waits for
  const plan::Touched *touched = nullptr; // needed where the stack has slices
};

// A collective in progress.
struct CollectiveInProgress {
  int64_t id = 0, lane = 0;
  bool isOfUnit = false;
  double left = 0; // seconds
  PricedCollective collective;
};

class OverlapPlayer {
public:
  void play(const PlayedWork &work);
  // The device has nothing to do for so long: collectives go on.
  void idle(double seconds);
  void endCall() { product_ = {}; }
  // Waits for everything.
  void finish();
  bool isBusy() const { return !gathers_.empty() || !lanes_[0].empty() || !lanes_[1].empty(); }

  const ProgramTime &layers() const { return times_[false]; }
  const ProgramTime &units() const { return times_[true]; }
  double seconds() const { return layers().seconds() + units().seconds(); }
  void add(bool isOfUnit, const ProgramTime &time) { times_[isOfUnit] += time; }
  void addLaunches(bool isOfUnit, double seconds) { times_[isOfUnit].launches += seconds; }

  // In the order in which they began.
  std::vector<CollectiveInProgress> inProgress() const;
  void begin(CollectiveInProgress work);

private:
  void wait(std::span<const int64_t> joins);
  void takeSlices(std::span<const int64_t> joins, bool isProduct);
  void run(const PlayedWork &work);
  void slice(CollectiveInProgress work, const plan::Touched &touched);
  void hide(CollectiveInProgress &work, double most);
  void hideSlices(CollectiveInProgress &work);
  void expose(const CollectiveInProgress &work);

  struct Product {
    double *part = nullptr; // to which its seconds were added
    double left = 0;        // seconds concurrent with which nothing was yet
    plan::Touched touched = {};
  };
  std::array<ProgramTime, 2> times_;                       // layers', units'
  std::array<std::vector<CollectiveInProgress>, 2> lanes_; // kLayersLane, kUnitsLane
  std::vector<CollectiveInProgress> gathers_;              // in slices, for the product that takes them
  Product product_;                                        // the last to run, where nothing else ran since
};

} // namespace mgc::cost
