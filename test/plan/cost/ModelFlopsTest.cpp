// Model FLOPs of the plan made by hand, and of loops of layers, worked out on paper.
#include "plan/cost/ModelFlops.h"

#include "test/plan/SmallPlan.h"
#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::cost;
using plan::Plan;
using plan::Task;

namespace {

// 64 parameters, 4 sequences of 4 tokens. Attention of forward has 64 FLOPs; 2 microbatches, 8 ranks of 2 stages.
constexpr double kProducts = 2 * 64 * 16, kAttention = 64 * 2 * 8;

Plan withoutAttention() {
  Plan plan = plan::makeSmallPlan();
  plan.programs[0].instructions.resize(plan::kAttention);
  return plan;
}

TEST(ModelFlops, AttentionCountsThreeTimes) {
  EXPECT_DOUBLE_EQ(modelFlops(plan::makeSmallPlan()), 3 * kProducts + 3 * kAttention);
}

// A second matrix of the vocabulary is a table that is only looked up.
TEST(ModelFlops, VocabularyCountsOnce) {
  Plan plan = withoutAttention();
  plan.parameters.push_back(plan.parameters[0]);
  EXPECT_DOUBLE_EQ(modelFlops(plan), 3 * kProducts);
}

// A matrix that has as many features as there are tokens is none of the vocabulary.
TEST(ModelFlops, DimensionsAreKnownByTheirNames) {
  Plan plan = withoutAttention();
  plan::Parameter features = plan.parameters[0];
  features.dims[0].name = "f";
  plan.parameters.push_back(features);
  EXPECT_DOUBLE_EQ(modelFlops(plan), 3 * (kProducts + 2 * 7 * 4 * 16));
}

// The table, which comes first, is frozen; the head is not.
TEST(ModelFlops, OfTwoMatricesTheHeadCounts) {
  Plan plan = withoutAttention();
  plan.parameters.push_back(plan.parameters[0]);
  plan.parameters[0].places = {{0, 2, 0}};
  plan.stages[0].buckets.push_back({.name = "frozen",
                                    .elements = 32,
                                    .use = plan::BucketUse::frozen,
                                    .states = {{"value", plan::StateRole::value, plan::DType::f32, false, 0}}});
  EXPECT_DOUBLE_EQ(modelFlops(plan), 3 * kProducts);
}

// A token has 2 of 8 experts.
TEST(ModelFlops, ActiveParametersCount) {
  Plan plan = withoutAttention();
  for (plan::Parameter &parameter : plan.parameters)
    parameter.activeShare = 2.0 / 8;
  EXPECT_DOUBLE_EQ(modelFlops(plan), 3 * kProducts * 2 / 8);
}

// --- Loops -------------------------------------------------------------------------------------------------------

// Both stages have `layers` layers, each with attention forward, and a backward of the last `differentiated` of them:
//   forward  0 1 2     instance 0, stride 1
//   backward 2 1       instance 2, stride -1
Plan loops(int64_t layers, int64_t differentiated) {
  Plan plan = plan::makeSmallPlan();
  plan::Program backward = plan.programs[0];
  backward.name = "bwd of block"; // names say nothing
  std::erase_if(plan.programs[0].instructions, [](const plan::Instruction &instruction) {
    const auto *attention = std::get_if<plan::Attention>(&instruction.body);
    return attention && attention->backward;
  });
  plan.programs.push_back(backward); // with attention of forward, which it computes again
  for (plan::StagePlan &stage : plan.stages) {
    plan::Call &call = stage.chunks[0].calls[0];
    call.instance = 0;
    call.instanceStride = 1;
    stage.chunks[0].repeats = {{0, 1, layers}};
    stage.chunks.push_back({.task = Task::backward, .slots = {0}, .calls = {call}});
    plan::Chunk &chunk = stage.chunks.back();
    chunk.calls[0].program = 2;
    chunk.calls[0].instance = layers - 1;
    chunk.calls[0].instanceStride = -1;
    chunk.repeats = {{0, 1, differentiated}};
    stage.schedule.insert(stage.schedule.begin() + 3, {.chunk = 2, .microbatch = 0, .microbatchStride = 1});
    stage.repeats = {{0, 4, 2}};
  }
  return plan;
}

TEST(ModelFlops, AttentionOfLoopsCountsThreeTimes) {
  for (int64_t layers : {1, 2, 3, 8})
    EXPECT_DOUBLE_EQ(modelFlops(loops(layers, layers)), 3 * kProducts + 3 * double(layers) * kAttention);
}

// Applies to the layers before the first that is trained.
TEST(ModelFlops, AttentionWithoutBackwardCountsOnce) {
  EXPECT_DOUBLE_EQ(modelFlops(loops(3, 2)), 3 * kProducts + (3 * 2 + 1) * kAttention);
}

// The same with a frozen vector of 4 in each layer of stage 0, at bytes 1024, 1040 and on, which backward reads from the last
// layer on.
double flopsOfFrozen(int64_t layers, int64_t differentiated) {
  Plan plan = loops(layers, differentiated);
  const double before = modelFlops(plan);
  plan::StagePlan &stage = plan.stages[0];
  stage.buckets.push_back({.name = "frozen",
                           .elements = 4 * layers,
                           .use = plan::BucketUse::frozen,
                           .states = {{"value", plan::StateRole::value, plan::DType::f32, false, 1024}}});
  plan::Parameter vector = plan.parameters.back();
  vector.name = vector.tensor = "h.{}.norm.weight";
  vector.places = {{0, 2, 0, 0, layers, 4}};
  plan.parameters.push_back(vector);
  stage.chunks[0].calls[0].segments.push_back({-1, 1024, 16});
  stage.chunks[2].calls[0].segments.push_back({-1, 1024 + 16 * (layers - 1), -16});
  return (modelFlops(plan) - before) / (4 * 16); // per element and token
}

TEST(ModelFlops, FrozenLayersCountWhatAGradientPasses) {
  for (int64_t layers : {1, 2, 3, 8})
    EXPECT_DOUBLE_EQ(flopsOfFrozen(layers, layers), 4 * layers);
  EXPECT_DOUBLE_EQ(flopsOfFrozen(8, 3), 4 * 3 + 2 * 5);
}

} // namespace
