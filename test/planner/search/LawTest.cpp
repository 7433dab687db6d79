// Facts of shapes by the laws of their patterns are those of the shapes when they are compiled: of some at random. More, and others:
//   MGC_TEST_LAYOUTS=40 MGC_LAYOUTS_SEED=7 search_test --gtest_filter=*Law*
#include "planner/search/Shapes.h"

#include "test/planner/search/AskedModel.h"

#include <gtest/gtest.h>
#include <random>

using namespace mgc;
using namespace mgc::planner;
using frontend::LayoutOptions;

namespace {

constexpr double kUseful = 0.03; // a bound that is less by more leaves out too little

int numberOf(const char *variable, int otherwise) {
  const char *text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

// All shapes of a space, with the options of a layout of each.
class ShapesOf {
public:
  ShapesOf(const AskedModel &model, const std::set<std::string> &withoutLaw = {}, double imbalance = 1)
      : model(model), shapes({model.space.model,
                              model.make,
                              {model.machine, imbalance},
                              [&model](const LayoutOptions &asked) { return model.resolve(asked); },
                              [this](int64_t shape) { return options[size_t(shape)]; }},
                             withoutLaw) {
    SpaceOfLayouts(model.space, model.given).forEach([&](const LayoutOptions &asked, const Picks &) {
      const auto layout = model.resolve(asked);
      if (layout.isOk() && shapes.numberOf(sizesOf(asked, layout->splitBackward)) == std::ssize(options))
        options.push_back(asked);
    });
  }
  const AskedModel &model;
  std::vector<LayoutOptions> options;
  Shapes shapes;
};

struct LawCase {
  std::string example;
  int64_t devices = 64, seq = 2048;
  std::optional<int64_t> instances = {};
  double imbalance = 1;
};
class LawTest : public testing::TestWithParam<LawCase> {};

} // namespace

TEST_P(LawTest, GivesFactsOfShapes) {
  LayoutOptions options = gpuOptions(64, 2048);
  options.memory = "100TB", options.zero = 1, options.seq = GetParam().seq, options.instances = GetParam().instances;
  if (GetParam().devices != 64)
    options.gbs = GetParam().devices;
  const AskedModel model(GetParam().example, options, GetParam().devices);
  ShapesOf all(model, {}, GetParam().imbalance);
  std::mt19937 random(unsigned(numberOf("MGC_LAYOUTS_SEED", 1)));
  std::vector<int64_t> order(all.options.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = int64_t(i);
  std::ranges::shuffle(order, random);
  int compared = 0;
  for (const int64_t shape : order) {
    if (compared == numberOf("MGC_TEST_LAYOUTS", 4))
      break;
    const auto byLaw = all.shapes.facts(shape);
    if (!byLaw.isOk() || all.shapes.isCompiled(shape))
      continue;
    SCOPED_TRACE(frontend::flagsOf(all.options[size_t(shape)]));
    const ShapeFacts expected = **byLaw; // copied: the blocks' replace them
    if (!all.shapes.blocks(shape, all.options[size_t(shape)]).isOk())
      continue;
    ++compared;
    EXPECT_EQ(all.shapes.contradicted(), "");
    const ShapeFacts &known = **all.shapes.facts(shape);
    ASSERT_EQ(expected.blocks.size(), known.blocks.size());
    for (size_t b = 0; b < known.blocks.size(); ++b) {
      // It would be contradicted if it were above by more than kLawError.
      EXPECT_GE(expected.blocks[b].passes, known.blocks[b].passes * (1 - kUseful));
      EXPECT_GE(expected.blocks[b].all, known.blocks[b].all * (1 - kUseful));
      for (const auto part : {&BlockLeast::elements, &BlockLeast::reads})
        for (const auto &[axes, count] : known.blocks[b].*part)
          EXPECT_NEAR((expected.blocks[b].*part).at(axes), count * (1 - kLawError), kUseful * count);
    }
  }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, LawTest,
                         testing::Values(LawCase{"llama-3-8b"}, LawCase{"gpt-oss-20b"}, LawCase{"deepseek-v2-lite"},
                                         LawCase{"t5-large"}, LawCase{"gemma-2-9b"}, LawCase{"llava-1.5-7b"},
                                         LawCase{"phi-4", 40, 5120}, LawCase{"mixtral-8x7b-v0.1", 64, 2048, 4},
                                         LawCase{"mixtral-8x7b-v0.1", 64, 2048, {}, 2},
                                         LawCase{"deepseek-v2-lite", 512, 2048, {}, 100}),
                         [](const auto &info) {
                           std::string name = info.param.example;
                           if (info.param.imbalance > 1)
                             name += "_loaded";
                           if (info.param.devices != 64)
                             name += std::to_string(info.param.devices);
                           std::ranges::replace_if(name, [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

// A family's facts are of a microbatch that no other of it takes less time than, for a sample.
TEST(Law, OfFamilies) {
  LayoutOptions options = gpuOptions(64, 2048);
  options.memory = "100TB", options.zero = 1;
  const AskedModel model("mixtral-8x7b-v0.1", options, 32);
  ShapesOf all(model);
  const auto secondsOf = [](const ShapeFacts &facts, int64_t mbs) {
    double seconds = 0;
    for (const size_t block : facts.chain)
      seconds += facts.blocks[block].all;
    return seconds / double(mbs);
  };
  int compared = 0;
  for (int64_t family = 0; family < all.shapes.families(); family += 7)
    if (const auto large = all.shapes.factsOfFamily(family))
      for (const int64_t shape : all.shapes.family(family)) {
        const auto facts = all.shapes.facts(shape);
        ASSERT_TRUE(facts.isOk());
        EXPECT_LE(secondsOf(large->first, large->second),
                  secondsOf(**facts, all.shapes.sizesOf(shape).mbs) * (1 + kLawError));
        ++compared;
      }
  EXPECT_GT(compared, 0);
}

// Once enough shapes of a pattern are compiled, the policies of the others follow.
TEST(Law, OfPolicies) {
  for (const char *example : {"llama-3-8b", "deepseek-v2-lite"}) {
    LayoutOptions options = gpuOptions(64, 2048);
    options.memory = "100TB", options.zero = 1, options.pp = 1, options.vpp = 1;
    const AskedModel model(example, options, 64);
    ShapesOf all(model);
    int compared = 0;
    for (int64_t shape = 0; shape < all.shapes.count() && compared < 4; ++shape) {
      const auto byLaw = all.shapes.facts(shape);
      if (!byLaw.isOk() || all.shapes.isCompiled(shape))
        continue;
      SCOPED_TRACE(frontend::flagsOf(all.options[size_t(shape)]));
      const ShapeFacts expected = **byLaw;
      ASSERT_TRUE(all.shapes.blocks(shape, all.options[size_t(shape)]).isOk());
      EXPECT_EQ(all.shapes.contradicted(), "");
      if (expected.policies.empty())
        continue;
      ++compared;
      const ShapeFacts &known = **all.shapes.facts(shape);
      ASSERT_EQ(expected.policies.size(), known.policies.size());
      for (size_t b = 0; b < known.policies.size(); ++b) {
        ASSERT_EQ(expected.policies[b].size(), known.policies[b].size());
        for (size_t p = 0; p < known.policies[b].size(); ++p) {
          const PolicyFacts &law = expected.policies[b][p], &is = known.policies[b][p];
          EXPECT_NEAR(law.seconds, is.seconds * (1 - kLawError), kUseful * is.seconds);
          EXPECT_NEAR(double(law.kept), double(is.kept) * (1 - kKeptError), kUseful * double(is.kept));
        }
      }
    }
    EXPECT_GT(compared, 0) << example;
  }
}

// Without a law each shape is compiled, and has facts of which those by the law are bounds.
TEST(Law, IsNotNeeded) {
  LayoutOptions options = gpuOptions(16, 1024);
  options.memory = "100TB", options.zero = 1, options.pp = 1, options.cp = 1;
  const AskedModel model("qwen3-0.6b", options, 8);
  ShapesOf with(model);
  std::set<std::string> patterns;
  ASSERT_TRUE(with.shapes.facts(0).isOk());
  for (const std::string &pattern : with.shapes.patterns())
    patterns.insert(pattern);
  ShapesOf without(model, patterns);
  for (int64_t shape = 0; shape < with.shapes.count(); shape += 5) {
    const auto facts = without.shapes.facts(shape);
    ASSERT_TRUE(facts.isOk());
    EXPECT_TRUE(without.shapes.isCompiled(shape));
    EXPECT_TRUE(agree(**with.shapes.facts(shape), **facts));
  }
}
