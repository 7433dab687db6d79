// verifySchedule on plans made from solutions, whole and broken.
#include "test/plan/prove/VerifySchedule.h"

#include "compiler/schedule/Periodic.h"
#include "plan/Expand.h"
#include "plan/prove/VerifyBucketUse.h"
#include "plan/prove/VerifyPlan.h"
#include "test/compiler/schedule/Sweep.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <utility>

namespace mgc::schedule {
namespace {

using plan::ScheduleStep;

plan::Program meetingOf(const char *name, plan::Axes axes, std::vector<int64_t> stages) {
  plan::Collective collective;
  collective.axes = std::move(axes);
  collective.stages = std::move(stages);
  collective.chunk = 4;
  plan::Program program;
  program.name = name;
  program.segments = {"scalars"};
  program.segmentBytes = {64};
  program.instructions = {{collective, {{0, 0}, {0, 0}}, name}};
  return program;
}

// Behind the schedule's area: 64 bytes for the meetings, 64 for the step's scalars, 64 for its results.
constexpr int64_t kBytesBehind = 192;

// One stage of a plan: a chunk per task kind and chunk, and meetings in reduce (over pp) and update (stages 0 and last, as for
// tied parameters).
class StageOf {
public:
  StageOf(int64_t index, int64_t stages, const PeriodicStage &from) : index_(index), stages_(stages), from_(from) {}

  plan::StagePlan build() {
    stage_.rings = from_.rings;
    stage_.repeats = from_.repeats;
    stage_.bytes = from_.bytes + kBytesBehind;
    stage_.regions = {{"activations", 0, from_.bytes + 64},
                      {"scalars", from_.bytes + 64, stage_.bytes - from_.bytes - 64}};
    stage_.stepScalarsOffset = from_.bytes + 64;
    stage_.resultsOffset = from_.bytes + 128;
    for (const PeriodicStep &step : from_.steps)
      add(step);
    return std::move(stage_);
  }

private:
  void add(const PeriodicStep &periodic) {
    const Step &step = periodic.step;
    ScheduleStep out;
    out.kind = ScheduleStep::Kind(step.kind);
    out.microbatch = step.microbatch;
    out.microbatchStride = periodic.microbatchStride;
    out.waits = step.waits;
    out.paired = step.task.paired;
    if (step.kind == Step::Kind::run) {
      out.chunk = chunkOf(step);
    } else {
      out.ring = (step.reads.empty() ? step.writes : step.reads)[0].buffer;
      plan::Ring &ring = stage_.rings[out.ring];
      ring.peer = step.peer, ring.value = step.value;
    }
    stage_.schedule.push_back(out);
  }

  int64_t chunkOf(const Step &step) {
    const ScheduledTask task = {step.task.kind, step.task.chunk, -1};
    const auto found = std::ranges::find(tasks_, task);
    if (found != tasks_.end())
      return found - tasks_.begin();
    tasks_.push_back(task);
    plan::Chunk &chunk = stage_.chunks.emplace_back();
    chunk.task = task.kind;
    chunk.virtualStage = std::max<int64_t>(task.chunk, 0);
    const bool meetsAll = task.kind == TaskKind::reduce;
    if (meetsAll || (task.kind == TaskKind::update && (index_ == 0 || index_ == stages_ - 1)))
      chunk.calls = {{meetsAll ? 0 : 1, 0, 0, {{-1, from_.bytes}}}};
    for (const auto *uses : {&step.reads, &step.writes})
      for (const BufferUse &use : *uses)
        chunk.slots.push_back(use.buffer);
    return int64_t(stage_.chunks.size()) - 1;
  }

  int64_t index_, stages_;
  const PeriodicStage &from_;
  plan::StagePlan stage_;
  std::vector<ScheduledTask> tasks_; // by chunk of the plan
};

// A plan with the steps of a solution.
plan::Plan planOf(const Shape &shape, const std::vector<PeriodicStage> &stages) {
  plan::Plan plan;
  const int64_t pp = shape.stages;
  plan.mesh.axes = {{"pp", pp, plan::AxisRole::stage}};
  plan.microbatches = plan.globalBatchSize = shape.microbatches;
  plan.sequenceLength = plan.microBatchSize = plan.vocabulary = 1;
  plan.virtualStages = shape.virtualStages;
  plan.programs = {meetingOf("reduce", {"pp"}, {}),
                   meetingOf("update", {}, pp == 1 ? std::vector<int64_t>{0} : std::vector{int64_t(0), pp - 1})};
  for (int64_t s = 0; s < pp; ++s)
    plan.stages.push_back(StageOf(s, pp, stages[s]).build());
  return plan;
}

plan::Plan planOf(const Problem &problem) {
  std::vector<PeriodicStage> stages;
  const Result<Solution> solution = generate(problem);
  for (const StageSchedule &stage : solution->stages)
    stages.push_back(findRepeats(stage));
  return planOf(problem.shape, stages);
}

// With every step that runs in the list, and no repeats.
plan::StagePlan flat(const plan::StagePlan &stage) {
  plan::StagePlan out = stage;
  out.schedule.clear(), out.repeats.clear();
  plan::forEachRun(stage.schedule.size(), stage.repeats, [&](int64_t item, int64_t iteration) {
    ScheduleStep &step = out.schedule.emplace_back(stage.schedule[item]);
    step.microbatch += iteration * std::exchange(step.microbatchStride, 0);
  });
  return out;
}

Status prove(const plan::Plan &plan) {
  MGC_TRY(plan::verifyPlan(plan));
  return verifySchedule(plan);
}

// A problem of every row with repeats in its lists.
std::vector<Problem> repeatedProblems() {
  std::vector<Problem> problems;
  for (const ScheduleRow &row : schedules())
    problems.push_back(uniformProblem(row.name, {3, row.minVirtualStages, 9}, kSizes));
  return problems;
}

TEST(Plan, EveryScheduleIsAccepted) {
  sweep(4, 2, 6, [](const ScheduleRow &, const Problem &problem) {
    Status status = prove(planOf(problem));
    ASSERT_TRUE(status.isOk()) << nameOf(problem) << "\n" << status.message();
  });
}

TEST(Plan, PeriodicSchedulesAreAccepted) {
  for (Problem problem : repeatedProblems()) {
    problem.shape.microbatches = 200;
    Status status = prove(planOf(problem.shape, generatePeriodic(problem)->stages));
    ASSERT_TRUE(status.isOk()) << nameOf(problem) << "\n" << status.message();
  }
}

// Visits every plan with one change of the stage that `change` makes, and counts them.
template <typename Change> int64_t refuseEach(plan::Plan &plan, size_t stage, const char *what, Change &&change) {
  const plan::StagePlan valid = plan.stages[stage];
  int64_t mutants = 0;
  for (; change(plan.stages[stage], mutants); ++mutants) {
    EXPECT_FALSE(prove(plan).isOk()) << what << " " << mutants << " of stage " << stage;
    plan.stages[stage] = valid;
  }
  return mutants;
}

// The same of all stages of all plans with repeats.
template <typename Change> int64_t refuseEverywhere(Change &&change) {
  int64_t mutants = 0;
  for (const Problem &problem : repeatedProblems()) {
    plan::Plan plan = planOf(problem);
    for (size_t stage = 0; stage < plan.stages.size(); ++stage)
      mutants += refuseEach(plan, stage, problem.schedule.c_str(), change);
    EXPECT_TRUE(prove(plan).isOk());
  }
  return mutants;
}

bool dropWait(plan::StagePlan &stage, int64_t number) {
  for (ScheduleStep &step : stage.schedule) {
    if (number < int64_t(step.waits.size()))
      return step.waits.erase(step.waits.begin() + number), true;
    number -= int64_t(step.waits.size());
  }
  return false;
}

TEST(Plan, EveryDroppedWaitIsRefused) { EXPECT_GT(refuseEverywhere(dropWait), 100); }

// The steps before it and behind it keep their distances.
bool dropStep(plan::StagePlan &stage, int64_t number) {
  std::vector<ScheduleStep> &steps = stage.schedule;
  if (number >= int64_t(steps.size()))
    return false;
  for (int64_t i = number + 1; i < int64_t(steps.size()); ++i) {
    std::erase(steps[i].waits, i - number);
    for (int64_t &wait : steps[i].waits)
      wait -= wait > i - number;
  }
  steps.erase(steps.begin() + number);
  return true;
}

TEST(Plan, EveryDroppedStepIsRefused) {
  for (const Problem &problem : repeatedProblems()) {
    plan::Plan plan = planOf(problem);
    for (plan::StagePlan &stage : plan.stages)
      stage = flat(stage);
    ASSERT_TRUE(prove(plan).isOk());
    for (size_t stage = 0; stage < plan.stages.size(); ++stage)
      refuseEach(plan, stage, problem.schedule.c_str(), dropStep);
  }
}

// Each message: another microbatch in the first iteration, or in those that follow.
bool otherMicrobatch(plan::StagePlan &stage, int64_t number) {
  for (size_t i = 0; i < stage.schedule.size(); ++i) {
    ScheduleStep &step = stage.schedule[i];
    const bool isRepeated = std::ranges::any_of(stage.repeats, [&](const plan::Repeat &repeat) {
      return repeat.begin <= int64_t(i) && int64_t(i) < repeat.end;
    });
    if (step.kind == ScheduleStep::Kind::run)
      continue;
    if (number-- == 0)
      return ++step.microbatch, true;
    if (isRepeated && number-- == 0)
      return ++step.microbatchStride, true;
  }
  return false;
}

bool otherRing(plan::StagePlan &stage, int64_t number) {
  for (plan::Ring &ring : stage.rings)
    for (int64_t plan::Ring::*field : {&plan::Ring::peer, &plan::Ring::value, &plan::Ring::bytes})
      if (ring.peer >= 0 && number-- == 0)
        return ring.*field += field == &plan::Ring::bytes ? -4 : 1, true;
  return false;
}

bool otherRepeat(plan::StagePlan &stage, int64_t number) {
  for (plan::Repeat &repeat : stage.repeats)
    for (int64_t plan::Repeat::*field : {&plan::Repeat::count, &plan::Repeat::begin, &plan::Repeat::end})
      for (int64_t more : {-1, 1})
        if (number-- == 0)
          return repeat.*field += more, true;
  return false;
}

TEST(Plan, OtherNumbersAreRefused) {
  for (const Problem &problem : repeatedProblems()) {
    plan::Plan plan = planOf(problem);
    for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
      EXPECT_GT(refuseEach(plan, stage, "microbatch", otherMicrobatch), 4) << problem.schedule;
      EXPECT_GT(refuseEach(plan, stage, "ring", otherRing), 5) << problem.schedule;
      EXPECT_GT(refuseEach(plan, stage, "repeat", otherRepeat), 5) << problem.schedule;
    }
  }
}

// A message takes memory that a run uses at the same time when the slots of its ring are fewer.
bool fewerSlots(plan::StagePlan &stage, int64_t number) {
  for (plan::Ring &ring : stage.rings)
    if (plan::Ring::Turn &turn = ring.turns.front();
        ring.peer >= 0 && ring.turns.size() == 1 && turn.slots > 1 && number-- == 0)
      return turn.phase = 0, --turn.slots, true;
  return false;
}

TEST(Plan, FewerSlotsAreRefused) { EXPECT_GT(refuseEverywhere(fewerSlots), 4); }

TEST(Plan, CollectivesBetweenStagesMustAgree) {
  Problem problem = uniformProblem("1f1b", {3, 1, 2}, kSizes);
  plan::Plan plan = planOf(problem);
  plan.stages[2].chunks.back().calls.clear(); // the last stage does not come to the update
  Status status = verifySchedule(plan);
  ASSERT_FALSE(status.isOk());
  EXPECT_NE(status.message().find("stage 2 has none"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("waits for stage 2"), std::string::npos) << status.message();

  plan = planOf(problem); // the first stage updates before it reduces
  std::swap(*(plan.stages[0].schedule.end() - 1), *(plan.stages[0].schedule.end() - 2));
  status = verifySchedule(plan);
  ASSERT_FALSE(status.isOk());
  EXPECT_NE(status.message().find("deadlock"), std::string::npos) << status.message();

  plan = planOf(problem);
  std::get<plan::Collective>(plan.programs[1].instructions[0].body).stages = {0, 9};
  EXPECT_FALSE(verifySchedule(plan).isOk());
}

// Stages 0 and 1 hold two tied buckets of one size; `order` is that in which each stage reduces them. Begin, reduce
// and update bind all buffers of both.
plan::Plan planOfTiedBuckets(std::vector<std::vector<int64_t>> order) {
  plan::Plan plan = planOf(uniformProblem("1f1b", {2, 1, 2}, kSizes));
  plan.parameters.resize(2);
  plan.programs.push_back(meetingOf("tied", {}, {0, 1}));
  plan.programs.push_back(plan.programs.front());
  plan.programs.back().instructions.clear();
  for (int64_t s = 0; s < 2; ++s) {
    plan::StagePlan &stage = plan.stages[s];
    plan::Chunk &begin = stage.chunks[stage.schedule.front().chunk];
    plan::Chunk &reduce = stage.chunks[stage.schedule[stage.schedule.size() - 2].chunk];
    plan::Chunk &update = stage.chunks[stage.schedule.back().chunk];
    for (int64_t b = 0; b < 2; ++b) {
      int64_t offset = stage.bytes;
      stage.bytes += 256;
      plan::Bucket &bucket = stage.buckets.emplace_back();
      bucket.elements = 16;
      bucket.valueOffset = offset;
      bucket.gradientOffset = bucket.gradientShardOffset = offset + 64;
      bucket.firstMomentOffset = offset + 128;
      bucket.secondMomentOffset = offset + 192;
      plan.parameters[b].name = b ? "b" : "a";
      plan.parameters[b].places.push_back({s, b, 0});
      begin.calls.push_back({3, 0, 0, {{-1, offset + 64}}});
      for (int64_t buffer : {0, 64, 128, 192})
        update.calls.push_back({3, 0, 0, {{-1, offset + buffer}}});
    }
    for (int64_t b : order[s])
      reduce.calls.push_back({2, 0, 0, {{-1, stage.buckets[b].gradientOffset}}});
  }
  return plan;
}

TEST(Plan, TiedBucketsMeetInTheSameOrder) {
  Status status = verifySchedule(planOfTiedBuckets({{0, 1}, {0, 1}}));
  EXPECT_TRUE(status.isOk()) << status.message();
  status = verifySchedule(planOfTiedBuckets({{0, 1}, {1, 0}}));
  ASSERT_FALSE(status.isOk());
  EXPECT_NE(status.message().find("of the gradients of a, stage 1 has"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("of the gradients of b"), std::string::npos) << status.message();
}

// A call that touches a bucket in the runs of microbatches is no call that zeroes, reduces or updates the bucket.
TEST(Plan, BucketsAreZeroedReducedAndUpdated) {
  auto refuses = [](auto &&edit, const char *message) {
    plan::Plan plan = planOfTiedBuckets({{0, 1}, {0, 1}});
    edit(plan.stages[0]);
    Problems problems;
    plan::verifyBucketUse(plan, problems);
    const Status status = problems.status();
    ASSERT_FALSE(status.isOk()) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  };
  auto chunkOf = [](plan::StagePlan &stage, auto &&wanted) -> plan::Chunk & {
    return stage.chunks[std::ranges::find_if(stage.schedule, wanted)->chunk];
  };
  auto isRun = [](const ScheduleStep &step) { return step.kind == ScheduleStep::Kind::run && step.microbatch >= 0; };
  refuses(
      [&](plan::StagePlan &stage) {
        plan::Chunk &begin = stage.chunks[stage.schedule.front().chunk];
        std::swap(begin.calls, chunkOf(stage, isRun).calls);
      },
      "with 16 elements is bound by no call of begin");
  refuses(
      [&](plan::StagePlan &stage) {
        plan::Chunk &update = stage.chunks[stage.schedule.back().chunk], &run = chunkOf(stage, isRun);
        run.calls.push_back(update.calls.back());
        update.calls.pop_back();
      },
      "secondMomentOffset = ");
}

TEST(Plan, HostileNumbersAreRefused) {
  const plan::Plan valid = planOf(uniformProblem("1f1b", {2, 1, 2}, kSizes));
  ASSERT_TRUE(prove(valid).isOk());
  int64_t mutants = 0;
  const auto refuse = [&](auto &&edit) {
    plan::Plan plan = valid;
    edit(plan.stages[0]);
    EXPECT_FALSE(prove(plan).isOk()) << mutants;
    ++mutants;
  };
  for (int64_t bad : {INT64_MIN, int64_t(-2), int64_t(1) << 40, INT64_MAX}) {
    for (size_t i = 0; i < valid.stages[0].schedule.size(); ++i) {
      const bool isRun = valid.stages[0].schedule[i].kind == ScheduleStep::Kind::run;
      refuse([&](plan::StagePlan &stage) {
        stage.schedule[i].*(isRun ? &ScheduleStep::chunk : &ScheduleStep::ring) = bad;
      });
      refuse([&](plan::StagePlan &stage) { stage.schedule[i].microbatch = bad; });
      refuse([&](plan::StagePlan &stage) { stage.schedule[i].waits.push_back(bad); });
    }
    for (size_t i = 0; i < valid.stages[0].rings.size(); ++i)
      for (int64_t plan::Ring::*field : {&plan::Ring::peer, &plan::Ring::offset, &plan::Ring::bytes})
        refuse([&](plan::StagePlan &stage) { stage.rings[i].*field = bad; });
    refuse([&](plan::StagePlan &stage) { stage.repeats = {{1, 2, bad}}; });
  }
  EXPECT_GT(mutants, 100);
}

TEST(Plan, StepsAreLimited) {
  const plan::Plan valid = planOf(uniformProblem("1f1b", {2, 1, 2}, kSizes));
  plan::Plan plan = valid;
  constexpr int64_t most = kMaxSteps + 2 * kMaxParts;
  plan.stages[0].schedule.resize(most + 1, valid.stages[0].schedule.front());
  plan.stages[0].repeats.clear();
  EXPECT_NE(verifySchedule(plan).message().find(fmt::format("stage 0 has {} steps; at most {}", most + 1, most)),
            std::string::npos);
  plan = valid;
  plan.stages.pop_back();
  EXPECT_FALSE(prove(plan).isOk());
}

} // namespace
} // namespace mgc::schedule
