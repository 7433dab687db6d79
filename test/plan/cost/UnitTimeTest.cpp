#include "plan/cost/UnitTime.h"

#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::cost;

namespace {

enum { kGather, kLayer };
constexpr auto kData = static_cast<size_t>(plan::AxisRole::data);

// Two layers, whose values are gathered at 0 and at 64 of slices behind them: in the order of use, or the second ahead of the first.
plan::Plan planOfLayers(bool ahead) {
  plan::Plan plan;
  plan.target = plan::Target::cuda;
  plan.programs = {{.name = "gather", .segments = {"slice", "values"}, .segmentBytes = {32, 64}},
                   {.name = "layer", .segments = {"values", "frame"}, .segmentBytes = {64, 512}, .frame = 1}};
  plan::StagePlan &stage = plan.stages.emplace_back();
  stage.regions = {{"units", 0, 128}, {"parameters", 128, 64}};
  plan::Chunk &chunk = stage.chunks.emplace_back();
  chunk.task = plan::Task::forward;
  chunk.slots = {0};
  plan.programs[kLayer].segments.push_back("x"), plan.programs[kLayer].segmentBytes.push_back(8);
  const auto gather = [](int64_t layer) {
    return plan::Call{kGather, layer, 0, {{-1, 128 + 32 * layer}, {-1, 64 * layer}}};
  };
  const auto compute = [](int64_t layer) { return plan::Call{kLayer, layer, 0, {{-1, 64 * layer}, {-1, 0}, {0, 0}}}; };
  chunk.calls = {gather(0), gather(1), compute(0), compute(1)};
  if (!ahead)
    std::swap(chunk.calls[1], chunk.calls[2]);
  return plan;
}

std::vector<ProgramTime> times() {
  std::vector<ProgramTime> programs(2);
  programs[kGather].exposed[kData] = 4;
  programs[kLayer].products = 5;
  programs[kLayer].hidden[0] = 2; // its own collectives
  return programs;
}

TEST(UnitTime, ALayerHidesTheGatherOfTheNext) {
  const plan::Plan plan = planOfLayers(true);
  const ProgramTime change = hiddenUnits(plan, plan.stages[0], plan.stages[0].chunks[0], times());
  EXPECT_EQ(change.exposed[kData], -3); // 2 of 5 s are taken
  EXPECT_EQ(change.hidden[kData], 3);
  EXPECT_EQ(change.compute(), 0);
}

TEST(UnitTime, WhatIsReadNextIsExposed) {
  const plan::Plan plan = planOfLayers(false);
  EXPECT_EQ(hiddenUnits(plan, plan.stages[0], plan.stages[0].chunks[0], times()).seconds(), 0);
}

TEST(UnitTime, OnCpusNothingIsHidden) {
  plan::Plan plan = planOfLayers(true);
  plan.target = plan::Target::cpu;
  EXPECT_EQ(hiddenUnits(plan, plan.stages[0], plan.stages[0].chunks[0], times()).seconds(), 0);
}

} // namespace
