// The lists of a plan with their repeats run.
#include "plan/Expand.h"
#include "test/plan/SmallPlan.h"

#include <gtest/gtest.h>

namespace mgc::plan {
namespace {

using Slots = std::vector<int64_t>;

std::string runsOf(std::string_view items, const std::vector<Repeat> &repeats) {
  std::string runs;
  forEachRun(items.size(), repeats, [&](int64_t item, int64_t iteration) {
    runs += items[item];
    runs += std::to_string(iteration);
  });
  return runs;
}

TEST(Expand, RunsOfARepeat) {
  EXPECT_EQ(runsOf("abcd", {{1, 3, 3}}), "a0b0c0b1c1b2c2d0");
  EXPECT_EQ(runsOf("abcd", {}), "a0b0c0d0");
  EXPECT_EQ(runsOf("abc", {{0, 1, 2}, {1, 3, 2}}), "a0a1b0c0b1c1");
  EXPECT_EQ(runsOf("", {}), "");
}

TEST(Expand, CountsRuns) {
  EXPECT_EQ(runCount(4, {{1, 3, 3}}), 8);
  EXPECT_EQ(runCount(3, {{0, 1, 2}, {1, 3, 2}}), 6);
  EXPECT_EQ(runCount(0, {}), 0);
}

Slots slotsOf(const Ring &ring, int64_t microbatches) {
  Slots slots;
  for (int64_t m = 0; m < microbatches; ++m)
    slots.push_back(ring.slotOf(m));
  return slots;
}

TEST(Ring, MicrobatchesGoAroundTheSlotsOfATurn) {
  EXPECT_EQ(slotsOf({.turns = {{0, 3, 0}}}, 6), (Slots{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(slotsOf({.turns = {{0, 3, 2}}}, 6), (Slots{2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(slotsOf({}, 3), (Slots{0, 0, 0}));
}

TEST(Ring, TurnsHaveSlotsOfTheirOwn) {
  const Ring ring{.bytes = 100, .offset = 64, .stride = 128, .turns = {{0, 2, 0}, {2, 2, 1}}};
  EXPECT_EQ(slotsOf(ring, 6), (Slots{0, 3, 1, 2, 0, 3}));
  EXPECT_EQ(ring.slots(), 4);
  EXPECT_EQ(ring.offsetOf(1), 64 + 3 * 128);
}

TEST(Expand, CallsOfEqualLayers) {
  Chunk chunk;
  chunk.calls = {{.program = 0, .segments = {{0, 8}}},
                 {.program = 1, .instance = 2, .instanceStride = 1, .segments = {{-1, 64, 256}, {0, 0}}}};
  chunk.repeats = {{1, 2, 3}};
  const std::vector<Call> calls = expandedCalls(chunk);
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[0], chunk.calls[0]);
  EXPECT_EQ(calls[3], (Call{.program = 1, .instance = 4, .segments = {{-1, 64 + 2 * 256}, {0, 0}}}));
}

TEST(Expand, OperandsOfTiles) {
  EXPECT_EQ(inIteration({1, 64, 32, 7}, 0), (Operand{1, 64, 0, 7}));
  EXPECT_EQ(inIteration({1, 64, 32, 7}, 3), (Operand{1, 160, 0, 7}));
}

// Forward of a microbatch, its message and another's, then once more: {0, 3, 2}.
TEST(Expand, StepsHaveNumbersInsteadOfStrides) {
  const std::vector<ExpandedStep> steps = expandedSchedule(makeSmallPlan().stages[0]);
  ASSERT_EQ(steps.size(), 7u);
  using Kind = ScheduleStep::Kind;
  for (int64_t m : {0, 1}) {
    EXPECT_EQ(steps[3 * m], (ExpandedStep{.kind = Kind::run, .chunk = 0, .microbatch = m, .slots = {896}}));
    EXPECT_EQ(
        steps[3 * m + 1],
        (ExpandedStep{
            .kind = Kind::send, .microbatch = m, .peer = 1, .value = 0, .offset = 896, .bytes = 64, .waits = {3 * m}}));
    EXPECT_EQ(steps[3 * m + 2].waits, (std::vector<int64_t>{3 * m + 1}));
  }
  EXPECT_EQ(steps[6], (ExpandedStep{.kind = Kind::run, .chunk = 1}));
}

TEST(Expand, StepsHaveTheSlotsOfTheirMicrobatch) {
  StagePlan stage;
  stage.rings = {{.bytes = 16, .offset = 64, .stride = 16, .turns = {{0, 2, 0}, {2, 1, 0}}}};
  stage.chunks = {{.task = Task::forward, .slots = {0}}};
  stage.schedule = {{.chunk = 0, .microbatch = 5, .microbatchStride = -1}};
  stage.repeats = {{0, 1, 4}};
  Slots offsets;
  for (const ExpandedStep &step : expandedSchedule(stage))
    offsets.push_back(step.slots.front());
  EXPECT_EQ(offsets, (Slots{96, 64, 96, 80})); // microbatches 5 4 3 2
}

Parameter numbered(std::string name, std::vector<Parameter::Place> places) {
  Parameter parameter;
  parameter.name = parameter.tensor = std::move(name);
  parameter.aliases = {"model." + parameter.name};
  parameter.places = std::move(places);
  return parameter;
}

TEST(Expand, ParametersOfInstances) {
  Plan plan;
  plan.parameters = {numbered("h.{}.w", {{.stage = 0, .elementOffset = 16, .first = 0, .count = 2, .stride = 8},
                                         {.stage = 1, .bucket = 1, .first = 2}}),
                     numbered("wte", {{.stage = 0, .bucket = 2}, {.stage = 1, .bucket = 3}})};
  EXPECT_EQ(instanceCount(plan.parameters[0]), 3);
  EXPECT_EQ(instanceCount(plan.parameters[1]), 1);
  const std::vector<Parameter> all = expandedParameters(plan);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0], numbered("h.0.w", {{.elementOffset = 16}}));
  EXPECT_EQ(all[1], numbered("h.1.w", {{.elementOffset = 24}}));
  EXPECT_EQ(all[2], numbered("h.2.w", {{.stage = 1, .bucket = 1}}));
  EXPECT_EQ(all[3], plan.parameters[1]); // tied: one parameter with two places
}

TEST(Expand, NamesHaveANumberForTheHole) {
  EXPECT_EQ(nameForInstance("h.{}.w", 12), "h.12.w");
  EXPECT_EQ(nameForInstance("wte", 12), "wte");
}

} // namespace
} // namespace mgc::plan
