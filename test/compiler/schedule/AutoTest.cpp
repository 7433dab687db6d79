// The row auto against the other rows: at the memory of each, it is no slower; and against what others have published.
#include "compiler/schedule/AutoSchedule.h"
#include "compiler/schedule/OrderTiming.h"
#include "plan/play/Player.h"
#include "plan/play/SolutionLists.h"
#include "test/compiler/schedule/Sweep.h"

#include <cmath>
#include <ctime>
#include <gtest/gtest.h>

namespace mgc::schedule {
namespace {

// Times of one microbatch on a stage; chunks share them. uneven: stages differ by a fifth, and the last chunk has the head.
struct Workload {
  double forward = 1, input = 1, weight = 1, message = 0;
  bool uneven = false;
};

void setCosts(Problem &problem, const Workload &work) {
  const Shape &shape = problem.shape;
  const double v = double(shape.virtualStages);
  problem.messageSeconds = work.message;
  for (int64_t global = 0; global < shape.chunks(); ++global) {
    double f = work.uneven ? 1 + 0.05 * double(shape.stageOf(global) * 7 % 5) : 1;
    f *= work.uneven && global + 1 == shape.chunks() ? 1.4 : 1;
    problem.costs.push_back(
        {f * work.forward / v, f * (work.input + work.weight) / v, f * work.input / v, f * work.weight / v});
  }
}

Problem problemOf(const char *row, int64_t stages, int64_t chunks, int64_t microbatches, const Workload &work) {
  Problem problem = uniformProblem(row, {stages, chunks, microbatches}, kSizes);
  setCosts(problem, work);
  return problem;
}

double makespanOf(const Problem &problem) {
  Costs costs;
  costs.chunks = problem.costs;
  costs.messageLatency = problem.messageSeconds;
  Result<Solution> solution = generate(problem);
  EXPECT_TRUE(solution.isOk()) << solution.status().message();
  return solution.isOk() ? play(listsOf(*solution, costs)).makespan : 0;
}

constexpr Workload kWorkloads[] = {{}, {1000, 1050, 800, 60}, {10, 12, 9, 0, true}, {10, 12, 9, 2, true}};

// auto at the memory of the row: never more, and never slower.
void expectNoSlower(const ScheduleRow &row, int64_t stages, int64_t microbatches) {
  for (const Workload &work : kWorkloads)
    for (int64_t v = 1; v <= 2; ++v) {
      if (row.byTime || !takes(row, v))
        continue;
      const Problem fixed = problemOf(row.name, stages, v, microbatches, work);
      const int64_t peak = peakOf(row.orders(fixed));
      Problem planned = problemOf("auto", stages, v, microbatches, work);
      planned.memory = double(peak) / double(v * std::min(stages, microbatches));
      EXPECT_LE(peakOf(automatic(planned)), peak) << nameOf(fixed);
      EXPECT_LE(makespanOf(planned), makespanOf(fixed) * (1 + 1e-9)) << nameOf(fixed) << " message " << work.message;
    }
}

TEST(Auto, IsNoSlowerThanAnyRowAtItsMemory) {
  for (const ScheduleRow &row : schedules())
    for (auto [stages, microbatches] : {std::pair<int64_t, int64_t>{2, 2}, {3, 7}, {4, 16}, {6, 4}, {8, 12}})
      expectNoSlower(row, stages, microbatches);
}

// Minutes: --gtest_also_run_disabled_tests.
TEST(Auto, DISABLED_IsNoSlowerThanAnyRowAtItsMemoryAnywhere) {
  for (const ScheduleRow &row : schedules())
    for (int64_t stages = 2; stages <= 16; ++stages)
      for (int64_t microbatches : {2, 3, 5, 8, 13, 16, 24, 31, 48, 64})
        expectNoSlower(row, stages, microbatches);
}

TEST(Auto, StaysUnderItsCap) {
  for (int64_t stages = 1; stages <= 8; ++stages)
    for (int64_t v = 1; v <= 2; ++v)
      for (int64_t microbatches : {1, 2, 5, 12})
        for (double memory : {0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 1e9}) {
          Problem problem = problemOf("auto", stages, v, microbatches, kWorkloads[3]);
          problem.memory = memory;
          const std::vector<Order> orders = automatic(problem);
          EXPECT_LE(peakOf(orders), capOf(problem)) << nameOf(problem) << " memory " << memory;
          problem.orders = orders;
          Result<Solution> solution = generate(problem);
          ASSERT_TRUE(solution.isOk()) << nameOf(problem) << " " << solution.status().message();
          EXPECT_TRUE(prove(problem, *solution).isOk()) << nameOf(problem);
        }
}

TEST(Auto, TakesAnyCosts) {
  for (int64_t v = 1; v <= 2; ++v)
    for (double cost : {0.0, 1e-30, 1e30})
      for (double memory : {-1.0, double(NAN), 1.0, double(INFINITY)}) {
        Problem problem = problemOf("auto", 4, v, 6, {cost, 0, cost, cost});
        problem.memory = memory;
        Result<Solution> solution = generate(problem);
        ASSERT_TRUE(solution.isOk()) << solution.status().message();
        EXPECT_TRUE(prove(problem, *solution).isOk());
      }
}

TEST(Auto, MoreMemoryIsNeverSlower) {
  for (int64_t v = 1; v <= 2; ++v) {
    double before = INFINITY;
    for (double memory : {0.5, 1.0, 1.5, 2.0, 4.0}) {
      Problem problem = problemOf("auto", 6, v, 24, {});
      problem.memory = memory;
      const double makespan = makespanOf(problem);
      EXPECT_LE(makespan, before * (1 + 1e-9)) << v << " " << memory;
      before = makespan;
    }
  }
}

// zero-bubble's case: 32 stages, 256 microbatches. Published are 0.0595, 0.0058 (ZB-2p) and 0.0182 (ZB-V), as bubbles of the
// slowest stage alone and with activations that are lighter between I and W. Where they are live until the end of W none can
// be below the bounds here, which docs/adding-a-schedule.md derives.
TEST(Auto, PublishedCase) {
  struct Case {
    int64_t v;
    double memory;
    double whole, alone; // the most
  };
  const Workload work{1000, 1050, 800, 60};
  for (const auto &[v, memory, whole, alone] :
       {Case{1, 1.0, 0.05955, 0.05955}, {1, 2.0, 0.0432, 0.0227}, {2, 1.0, 0.0315, 0.0311}}) {
    Problem problem = problemOf("auto", 32, v, 256, work);
    problem.memory = memory;
    std::clock_t start = std::clock();
    const std::vector<Order> orders = automatic(problem);
    const double milliseconds = 1000.0 * double(std::clock() - start) / CLOCKS_PER_SEC;
    const TimedOrders found = timed(problem.shape, {problem.costs, problem.messageSeconds}, orders);
    const double busy = 256 * (work.forward + work.input + work.weight);
    std::printf("auto pp 32 v %ld M 256 memory %.1f: bubble %.4f, of the slowest stage alone %.4f; %.0f ms\n", long(v),
                memory, 1 - busy / found.makespan, 1 - busy / found.span, milliseconds);
    EXPECT_LE(1 - busy / found.makespan, whole);
    EXPECT_LE(1 - busy / found.span, alone);
  }
}

TEST(Auto, IsFast) {
  for (int64_t v = 1; v <= 2; ++v) {
    Problem problem = problemOf("auto", 16, v, 64, kWorkloads[1]);
    std::clock_t start = std::clock();
    const std::vector<Order> orders = automatic(problem);
    const double milliseconds = 1000.0 * double(std::clock() - start) / CLOCKS_PER_SEC;
    std::printf("auto pp 16 v %ld M 64: %.0f ms\n", long(v), milliseconds);
    EXPECT_LT(milliseconds, 2000); // far under 100 in an optimised build; sanitizers take more
  }
}

} // namespace
} // namespace mgc::schedule
