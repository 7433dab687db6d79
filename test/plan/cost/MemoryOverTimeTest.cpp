// Tests the contents of a rank's memory over a step, on a stage of two microbatches made by hand.
#include "plan/cost/MemoryOverTime.h"

#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::cost;
using Kind = plan::ScheduleStep::Kind;
using Changes = std::vector<std::pair<double, int64_t>>;

namespace {

constexpr int64_t kParameters = 0, kFrame = 128, kActivations = 192, kInputs = 448; // offsets of the regions

plan::Program programOf(int64_t frameBytes) {
  plan::Program program;
  program.segments = {"frame"};
  program.segmentBytes = {frameBytes};
  program.frame = 0;
  return program;
}
const std::vector<plan::Program> kPrograms = {programOf(24), programOf(40)};

plan::ScheduleStep step(Kind kind, int64_t chunk, int64_t ring, int64_t microbatch) {
  plan::ScheduleStep step;
  step.kind = kind;
  step.chunk = chunk;
  step.ring = ring;
  step.microbatch = microbatch;
  return step;
}

// receive 0 | forward 0 | forward 1 | backward 0 | backward 1: the activation of the first is received, of the second made here.
plan::StagePlan makeStage() {
  plan::StagePlan stage;
  stage.regions = {{"parameters", kParameters, 100},
                   {"frame", kFrame, 40},
                   {"activations", kActivations, 256},
                   {"inputs", kInputs, 64}};
  plan::Ring activation, tokens;
  activation.bytes = 50;
  activation.offset = kActivations;
  activation.stride = 64;
  activation.turns = {{0, 2, 0}};
  activation.peer = 1;
  activation.value = 3;
  tokens.bytes = 8;
  tokens.offset = kInputs;
  tokens.stride = 8;
  tokens.turns = {{0, 2, 0}};
  stage.rings = {activation, tokens};
  plan::Input input{};
  input.ring = 1;
  stage.inputs = {input};
  for (int64_t chunk = 0; chunk < 2; ++chunk) {
    plan::Chunk made;
    made.task = chunk == 0 ? plan::Task::forward : plan::Task::backward;
    made.slots = {0, 1};
    made.calls = {{chunk, 0, 0, {{-1, kFrame}}}};
    stage.chunks.push_back(made);
  }
  stage.schedule = {step(Kind::recv, -1, 0, 0), step(Kind::run, 0, -1, 0), step(Kind::run, 0, -1, 1),
                    step(Kind::run, 1, -1, 0), step(Kind::run, 1, -1, 1)};
  return stage;
}

// The message comes from 0.5 to 1 s; each forward takes 1 s from then on, each backward 2 s.
schedule::StepTimes makeTimes() {
  schedule::StepTimes times;
  times.start = {0.5, 1, 2, 3, 5};
  times.end = times.done = {1, 2, 3, 5, 7};
  return times;
}

Changes changesOf(const std::vector<MemoryCurve> &curves, std::string_view kind) {
  Changes changes;
  for (const MemoryCurve &curve : curves)
    if (curve.kind == kind)
      for (const MemoryChange &change : curve.changes)
        changes.emplace_back(change.seconds, change.bytes);
  return changes;
}

TEST(MemoryOverTime, ValuesAreHeldFromTheirWriteToTheirLastRead) {
  EXPECT_EQ(changesOf(memoryOverTime(makeStage(), kPrograms, makeTimes()), "activations"),
            (Changes{{0, 0}, {0.5, 50}, {2, 100}, {5, 50}, {7, 0}}));
}
// Neighbouring runs of one size are no change.
TEST(MemoryOverTime, AFrameIsHeldWhileItsChunkRuns) {
  EXPECT_EQ(changesOf(memoryOverTime(makeStage(), kPrograms, makeTimes()), "frame"),
            (Changes{{0, 0}, {1, 24}, {3, 40}, {7, 0}}));
}
TEST(MemoryOverTime, OtherRegionsAreHeldThroughout) {
  const std::vector<MemoryCurve> curves = memoryOverTime(makeStage(), kPrograms, makeTimes());
  EXPECT_EQ(changesOf(curves, "parameters"), (Changes{{0, 100}}));
  EXPECT_EQ(changesOf(curves, "inputs"), (Changes{{0, 64}}));
}
TEST(MemoryOverTime, RegionsOfOneKindAreOneCurve) {
  plan::StagePlan stage = makeStage();
  stage.regions.push_back({"parameters", 512, 28});
  const std::vector<MemoryCurve> curves = memoryOverTime(stage, kPrograms, makeTimes());
  EXPECT_EQ(curves.size(), 4u);
  EXPECT_EQ(changesOf(curves, "parameters"), (Changes{{0, 128}}));
}

} // namespace
