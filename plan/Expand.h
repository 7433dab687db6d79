// The lists of a plan with their repeats run: what a rank does one after another. In: a plan that passed verifyPlan, which
// bounds the sums of counts. Loading, explaining and the proofs of programs and chunks read these; those of schedules work
// on the repeats.
#pragma once

#include "plan/Plan.h"

namespace mgc::plan {

// Items that run, counted with their repeats.
int64_t runCount(size_t items, const std::vector<Repeat> &repeats);

// Calls visit(item, iteration) for each item that runs, in order; outside of repeats the iteration is 0.
template <typename Visit> void forEachRun(size_t items, const std::vector<Repeat> &repeats, Visit &&visit) {
  int64_t next = 0;
  for (const Repeat &repeat : repeats) {
    for (; next < repeat.begin; ++next)
      visit(next, int64_t(0));
    for (int64_t iteration = 0; iteration < repeat.count; ++iteration)
      for (int64_t item = repeat.begin; item < repeat.end; ++item)
        visit(item, iteration);
    next = repeat.end;
  }
  for (; next < static_cast<int64_t>(items); ++next)
    visit(next, int64_t(0));
}

// The item in an iteration of its repeat, without strides.
Call inIteration(Call call, int64_t iteration);
Operand inIteration(const Operand &operand, int64_t iteration);

std::vector<Call> expandedCalls(const Chunk &chunk);

// A step of the schedule as it runs: numbers of microbatches, addresses and earlier steps instead of strides, rings and
// distances.
struct ExpandedStep {
  using Kind = ScheduleStep::Kind;
  Kind kind = Kind::run;
  int64_t chunk = -1, microbatch = -1;
  std::vector<int64_t> slots; // run: byte offset of each slot in the allocation
  int64_t firstCall = 0, callCount = -1;
  bool paired = false; // run
  int64_t peer = -1, value = -1;
  int64_t offset = 0, bytes = 0; // send, recv
  std::vector<int64_t> waits;    // indices of earlier steps
  // One past the last call that the step runs of a chunk with so many calls.
  int64_t endCall(int64_t calls) const { return callCount < 0 ? calls : firstCall + callCount; }
  bool operator==(const ExpandedStep &) const = default;
};
std::vector<ExpandedStep> expandedSchedule(const StagePlan &stage);

// With "{}" replaced by the instance's number.
std::string nameForInstance(std::string name, int64_t instance);

inline constexpr std::string_view kStackHole = "{#}"; // in the name of a tensor that stands for several
// The name with it replaced by the number in the stack (Parameter::stacked).
std::string nameInStack(std::string name, int64_t number);

int64_t instanceCount(const Parameter &parameter); // different ones

// Whether its name has the instance's number, "{}".
bool isNumbered(const Parameter &parameter);

// Elements and bytes that a rank has of a state of the bucket.
int64_t elementsOf(const Plan &plan, const Bucket &bucket, const State &state);
int64_t bytesOf(const Plan &plan, const Bucket &bucket, const State &state);

// Elements of a state that lie side by side, in one arena.
struct StateSpan {
  int64_t offset = 0, bytes = 0; // the address
  int64_t firstElement = 0;      // its number among those that the rank has
};
// The parts of a state that have elements: on the host, then on the device.
std::vector<StateSpan> spansOf(const Plan &plan, const Bucket &bucket, const State &state);

// A parameter for each instance, with places of one instance each.
std::vector<Parameter> instancesOf(const Parameter &parameter);
std::vector<Parameter> expandedParameters(const Plan &plan);

} // namespace mgc::plan
