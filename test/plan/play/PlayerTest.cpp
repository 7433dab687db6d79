// The player of lists with repeats against the simulation of every step, over all rows of the table with random times.
#include "plan/play/Player.h"

#include "plan/Expand.h"
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

// --- Chains made at random --------------------------------------------------------------------------------------

// Stages that pass messages on, each in `perIteration` runs of one iteration, with so many slots for what it receives and sends:
// faster stages before slow ones are held up by these. Some stages have a run on the stream of gradients behind each run,
// some chains end in a meeting, and some in a message that takes long.
class RandomChain {
public:
  explicit RandomChain(uint64_t seed) : random_(seed), stages_(number(2, 5)), messages_(4 * number(1, 40)) {}

  PlayLists make() {
    PlayLists lists;
    lists.groups.emplace_back();
    const bool meets = number(0, 1) == 1;
    for (int64_t stage = 0; stage < stages_; ++stage) {
      lists.groups[0].push_back(stage);
      lists.stages.push_back(listOf(stage));
      if (meets)
        lists.stages.back().steps.push_back(run(TaskKind::reduce, {}));
    }
    return lists;
  }

private:
  int64_t number(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  // Few different times, so that stages are often as fast as each other.
  double seconds() {
    return number(0, 1) == 0 ? double(number(1, 3)) : std::uniform_real_distribution<double>(0.5, 3)(random_);
  }

  PlayStep run(TaskKind kind, std::vector<int64_t> waits) {
    PlayStep step;
    step.task.kind = kind;
    step.seconds = seconds();
    step.waits = std::move(waits);
    if (kind == TaskKind::reduce)
      step.meetings = {0};
    return step;
  }
  PlayStep message(Step::Kind kind, int64_t peer, int64_t source, std::vector<int64_t> waits) {
    PlayStep step;
    step.kind = kind;
    step.peer = peer;
    step.seconds = transfer_.try_emplace(source, number(0, 4) == 0 ? 30 : seconds() / 2).first->second;
    step.waits = std::move(waits);
    return step;
  }

  // Before the repeat the list has as many items as waits reach back.
  PlayList listOf(int64_t stage) {
    std::vector<PlayStep> item;
    const bool hasGradients = number(0, 3) == 0;
    const int64_t steps = 1 + (stage > 0) + (stage + 1 < stages_) + hasGradients, slots = number(1, 3);
    if (stage > 0)
      item.push_back(message(Step::Kind::recv, stage - 1, stage - 1, {}));
    item.push_back(run(TaskKind::forward, stage > 0 ? std::vector<int64_t>{1} : std::vector<int64_t>{}));
    if (stage + 1 < stages_)
      item.push_back(message(Step::Kind::send, stage + 1, stage, {1}));
    if (hasGradients)
      item.push_back(run(TaskKind::gradients, {steps - (stage > 0) - 1}));
    PlayList list;
    const int64_t first = number(slots, 4), perIteration = number(1, 2) * 2;
    for (int64_t i = 0; i < first; ++i)
      list.steps.insert(list.steps.end(), item.begin(), item.end());
    if (stage > 0) // its slot is free when the run that read it is done
      item.front().waits = {slots * steps - 1};
    if (stage + 1 < stages_ && number(0, 1) == 0) // the run writes where a message was sent from
      item[stage > 0].waits.push_back(slots * steps - 1);
    const int64_t left = messages_ + 8 - first, count = left / perIteration;
    const auto begin = std::ssize(list.steps);
    for (int64_t i = 0; i < perIteration; ++i)
      list.steps.insert(list.steps.end(), item.begin(), item.end());
    if (count > 1)
      list.repeats.push_back({begin, std::ssize(list.steps), count});
    for (int64_t i = std::max<int64_t>(count, 1) * perIteration; i < left; ++i)
      list.steps.insert(list.steps.end(), item.begin(), item.end());
    return list;
  }

  std::mt19937_64 random_;
  int64_t stages_, messages_;
  std::map<int64_t, double> transfer_; // by source
};

PlayLists unrolled(const PlayLists &lists) {
  PlayLists out{{}, lists.groups};
  for (const PlayList &list : lists.stages) {
    out.stages.emplace_back();
    plan::forEachRun(list.steps.size(), list.repeats,
                     [&](int64_t item, int64_t) { out.stages.back().steps.push_back(list.steps[item]); });
  }
  return out;
}

TEST(Player, RandomChains) {
  int64_t passedOver = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const PlayLists lists = RandomChain(seed).make(), whole = unrolled(lists);
    const Simulated expected = simulate(whole);
    const Played found = play(lists);
    ASSERT_TRUE(found.stuck.empty()) << seed;
    ASSERT_NEAR(found.makespan, expected.makespan, 1e-9 * expected.makespan) << seed;
    passedOver += 3 * found.rounds < std::ssize(whole.stages[0].steps) / 4;
  }
  EXPECT_GT(passedOver, 200);
}

// Two stages that wait for each other's message first.
TEST(Player, StagesThatWaitForEachOther) {
  PlayLists lists;
  for (int64_t stage : {0, 1}) {
    PlayStep receive, send;
    receive.kind = Step::Kind::recv, send.kind = Step::Kind::send;
    receive.peer = send.peer = 1 - stage;
    send.waits = {1};
    lists.stages.push_back({{receive, send}, {}});
  }
  const Played played = play(lists);
  ASSERT_EQ(played.stuck.size(), 2u);
  for (size_t stage : {0, 1}) {
    EXPECT_EQ(played.stuck[stage].item, 1);
    EXPECT_EQ(played.stuck[stage].wait, 0);
    EXPECT_EQ(played.stuck[stage].waitsFor, int64_t(1 - stage));
  }
}

} // namespace
} // namespace mgc::schedule
