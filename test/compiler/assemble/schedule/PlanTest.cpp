// verifySchedule on plans made from solutions, whole and broken.
#include "plan/prove/VerifySchedule.h"

#include "test/compiler/assemble/schedule/Sweep.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace mgc::schedule {
namespace {

using plan::ScheduleStep;

plan::Program meetingOf(const char *name, plan::Axes axes, std::vector<int64_t> stages) {
  plan::Collective collective;
  collective.axes = std::move(axes);
  collective.stages = std::move(stages);
  collective.chunk = 4;
  return {name, {"scalars"}, {64}, {{collective, {{0, 0}, {0, 0}}, name}}};
}

// A plan with the steps of the solution: one chunk per task kind and chunk, slots for its buffers, and
// meetings in reduce (over pp) and update (stages 0 and last, as for tied parameters).
plan::Plan planOf(const Problem &problem, const Solution &solution) {
  plan::Plan plan;
  int64_t pp = problem.shape.stages;
  plan.mesh.axes = {{"pp", pp, plan::AxisRole::stage}};
  plan.microbatches = problem.shape.microbatches;
  plan.programs = {meetingOf("reduce", {"pp"}, {}), meetingOf("update", {}, {0, pp - 1})};
  for (int64_t s = 0; s < pp; ++s) {
    plan::StagePlan &stage = plan.stages.emplace_back();
    const StageSchedule &list = solution.stages[s];
    stage.bytes = list.bytes + 64; // the last 64 bytes are for the meetings
    std::vector<ScheduledTask> chunks;
    for (const Step &step : list.steps) {
      ScheduleStep out;
      out.kind = ScheduleStep::Kind(step.kind);
      out.microbatch = step.microbatch;
      out.waits = step.waits;
      if (step.kind != Step::Kind::run) {
        out.peer = step.peer;
        out.value = step.value;
        out.bytes = step.bytes;
        out.offset = list.buffers[(step.reads.empty() ? step.writes : step.reads)[0].buffer].offset;
        stage.schedule.push_back(out);
        continue;
      }
      ScheduledTask task = {step.task.kind, step.task.chunk, -1};
      out.chunk = std::find(chunks.begin(), chunks.end(), task) - chunks.begin();
      bool isNew = out.chunk == int64_t(chunks.size());
      if (isNew) {
        chunks.push_back(task);
        stage.chunks.emplace_back().task = task.kind;
        stage.chunks.back().virtualStage = std::max<int64_t>(task.chunk, 0);
        bool meetsAll = task.kind == TaskKind::reduce;
        if (meetsAll || (task.kind == TaskKind::update && (s == 0 || s == pp - 1)))
          stage.chunks.back().calls = {{meetsAll ? 0 : 1, 0, {{-1, list.bytes}}}};
      }
      for (const auto *uses : {&step.reads, &step.writes})
        for (const BufferUse &use : *uses) {
          out.slots.push_back(list.buffers[use.buffer].offset);
          if (isNew)
            stage.chunks.back().slotBytes.push_back(list.buffers[use.buffer].bytes);
        }
      stage.schedule.push_back(out);
    }
  }
  return plan;
}

plan::Plan planOf(const Problem &problem) { return planOf(problem, *generate(problem)); }

TEST(Plan, EveryScheduleIsAccepted) {
  sweep(4, 2, 6, [](const ScheduleRow &, const Problem &problem) {
    Status status = verifySchedule(planOf(problem));
    ASSERT_TRUE(status.isOk()) << nameOf(problem) << "\n" << status.message();
  });
}

TEST(Plan, EveryDroppedWaitAndStepIsRefused) {
  int64_t mutants = 0;
  for (const char *name : {"gpipe", "1f1b", "zb-h1", "interleaved"}) {
    Problem problem = uniformProblem(name, {3, name == std::string("interleaved") ? 2 : 1, 4}, kSizes);
    plan::Plan plan = planOf(problem);
    for (plan::StagePlan &stage : plan.stages) {
      const std::vector<ScheduleStep> valid = stage.schedule;
      for (size_t i = 0; i < valid.size(); ++i) {
        for (size_t w = 0; w < valid[i].waits.size(); ++w, ++mutants) {
          stage.schedule[i].waits.erase(stage.schedule[i].waits.begin() + w);
          EXPECT_FALSE(verifySchedule(plan).isOk()) << name << " step " << i << " wait " << w;
          stage.schedule = valid;
        }
        if (valid[i].kind == ScheduleStep::Kind::run)
          continue;
        for (int64_t ScheduleStep::*field :
             {&ScheduleStep::value, &ScheduleStep::microbatch, &ScheduleStep::bytes, &ScheduleStep::peer}) {
          ++(stage.schedule[i].*field);
          EXPECT_FALSE(verifySchedule(plan).isOk()) << name << " step " << i;
          stage.schedule = valid;
        }
      }
    }
    EXPECT_TRUE(verifySchedule(plan).isOk());
  }
  EXPECT_GT(mutants, 200);
}

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
  plan.programs.push_back({"touch", {"all"}, {64}, {}});
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
      begin.calls.push_back({3, 0, {{-1, offset + 64}}});
      for (int64_t buffer : {0, 64, 128, 192})
        update.calls.push_back({3, 0, {{-1, offset + buffer}}});
    }
    for (int64_t b : order[s])
      reduce.calls.push_back({2, 0, {{-1, stage.buckets[b].gradientOffset}}});
  }
  return plan;
}

TEST(Plan, TiedBucketsMeetInTheSameOrder) {
  Status status = verifySchedule(planOfTiedBuckets({{0, 1}, {0, 1}}));
  EXPECT_TRUE(status.isOk()) << status.message();
  status = verifySchedule(planOfTiedBuckets({{0, 1}, {1, 0}}));
  ASSERT_FALSE(status.isOk());
  EXPECT_NE(status.message().find("of the gradients of a, stage 1 has"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("of the gradients of b"), std::string::npos) << status.message();
}

// A call that touches a bucket in the runs of microbatches is no call that zeroes, reduces or updates the bucket.
TEST(Plan, BucketsAreZeroedReducedAndUpdated) {
  auto refuses = [](auto &&edit, const char *message) {
    plan::Plan plan = planOfTiedBuckets({{0, 1}, {0, 1}});
    edit(plan.stages[0]);
    Status status = verifySchedule(plan);
    ASSERT_FALSE(status.isOk()) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  };
  auto chunkOf = [](plan::StagePlan &stage, auto &&wanted) -> plan::Chunk & {
    return stage.chunks[std::ranges::find_if(stage.schedule, wanted)->chunk];
  };
  auto isRun = [](const ScheduleStep &step) {
    return step.kind == ScheduleStep::Kind::run && step.microbatch >= 0;
  };
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
  Problem problem = uniformProblem("1f1b", {2, 1, 2}, kSizes);
  const plan::Plan valid = planOf(problem);
  int64_t mutants = 0;
  for (size_t i = 0; i < valid.stages[0].schedule.size(); ++i) {
    bool isRun = valid.stages[0].schedule[i].kind == ScheduleStep::Kind::run;
    for (int64_t bad : {INT64_MIN, int64_t(-2), int64_t(1) << 40, INT64_MAX})
      for (int64_t ScheduleStep::*field :
           isRun ? std::vector{&ScheduleStep::chunk}
                 : std::vector{&ScheduleStep::peer, &ScheduleStep::offset, &ScheduleStep::bytes}) {
        plan::Plan plan = valid;
        plan.stages[0].schedule[i].*field = bad;
        EXPECT_FALSE(verifySchedule(plan).isOk());
        plan = valid;
        plan.stages[0].schedule[i].waits.push_back(bad);
        EXPECT_FALSE(verifySchedule(plan).isOk());
        ++mutants;
      }
    if (!valid.stages[0].schedule[i].slots.empty()) {
      plan::Plan plan = valid;
      plan.stages[0].schedule[i].slots[0] = INT64_MAX - 8;
      EXPECT_FALSE(verifySchedule(plan).isOk());
      plan.stages[0].schedule[i].slots.clear();
      EXPECT_FALSE(verifySchedule(plan).isOk());
    }
  }
  EXPECT_GT(mutants, 20);
  plan::Plan plan = valid;
  constexpr int64_t most = kMaxSteps + 2 * kMaxParts;
  plan.stages[0].schedule.resize(most + 1, valid.stages[0].schedule.front());
  EXPECT_NE(
      verifySchedule(plan).message().find(fmt::format("stage 0 has {} steps; at most {}", most + 1, most)),
      std::string::npos);
  plan = valid;
  plan.stages.pop_back();
  EXPECT_FALSE(verifySchedule(plan).isOk());
}

} // namespace
} // namespace mgc::schedule
