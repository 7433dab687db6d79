// Learning rates against values from Megatron-LM's OptimizerParamScheduler formulas, evaluated in Python.
#include "runtime/train/OptimizerSchedule.h"

#include "test/runtime/TempDir.h"

#include <cmath>
#include <map>

namespace mgc::test {
namespace {

OptimizerOptions makeOptions(const std::string &style) {
  OptimizerOptions options;
  options.lr = 1e-3;
  options.minLr = 1e-4;
  options.lrDecayStyle = style;
  options.lrWarmup = 4;
  options.lrDecay = 20;
  options.lrWsdDecay = 5;
  return options;
}

void expectRates(const OptimizerOptions &options, const std::vector<std::pair<int64_t, double>> &rates) {
  ASSERT_TRUE(checkOptimizer(options, 30, 30).isOk());
  for (const auto &[step, rate] : rates)
    EXPECT_DOUBLE_EQ(learningRate(options, 30, {step, 0}), rate) << options.lrDecayStyle << " step " << step;
}

TEST(LearningRate, ofEachStyle) {
  expectRates(makeOptions("constant"), {{0, 0}, {1, 0.00025}, {4, 0.001}, {5, 0.001}, {21, 0.001}});
  expectRates(makeOptions("linear"),
              {{0, 0}, {1, 0.00025}, {4, 0.001}, {5, 0.00094375}, {12, 0.00055}, {20, 0.0001}, {21, 0.0001}});
  expectRates(makeOptions("cosine"),
              {{0, 0}, {4, 0.001}, {5, 0.0009913533761814538}, {12, 0.00055}, {20, 0.0001}, {29, 0.0001}});
}

TEST(LearningRate, warmupStableDecay) {
  OptimizerOptions options = makeOptions("WSD");
  expectRates(options, {{0, 0},
                        {4, 0.001},
                        {15, 0.001},
                        {16, 0.0007669910139330234},
                        {18, 0.00038755711969560474},
                        {20, 0.0001},
                        {21, 0.0001}});
  options.lrWsdDecayStyle = "linear";
  expectRates(options, {{15, 0.001}, {16, 0.00082}, {18, 0.00046}});
  options.lrWsdDecayStyle = "cosine";
  expectRates(options, {{16, 0.0009140576474687263}, {18, 0.0004109423525312737}});
  options.lrWsdDecayStyle = "minus_sqrt";
  expectRates(options, {{16, 0.0005975077640500379}, {18, 0.00030286299768266493}});
}

TEST(LearningRate, decaysOverTheTrainingUnlessTold) {
  OptimizerOptions options;
  options.lr = 1;
  EXPECT_DOUBLE_EQ(learningRate(options, 10, {0, 0}), 1);
  EXPECT_DOUBLE_EQ(learningRate(options, 10, {5, 0}), 0.5);
}

// A schedule in samples, whose batches need not be of one size.
TEST(LearningRate, countsSamples) {
  OptimizerOptions options;
  options.lr = 1, options.lrWarmup = 100, options.bySamples = true;
  EXPECT_DOUBLE_EQ(learningRate(options, 1100, {7, 50}), 0.5);
  EXPECT_DOUBLE_EQ(learningRate(options, 1100, {100, 600}), 0.5);
  EXPECT_DOUBLE_EQ(learningRate(options, 1100, {9, 1100}), 0);
}

TEST(LearningRate, aListIsTakenAsItIs) {
  OptimizerOptions options = makeOptions("linear");
  options.lrList = {0.1, 0.3, 0.2};
  EXPECT_EQ(learningRate(options, 3, {0, 0}), 0.1);
  EXPECT_EQ(learningRate(options, 3, {2, 0}), 0.2);
  EXPECT_TRUE(checkOptimizer(options, 3, 3).isOk());
  EXPECT_FALSE(checkOptimizer(options, 4, 4).isOk());
}

TEST(Optimizer, reportsEveryContradiction) {
  OptimizerOptions options = makeOptions("WSD");
  options.minLr = 1, options.lrWarmup = 20, options.lrWsdDecay = 0;
  options.numbers = {1, 0.999, 0}, options.clipGrad = -1;
  EXPECT_TRUE(
      fails(checkOptimizer(options, 30, 30), {"--min-lr = 1", "--lr-warmup-iters = 20", "--lr-wsd-decay-iters = 0",
                                              "--adam-beta1 = 1", "--adam-eps = 0", "--clip-grad = -1"}));
  EXPECT_FALSE(checkOptimizer(makeOptions("exponential"), 30, 30).isOk());
  OptimizerOptions tiny = makeOptions("linear");
  tiny.clipGrad = 1e-300;
  EXPECT_TRUE(fails(checkOptimizer(tiny, 30, 30), {"--clip-grad = 1e-300"})) << "0 in float: no clipping";
}

TEST(Optimizer, stepScalarsStandWhereThePlanHasThem) {
  OptimizerOptions options;
  options.clipGrad = 0.5;
  options.routerBiasRate = 0.001;
  const StepScalars scalars = stepScalars(options, 0.25, 2);
  const std::map<std::string_view, double> expected = {
      {"lr", 0.25},     {"weight_decay", 0.01},
      {"clip", 0.5},    {"router_bias_rate", 0.001},
      {"beta1", 0.9},   {"bias_correction1", 1 - std::pow(double(0.9f), 3)},
      {"beta2", 0.999}, {"bias_correction2", 1 - std::pow(double(0.999f), 3)},
      {"eps", 1e-8}};
  for (const auto &[name, value] : expected)
    EXPECT_EQ(scalars[plan::scalarNamed(name)], float(value)) << name;
}

// v after t steps of gradients g is (1 - beta2^t) g^2 with the beta2 the update has: the correction must give g^2.
TEST(Optimizer, theCorrectionUndoesWhatTheUpdateDoes) {
  for (double beta2 : {0.95, 0.999, 1 - 1e-7}) {
    OptimizerOptions options;
    options.numbers[1] = beta2;
    double v = 0;
    for (int64_t step = 0; step < 20; ++step) {
      const StepScalars scalars = stepScalars(options, 0.1, step);
      const double own = scalars[plan::scalarNamed("beta2")];
      v = own * v + (1 - own) * 9;
      EXPECT_NEAR(v / scalars[plan::scalarNamed("bias_correction2")], 9, 1e-5) << beta2 << " step " << step;
    }
  }
}

TEST(Optimizer, valuesThatFloatCannotHoldAreRefused) {
  const auto refused = [](const char *part, auto change) {
    OptimizerOptions options;
    change(options);
    EXPECT_TRUE(fails(checkOptimizer(options, 10, 10), {part}));
  };
  refused("--adam-beta2 = 0.99999999", [](auto &o) { o.numbers[1] = 0.99999999; });
  refused("--adam-beta1 = 0.99999999", [](auto &o) { o.numbers[0] = 0.99999999; });
  refused("--adam-eps = 1e-50", [](auto &o) { o.numbers[2] = 1e-50; });
  refused("--lr = 1e+39", [](auto &o) { o.lr = 1e39; });
  refused("--lr-warmup-init = -1", [](auto &o) { o.lrWarmupInit = -1; });
  refused("--lr-decay-iters = -1", [](auto &o) { o.lrDecay = -1; });
  refused("--lr-list: rate 0", [](auto &o) { o.lrList = std::vector<double>(10, 1e39); });
}

} // namespace
} // namespace mgc::test
