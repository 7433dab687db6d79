// Two stacks in one plan, made by hand: whose a parameter is, and how many positions of a sample meet it.
#include "plan/cost/ParameterBindings.h"
#include "plan/cost/ModelFlops.h"
#include "plan/cost/PlanFacts.h"

#include "test/plan/SmallPlan.h"
#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::cost;
using plan::Plan;
using plan::Task;

namespace {

constexpr int64_t kEncoder = 6, kDecoder = 4; // positions; batches of 1

// Values lie from byte 0 on, each matrix 2 x 2 = 16 bytes. Two stages, each with one half of a chain:
//   stage 0   embed(table)  layer 0 (w at 16)  layer 1 (w at 32)
//   stage 1   layer 2 (w at 16)  bridge(table, projector at 32)  layer 0 (q, k at 48, 64)  layer 1 (q, k at 80, 96)
//             head(table)
// Both stacks have numbers of their own; the bridge reads the decoder's tokens.
class Builder {
public:
  Builder() {
    plan_ = plan::makeSmallPlan();
    plan_.mesh.axes = {{"pp", 2, plan::AxisRole::stage}, {"tp", 2}};
    plan_.mesh.named = {{"pp", {"pp"}}, {"tp", {"tp"}}};
    plan_.sequenceLength = kDecoder;
    plan_.encoderLength = kEncoder;
    plan_.globalBatchSize = 1;
    plan_.vocabulary = 100;
    plan_.parameters.clear();
    plan_.programs = {program("embed", {}), program("layer", {kEncoder}), program("bridge", {0, kEncoder}),
                      program("layer of decoder", {kDecoder, kEncoder}), program("head", {0})};
    setStage(0, 48,
             {{.program = 0, .segments = {tokens(0), at(0)}},
              {.program = 1, .instanceStride = 1, .segments = {at(1024), at(16, 16)}}},
             {{1, 2, 2}});
    setStage(1, 112,
             {{.program = 1, .instance = 2, .segments = {at(1024), at(16)}},
              {.program = 2, .segments = {tokens(0), at(0), at(32)}},
              {.program = 3, .instanceStride = 1, .segments = {at(1024), at(48, 32), at(64, 32)}},
              {.program = 4, .segments = {at(1024), at(0)}}},
             {{2, 3, 2}});
    plan_.stages[0].inputs[0].ofEncoder = true;
    add("table", {{0, 0, 0}, {1, 0, 0}});
    add("encoder.{}.w", {{0, 0, 4, 0, 2, 4}, {1, 0, 4, 2}}, kEncoder);
    add("projector", {{1, 0, 8}}, kEncoder);
    add("h.{}.q", {{1, 0, 12, 0, 2, 8}});
    add("h.{}.k", {{1, 0, 16, 0, 2, 8}}, kEncoder);
  }
  Plan take() { return std::move(plan_); }

private:
  static plan::Binding at(int64_t offset, int64_t stride = 0) { return {-1, offset, stride}; }
  static plan::Binding tokens(int64_t slot) { return {slot, 0}; }

  // A product of so many rows with each matrix, or none.
  static plan::Program program(const std::string &name, const std::vector<int64_t> &rows) {
    plan::Program program{.name = name, .segments = {"x"}, .segmentBytes = {1024}};
    for (int64_t m : rows) {
      const auto segment = std::ssize(program.segments);
      program.segments.push_back("w");
      program.segmentBytes.push_back(16);
      if (m > 0)
        program.instructions.push_back(
            {plan::Gemm{.m = m, .n = 2, .k = 2}, {{0, 0}, {segment, 0}, {0, 512}}, "product"});
    }
    if (rows.empty())
      program.segments.push_back("table"), program.segmentBytes.push_back(16);
    return program;
  }

  void setStage(int64_t number, int64_t bytes, std::vector<plan::Call> calls, std::vector<plan::Repeat> repeats) {
    plan::StagePlan &stage = plan_.stages[number];
    stage.buckets = {{.name = "all",
                      .elements = bytes / 4,
                      .states = {{"value", plan::StateRole::value, plan::DType::f32, false, 0}}}};
    stage.inputs = {{.kind = plan::Input::Kind::tokens, .ring = 2}};
    stage.chunks[0].slots = {2};
    stage.chunks[0].calls = std::move(calls);
    stage.chunks[0].repeats = std::move(repeats);
  }

  void add(const std::string &name, std::vector<plan::Parameter::Place> places, int64_t positions = 0) {
    plan::Parameter parameter{.name = name, .tensor = name, .fileShape = {2, 4}, .grouping = {1, 1}};
    parameter.ofEncoder = name.starts_with("encoder");
    parameter.positions = positions;
    parameter.dims = {{"a", 2, 2, {}}, {"b", 4, 4, {"tp"}}}; // a rank has 2 x 2
    parameter.places = std::move(places);
    plan_.parameters.push_back(std::move(parameter));
  }

  Plan plan_;
};

// 8 elements each; one table, 3 layers and 2.
TEST(ParameterBindings, ModelFlopsCountThePositionsOfEach) {
  EXPECT_DOUBLE_EQ(modelFlops(Builder().take()), 6 * 8 * (kDecoder * (1 + 2) + kEncoder * (3 + 1 + 2)));
}

TEST(ParameterBindings, RangesOfStacksOnStages) {
  const PlanFacts facts = factsOf(Builder().take());
  EXPECT_EQ(facts.stages[0].encoderLayers, (std::vector<LayerRange>{{0, 2}}));
  EXPECT_TRUE(facts.stages[0].layers.empty());
  EXPECT_EQ(facts.stages[1].encoderLayers, (std::vector<LayerRange>{{2, 3}}));
  EXPECT_EQ(facts.stages[1].layers, (std::vector<LayerRange>{{0, 2}}));
}

TEST(BoundRange, Contains) {
  const BoundRange down{100, -16, 3};
  EXPECT_TRUE(down.contains(100) && down.contains(84) && down.contains(68));
  EXPECT_FALSE(down.contains(52) || down.contains(116) || down.contains(90));
  EXPECT_FALSE((BoundRange{100, 0, 3}.contains(116)));
}

} // namespace
