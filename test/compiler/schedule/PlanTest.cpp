// The proof of plans made from solutions, whole and broken in one place.
#include "plan/prove/Progress.h"
#include "plan/prove/ProvePlan.h"
#include "plan/prove/VerifyBucketUse.h"
#include "test/compiler/schedule/Sweep.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <utility>

namespace mgc::schedule {
namespace {

using plan::ScheduleStep;

plan::Plan planOf(const Problem &problem) { return provablePlan(problem, *generate(problem)); }

using plan::provePlan;

// A problem of every row with repeats in its lists; with its last backwards in parts, too.
std::vector<Problem> repeatedProblems() {
  std::vector<Problem> problems;
  for (const ScheduleRow &row : schedules()) {
    const Problem problem = uniformProblem(row.name, {3, row.minVirtualStages, 9}, kSizes);
    problems.insert(problems.end(), {problem, inParts(problem)});
  }
  return problems;
}

TEST(Plan, PeriodicSchedulesAreAccepted) {
  for (Problem problem : repeatedProblems()) {
    problem.shape.microbatches = 200;
    Status status = provePlan(provablePlan(*generatePeriodic(problem)));
    ASSERT_TRUE(status.isOk()) << nameOf(problem) << "\n" << status.message();
  }
}

TEST(Plan, MessagesFollowThePlacement) {
  for (const char *name : {"interleaved", "zb-v"}) {
    plan::Plan plan = provablePlan(*generatePeriodic(uniformProblem(name, {3, 2, 9}, kSizes)));
    const bool isV = plan.placement == ChunkPlacement::v;
    EXPECT_EQ(isV, std::string_view(name) == "zb-v");
    plan.placement = isV ? ChunkPlacement::loop : ChunkPlacement::v;
    const std::string found = provePlan(plan).message();
    EXPECT_NE(found.find(fmt::format("in placement {}; here are stages", nameOf(plan.placement))), std::string::npos)
        << found;
  }
}

// Visits every plan with one change of the stage that `change` makes, and counts them.
template <typename Change> int64_t refuseEach(plan::Plan &plan, size_t stage, const char *what, Change &&change) {
  const plan::StagePlan valid = plan.stages[stage];
  int64_t mutants = 0;
  for (; change(plan.stages[stage], mutants); ++mutants) {
    EXPECT_FALSE(provePlan(plan).isOk()) << what << " " << mutants << " of stage " << stage;
    plan.stages[stage] = valid;
  }
  return mutants;
}

// The same of all stages of all plans with repeats.
template <typename Change> int64_t refuseEverywhere(Change &&change) {
  int64_t mutants = 0;
  for (const Problem &problem : repeatedProblems()) {
    plan::Plan plan = planOf(problem);
    for (size_t stage = 0; stage < plan.stages.size(); ++stage)
      mutants += refuseEach(plan, stage, problem.schedule.c_str(), change);
    EXPECT_TRUE(provePlan(plan).isOk());
  }
  return mutants;
}

bool dropWait(plan::StagePlan &stage, int64_t number) {
  for (ScheduleStep &step : stage.schedule) {
    if (number < int64_t(step.waits.size()))
      return step.waits.erase(step.waits.begin() + number), true;
    number -= int64_t(step.waits.size());
  }
  return false;
}

TEST(Plan, EveryDroppedWaitIsRefused) { EXPECT_GT(refuseEverywhere(dropWait), 100); }

// The steps before it and behind it keep their distances.
bool dropStep(plan::StagePlan &stage, int64_t number) {
  std::vector<ScheduleStep> &steps = stage.schedule;
  if (number >= int64_t(steps.size()))
    return false;
  for (int64_t i = number + 1; i < int64_t(steps.size()); ++i) {
    std::erase(steps[i].waits, i - number);
    for (int64_t &wait : steps[i].waits)
      wait -= wait > i - number;
  }
  steps.erase(steps.begin() + number);
  return true;
}

TEST(Plan, EveryDroppedStepIsRefused) {
  for (const Problem &problem : repeatedProblems()) {
    plan::Plan plan = planOf(problem);
    std::ranges::transform(plan.stages, plan.stages.begin(), unrolled);
    ASSERT_TRUE(provePlan(plan).isOk());
    for (size_t stage = 0; stage < plan.stages.size(); ++stage)
      refuseEach(plan, stage, problem.schedule.c_str(), dropStep);
  }
}

// Each message: another microbatch in the first iteration, or in those that follow.
bool otherMicrobatch(plan::StagePlan &stage, int64_t number) {
  for (size_t i = 0; i < stage.schedule.size(); ++i) {
    ScheduleStep &step = stage.schedule[i];
    const bool isRepeated = std::ranges::any_of(stage.repeats, [&](const plan::Repeat &repeat) {
      return repeat.begin <= int64_t(i) && int64_t(i) < repeat.end;
    });
    if (step.kind == ScheduleStep::Kind::run)
      continue;
    if (number-- == 0)
      return ++step.microbatch, true;
    if (isRepeated && number-- == 0)
      return ++step.microbatchStride, true;
  }
  return false;
}

bool otherRing(plan::StagePlan &stage, int64_t number) {
  for (plan::Ring &ring : stage.rings)
    for (int64_t plan::Ring::*field : {&plan::Ring::peer, &plan::Ring::value, &plan::Ring::bytes})
      if (ring.peer >= 0 && number-- == 0)
        return ring.*field += field == &plan::Ring::bytes ? -4 : 1, true;
  return false;
}

bool otherRepeat(plan::StagePlan &stage, int64_t number) {
  for (plan::Repeat &repeat : stage.repeats)
    for (int64_t plan::Repeat::*field : {&plan::Repeat::count, &plan::Repeat::begin, &plan::Repeat::end})
      for (int64_t more : {-1, 1})
        if (number-- == 0)
          return repeat.*field += more, true;
  return false;
}

TEST(Plan, OtherNumbersAreRefused) {
  for (const Problem &problem : repeatedProblems()) {
    plan::Plan plan = planOf(problem);
    for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
      EXPECT_GT(refuseEach(plan, stage, "microbatch", otherMicrobatch), 4) << problem.schedule;
      EXPECT_GT(refuseEach(plan, stage, "ring", otherRing), 5) << problem.schedule;
      EXPECT_GT(refuseEach(plan, stage, "repeat", otherRepeat), 5) << problem.schedule;
    }
  }
}

// A message takes memory that a run uses at the same time when the slots of its ring are fewer.
bool fewerSlots(plan::StagePlan &stage, int64_t number) {
  for (plan::Ring &ring : stage.rings)
    if (plan::Ring::Turn &turn = ring.turns.front();
        ring.peer >= 0 && ring.turns.size() == 1 && turn.slots > 1 && number-- == 0)
      return turn.phase = 0, --turn.slots, true;
  return false;
}

TEST(Plan, FewerSlotsAreRefused) { EXPECT_GT(refuseEverywhere(fewerSlots), 4); }

plan::Chunk &chunkOf(plan::StagePlan &stage, plan::Task task) {
  return *std::ranges::find(stage.chunks, task, &plan::Chunk::task);
}

// The problems of the order of the stages' steps.
std::string stopOf(const plan::Plan &plan) {
  Problems problems;
  plan::proveProgress(plan, problems);
  return problems.text();
}

TEST(Plan, CollectivesBetweenStagesMustAgree) {
  const Problem problem = uniformProblem("1f1b", {3, 1, 2}, kSizes);
  plan::Plan plan = planOf(problem);
  chunkOf(plan.stages[2], plan::Task::reduce).calls.clear();
  EXPECT_NE(stopOf(plan).find("stage 2 has none"), std::string::npos) << stopOf(plan);
  plan = planOf(problem);
  std::get<plan::Collective>(plan.programs[1].instructions[0].body).stages = {0, 9};
  EXPECT_FALSE(provePlan(plan).isOk());
}

// Stage 0 wants the first gradient before it computes the second forward.
TEST(Plan, ADeadlockNamesTheStepsThatWait) {
  plan::Plan plan = planOf(uniformProblem("gpipe", {2, 1, 2}, kSizes));
  std::vector<ScheduleStep> &steps = (plan.stages[0] = unrolled(plan.stages[0])).schedule;
  const auto recv = std::ranges::find(steps, ScheduleStep::Kind::recv, &ScheduleStep::kind);
  const auto run =
      std::find_if(recv, steps.end(), [](const ScheduleStep &s) { return s.kind == ScheduleStep::Kind::run; });
  run->waits.push_back(run - recv);
  const std::string message = stopOf(plan);
  EXPECT_NE(message.find("deadlock"), std::string::npos) << message;
  EXPECT_NE(message.find("(run forward.0) waits for its stage 0 schedule"), std::string::npos) << message;
  EXPECT_NE(message.find("\n  stage 1 schedule"), std::string::npos) << message;
}

// Stages 0 and 1 hold two tied buckets of one size; `order` is that in which each stage reduces them. Begin, reduce
// and update bind all buffers of both.
plan::Plan planOfTiedBuckets(std::vector<std::vector<int64_t>> order) {
  plan::Plan plan = planOf(uniformProblem("1f1b", {2, 1, 2}, kSizes));
  plan.parameters.resize(2);
  const int64_t meets = 1, empty = int64_t(plan.programs.size()); // provablePlan's meeting of all stages
  plan.programs.emplace_back(plan.programs[meets]).instructions.clear();
  for (int64_t s = 0; s < 2; ++s) {
    plan::StagePlan &stage = plan.stages[s];
    plan::Chunk &begin = chunkOf(stage, plan::Task::begin), &reduce = chunkOf(stage, plan::Task::reduce),
                &update = chunkOf(stage, plan::Task::update);
    for (int64_t b = 0; b < 2; ++b) {
      int64_t offset = stage.bytes;
      stage.bytes += 256;
      plan::Bucket &bucket = stage.buckets.emplace_back();
      bucket.name = b ? "b" : "a";
      bucket.elements = 16;
      using plan::StateRole, plan::DType;
      bucket.states = {{"value", StateRole::value, DType::f32, false, offset},
                       {"gradient", StateRole::gradient, DType::f32, false, offset + 64},
                       {"exp_avg", StateRole::optimizer, DType::f32, false, offset + 128},
                       {"exp_avg_sq", StateRole::optimizer, DType::f32, false, offset + 192}};
      plan.parameters[b].name = b ? "b" : "a";
      plan.parameters[b].places.push_back({s, b, 0});
      begin.calls.push_back({empty, 0, 0, {{-1, offset + 64}}});
      for (int64_t buffer : {0, 64, 128, 192})
        update.calls.push_back({empty, 0, 0, {{-1, offset + buffer}}});
    }
    for (int64_t b : order[s])
      reduce.calls.push_back({meets, 0, 0, {{-1, stage.buckets[b].offsetOf(plan::StateRole::gradient)}}});
  }
  return plan;
}

TEST(Plan, TiedBucketsMeetInTheSameOrder) {
  EXPECT_EQ(stopOf(planOfTiedBuckets({{0, 1}, {0, 1}})), "");
  const std::string message = stopOf(planOfTiedBuckets({{0, 1}, {1, 0}}));
  EXPECT_NE(message.find("of the gradients of a, stage 1 has"), std::string::npos) << message;
  EXPECT_NE(message.find("of the gradients of b"), std::string::npos) << message;
}

// A call that touches a bucket in the runs of microbatches is no call that zeroes, reduces or updates the bucket.
TEST(Plan, BucketsAreZeroedReducedAndUpdated) {
  auto refuses = [](auto &&edit, const char *message) {
    plan::Plan plan = planOfTiedBuckets({{0, 1}, {0, 1}});
    edit(plan.stages[0]);
    Problems problems;
    plan::Flows flows(plan, problems);
    plan::verifyBucketUse(plan, flows, problems);
    const Status status = problems.status();
    ASSERT_FALSE(status.isOk()) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  };
  refuses(
      [](plan::StagePlan &stage) {
        std::swap(chunkOf(stage, plan::Task::begin).calls, chunkOf(stage, plan::Task::forward).calls);
      },
      "'gradient' at ");
  refuses(
      [](plan::StagePlan &stage) {
        plan::Chunk &update = chunkOf(stage, plan::Task::update);
        chunkOf(stage, plan::Task::forward).calls.push_back(update.calls.back());
        update.calls.pop_back();
      },
      "'exp_avg_sq' at ");
}

// A state that is used and not listed would be in no checkpoint.
TEST(Plan, StatesThatAStepBindsAreListed) {
  plan::Plan plan = planOfTiedBuckets({{0, 1}, {0, 1}});
  for (plan::Program &program : plan.programs)
    program.segmentBytes = {64};
  for (plan::StagePlan &stage : plan.stages)
    stage.regions.push_back({"optimizer", stage.buckets[0].states[0].offset, 512});
  const auto found = [&] {
    Problems problems;
    plan::Flows flows(plan, problems);
    plan::verifyBucketUse(plan, flows, problems);
    return std::string(problems.status().message());
  };
  EXPECT_EQ(found().find("no state"), std::string::npos) << found();
  plan.stages[1].buckets[0].states.pop_back();
  EXPECT_NE(found().find("stage 1: update binds bytes"), std::string::npos) << found();
}

// One stage with a bucket of two units, of instances 0 and 1, each a parameter of 16 elements, and a chunk that makes their gradients:
// cleared, made, summed up, added, the last instance first. The gradient is at 0, its sum at 320, slices at 64 and 128.
plan::Plan planOfUnits() {
  using plan::StateRole, plan::DType;
  enum { kClear, kBlock, kSum, kAdd };
  plan::Plan plan;
  plan.zero = 2;
  plan.mesh.axes = {{"dp", 1, plan::AxisRole::data}};
  plan.programs = {{.name = "clear", .segments = {"gradient"}, .segmentBytes = {64}},
                   {.name = "block", .segments = {"x", "gradient"}, .segmentBytes = {64, 64}},
                   {.name = "sum", .segments = {"gradient", "sum"}, .segmentBytes = {64, 64}},
                   {.name = "add", .segments = {"sum", "slice"}, .segmentBytes = {64, 64}}};
  plan::StagePlan &stage = plan.stages.emplace_back();
  stage.bytes = 384;
  stage.regions = {{"units", 0, 64}, {"gradients", 64, 128}, {"parameters", 192, 128}, {"units", 320, 64}};
  stage.rings = {{.name = "x", .bytes = 64}};
  stage.buckets = {{.name = "layers", .elements = 32, .units = 2, .dataAxes = {"dp"}, .shardAxes = {"dp"}}};
  stage.buckets[0].states = {{"value", StateRole::value, DType::f32, false, 192},
                             {"unit_gradient", StateRole::unitGradient, DType::f32, false, 0},
                             {"unit_sum", StateRole::unitSum, DType::f32, true, 320},
                             {"gradient_slice", StateRole::gradientSlice, DType::f32, true, 64}};
  plan::Parameter &w = plan.parameters.emplace_back();
  w.name = w.tensor = "h.{}.w";
  w.dims = {{"h", 16, 16, {}}};
  w.places = {{0, 0, 0, 0, 2, 16}};
  plan::Chunk &chunk = stage.chunks.emplace_back();
  chunk.task = plan::Task::backward;
  chunk.slots = {0};
  for (int64_t layer : {1, 0}) {
    chunk.calls.push_back({kClear, layer, 0, {{-1, 0}}});
    chunk.calls.push_back({kBlock, layer, 0, {{0, 0}, {-1, 0}}});
    chunk.calls.push_back({kSum, layer, 0, {{-1, 0}, {-1, 320}}});
    chunk.calls.push_back({kAdd, layer, 0, {{-1, 320}, {-1, 64 + 64 * layer}}});
  }
  return plan;
}

// The problems with the use of its buckets.
std::string found(const plan::Plan &plan) {
  Problems problems;
  plan::Flows flows(plan, problems);
  plan::verifyBucketUse(plan, flows, problems);
  return std::string(problems.status().message());
}

// One stage whose head, a parameter of 16 elements, is used for two further tokens: its backward is a chunk, and its two halves are.
plan::Plan planOfHead() {
  using plan::StateRole, plan::DType;
  plan::Plan plan;
  plan.programs = {{.name = "head", .segments = {"gradient"}, .segmentBytes = {64}}};
  plan::StagePlan &stage = plan.stages.emplace_back();
  stage.bytes = 128;
  stage.regions = {{"gradients", 0, 64}, {"parameters", 64, 64}};
  stage.buckets = {{.name = "head", .elements = 16}};
  stage.buckets[0].states = {{"value", StateRole::value, DType::f32, false, 64},
                             {"gradient", StateRole::gradient, DType::f32, false, 0}};
  plan::Parameter &w = plan.parameters.emplace_back();
  w.name = w.tensor = "head.w";
  w.dims = {{"h", 16, 16, {}}};
  w.places = {{.uses = 2}};
  for (const plan::Task task : {plan::Task::backward, plan::Task::weight})
    stage.chunks.push_back({.task = task, .calls = {{0, 0, 0, {{-1, 0}}}, {0, 1, 0, {{-1, 0}}}}});
  return plan;
}

TEST(Plan, CallsThatAddToAGradientAreCounted) {
  const auto refuses = [&](auto &&edit, const char *message) {
    plan::Plan plan = planOfHead();
    edit(plan.stages[0].chunks);
    EXPECT_NE(found(plan).find(message), std::string::npos) << message << "\n" << found(plan);
  };
  using Chunks = std::vector<plan::Chunk>;
  EXPECT_EQ(found(planOfHead()).find("add to"), std::string::npos) << found(planOfHead());
  const auto again = [](plan::Chunk &chunk) { chunk.calls.push_back({0, 7, 0, {{-1, 0}}}); };
  refuses([&](Chunks &chunks) { std::ranges::for_each(chunks, again); },
          "stage 0: 3 calls of a microbatch add to the gradient at element 0 of bucket head, expected 2");
  refuses([](Chunks &chunks) { std::ranges::for_each(chunks, [](plan::Chunk &chunk) { chunk.calls.pop_back(); }); },
          "stage 0: 1 calls of a microbatch add to the gradient at element 0 of bucket head, expected 2");
  refuses([&](Chunks &chunks) { again(chunks[1]); },
          "a whole backward or its parts, for the first microbatch or others");
  refuses([](Chunks &chunks) { chunks[1].virtualStage = 1; }, "4 calls of a microbatch add to");
}

TEST(Plan, UnitsAreClearedMadeSummedUpAndAdded) {
  const auto refuses = [&](auto &&edit, const char *message) {
    plan::Plan plan = planOfUnits();
    edit(plan.stages[0].chunks[0].calls);
    EXPECT_NE(found(plan).find(message), std::string::npos) << message << "\n" << found(plan);
  };
  using Calls = std::vector<plan::Call>;
  EXPECT_EQ(found(planOfUnits()).find("chunk backward"), std::string::npos) << found(planOfUnits());
  refuses([](Calls &calls) { calls.erase(calls.begin()); },
          "the call of 'block' for instance 1 binds bytes [0, 64), which are neither values of a unit that was "
          "gathered for "
          "its instance nor a gradient of one that was cleared for it");
  refuses([](Calls &calls) { calls.erase(calls.begin() + 1); },
          "the call of 'sum' for instance 1 sums up to bytes [320, 384) what is no gradient of a unit whose sum is "
          "there");
  refuses([](Calls &calls) { calls.erase(calls.begin() + 2); },
          "the call of 'add' for instance 1 adds to the slice of unit 1 of bucket layers what is not the sum of this "
          "unit's gradients");
  refuses([](Calls &calls) { calls.erase(calls.begin() + 2, calls.begin() + 4); },
          "the call of 'clear' for instance 0 clears a gradient over the gradient at 0 before it was summed up");
  refuses([](Calls &calls) { calls.erase(calls.begin() + 3); },
          "the call of 'sum' for instance 0 sums up a gradient over the sum at 320 before it was added to a slice");
  refuses([](Calls &calls) { calls.pop_back(); }, "ends with the sum at 320 that no call has added to a slice");
  refuses([](Calls &calls) { calls.erase(calls.end() - 2, calls.end()); },
          "ends with the gradient at 0 that no call has summed up");
  refuses([](Calls &calls) { calls[2].segments[1].offset = 0; }, "the call of 'sum' for instance 1 sums up");
  refuses([](Calls &calls) { calls[3].segments[0].offset = 0; }, "adds to the slice of unit 1 of bucket layers");
  refuses([](Calls &calls) { calls[1].instance = 2; }, "the call of 'block' for instance 2 binds bytes [0, 64)");
  refuses([](Calls &calls) { calls[3].segments[1].offset = 64; }, "adds to the slice of unit 0 of bucket layers");
  refuses([](Calls &calls) { calls.insert(calls.begin() + 2, calls[1]); }, "the call of 'block' for instance 1 binds");
  refuses([](Calls &calls) { calls.insert(calls.begin() + 3, calls[2]); }, "the call of 'sum' for instance 1 sums up");
  refuses([](Calls &calls) { calls.insert(calls.begin() + 4, calls[3]); }, "the call of 'add' for instance 1 adds");
  refuses([](Calls &calls) { std::swap(calls[0], calls[1]); }, "the call of 'block' for instance 1 binds");
  plan::Plan none = planOfUnits();
  none.stages[0].chunks[0].calls.resize(4);
  EXPECT_NE(found(none).find("no call adds a gradient to the slice of unit 0 of bucket layers"), std::string::npos)
      << found(none);
  plan::Plan both = planOfUnits();
  both.programs[3].segments.push_back("other"), both.programs[3].segmentBytes.push_back(64);
  both.stages[0].chunks[0].calls[3].segments.push_back({-1, 64});
  EXPECT_NE(found(both).find("the call of 'add' for instance 1 adds to the slice of unit"), std::string::npos)
      << found(both);
  plan::Plan unsummed = planOfUnits();
  unsummed.mesh.axes.push_back({"tp", 2, plan::AxisRole::tensor});
  unsummed.stages[0].buckets[0].reduceAxes = {"tp"};
  EXPECT_NE(found(unsummed).find("stage 0 bucket layers: gradients are summed at the end of a step over [], expected "
                                 "[tp]"),
            std::string::npos)
      << found(unsummed);
  plan::Plan half = planOfUnits();
  half.programs[0].segmentBytes = {32};
  EXPECT_NE(found(half).find("clears what is not the gradient of one unit"), std::string::npos) << found(half);
}

// Two layers, whose values of 64 bytes are gathered at 0 of slices of 32 bytes at 128, each before it is read.
plan::Plan planOfGatheredUnits() {
  using plan::StateRole, plan::DType;
  plan::Plan plan;
  plan.zero = 3;
  plan.mesh.axes = {{"dp", 2, plan::AxisRole::data}};
  plan::Program block{.name = "block", .segments = {"x", "values"}, .segmentBytes = {64, 64}};
  plan.programs = {{.name = "gather", .segments = {"slice", "values"}, .segmentBytes = {32, 64}}, std::move(block)};
  plan::StagePlan &stage = plan.stages.emplace_back();
  stage.bytes = 192;
  stage.regions = {{"units", 0, 128}, {"parameters", 128, 64}};
  stage.rings = {{.name = "x", .bytes = 64}};
  stage.buckets = {{.name = "layers",
                    .elements = 32,
                    .use = plan::BucketUse::frozen,
                    .units = 2,
                    .dataAxes = {"dp"},
                    .shardAxes = {"dp"}}};
  stage.buckets[0].states = {{"value", StateRole::value, DType::f32, true, 128},
                             {"unit_value", StateRole::unitValue, DType::f32, false, 0}};
  plan::Parameter &w = plan.parameters.emplace_back();
  w.name = w.tensor = "h.{}.w";
  w.dims = {{"h", 16, 16, {}}};
  w.places = {{0, 0, 0, 0, 2, 16}};
  plan::Chunk &chunk = stage.chunks.emplace_back();
  chunk.task = plan::Task::forward;
  chunk.slots = {0};
  for (int64_t layer : {0, 1}) {
    chunk.calls.push_back({0, layer, 0, {{-1, 128 + 32 * layer}, {-1, 0}}});
    chunk.calls.push_back({1, layer, 0, {{0, 0}, {-1, 0}}});
  }
  return plan;
}

TEST(Plan, ValuesOfUnitsAreGatheredBeforeTheyAreRead) {
  using Calls = std::vector<plan::Call>;
  const auto refuses = [&](auto &&edit, const char *message) {
    plan::Plan plan = planOfGatheredUnits();
    edit(plan.stages[0].chunks[0].calls);
    EXPECT_NE(found(plan).find(message), std::string::npos) << message << "\n" << found(plan);
  };
  EXPECT_EQ(found(planOfGatheredUnits()), "");
  const char *other = "the call of 'block' for instance 1 binds bytes [0, 64), which are no values of its instance in "
                      "unit 0 of bucket layers, which was gathered there";
  refuses([](Calls &calls) { calls.erase(calls.begin() + 2); }, other);
  refuses([](Calls &calls) { std::swap(calls[2], calls[3]); }, other);
  refuses([](Calls &calls) { calls[2].segments[0].offset = 128; }, other);
  refuses([](Calls &calls) { calls.insert(calls.begin() + 1, calls[2]); },
          "the call of 'block' for instance 0 binds bytes [0, 64), which are no values of its instance in unit 1");
  refuses(
      [](Calls &calls) { calls.erase(calls.begin()); },
      "the call of 'block' for instance 0 binds bytes [0, 64), which are neither values of a unit that was gathered");
  refuses([](Calls &calls) { calls[0].segments[1].offset = 64; },
          "the call of 'block' for instance 0 binds bytes [0, 64), which are neither");
  refuses([](Calls &calls) { calls[0].segments[1].offset = 32; },
          "gathers unit 0 of bucket layers to where its values are not expected");
  refuses([](Calls &calls) { calls[1].segments[1].offset = 128; }, "binds segment 'values' to bytes [128, 192)");
  refuses([](Calls &calls) { calls[1].segments[0] = {-1, 128}; }, "binds segment 'x' to bytes [128, 192)");
  plan::Plan pairs = planOfGatheredUnits(); // forward has memory of its own
  pairs.stages[0].buckets[0].states.push_back(
      {"unit_value_second", plan::StateRole::unitValue, plan::DType::f32, false, 64});
  EXPECT_EQ(found(pairs), "stage 0: no call gathers values of bucket layers to 'unit_value_second' at 64");
  for (size_t i : {0, 1})
    pairs.stages[0].chunks[0].calls[i].segments[1].offset = 64;
  EXPECT_EQ(found(pairs), "");
}

// Counts of tokens summed as bf16 are right while they are small.
TEST(Plan, CollectivesTakeBucketsForWhatTheyAre) {
  plan::Plan plan = planOfTiedBuckets({{0, 1}, {0, 1}});
  const auto found = [&] {
    Problems problems;
    plan::Flows flows(plan, problems);
    plan::verifyBucketUse(plan, flows, problems);
    return std::string(problems.status().message());
  };
  EXPECT_EQ(found().find("takes"), std::string::npos) << found();
  std::get<plan::Collective>(plan.programs[1].instructions[0].body).type = plan::DType::bf16;
  EXPECT_NE(found().find("takes a.gradient for bf16, expected f32"), std::string::npos) << found();
}

TEST(Plan, HostileNumbersAreRefused) {
  const plan::Plan valid = planOf(uniformProblem("1f1b", {2, 1, 2}, kSizes));
  ASSERT_TRUE(provePlan(valid).isOk());
  int64_t mutants = 0;
  const auto refuse = [&](auto &&edit) {
    plan::Plan plan = valid;
    edit(plan.stages[0]);
    EXPECT_FALSE(provePlan(plan).isOk()) << mutants;
    ++mutants;
  };
  for (int64_t bad : {INT64_MIN, int64_t(-2), int64_t(1) << 40, INT64_MAX}) {
    for (size_t i = 0; i < valid.stages[0].schedule.size(); ++i) {
      const bool isRun = valid.stages[0].schedule[i].kind == ScheduleStep::Kind::run;
      refuse([&](plan::StagePlan &stage) {
        stage.schedule[i].*(isRun ? &ScheduleStep::chunk : &ScheduleStep::ring) = bad;
      });
      refuse([&](plan::StagePlan &stage) { stage.schedule[i].microbatch = bad; });
      refuse([&](plan::StagePlan &stage) { stage.schedule[i].waits.push_back(bad); });
    }
    for (size_t i = 0; i < valid.stages[0].rings.size(); ++i)
      for (int64_t plan::Ring::*field : {&plan::Ring::peer, &plan::Ring::offset, &plan::Ring::bytes})
        refuse([&](plan::StagePlan &stage) { stage.rings[i].*field = bad; });
    refuse([&](plan::StagePlan &stage) { stage.repeats = {{1, 2, bad}}; });
  }
  EXPECT_GT(mutants, 100);
}

TEST(Plan, EachStageHasAList) {
  plan::Plan plan = planOf(uniformProblem("1f1b", {2, 1, 2}, kSizes));
  plan.stages.pop_back();
  EXPECT_FALSE(provePlan(plan).isOk());
}

} // namespace
} // namespace mgc::schedule
