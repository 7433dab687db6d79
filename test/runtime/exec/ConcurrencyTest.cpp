// A rank's extra threads on the CPU: collectives of layers concurrently with products, gradients with later runs.
#include "test/runtime/TempDir.h"
#include "test/runtime/exec/RandomPrograms.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

namespace mgc::test {
namespace {

using std::chrono::milliseconds;
constexpr int64_t kBytes = kScalarsBytes;

// Sleeps now and then, up to a tenth of a millisecond: `seed` says when.
std::function<Status(const ExecutionPlace &)> delays(uint32_t seed) {
  return [seed](const ExecutionPlace &place) {
    const size_t key = std::hash<std::string_view>()(place.instruction) + place.rank * 31 + seed * 2654435761u;
    if (key % 5 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(key / 5 % 100));
    return Status::ok();
  };
}

// A measured step runs nothing concurrently.
TEST(Concurrency, randomProgramsGiveTheBitsOfOneInOrder) {
  bool anyOverlaps = false;
  for (uint32_t program = 0; program < 100; ++program) {
    const plan::Plan plan = randomPlan(program);
    const std::array<double, 3> inOrder = valuesOf(*makeEngine(plan, {.timeline = {.measure = true}}));
    for (uint32_t seed : {1, 2, 3}) {
      const std::unique_ptr<Engine> engine = makeEngine(plan, {.isConcurrent = true, .inject = delays(seed)});
      anyOverlaps |= engine->whereRanksAre().find("; 0 of") == std::string::npos;
      EXPECT_EQ(valuesOf(*engine), inOrder) << "program " << program << ", seed " << seed;
    }
  }
  EXPECT_TRUE(anyOverlaps);
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

TEST(Concurrency, aProductIsMadeWhileACollectiveWaitsForAnotherRank) {
  Rendezvous behindTheProduct("forward.0", "work/4");
  const auto inject = [&](const ExecutionPlace &place) {
    behindTheProduct.pass(place);
    if (place.rank == 1 && place.instruction == "work/2")
      behindTheProduct.await();
    return Status::ok();
  };
  const std::unique_ptr<Engine> engine = makeEngine(sumAndProductPlan(), {.isConcurrent = true, .inject = inject});
  EXPECT_EQ(engine->whereRanksAre(), "1 thread each; 2 of 2 collectives of a step overlap products");
  const std::array<double, 3> values = valuesOf(*engine);
  EXPECT_TRUE(behindTheProduct.isReached());
  EXPECT_EQ(values, (std::array<double, 3>{2.0 / 4.0, 4, 6}));
}

TEST(Concurrency, aCollectiveThatWaitsInVainIsNamedAtTheDeadline) {
  const auto inject = [](const ExecutionPlace &place) {
    if (place.rank == 1 && place.instruction == "work/2")
      std::this_thread::sleep_for(milliseconds(1000));
    return Status::ok();
  };
  const std::unique_ptr<Engine> engine =
      makeEngine(sumAndProductPlan(), {.isConcurrent = true, .timeout = milliseconds(200), .inject = inject});
  const Result<StepResult> result = engine->step(5, makeBatch(engine->plan(), 5), StepScalars{});
  EXPECT_TRUE(fails(result, {"rank 0 (stage 0), step 5, microbatch 0, forward.0, work/2: waited 0.2 s for ranks [1] "
                             "to join a collective of ranks [0, 1]"}));
}

TEST(Concurrency, gradientsAreCompletedWhileTheNextRunsAreAtWork) {
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
  const std::unique_ptr<Engine> engine =
      makeEngine(concurrentGradientsPlan(), {.isConcurrent = true, .inject = inject});
  const std::array<double, 3> values = valuesOf(*engine);
  EXPECT_TRUE(behindForward.isReached());
  EXPECT_EQ(values, (std::array<double, 3>{2.0 / 4.0, 4, 6}));
}

// Stage 0 sends what a run of gradients makes: not before it has.
TEST(Concurrency, aTransferWaitsForGradients) {
  plan::Plan plan = emptyPlan({{"pp", 2, plan::AxisRole::stage}}, {.microbatches = 1});
  for (int64_t index : {0, 1}) {
    plan::StagePlan &stage = plan.stages[index];
    StageLayout layout(stage);
    const int64_t value = layout.place("activations", kBytes);
    layout.finish();
    const int64_t ring = addRing(plan, index, value, kBytes, 1, 1 - index, 7);
    if (index == 0) {
      const int64_t forward = addChunk(plan, 0, plan::Task::forward, copyingProgram("results.0"),
                                       {stage.stepScalarsOffset, stage.resultsOffset});
      const int64_t gradients =
          addChunk(plan, 0, plan::Task::gradients, copyingProgram("gradients"), {stage.stepScalarsOffset, value});
      stage.schedule = {runStep(forward, 0), runStep(gradients), sendStep(ring, 0, {1})};
    } else {
      const int64_t forward =
          addChunk(plan, 1, plan::Task::forward, copyingProgram("results.1"), {value, stage.resultsOffset});
      stage.schedule = {receiveStep(ring, 0), runStep(forward, 0, {1})};
    }
  }
  const auto inject = [](const ExecutionPlace &place) {
    if (place.chunk == "gradients.0")
      std::this_thread::sleep_for(milliseconds(50));
    return Status::ok();
  };
  EXPECT_EQ(valuesOf(*makeEngine(plan, {.isConcurrent = true, .inject = inject})),
            (std::array<double, 3>{1.0 / 2.0, 2, 3}));
}

TEST(Concurrency, anErrorOfGradientsEndsTheStepAndNamesItsPlace) {
  for (int64_t rank : {0, 1}) {
    const auto inject = [&](const ExecutionPlace &place) {
      return place.rank == rank && place.chunk == "gradients.0" ? Status::error("injected") : Status::ok();
    };
    const std::unique_ptr<Engine> engine =
        makeEngine(concurrentGradientsPlan(), {.isConcurrent = true, .inject = inject});
    const Result<StepResult> result = engine->step(3, makeBatch(engine->plan(), 3), StepScalars{});
    EXPECT_TRUE(fails(result, {fmt::format("rank {} (stage 0), step 3, gradients.0, gradients/0: injected", rank)}));
  }
}

// An update that does not wait for them: beforeUpdate does.
TEST(Concurrency, beforeUpdateFindsGradientsComplete) {
  plan::Plan plan = concurrentGradientsPlan();
  plan.stages[0].chunks.back().task = plan::Task::update;
  plan.stages[0].schedule.back().waits.clear();
  const int64_t sum = plan.stages[0].resultsOffset + plan::aligned(kBytes);
  const auto inject = [](const ExecutionPlace &place) {
    if (place.chunk == "gradients.0")
      std::this_thread::sleep_for(milliseconds(50));
    return Status::ok();
  };
  const std::unique_ptr<Engine> engine = makeEngine(plan, {.isConcurrent = true, .inject = inject});
  float found = 0;
  const Result<StepResult> result = engine->step(0, makeBatch(plan, 0), StepScalars{1, 2, 3, 4, 5, 6, 7, 8}, [&] {
    found = inArena<float>(*engine, 1, sum)[2];
    return Status::ok();
  });
  EXPECT_TRUE(result.isOk()) << result.status().message();
  EXPECT_EQ(found, 6);
}

TEST(Concurrency, anAbortEndsWhatWaitsOnEveryThread) {
  std::atomic<bool> isThere{false}, leave{false};
  const auto inject = [&](const ExecutionPlace &place) {
    while (place.rank == 1 && place.instruction == "work/2" && !leave) // rank 0 waits for it, with both its threads
      std::this_thread::sleep_for(milliseconds(1));
    isThere = isThere || (place.rank == 0 && place.instruction == "work/5");
    return Status::ok();
  };
  const std::unique_ptr<Engine> engine = makeEngine(sumAndProductPlan(), {.isConcurrent = true, .inject = inject});
  std::thread killer([&] {
    while (!isThere)
      std::this_thread::sleep_for(milliseconds(1));
    engine->abort(Status::error("interrupted"));
    leave = true;
  });
  EXPECT_TRUE(fails(engine->step(0, makeBatch(engine->plan(), 0), StepScalars{}), {"interrupted"}));
  killer.join();
}

} // namespace
} // namespace mgc::test
