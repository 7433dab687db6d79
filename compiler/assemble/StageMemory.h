// Where everything of a stage lies in a rank's one allocation: regions one after another.
//
//   parameters, gathered, gradients, optimizer
//                                      the buffers of all buckets (compiler/step/StateBuffers.h); gathered: values of all units, where
//                                      they stay from a forward to its backward
//   scalars                            the step's scalars and results, the clip factor
//   inputs                             of all microbatches; positions once
//   activations                        the schedule's area
//   units                              gradients and values of one unit at a time; behind them the second memory for values, and where
//                                      calls use two in turn the gradients, in two memories, and their sums
//   transient                          what the backward of a unit of layers recomputes, then staged buffers of offloaded activations;
//                                      where the schedule has pairs of runs, those of forward have a place of their own behind it
//   staging                            two buffers for masters and optimizer states of a piece, copied from the host
//   frame                              gradients, then activations, that flow between the instances of a chunk, then the largest
//                                      frame; where the schedule has pairs of runs, those of forward have a place of their own
//                                      behind it
//   hostActivations                    in the host's arena: the schedule's area of what is offloaded
//   hostOptimizer                      in the host's arena: what of masters and optimizer states is there
#pragma once

#include "compiler/assemble/ChunkLayout.h"
#include "compiler/assemble/Frame.h"
#include "compiler/assemble/StageContents.h"
#include "compiler/schedule/Periodic.h"
#include "plan/Plan.h"

namespace mgc {

struct StageInput {
  plan::Input input; // its ring is `ring`
  plan::Ring ring;
};

struct StageMemory {
  std::vector<plan::Bucket> buckets;
  std::map<std::string, StageInput> inputs;         // by name of the kind of data
  std::vector<plan::Region> regions;                // by offset
  int64_t stepScalars = 0, results = 0, factor = 0; // this and the following: bytes in the allocation
  int64_t activations = 0, hostActivations = 0, recomputed = 0, staged = 0, forwardStaged = 0;
  int64_t flow = 0, forwardFlow = 0, frame = 0, forwardFrame = 0;
  int64_t stagedOf(plan::Task task) const { return task == plan::Task::forward ? forwardStaged : staged; }
  int64_t frameOf(plan::Task task) const { return task == plan::Task::forward ? forwardFrame : frame; }
  // Memory for values of units is there twice where runs are paired, the second for forward, and where values are gathered ahead,
  // for every second instance of a chunk.
  enum class Twice { no, forPairs, aheadOfUse } twice = Twice::no;
  bool isSecond(plan::Task task, size_t instance) const {
    return twice == Twice::forPairs ? task == plan::Task::forward : twice == Twice::aheadOfUse && instance % 2 == 1;
  }
  // By bucket: the numbers of the states that have gathered values, in the first memory and in the second; -1: it has none there.
  std::vector<std::array<int64_t, 2>> gatheredStates;
  // Likewise for gradients, where they are summed up while the next instance computes.
  bool sumsBeside = false;
  bool isSecondGradient(size_t instance) const { return sumsBeside && instance % 2 == 1; }
  std::vector<std::array<int64_t, 2>> gradientStates;
  const plan::State &unitGradientOf(int64_t bucket, bool inSecond) const {
    return buckets[bucket].states[gradientStates[bucket][inSecond]];
  }
  const plan::State &gatheredValuesOf(int64_t bucket, bool inSecond) const {
    return buckets[bucket].states[gatheredStates[bucket][inSecond]];
  }
  int64_t bytes = 0, hostBytes = 0;
  // The two buffers for pieces on their way.
  std::array<int64_t, 2> staging = {};
  // The bytes that the stage would take if the area and the frame were as large as the most that lives together.
  int64_t leastBytes = 0;
};

// Error: functions that read one kind of data as two types; more bytes than 64 bits hold.
Result<StageMemory> placeStage(const StageContents &stage, const std::vector<ChunkLayout> &chunks,
                               const schedule::PeriodicStage &schedule, const Frames &frames);

} // namespace mgc
