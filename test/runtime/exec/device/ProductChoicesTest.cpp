// Algorithms of products: the library's, or measured once and kept.
#include "runtime/train/OptimizerSchedule.h"
#include "test/runtime/TempDir.h"
#include "test/runtime/exec/device/HostDevices.h"

#include <gtest/gtest.h>

namespace mgc::test {
namespace {

// One rank: two products of one size and one of another, then the results.
plan::Plan productPlan(int64_t ranks = 1) {
  plan::Plan plan = emptyPlan({{"dp", ranks, plan::AxisRole::data}}, {.microbatches = 1});
  plan::StagePlan &stage = plan.stages[0];
  StageLayout layout(stage);
  const int64_t work = layout.place("activations", 4 * 64);
  layout.finish();
  const plan::Gemm square{.m = 4, .n = 4, .k = 4}, narrow{.m = 2, .n = 2, .k = 8};
  const int64_t forward = addChunk(plan, 0, plan::Task::forward,
                                   ProgramBuilder("work", {64, 64, 64, 4 * 64, 64})
                                       .add(fillOf(4 * 64), {3})
                                       .add(square, {0, 1, 2})
                                       .add(square, {1, 2, 0})
                                       .add(narrow, {0, 1, 2})
                                       .add(rowKernel("norm", 1, {plan.sequenceLength}), {0, 4}),
                                   {work, work + 64, work + 128, work, stage.resultsOffset});
  stage.schedule = {runStep(forward, 0)};
  return plan;
}

class ProductChoicesTest : public testing::Test {
protected:
  ProductChoicesTest() {
    controls->algorithms = 4;
    controls->fastestAlgorithm = 2;
  }
  // Loads and steps; all that the engine has to say.
  std::string run(const DeviceOptions &device, const plan::Plan &plan = productPlan()) {
    controls->choices = controls->otherAlgorithms = controls->allocations = 0;
    const std::unique_ptr<Engine> engine = engineOnDevice(plan, {}, device);
    if (!engine)
      return {};
    for (int64_t step = 0; step < 2; ++step) {
      const Result<StepResult> result = engine->step(step, makeBatch(plan, step), stepScalars({}, 0.5, step));
      EXPECT_TRUE(result.isOk()) << result.status().message();
    }
    return fmt::format("{}", fmt::join(engine->notes(), "\n"));
  }
  DeviceOptions tuned() const {
    DeviceOptions device = hostDevice();
    device.tuneProducts = true;
    device.tuneCache = cache;
    return device;
  }

  PluginControls controls;
  TempDir folder;
  std::string cache = folder.path("cache/products.json");
};

TEST_F(ProductChoicesTest, areTheLibrarysUnlessMeasured) {
  EXPECT_TRUE(run(hostDevice()).empty());
  EXPECT_EQ(controls->choices, 0);
  EXPECT_EQ(controls->otherAlgorithms, 0);
}

TEST_F(ProductChoicesTest, areMeasuredOncePerDistinctProductInTheRanksMemory) {
  const auto notes = run(tuned());
  EXPECT_EQ(controls->choices, 2);
  EXPECT_EQ(controls->otherAlgorithms, 2) << "each is made once";
  EXPECT_EQ(controls->allocations, 1) << "the rank's";
  EXPECT_TRUE(
      has(notes, {"products: 2 measured here, 0 not; 2 of 2 other than the library's choice; kept in " + cache}));
}

TEST_F(ProductChoicesTest, areKept) {
  run(tuned());
  const std::string kept = folder.read("cache/products.json");
  EXPECT_TRUE(has(kept, {"products of the host, m=4 n=4 k=4 f32 -> f32, workspace 0"}));
  controls->fastestAlgorithm = 3; // another day
  const auto notes = run(tuned());
  EXPECT_EQ(controls->choices, 0);
  EXPECT_TRUE(has(notes, {"0 measured here, 2 not; 2 of 2 other"}));
  EXPECT_EQ(folder.read("cache/products.json"), kept);
}

TEST_F(ProductChoicesTest, areMeasuredAnewWhereTheCacheIsDamaged) {
  run(tuned());
  std::string kept = folder.read("cache/products.json");
  kept.replace(kept.rfind(": 2"), 3, ": -2");
  folder.write("cache/products.json", kept);
  controls->fastestAlgorithm = 3;
  const auto notes = run(tuned());
  EXPECT_EQ(controls->choices, 1);
  EXPECT_TRUE(has(notes, {"found -2, expected the number of an algorithm; measured anew"}));
  EXPECT_FALSE(has(run(tuned()), {"measured anew"})) << "it was replaced";
}

TEST_F(ProductChoicesTest, areMeasuredAnewWhereTheLibraryHasThemNot) {
  run(tuned());
  controls->algorithms = 2;
  controls->fastestAlgorithm = 1;
  const auto notes = run(tuned());
  EXPECT_EQ(controls->choices, 2);
  EXPECT_TRUE(has(notes, {"algorithm 2 of 2; measured anew"}));
  EXPECT_FALSE(has(run(tuned()), {"measured anew"}));
}

TEST_F(ProductChoicesTest, needNoCache) {
  cache = folder.write("file", "") + "/products.json";
  EXPECT_TRUE(has(run(tuned()), {"its folder cannot be made"}));
  EXPECT_EQ(controls->choices, 2);
  cache.clear();
  run(tuned());
  EXPECT_EQ(controls->choices, 2);
}

TEST_F(ProductChoicesTest, areTheLibrarysWhereTheRankHasNoRoomToMeasure) {
  controls->choosingBytes = 1 << 20;
  EXPECT_TRUE(has(run(tuned()), {"the library's choice is taken"}));
  EXPECT_EQ(controls->choices, 0);
  controls->choosingBytes = 0;
  run(tuned());
  EXPECT_EQ(controls->choices, 2) << "what was not measured is not kept";
}

TEST_F(ProductChoicesTest, leaveAFileThatIsNoCache) {
  cache = folder.write("letter", "dear reader");
  EXPECT_TRUE(fails(tryEngineOnDevice(productPlan(), {}, tuned()), {"expected a cache of a device's products"}));
  EXPECT_EQ(folder.read("letter"), "dear reader");
}

TEST_F(ProductChoicesTest, ofRanksThatShareADeviceAreMadeByTheFirst) {
  run(tuned(), productPlan(2));
  EXPECT_EQ(controls->choices, 2);
  EXPECT_EQ(controls->otherAlgorithms, 4);
}

// Each has an engine and a cache of its own.
TEST_F(ProductChoicesTest, ofProcessesAreThoseOfTheFirstRank) {
  constexpr int64_t ranks = 3;
  SharedValues shared;
  ThreadWorld hosts(ranks);
  std::vector<std::string> notes(ranks);
  const plan::Plan plan = productPlan(ranks);
  onThreads(ranks, [&](int64_t rank) {
    DeviceOptions device = tuned();
    device.tuneCache = folder.path("cache" + std::to_string(rank));
    device.share = shared.share();
    EngineOptions options;
    options.communicator = &hosts.communicator(rank);
    if (const std::unique_ptr<Engine> engine = engineOnDevice(plan, options, device))
      notes[rank] = fmt::format("{}", fmt::join(engine->notes(), "\n"));
  });
  EXPECT_EQ(controls->choices, 2);
  EXPECT_EQ(controls->otherAlgorithms, 2 * ranks);
  EXPECT_TRUE(has(notes[0], {"2 measured here, 0 not"}));
  EXPECT_TRUE(has(notes[2], {"0 measured here, 2 not"}));
}

} // namespace
} // namespace mgc::test
