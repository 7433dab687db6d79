// The proof on repeats against a proof of every step that runs: both accept every schedule, and refuse the same mutants.
#include "plan/prove/ProvePlan.h"
#include "plan/prove/VerifyPlan.h"
#include "test/Samples.h"
#include "test/compiler/schedule/ProvablePlan.h"
#include "test/compiler/schedule/Sweep.h"
#include "test/plan/prove/VerifySchedule.h"

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>

namespace mgc::schedule {
namespace {

using plan::Plan;
using plan::ScheduleStep;

Plan planOf(const Problem &problem) {
  Result<PeriodicSolution> solution = generatePeriodic(problem);
  EXPECT_TRUE(solution.isOk()) << nameOf(problem) << ": " << solution.status().message();
  return provablePlan(*solution);
}

bool accepts(const Plan &plan) { return plan::provePlan(plan).isOk(); }

TEST(Proof, acceptsEverySchedule) {
  sweep(6, 3, 40, [](const ScheduleRow &, const Problem &problem) {
    if (const int64_t m = problem.shape.microbatches; m > 13 && m % 9 != problem.shape.stages % 9)
      return; // a sample
    const Plan plan = planOf(problem);
    Status status = plan::provePlan(plan);
    ASSERT_TRUE(status.isOk()) << nameOf(problem) << "\n" << status.message();
    status = verifySchedule(plan);
    ASSERT_TRUE(status.isOk()) << nameOf(problem) << ", step by step\n" << status.message();
  });
}

// 8,000 microbatches are proved in the time of a few dozen.
TEST(Proof, takesNoLongerForManyMicrobatches) {
  for (const char *row : {"1f1b", "zb-h1"}) {
    const Plan plan = planOf(uniformProblem(row, {8, 1, 8000}, kSizes));
    const auto begin = std::chrono::steady_clock::now();
    const Status status = plan::provePlan(plan);
    EXPECT_TRUE(status.isOk()) << row << "\n" << status.message();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2)) << row;
  }
}

// Calls visit(what) with the plan changed in one place at a time.
template <typename Visit> void mutate(Plan &plan, Visit visit) {
  const auto change = [&](auto &number, auto to, const std::string &what) {
    const auto old = std::exchange(number, to);
    visit(what);
    number = old;
  };
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    plan::StagePlan &stage = plan.stages[s];
    const std::string at = fmt::format("stage {}", s);
    for (size_t i = 0; i < stage.schedule.size(); ++i) {
      ScheduleStep &step = stage.schedule[i];
      const std::string here = fmt::format("{} step {}", at, i);
      for (size_t w = 0; w < step.waits.size(); ++w) {
        std::vector<int64_t> fewer = step.waits;
        fewer.erase(fewer.begin() + int64_t(w));
        change(step.waits, fewer, here + " without wait " + std::to_string(w));
      }
      const bool isAtRepeat = std::ranges::any_of(stage.repeats, [&](const plan::Repeat &repeat) {
        return repeat.begin == int64_t(i) || repeat.end == int64_t(i);
      });
      if (step.kind == ScheduleStep::Kind::run && !isAtRepeat) // there no run is paired in all iterations
        change(step.paired, !step.paired, here + (step.paired ? " not paired" : " paired"));
      change(step.microbatch, step.microbatch + 1, here + " microbatch + 1");
      if (step.callCount >= 0)
        change(step.firstCall, step.firstCall + 1, here + " first call + 1");
      if (step.microbatch >= 0)
        change(step.microbatchStride, step.microbatchStride + 1, here + " stride + 1");
      if (i + 1 < stage.schedule.size()) {
        std::swap(stage.schedule[i], stage.schedule[i + 1]);
        visit(here + " swapped with the next");
        std::swap(stage.schedule[i], stage.schedule[i + 1]);
      }
    }
    for (size_t i = 0; i < stage.repeats.size(); ++i)
      for (int64_t by : {-1, 1})
        change(stage.repeats[i].count, stage.repeats[i].count + by, fmt::format("{} repeat {} count {:+}", at, i, by));
    for (size_t i = 0; i < stage.rings.size(); ++i) {
      plan::Ring &ring = stage.rings[i];
      const std::string here = fmt::format("{} ring {} ({})", at, i, ring.name);
      for (plan::Ring::Turn &turn : ring.turns)
        if (turn.slots > 1)
          change(turn.slots, turn.slots - 1, here + " a slot less");
      change(ring.value, ring.value + 2, here + " value + 2");
      change(ring.offset, ring.offset + plan::kAlignment, here + " offset + 64");
    }
  }
}

// The proof on repeats refuses every mutant that the proof of every step refuses, and no more mutants than the proof on
// the same list without repeats.
TEST(Proof, agreesWithTheProofOfEveryStep) {
  int64_t number = 0, mutants = 0, refused = 0, morePrecise = 0;
  for (const ScheduleRow &row : schedules())
    for (auto [pp, m, isInParts] : {std::tuple<int64_t, int64_t, bool>(2, 9, false), {3, 5, true}, {4, 30, false}}) {
      const Problem problem = uniformProblem(row.name, {pp, row.minVirtualStages, m}, kSizes);
      Plan plan = planOf(isInParts ? inParts(problem) : problem);
      mutate(plan, [&](const std::string &what) {
        if (!isSampled(number++, 6))
          return;
        const bool onRepeats = accepts(plan);
        Plan flat = plan;
        std::ranges::transform(plan.stages, flat.stages.begin(), unrolled);
        const bool onSteps = accepts(flat);
        EXPECT_EQ(onRepeats, onSteps) << row.name << " pp " << pp << " M " << m << ", " << what;
        if (onRepeats)
          EXPECT_TRUE(verifySchedule(plan).isOk()) << row.name << " pp " << pp << " M " << m << ", " << what;
        else
          morePrecise += plan::verifyPlan(plan).isOk() && verifySchedule(plan).isOk();
        ++mutants;
        refused += !onRepeats;
      });
    }
  std::printf("%ld mutants, %ld refused, %ld of them by data alone\n", long(mutants), long(refused), long(morePrecise));
  EXPECT_GT(refused, mutants * 8 / 10);
}

// The two runs of a pair write no bytes that the other uses: neither in buffers nor in the allocation, its frame
// included.
TEST(Proof, runsOfAPairLieApart) {
  Plan plan = planOf(uniformProblem("dualpipev", {2, 2, 8}, kSizes));
  EXPECT_TRUE(plan::provePlan(plan).isOk());
  plan::StagePlan &stage = plan.stages[0];
  const auto second = std::ranges::find_if(stage.schedule, &ScheduleStep::paired);
  const std::array<const plan::Chunk *, 2> chunks = {&stage.chunks[(second - 1)->chunk], &stage.chunks[second->chunk]};
  const auto refuses = [&](const std::string &kind, const std::string &part) {
    Plan mutant = plan;
    plan::StagePlan &changed = mutant.stages[0];
    const int64_t offset = changed.bytes;
    changed.regions.push_back({kind, offset, 2 * plan::kAlignment});
    changed.bytes += 2 * plan::kAlignment;
    for (const bool isApart : {true, false}) {
      Plan one = mutant;
      for (size_t i = 0; i < 2; ++i) { // each writes bytes there
        plan::Call &call = one.stages[0].chunks[chunks[i] - stage.chunks.data()].calls[0];
        plan::Program &program = one.programs[call.program];
        const auto segment = int64_t(program.segments.size());
        program.segments.push_back("there"), program.segmentBytes.push_back(plan::kAlignment);
        if (kind == "frame")
          program.frame = segment;
        program.instructions.push_back(
            {plan::Move{.kind = plan::Move::Kind::fill, .bytes = plan::kAlignment}, {{segment, 0}}, "there"});
        call.segments.push_back({-1, offset + (isApart ? int64_t(i) * plan::kAlignment : 0)});
      }
      const std::string message = plan::provePlan(one).message();
      if (isApart)
        EXPECT_EQ(message, "");
      else
        EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  };
  refuses("frame", "which the other run of its pair uses");
  refuses("scalars", "without being ordered after step");
}

plan::Ring &ringNamed(plan::StagePlan &stage, const std::string &kind) {
  return *std::ranges::find_if(stage.rings, [&](const plan::Ring &one) { return one.name.starts_with(kind); });
}

// All runs are ordered, but a forward writes over the activations of a microbatch whose backward is still to come.
TEST(Proof, aSlotIsKeptUntilItIsRead) {
  Plan plan = planOf(uniformProblem("1f1b", {2, 1, 4}, kSizes));
  for (plan::Ring::Turn &turn : ringNamed(plan.stages[0], "activation").turns)
    turn.slots = 1;
  EXPECT_NE(plan::provePlan(plan).message().find("which do not hold them for this microbatch"), std::string::npos)
      << plan::provePlan(plan).message();
}

// Runs of the stage use the ring's value as two: bytes [0, end), and what follows at a multiple of kAlignment.
void cutValue(Plan &plan, int64_t stage, const std::string &kind, int64_t end) {
  const int64_t ring = &ringNamed(plan.stages[stage], kind) - plan.stages[stage].rings.data();
  for (const plan::Chunk &chunk : plan.stages[stage].chunks)
    for (const plan::Call &call : chunk.calls)
      for (size_t segment = 0; segment < call.segments.size(); ++segment) {
        if (call.segments[segment].slot < 0 || chunk.slots[call.segments[segment].slot] != ring)
          continue;
        plan::Instruction &instruction = plan.programs[call.program].instructions[0];
        auto &uses = std::get<plan::RowKernel>(instruction.body).uses;
        auto rest = uses[segment];
        rest.bytes -= plan::aligned(end);
        uses[segment].bytes = end;
        uses.push_back(rest);
        instruction.operands.push_back({int64_t(segment), plan::aligned(end)});
      }
}

// Padding between two values of a message holds nothing, and is not asked for; a run that reads it is refused.
TEST(Proof, paddingOfAMessageIsNothing) {
  const auto refuses = [](int64_t written, int64_t read) {
    Plan plan = planOf(uniformProblem("1f1b", {2, 1, 4}, kSizes));
    cutValue(plan, 0, "output", written);
    cutValue(plan, 1, "input", read);
    return plan::provePlan(plan).message();
  };
  EXPECT_EQ(refuses(60, 60), "");
  EXPECT_EQ(refuses(60, 56), "");
  EXPECT_NE(refuses(60, 64).find("some of which stage 0 does not write"), std::string::npos) << refuses(60, 64);
  EXPECT_NE(refuses(56, 60).find("some of which stage 0 does not write"), std::string::npos) << refuses(56, 60);
}

// A run reads all of its slots before it writes any in the proof, and as its calls come when it runs.
TEST(Proof, slotsOfARunLieApart) {
  Plan plan = planOf(uniformProblem("1f1b", {2, 1, 4}, kSizes));
  plan::StagePlan &stage = plan.stages[1];
  EXPECT_TRUE(plan::provePlan(plan).isOk());
  ringNamed(stage, "gradientOut").offset =
      ringNamed(stage, "activation").offset; // a backward reads the one and writes the other
  EXPECT_NE(plan::provePlan(plan).message().find("where another of its slots lies"), std::string::npos)
      << plan::provePlan(plan).message();
}

} // namespace
} // namespace mgc::schedule
