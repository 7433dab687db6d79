// How much slower products are concurrently with the gradients' stream, worked out on paper.
#include "plan/cost/GradientTime.h"

#include <gtest/gtest.h>
#include <random>

using namespace mgc;
using namespace mgc::cost;
using plan::ScheduleStep;
using plan::Task;

namespace {

enum Chunks : int64_t { kBackward, kGradients, kReduce, kForward };

ScheduleStep run(int64_t chunk) { return {.chunk = chunk}; }
ScheduleStep partOf(int64_t chunk, int64_t first) { return {.chunk = chunk, .firstCall = first, .callCount = 1}; }

plan::StagePlan stageOf(std::vector<ScheduleStep> steps) {
  plan::StagePlan stage;
  stage.chunks = {{.task = Task::backward}, {.task = Task::gradients}, {.task = Task::reduce}, {.task = Task::forward}};
  stage.schedule = std::move(steps);
  return stage;
}
// Products and row kernels of backward, half of them of forward; the gradients' collectives.
std::vector<RunTime> timesOf(double products, double rows, double gradients) {
  std::vector<RunTime> times(4);
  times[kBackward].layers.products = products / 2, times[kBackward].layers.attention = products / 2;
  times[kBackward].layers.rows = rows;
  times[kForward] = times[kBackward] * 0.5;
  times[kGradients].layers.exposed[size_t(plan::AxisRole::data)] = gradients;
  return times;
}
using Seconds = std::vector<double>;

// Gradients of 6 s. Of a backward of 4 s of products and 1 s of rows the products take 8 s with half of the units, of which 6 beside
// the gradients: 3 s more.
TEST(GradientTime, ProductsTakeLonger) {
  const plan::StagePlan stage = stageOf({run(kBackward), run(kGradients), run(kBackward), run(kForward), run(kReduce)});
  EXPECT_EQ(slowedByGradients(stage, timesOf(4, 1, 6), 0.5), (Seconds{0, 0, 3, 0, 0}));
}
// Products have 8 of 12 s, and 1 s goes along with the rows; the other 3 are beside the forward's 2 s of products.
TEST(GradientTime, WhatIsLeftGoesOnBesideTheNextRun) {
  const plan::StagePlan stage = stageOf({run(kBackward), run(kGradients), run(kBackward), run(kForward), run(kReduce)});
  EXPECT_EQ(slowedByGradients(stage, timesOf(4, 1, 12), 0.5), (Seconds{0, 0, 4, 1.5, 0}));
  EXPECT_EQ(slowedByGradients(stage, timesOf(4, 1, 100), 0.5), (Seconds{0, 0, 4, 2, 0}));
}
// Two parts of each: 3 s of gradients behind each part of 2 s of products.
TEST(GradientTime, ChunksInParts) {
  const plan::StagePlan stage = stageOf({partOf(kBackward, 0), partOf(kGradients, 0), partOf(kBackward, 1),
                                         partOf(kGradients, 1), run(kReduce), run(kForward)});
  EXPECT_EQ(slowedByGradients(stage, timesOf(4, 1, 6), 0.25), (Seconds{0, 0, 2 / 0.75 * 0.25, 0, 0, 0}));
}
// Four runs of a step in a repeat share what they take longer.
TEST(GradientTime, RunsOfARepeat) {
  plan::StagePlan stage = stageOf({run(kGradients), run(kBackward), run(kReduce)});
  stage.repeats = {{1, 2, 4}};
  EXPECT_EQ(slowedByGradients(stage, timesOf(4, 1, 6), 0.5), (Seconds{0, 0.75, 0}));
}
TEST(GradientTime, StreamsThatTakeNothing) {
  const plan::StagePlan stage = stageOf({run(kBackward), run(kGradients), run(kBackward), run(kReduce)});
  EXPECT_EQ(slowedByGradients(stage, timesOf(4, 1, 6), 0), (Seconds{0, 0, 0, 0}));
}

// Whatever takes longer, all runs together do not get shorter.
TEST(GradientTime, MoreIsNeverFaster) {
  std::mt19937 random(7);
  const auto below = [&](uint32_t limit) { return double(random() % limit); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<ScheduleStep> steps;
    for (double left = 2 + below(10); left > 0; --left)
      steps.push_back(run(std::array{kBackward, kGradients, kForward}[random() % 3]));
    const plan::StagePlan stage = stageOf(steps);
    const auto total = [&](double products, double rows, double gradients, double taken) {
      const std::vector<RunTime> times = timesOf(products, rows, gradients);
      const std::vector<double> slowed = slowedByGradients(stage, times, taken);
      double seconds = 0;
      for (size_t i = 0; i < steps.size(); ++i)
        seconds += slowed[i] + (steps[i].chunk == kGradients ? 0 : times[steps[i].chunk].all().seconds());
      return seconds;
    };
    const double products = below(10), rows = below(10), gradients = below(40), taken = below(9) / 10;
    const double seconds = total(products, rows, gradients, taken) - 1e-9;
    EXPECT_LE(seconds, total(products + 1, rows, gradients, taken));
    EXPECT_LE(seconds, total(products, rows + 1, gradients, taken));
    EXPECT_LE(seconds, total(products, rows, gradients + 1, taken));
    EXPECT_LE(seconds, total(products, rows, gradients, taken + 0.05));
  }
}

} // namespace
