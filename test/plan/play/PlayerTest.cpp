// The player of lists with repeats against the simulation of every step, over all rows of the table with random times.
#include "plan/play/Player.h"

#include "plan/play/PlanLists.h"
#include "plan/play/SolutionLists.h"
#include "test/Samples.h"
#include "test/compiler/schedule/Sweep.h"
#include "test/plan/play/Simulation.h"

#include <gtest/gtest.h>
#include <random>

namespace mgc::schedule {
namespace {

// A problem, its plan with repeats, and seconds for both.
struct PlayCase {
  PlayCase(Problem from, uint64_t seed) : problem(std::move(from)), random(seed) {
    const Shape &shape = problem.shape;
    for (int64_t chunk = 0; chunk < shape.chunks(); ++chunk) {
      costs.chunks.push_back({seconds(), seconds(), seconds(), seconds(), seconds()});
      costs.firsts[{TaskKind::forward, chunk}] = seconds();
    }
    costs.begin = seconds(), costs.reduce = seconds(), costs.update = seconds();
    costs.messageLatency = seconds() / 4, costs.secondsPerByte = seconds() / 1000;
    if (problem.schedule == "dualpipev")
      for (int64_t chunk = 0; chunk < shape.chunks(); ++chunk)
        costs.pairs[{std::pair(TaskKind::forward, chunk), std::pair(TaskKind::backward, shape.chunks() - 1 - chunk)}] =
            seconds();
  }

  // Tasks of a chunk take as long on all stages.
  void makeEven() {
    costs.chunks.assign(costs.chunks.size(), costs.chunks.front());
    costs.firsts.clear();
  }

  double seconds() { return std::uniform_real_distribution<double>(0.5, 2)(random); }

  double secondsOf(int64_t stage, const plan::Chunk &chunk) const {
    const ScheduledTask task = taskOf(chunk, 0);
    double ChunkCost::*field = costOf(task.kind);
    if (!field)
      return costs.*stepCostOf(task.kind);
    const int64_t global = problem.shape.globalChunk(stage, task.chunk);
    const auto first = costs.firsts.find({task.kind, global});
    return task.first && first != costs.firsts.end() ? first->second : costs.chunks[global].*field;
  }

  PlayCosts playCosts(const plan::Plan &plan) const {
    PlayCosts out{{}, costs.messageLatency, costs.secondsPerByte};
    for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
      const std::vector<plan::Chunk> &chunks = plan.stages[stage].chunks;
      out.chunks.emplace_back();
      for (const plan::Chunk &chunk : chunks)
        out.chunks.back().push_back(secondsOf(int64_t(stage), chunk));
      for (size_t a = 0; a < chunks.size(); ++a)
        for (size_t b = 0; b < chunks.size(); ++b) {
          const auto key = [&](size_t chunk) {
            return std::pair(chunks[chunk].task, problem.shape.globalChunk(int64_t(stage), chunks[chunk].virtualStage));
          };
          if (const auto pair = costs.pairs.find({key(a), key(b)}); pair != costs.pairs.end())
            out.pairs[{int64_t(stage), int64_t(a), int64_t(b)}] = pair->second;
        }
    }
    return out;
  }

  plan::Plan plan() const { return provablePlan(*generatePeriodic(problem)); }
  PlayLists lists() const {
    const plan::Plan made = plan();
    return listsOf(made, playCosts(made));
  }

  Problem problem;
  std::mt19937_64 random;
  Costs costs;
};

void expectClose(double found, double expected, const std::string &what) {
  EXPECT_NEAR(found, expected, 1e-9 * expected) << what;
}

void expectSame(const PlayCase &one) {
  const std::string what = nameOf(one.problem);
  const Simulated expected = simulate(listsOf(*generate(one.problem), one.costs));
  const Played played = play(one.lists());
  ASSERT_TRUE(played.stuck.empty()) << what;
  expectClose(played.makespan, expected.makespan, what);
  for (size_t stage = 0; stage < expected.busy.size(); ++stage)
    expectClose(played.busy[stage], expected.busy[stage], what);
}

template <typename Visit> void sweepRows(int64_t mostMicrobatches, Visit &&visit) {
  uint64_t seed = 0;
  for (const ScheduleRow &row : schedules())
    for (int64_t pp = 1; pp <= 6; ++pp)
      for (int64_t v = 1; v <= 3; ++v)
        for (int64_t m = 1; m <= mostMicrobatches; m += row.byTime ? 13 : 1)
          if (takes(row, v) && (!row.byTime || pp <= 2))
            if (isSampled(int64_t(++seed), 5))
              visit(PlayCase(uniformProblem(row.name, {pp, v, m}, kSizes), seed));
}

TEST(Player, EndsWhenTheSimulationOfEachStepDoes) {
  sweepRows(40, [](PlayCase one) { expectSame(one); });
}

TEST(Player, PartsOfTasksAndFirstMicrobatches) {
  sweepRows(24, [](PlayCase one) {
    if (one.problem.shape.microbatches % 5 != 1)
      return;
    one.problem = inParts(one.problem);
    one.problem.opened.assign(one.problem.shape.stages, std::vector<bool>(one.problem.shape.virtualStages, true));
    expectSame(one);
  });
}

// Lists of many microbatches, with equal stages and with a slow one.
TEST(Player, RoundsThatRepeatAreAddedUp) {
  for (const char *name : {"1f1b", "interleaved", "zb-h1", "zb-v", "v-half", "dualpipev"})
    for (bool isEven : {false, true}) {
      const int64_t v = std::string_view(name) == "1f1b" || std::string_view(name) == "zb-h1" ? 1 : 2;
      for (int64_t m : {400, 1200}) {
        PlayCase one(uniformProblem(name, {4, v, m}, kSizes), 7);
        if (isEven)
          one.makeEven();
        expectSame(one);
        EXPECT_LT(play(one.lists()).rounds, 100) << name << " " << isEven << " " << m;
      }
    }
}

TEST(Player, TimesOfEachStep) {
  for (const char *name : {"1f1b", "gpipe", "dualpipev"})
    for (int64_t m : {1, 3, 30}) {
      const PlayCase one(inParts(uniformProblem(name, {4, std::string_view(name) == "dualpipev" ? 2 : 1, m}, kSizes)),
                         3);
      const Simulated expected = simulate(listsOf(*generate(one.problem), one.costs));
      const std::vector<StepTimes> found = timesOfSteps(one.lists());
      for (size_t stage = 0; stage < found.size(); ++stage) {
        ASSERT_EQ(found[stage].start.size(), expected.times[stage].start.size());
        for (size_t i = 0; i < found[stage].start.size(); ++i) {
          EXPECT_NEAR(found[stage].start[i], expected.times[stage].start[i], 1e-9);
          EXPECT_NEAR(found[stage].end[i], expected.times[stage].end[i], 1e-9);
          EXPECT_NEAR(found[stage].done[i], expected.times[stage].done[i], 1e-9);
        }
      }
    }
}

} // namespace
} // namespace mgc::schedule
