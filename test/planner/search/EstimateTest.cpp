// Estimates are what the compiled plan is predicted to take, in seconds and bytes: a few layouts of each model. More, and others:
//   MGC_TEST_LAYOUTS=12 MGC_LAYOUTS_SEED=7 search_test --gtest_filter=*Estimate*
#include "planner/search/Estimate.h"

#include "test/planner/search/AskedModel.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mgc;
using namespace mgc::planner;
using frontend::LayoutOptions;

namespace {

// The bound that a search promises. At the step's end it prices a kernel for each bucket, where the plan has one for several: launches,
// which count in models as small as tiny-gpt alone.
constexpr double kSeconds = 0.01;

// Where runs are paired and units are gathered beside exchanges of experts' rows, estimates are about 1 % below the plan (docs/planner.md,
// Limits).
bool isCompared(const frontend::Layout &layout) {
  return !layout.hasExperts || layout.zero < 2 || layout.schedule != "dualpipev";
}

class EstimateTest : public testing::TestWithParam<std::tuple<std::string, int>> {};

unsigned seed() {
  const char *text = std::getenv("MGC_LAYOUTS_SEED");
  return text ? unsigned(std::strtoul(text, nullptr, 10)) : 1;
}

// Some of the space, at random, with more options than are searched.
std::vector<LayoutOptions> someLayouts(const AskedModel &model, std::mt19937 &random) {
  SpaceOfLayouts space(model.space, model.given);
  std::vector<Picks> all;
  space.forEach([&](const LayoutOptions &, const Picks &picks) { all.push_back(picks); });
  std::ranges::shuffle(all, random);
  constexpr size_t kMost = 60;
  all.resize(std::min(all.size(), kMost));
  std::vector<LayoutOptions> layouts;
  for (const Picks &picks : all) {
    LayoutOptions &options = layouts.emplace_back(space.optionsOf(picks));
    if (random() % 3 == 0)
      options.memory = "100TB"; // policies are chosen, and all fit
    if (random() % 4 == 0 && options.zero.value_or(0) > 0)
      options.overlapParamGather = true;
    if (random() % 4 == 0 && options.zero.value_or(0) == 3)
      options.reshard = false;
  }
  return layouts;
}

void compare(const AskedModel &model, const LayoutOptions &options, int &compared) {
  SCOPED_TRACE(frontend::flagsOf(options));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MgDialect, mlir::func::FuncDialect>();
  const Result<frontend::Layout> layout = model.resolve(options);
  if (!layout.isOk() || !isCompared(*layout))
    return;
  const Trial trial = tryEach({options}, model.make).front();
  const auto shape = ShapeBlocks::compile(context, options, model.make, model.machine);
  EstimateCache cache;
  const Result<Estimate> made =
      shape.isOk() ? estimate(**shape, *layout, model.machine, cache) : Result<Estimate>(shape.status());
  ASSERT_EQ(made.isOk(), trial.hasPlan()) << trial.refusal << made.status().message();
  if (!made.isOk())
    return;
  ++compared;
  EXPECT_NEAR(made->seconds / trial.seconds, 1, kSeconds);
  if (options.memory) // other choices that take as long may be smaller
    return;
  EXPECT_EQ(made->bytes(), trial.bytes);
  EXPECT_EQ(made->hostBytes(), trial.hostBytes);
}

} // namespace

TEST_P(EstimateTest, IsWhatThePlanTakes) {
  const auto &[example, devices] = GetParam();
  const AskedModel model(example, gpuOptions(devices * 4, example == "tiny-gpt" ? 64 : 1024), devices);
  std::mt19937 random(seed() + unsigned(devices));
  int compared = 0;
  const char *count = std::getenv("MGC_TEST_LAYOUTS");
  const int wanted = count ? std::atoi(count) : 2;
  for (const LayoutOptions &options : someLayouts(model, random))
    if (compared < wanted)
      compare(model, options, compared);
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, EstimateTest,
                         testing::Combine(testing::Values("tiny-gpt", "qwen3-0.6b", "mixtral-8x7b-v0.1", "gpt-oss-20b",
                                                          "deepseek-v2-lite", "t5-large", "gemma-2-9b", "llava-1.5-7b"),
                                          testing::Values(8, 16)),
                         [](const auto &info) {
                           std::string name = std::get<0>(info.param) + "_" + std::to_string(std::get<1>(info.param));
                           std::ranges::replace_if(name, [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

// Schedules that pair runs, whose collectives overlap, and units of ZeRO-3 beside them.
TEST(Estimate, OfPairs) {
  int compared = 0;
  LayoutOptions options = gpuOptions(64, 512);
  options.pp = 4, options.vpp = 2, options.dp = 8, options.schedule = "dualpipev", options.zero = 3;
  compare(AskedModel("llama-3-8b", gpuOptions(64, 512), 32), options, compared);
  options.ep = 8, options.zero = 1;
  compare(AskedModel("mixtral-8x7b-v0.1", gpuOptions(64, 512), 32), options, compared);
  EXPECT_EQ(compared, 2);
}

// Blocks of one shape are those of all its layouts, though each was compiled for other stages, levels and data ranks.
TEST(Estimate, OfBlocksOfAnotherLayout) {
  LayoutOptions options = gpuOptions(64, 1024);
  const AskedModel model("mixtral-8x7b-v0.1", options, 16);
  options.tp = 2, options.ep = 2, options.etp = 1, options.dp = 2, options.pp = 4;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MgDialect, mlir::func::FuncDialect>();
  const auto shape = ShapeBlocks::compile(context, options, model.make, model.machine);
  ASSERT_TRUE(shape.isOk());
  options.dp = 8, options.pp = 1, options.zero = 1;
  const Trial trial = tryEach({options}, model.make).front();
  const frontend::Layout layout = model.resolve(options).take();
  EstimateCache cache;
  const Result<Estimate> made = estimate(**shape, layout, model.machine, cache);
  ASSERT_TRUE(made.isOk());
  EXPECT_NEAR(made->seconds / trial.seconds, 1, kSeconds);
  EXPECT_EQ(made->bytes(), trial.bytes);
}

// Policies that a budget chooses.
TEST(Estimate, OfPoliciesThatFit) {
  LayoutOptions options = gpuOptions(64, 4096);
  const AskedModel model("llama-3-8b", options, 16);
  options.tp = 2, options.pp = 4, options.dp = 2, options.mbs = 2, options.memory = "50GB";
  int compared = 0;
  compare(model, options, compared);
  EXPECT_EQ(compared, 1);
}

struct StepSeconds {
  double estimated = 0, ofPlan = 0;
};
static StepSeconds secondsWith(const AskedModel &model, const LayoutOptions &options, double imbalance) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MgDialect, mlir::func::FuncDialect>();
  const PricedMachine machine(model.machine, imbalance);
  const auto shape = ShapeBlocks::compile(context, options, model.make, machine);
  EstimateCache cache;
  const Result<Estimate> made =
      shape.isOk() ? estimate(**shape, *model.resolve(options), machine, cache) : Result<Estimate>(shape.status());
  EXPECT_TRUE(made.isOk()) << made.status().message();
  return {made.isOk() ? made->seconds : 0, tryEach({options}, model.make, {imbalance}).front().seconds};
}

// Where the fullest rank has more rows than the mean, the plan has the policies and the order by time of an even load: to the rounding
// of sums, it takes so much longer as it is estimated to.
TEST(Estimate, OfUnevenLoad) {
  LayoutOptions options = gpuOptions(64, 2048);
  const AskedModel model("deepseek-v2-lite", options, 16);
  options.tp = 1, options.mbs = 2, options.zero = 1;
  for (const auto &[schedule, pp, vpp, memory] : {std::tuple("1f1b", 2, 1, ""), std::tuple("dualpipev", 2, 2, ""),
                                                  std::tuple("auto", 4, 1, ""), std::tuple("1f1b", 2, 1, "60GB")}) {
    options.schedule = schedule, options.pp = pp, options.vpp = vpp, options.dp = options.ep = 16 / pp;
    if (const std::string budget = memory; !budget.empty())
      options.memory = budget;
    SCOPED_TRACE(frontend::flagsOf(options));
    const StepSeconds even = secondsWith(model, options, 1), loaded = secondsWith(model, options, 4);
    EXPECT_NEAR(even.estimated / even.ofPlan, 1, kSeconds);
    EXPECT_GT(loaded.ofPlan, 1.5 * even.ofPlan);
    EXPECT_NEAR(loaded.estimated - even.estimated, loaded.ofPlan - even.ofPlan, 1e-9 * loaded.ofPlan);
  }
}
