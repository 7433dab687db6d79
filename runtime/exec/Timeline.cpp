#include "runtime/exec/Timeline.h"
#include "runtime/base/MachineMemory.h"

#include <chrono>
#include <new>

namespace mgc {

namespace {

constexpr int64_t kBarriersBeforeUpdate = 2; // barriers of the engine

// The spans of one step that there is room for.
int64_t spansPerStep(const RankRecord &record) {
  int64_t spans = 1 + kBarriersBeforeUpdate * WaitObserver::kMost;
  for (const StepRecord &step : record.schedule) {
    if (step.step.kind != plan::ExpandedStep::Kind::run) {
      spans += 3; // transfer, arrival and a wait
      continue;
    }
    ++spans;
    const std::vector<InstructionRecord> &instructions = record.chunks[step.step.chunk].instructions;
    for (int64_t i = step.firstInstruction; i < step.endInstruction; ++i)
      spans += instructions[i].group >= 0 ? 1 + WaitObserver::kMost : 1;
  }
  return spans;
}

} // namespace

Timeline::Timeline(const RankRecord &record, const TimelineOptions &options)
    : record_(record), options_(options), records_(options.traceSteps * spansPerStep(record)) {
  int64_t instructions = 0;
  for (const ChunkRecord &chunk : record.chunks) {
    firstOf_.push_back(instructions);
    instructions += static_cast<int64_t>(chunk.instructions.size());
  }
  instructionSums_.resize(instructions);
}

Result<std::unique_ptr<Timeline>> Timeline::create(const RankRecord &record, const TimelineOptions &options) {
  try {
    return std::unique_ptr<Timeline>(new Timeline(record, options));
  } catch (const std::bad_alloc &) {
    const int64_t bytes = options.traceSteps * spansPerStep(record) * int64_t(sizeof(Record));
    return errorf("no memory for a trace of {} steps: {}, {} for each step; a smaller --trace-steps would fit",
                  options.traceSteps, inGib(bytes), bytes / options.traceSteps);
  }
}

int64_t Timeline::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool Timeline::beginStep(int64_t step) {
  step_ = step;
  tracing_ = step >= options_.traceFirst && step - options_.traceFirst < options_.traceSteps;
  measuring_ = options_.measures(step);
  depth_ = 0;
  return tracing_ || measuring_;
}

void Timeline::openAt(int64_t time, Kind kind, int64_t schedule, int64_t instruction) {
  Open &span = open_[depth_++];
  span = {kind, static_cast<int32_t>(schedule), static_cast<int32_t>(instruction), time};
  span.isTraced = tracing_ && recorded_ < records_.size();
  if (!span.isTraced)
    return;
  span.record = recorded_++;
  records_[span.record] = {kind, static_cast<int32_t>(step_), span.schedule, span.instruction, span.begin, span.begin};
}

void Timeline::closeAt(int64_t end) {
  const Open &span = open_[--depth_];
  const int64_t duration = end - span.begin;
  if (span.isTraced)
    records_[span.record].end = end;
  if (measuring_)
    add(span, duration);
  if (depth_ == 0)
    return;
  Open &around = open_[depth_ - 1];
  around.inside += duration;
  if (span.kind == Kind::wait)
    around.waits += duration;
}

void Timeline::add(const Open &span, int64_t duration) {
  const auto addTo = [&](Sum &sum) {
    ++sum.count;
    sum.own += duration - span.inside;
    sum.waits += span.waits;
  };
  addTo(sums_[static_cast<size_t>(span.kind)]);
  if (span.kind == Kind::instruction)
    addTo(instructionSums_[firstOf_[record_.schedule[span.schedule].step.chunk] + span.instruction]);
}

} // namespace mgc
