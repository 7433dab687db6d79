// Estimates are what the compiled plan is predicted to take, in seconds and bytes.
#include "planner/search/Estimate.h"

#include "test/planner/search/AskedModel.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mgc;
using namespace mgc::planner;
using frontend::LayoutOptions;

namespace {

// What is left: launches of the kernels of a step's end, of which some are one kernel for several buckets.
constexpr double kSeconds = 0.004;

class EstimateTest : public testing::TestWithParam<std::tuple<std::string, int>> {};

unsigned seed() {
  const char *text = std::getenv("MGC_TEST_SEED");
  return text ? unsigned(std::strtoul(text, nullptr, 10)) : 1;
}

// Some of the space, at random, with more options than are searched.
std::vector<LayoutOptions> someLayouts(const AskedModel &model, size_t count, std::mt19937 &random) {
  SpaceOfLayouts space(model.space, model.given);
  std::vector<Picks> all;
  space.forEach([&](const LayoutOptions &, const Picks &picks) { all.push_back(picks); });
  std::ranges::shuffle(all, random);
  all.resize(std::min(all.size(), count));
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
  if (!layout.isOk())
    return;
  const Trial trial = tryEach({options}, model.make).front();
  const auto shape = ShapeBlocks::compile(context, options, model.make, model.machine);
  schedule::SolutionCache schedules;
  const Result<Estimate> made =
      shape.isOk() ? estimate(**shape, *layout, model.machine, schedules) : Result<Estimate>(shape.status());
  ASSERT_EQ(made.isOk(), trial.hasPlan()) << trial.refusal << made.status().message();
  if (!made.isOk())
    return;
  ++compared;
  EXPECT_NEAR(made->seconds / trial.seconds, 1, kSeconds);
  if (options.memory) // of choices that take as long others may be smaller
    return;
  EXPECT_EQ(made->bytes(), trial.bytes);
  EXPECT_EQ(made->hostBytes(), trial.hostBytes);
}

} // namespace

TEST_P(EstimateTest, IsWhatThePlanTakes) {
  const auto &[example, devices] = GetParam();
  const AskedModel model(example, gpuOptions(devices * 4, 512), devices);
  std::mt19937 random(seed() + unsigned(devices));
  int compared = 0;
  const char *count = std::getenv("MGC_TEST_LAYOUTS");
  for (const LayoutOptions &options : someLayouts(model, count ? std::strtoul(count, nullptr, 10) : 3, random))
    compare(model, options, compared);
  RecordProperty("compared", compared);
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

// Schedules that pair runs, whose collectives overlap, and units of ZeRO-3.
TEST(Estimate, OfPairs) {
  LayoutOptions options = gpuOptions(64, 512);
  const AskedModel model("mixtral-8x7b-v0.1", options, 32);
  options.pp = 4, options.vpp = 2, options.dp = 8, options.ep = 8, options.schedule = "dualpipev";
  int compared = 0;
  for (const int64_t zero : {1, 3}) {
    options.zero = zero;
    compare(model, options, compared);
  }
  EXPECT_EQ(compared, 2);
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
