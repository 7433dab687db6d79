// Threads beside a rank's own on the CPU: collectives of layers beside products, gradients beside the runs behind them.
#include "test/runtime/TempDir.h"
#include "test/runtime/exec/RandomPrograms.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

namespace mgc::test {
namespace {

using std::chrono::milliseconds;
constexpr int64_t kBytes = 8 * sizeof(float);

// Sleeps now and then, up to a tenth of a millisecond: `seed` says when.
std::function<Status(const ExecutionPlace &)> delays(uint32_t seed) {
  return [seed](const ExecutionPlace &place) {
    const size_t key =
        std::hash<std::string_view>()(place.instruction) + place.rank * 31 + seed * 2654435761u;
    if (key % 5 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(key / 5 % 100));
    return Status::ok();
  };
}

// A measured step has nothing beside its runs.
TEST(Beside, randomProgramsGiveTheBitsOfOneInOrder) {
  bool anyBeside = false;
  for (uint32_t program = 0; program < 100; ++program) {
    const plan::Plan plan = randomPlan(program);
    const std::array<double, 3> inOrder = valuesOf(*makeEngine(plan, {.timeline = {.measure = true}}));
    for (uint32_t seed : {1, 2, 3}) {
      const std::unique_ptr<Engine> engine = makeEngine(plan, {.inject = delays(seed)});
      anyBeside |= engine->whereRanksAre().find("; 0 of") == std::string::npos;
      EXPECT_EQ(valuesOf(*engine), inOrder) << "program " << program << ", seed " << seed;
    }
  }
  EXPECT_TRUE(anyBeside);
}

plan::Move copyOf(int64_t bytes) {
  plan::Move move;
  move.bytes = bytes;
  return move;
}

plan::Collective sumOver(const char *axis) {
  plan::Collective sum;
  sum.axes = {axis};
  sum.chunk = kBytes / 4;
  return sum;
}

// Rank 1 comes to a place when rank 0 has come to another, and not before.
class Rendezvous {
public:
  Rendezvous(std::string chunk, std::string instruction)
      : chunk_(std::move(chunk)), instruction_(std::move(instruction)) {}
  void await() const {
    for (int i = 0; i < 10'000 && !reached_; ++i)
      std::this_thread::sleep_for(milliseconds(1));
  }
  void pass(const ExecutionPlace &place) {
    if (place.rank == 0 && place.chunk == chunk_ && place.instruction == instruction_)
      reached_ = true;
  }
  bool isReached() const { return reached_; }

private:
  const std::string chunk_, instruction_;
  std::atomic<bool> reached_{false};
};

// Two ranks: a sum, a product beside it, and what needs the sum.
struct SumAndProduct {
  SumAndProduct() {
    plan = emptyPlan({{"tp", 2}}, {.microbatches = 1});
    plan::StagePlan &stage = plan.stages[0];
    StageLayout layout;
    stage.stepScalarsOffset = layout.place("scalars", kBytes);
    stage.resultsOffset = layout.place("scalars", kBytes);
    const int64_t a = layout.place("activations", kBytes), b = layout.place("activations", kBytes),
                  c = layout.place("activations", kBytes);
    layout.finish(stage);
    ProgramBuilder work("work", {kBytes, kBytes, kBytes, kBytes, kBytes});
    work.add(copyOf(kBytes), {0, 2})
        .add(copyOf(kBytes), {0, 3})
        .add(sumOver("tp"), {2, 2})
        .add(plan::Gemm{.m = 2, .n = 2, .k = 2}, {0, 3, 4})
        .add(copyOf(16), {4, 3})
        .add(copyOf(kBytes), {2, 1});
    const int64_t chunk =
        addChunk(plan, 0, plan::Task::forward, work, {stage.stepScalarsOffset, stage.resultsOffset, a, b, c});
    stage.schedule = {runStep(chunk, 0)};
  }
  plan::Plan plan;
};

TEST(Beside, aProductIsMadeWhileACollectiveWaitsForAnotherRank) {
  Rendezvous behindTheProduct("forward.0", "work/4");
  const auto inject = [&](const ExecutionPlace &place) {
    behindTheProduct.pass(place);
    if (place.rank == 1 && place.instruction == "work/2")
      behindTheProduct.await();
    return Status::ok();
  };
  const std::unique_ptr<Engine> engine = makeEngine(SumAndProduct().plan, {.inject = inject});
  EXPECT_EQ(engine->whereRanksAre(), "1 thread each; 2 of 2 collectives of a step beside products");
  const std::array<double, 3> values = valuesOf(*engine);
  EXPECT_TRUE(behindTheProduct.isReached());
  EXPECT_EQ(values, (std::array<double, 3>{2.0 / 4.0, 4, 6}));
}

TEST(Beside, aCollectiveThatWaitsInVainIsNamedAtTheDeadline) {
  const auto inject = [](const ExecutionPlace &place) {
    if (place.rank == 1 && place.instruction == "work/2")
      std::this_thread::sleep_for(milliseconds(1000));
    return Status::ok();
  };
  const std::unique_ptr<Engine> engine =
      makeEngine(SumAndProduct().plan, {.timeout = milliseconds(200), .inject = inject});
  const Result<StepResult> result = engine->step(5, makeBatch(engine->plan(), 5), StepScalars{});
  EXPECT_TRUE(
      fails(result, {"rank 0 (stage 0), step 5, microbatch 0, forward.0, work/2: waited 0.2 s for ranks [1] "
                     "to join a collective of ranks [0, 1]"}));
}

// Two replicas: the gradients of the first microbatch are summed while the second one is computed.
struct GradientsBeside {
  GradientsBeside() {
    plan = emptyPlan({{"dp", 2}}, {.microbatches = 2});
    plan::StagePlan &stage = plan.stages[0];
    StageLayout layout;
    stage.stepScalarsOffset = layout.place("scalars", kBytes);
    stage.resultsOffset = layout.place("scalars", kBytes);
    const int64_t a = layout.place("activations", kBytes), b = layout.place("activations", kBytes);
    layout.finish(stage);
    const auto chunkOf = [&](plan::Task task, const ProgramBuilder &program, const std::vector<int64_t> &at) {
      return addChunk(plan, 0, task, program, at);
    };
    const int64_t begin =
        chunkOf(plan::Task::begin, ProgramBuilder("begin", {kBytes, kBytes}).add(copyOf(kBytes), {0, 1}),
                {stage.stepScalarsOffset, a});
    const int64_t gradients =
        chunkOf(plan::Task::gradients, ProgramBuilder("gradients", {kBytes}).add(sumOver("dp"), {0, 0}), {a});
    const int64_t forward = chunkOf(
        plan::Task::forward,
        ProgramBuilder("forward", {kBytes, kBytes}).add(copyOf(kBytes), {0, 1}).add(copyOf(kBytes), {0, 1}),
        {stage.stepScalarsOffset, b});
    const int64_t reduce =
        chunkOf(plan::Task::reduce, ProgramBuilder("reduce", {kBytes, kBytes}).add(copyOf(kBytes), {0, 1}),
                {a, stage.resultsOffset});
    stage.schedule = {runStep(begin), runStep(forward, 0), runStep(gradients, -1, {2}), runStep(forward, 1),
                      runStep(reduce, -1, {2})};
  }
  plan::Plan plan;
};

TEST(Beside, gradientsAreCompletedWhileTheNextRunsAreAtWork) {
  Rendezvous behindForward("forward.0", "forward/1");
  std::atomic<int> forwards{0};
  const auto inject = [&](const ExecutionPlace &place) {
    if (place.rank == 0 && place.instruction == "forward/1" && ++forwards < 2)
      return Status::ok();
    behindForward.pass(place);
    if (place.rank == 1 && place.chunk == "gradients.0")
      behindForward.await();
    return Status::ok();
  };
  const std::unique_ptr<Engine> engine = makeEngine(GradientsBeside().plan, {.inject = inject});
  const std::array<double, 3> values = valuesOf(*engine);
  EXPECT_TRUE(behindForward.isReached());
  EXPECT_EQ(values, (std::array<double, 3>{2.0 / 4.0, 4, 6}));
}

// Stage 0 sends what a run of gradients makes: not before it has.
TEST(Beside, aTransferWaitsForGradients) {
  plan::Plan plan = emptyPlan({{"pp", 2, plan::AxisRole::stage}}, {.microbatches = 1});
  for (int64_t index : {0, 1}) {
    plan::StagePlan &stage = plan.stages[index];
    StageLayout layout;
    stage.stepScalarsOffset = layout.place("scalars", kBytes);
    stage.resultsOffset = layout.place("scalars", kBytes);
    const int64_t value = layout.place("activations", kBytes);
    layout.finish(stage);
    const int64_t ring = addRing(plan, index, value, kBytes, 1, 1 - index, 7);
    const auto copying = [&](const char *name) {
      return ProgramBuilder(name, {kBytes, kBytes}).add(copyOf(kBytes), {0, 1});
    };
    if (index == 0) {
      const int64_t forward = addChunk(plan, 0, plan::Task::forward, copying("results.0"),
                                       {stage.stepScalarsOffset, stage.resultsOffset});
      const int64_t gradients = addChunk(plan, 0, plan::Task::gradients, copying("gradients"),
                                         {stage.stepScalarsOffset, value});
      stage.schedule = {runStep(forward, 0), runStep(gradients), sendStep(ring, 0, {1})};
    } else {
      const int64_t forward = addChunk(plan, 1, plan::Task::forward, copying("results.1"),
                                       {value, stage.resultsOffset});
      stage.schedule = {receiveStep(ring, 0), runStep(forward, 0, {1})};
    }
  }
  const auto inject = [](const ExecutionPlace &place) {
    if (place.chunk == "gradients.0")
      std::this_thread::sleep_for(milliseconds(50));
    return Status::ok();
  };
  EXPECT_EQ(valuesOf(*makeEngine(plan, {.inject = inject})), (std::array<double, 3>{1.0 / 2.0, 2, 3}));
}

TEST(Beside, anErrorOfGradientsEndsTheStepAndNamesItsPlace) {
  for (int64_t rank : {0, 1}) {
    const auto inject = [&](const ExecutionPlace &place) {
      return place.rank == rank && place.chunk == "gradients.0" ? Status::error("injected") : Status::ok();
    };
    const std::unique_ptr<Engine> engine = makeEngine(GradientsBeside().plan, {.inject = inject});
    const Result<StepResult> result = engine->step(3, makeBatch(engine->plan(), 3), StepScalars{});
    EXPECT_TRUE(
        fails(result, {fmt::format("rank {} (stage 0), step 3, gradients.0, gradients/0: injected", rank)}));
  }
}

} // namespace
} // namespace mgc::test
