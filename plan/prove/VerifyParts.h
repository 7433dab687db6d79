// The parts of verifyPlan, and what they share. Each part takes a plan whose mesh is sound and adds
// violations; it leaves out checks that an earlier violation makes meaningless.
#pragma once

#include "plan/Checks.h"
#include "plan/mesh/Mesh.h"
#include "runtime/base/Checked.h"

#include <algorithm>
#include <span>

namespace mgc::plan {

void verifyNumbers(Checks &checks);    // VerifyNumbers.cpp: the plan's own numbers
void verifyParameters(Checks &checks); // VerifyParameters.cpp: parameters and buckets
// VerifyTensors.cpp: the parameters, one by one, of each tensor of a checkpoint: they have its one shape, cover it exactly once,
// and no name means two tensors. `place` is that of the plan's parameters.
void verifyTensors(Checks &checks, const std::vector<Parameter> &all, const Place &place);
void verifyPrograms(Checks &checks);  // VerifyPrograms.cpp: programs and their instructions
void verifyStages(Checks &checks);    // VerifyStages.cpp: regions, inputs, chunks, scalars of each stage
void verifySchedules(Checks &checks); // VerifySchedules.cpp: the steps of each stage

Checked productOf(std::span<const int64_t> sizes); // nothing: it is no number of 63 bits

// A range of bytes or elements, and who has it.
struct Interval {
  int64_t begin = 0, end = 0;
  std::string owner;
};
// Adds a violation for neighbours (by position) that overlap.
void verifyDisjoint(Checks &checks, const Place &place, std::vector<Interval> intervals);

// VerifyHostPart.cpp: the elements of a state that are on the host are the same of all states of the bucket that only the update has.
// `elements`: all that a rank has. Adds where they lie to `persistent`. Returns whether others are on the device, which have a place
// there.
bool verifyHostPart(Checks &checks, const StagePlan &stage, const Bucket &bucket, const State &state, int64_t elements,
                    const Place &place, std::vector<Interval> &persistent);

// Every list of axes is sound and no primitive axis is in two of them.
bool verifyAxesApart(Checks &checks, const Place &place, std::initializer_list<const Axes *> lists);

// The most items that a schedule runs, and a program or a chunk, of which the proof runs each.
inline constexpr int64_t kMaxRuns = int64_t(1) << 24, kMaxProgramRuns = int64_t(1) << 20;
// Repeats lie inside a list of `items`, in order and apart, and run no more items than `most`. Adds violations; returns
// whether there are none. forEachItem calls visit(item, iterations) for each item.
bool verifyRepeats(Checks &checks, const Place &place, const std::vector<Repeat> &repeats, size_t items, int64_t most);
template <typename Visit> void forEachItem(size_t items, const std::vector<Repeat> &repeats, Visit &&visit) {
  size_t next = 0;
  for (int64_t item = 0; item < static_cast<int64_t>(items); ++item) {
    while (next < repeats.size() && repeats[next].end <= item)
      ++next;
    const bool isRepeated = next < repeats.size() && repeats[next].begin <= item;
    visit(static_cast<size_t>(item), isRepeated ? repeats[next].count : int64_t(1));
  }
}

// Whether begin and begin + (iterations - 1) * stride both are the begin of `bytes` bytes inside of `limit`.
bool fitsInEach(int64_t begin, int64_t stride, int64_t iterations, Checked bytes, int64_t limit);

// The part of a dimension of `size` that a rank has: size / groupSize(axes). Adds a violation and gives
// nothing unless size is positive, the axes are sound and divide it.
Checked localSize(Checks &checks, const Place &place, int64_t size, const Axes &axes);

} // namespace mgc::plan
