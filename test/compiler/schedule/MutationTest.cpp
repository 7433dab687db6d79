// Valid solutions, broken in one place: the verifier must refuse each one. This is what makes its "yes" worth
// something.
#include "test/Samples.h"
#include "test/compiler/schedule/Sweep.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace mgc::schedule {
namespace {

using Kind = Step::Kind;

std::vector<Problem> problems() {
  std::vector<Problem> result;
  for (const ScheduleRow &row : schedules())
    for (Shape shape : {Shape{2, row.minVirtualStages, 4}, Shape{3, row.minVirtualStages, 5},
                        Shape{4, row.minVirtualStages, 3}, Shape{2, std::min<int64_t>(row.maxVirtualStages, 3), 6}}) {
      Problem problem = uniformProblem(row.name, shape, kSizes);
      result.insert(result.end(), {problem, inParts(problem)});
    }
  return result;
}

// Breaks copies of every step of every solution: breakIt(list, step, refuse) changes the list and calls
// refuse() for each mutant; the list is restored after it.
template <typename Break> void mutate(int64_t least, Break &&breakIt) {
  int64_t mutants = 0;
  for (const Problem &problem : problems()) {
    Result<Solution> solution = generate(problem);
    ASSERT_TRUE(verify(problem, *solution).isOk());
    for (size_t stage = 0; stage < solution->stages.size(); ++stage) {
      StageSchedule &list = solution->stages[stage];
      const StageSchedule valid = list;
      for (size_t step = 0; step < valid.steps.size(); ++step)
        breakIt(list, step, [&] {
          ++mutants;
          EXPECT_FALSE(verify(problem, *solution).isOk())
              << nameOf(problem) << " stage " << stage << " step " << step << ": " << toString(valid.steps[step]);
          list = valid;
        });
      list = valid;
    }
  }
  EXPECT_GE(mutants, least);
}

void eraseStep(StageSchedule &list, size_t at) {
  list.steps.erase(list.steps.begin() + at);
  for (Step &step : list.steps) {
    std::erase(step.waits, int64_t(at));
    for (int64_t &wait : step.waits)
      wait -= wait > int64_t(at);
  }
}

TEST(Mutation, DropAWait) {
  mutate(1000, [](StageSchedule &list, size_t step, auto &&refuse) {
    for (size_t i = 0; i < list.steps[step].waits.size(); ++i) {
      list.steps[step].waits.erase(list.steps[step].waits.begin() + i);
      refuse();
    }
  });
}

TEST(Mutation, DropAStep) {
  mutate(1000, [](StageSchedule &list, size_t step, auto &&refuse) {
    eraseStep(list, step);
    refuse();
  });
}

TEST(Mutation, RepeatARun) {
  mutate(500, [](StageSchedule &list, size_t step, auto &&refuse) {
    if (list.steps[step].kind != Kind::run)
      return;
    list.steps.push_back(list.steps[step]);
    refuse();
  });
}

TEST(Mutation, SwapTwoMessagesOfAPair) {
  for (Kind kind : {Kind::send, Kind::recv})
    mutate(200, [kind](StageSchedule &list, size_t step, auto &&refuse) {
      Step &first = list.steps[step];
      for (size_t other = step + 1; other < list.steps.size() && first.kind == kind; ++other)
        if (Step &second = list.steps[other]; second.kind == kind && second.peer == first.peer) {
          std::swap(first, second);
          std::swap(first.waits, second.waits);
          refuse();
          return;
        }
    });
}

TEST(Mutation, SwapTwoDependentRuns) { // a forward and the backward of the same microbatch
  mutate(100, [](StageSchedule &list, size_t step, auto &&refuse) {
    Step &first = list.steps[step];
    if (first.kind != Kind::run || first.task.kind != TaskKind::forward)
      return;
    for (size_t other = step + 1; other < list.steps.size(); ++other)
      if (Step &second = list.steps[other]; second.kind == Kind::run && second.task.chunk == first.task.chunk &&
                                            second.task.microbatch == first.task.microbatch) {
        std::swap(first, second);
        std::swap(first.waits, second.waits);
        refuse();
        return;
      }
  });
}

TEST(Mutation, SwapReduceAndUpdate) {
  mutate(10, [](StageSchedule &list, size_t step, auto &&refuse) {
    if (list.steps[step].task.kind != TaskKind::reduce)
      return;
    std::swap(list.steps[step], list.steps[step + 1]);
    refuse();
  });
}

TEST(Mutation, ChangeAPart) {
  mutate(100, [](StageSchedule &list, size_t step, auto &&refuse) {
    if (list.steps[step].kind != Kind::run)
      return;
    for (int64_t delta : {-1, 1}) {
      list.steps[step].task.part += delta;
      refuse();
    }
  });
}

TEST(Mutation, SwapAPartAndItsGradients) {
  mutate(40, [](StageSchedule &list, size_t step, auto &&refuse) {
    if (list.steps[step].task.kind != TaskKind::gradients)
      return;
    size_t part = step;
    while (list.steps[part].task.part != list.steps[step].task.part || part == step)
      --part;
    std::swap(list.steps[part], list.steps[step]);
    list.steps[part].waits.clear();
    refuse();
  });
}

TEST(Mutation, ChangeAMicrobatch) {
  mutate(1000, [](StageSchedule &list, size_t step, auto &&refuse) {
    if (list.steps[step].microbatch < 0)
      return;
    for (int64_t delta : {-1, 1}) {
      list.steps[step].microbatch += delta;
      list.steps[step].task.microbatch += delta;
      refuse();
    }
    ++list.steps[step].microbatch; // the task's stays
    refuse();
  });
}

TEST(Mutation, ChangeAMessage) {
  mutate(1000, [](StageSchedule &list, size_t step, auto &&refuse) {
    if (list.steps[step].kind == Kind::run)
      return;
    for (int64_t delta : {-2, -1, 1}) {
      list.steps[step].value += delta;
      refuse();
    }
    list.steps[step].bytes -= 64;
    refuse();
    ++list.steps[step].peer;
    refuse();
    list.steps[step].kind = list.steps[step].kind == Kind::send ? Kind::recv : Kind::send;
    refuse();
  });
}

TEST(Mutation, WaitForALaterStep) {
  mutate(1000, [](StageSchedule &list, size_t step, auto &&refuse) {
    list.steps[step].waits.push_back(int64_t(step));
    refuse();
  });
}

TEST(Mutation, UseAnotherBuffer) {
  mutate(1000, [](StageSchedule &list, size_t step, auto &&refuse) {
    for (std::vector<BufferUse> Step::*uses : {&Step::reads, &Step::writes})
      for (size_t i = 0; i < (list.steps[step].*uses).size(); ++i) {
        (list.steps[step].*uses)[i].buffer = int64_t(list.buffers.size());
        refuse();
        (list.steps[step].*uses).erase((list.steps[step].*uses).begin() + i);
        refuse();
      }
  });
}

// Two buffers whose uses interleave in time: one placed on the other must be refused, at its start and at its
// end.
TEST(Mutation, OverlapTwoBuffers) {
  int64_t number = 0, mutants = 0;
  for (const Problem &problem : problems()) {
    Result<Solution> solution = generate(problem);
    for (StageSchedule &list : solution->stages)
      for (size_t a = 0; a < list.buffers.size(); ++a)
        for (size_t b = 0; b < list.buffers.size(); ++b) {
          ScheduledBuffer &moved = list.buffers[a], &fixed = list.buffers[b];
          if (a == b || moved.begin >= fixed.end || fixed.begin >= moved.end || fixed.bytes + 960 < moved.bytes ||
              !isSampled(++number, 4))
            continue;
          int64_t last = (fixed.bytes - 1) / 64 * 64;
          for (int64_t offset : {fixed.offset, fixed.offset + last}) {
            if (offset + moved.bytes > list.bytes)
              continue;
            int64_t before = moved.offset;
            moved.offset = offset;
            ++mutants;
            EXPECT_FALSE(verify(problem, *solution).isOk())
                << nameOf(problem) << ": " << nameOf(moved.kind) << " on " << nameOf(fixed.kind);
            moved.offset = before;
          }
        }
  }
  EXPECT_GT(mutants, 250);
}

TEST(Mutation, MisplacedBuffers) {
  Problem problem = uniformProblem("1f1b", {2, 1, 3}, kSizes);
  Result<Solution> solution = generate(problem);
  StageSchedule &list = solution->stages[0];
  for (int64_t offset : {int64_t(-64), int64_t(32), list.bytes, INT64_MAX - 63}) {
    int64_t before = list.buffers[0].offset;
    list.buffers[0].offset = offset;
    EXPECT_FALSE(verify(problem, *solution).isOk()) << offset;
    list.buffers[0].offset = before;
  }
  EXPECT_TRUE(verify(problem, *solution).isOk());
}

TEST(Mutation,
     DeadlockNamesBothSteps) { // stage 0 wants the first gradient before it computes the second forward
  Problem problem = uniformProblem("gpipe", {2, 1, 2}, kSizes);
  Result<Solution> solution = generate(problem);
  std::vector<Step> &steps = solution->stages[0].steps;
  auto recv = std::find_if(steps.begin(), steps.end(), [](const Step &s) { return s.kind == Kind::recv; });
  auto run = std::find_if(recv, steps.end(), [](const Step &s) { return s.kind == Kind::run; });
  ASSERT_EQ(run->task, (ScheduledTask{TaskKind::forward, 0, 1}));
  run->waits.push_back(recv - steps.begin());
  Status status = verify(problem, *solution);
  ASSERT_FALSE(status.isOk());
  EXPECT_NE(status.message().find("deadlock"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("(run forward chunk 0 microbatch 1) waits for"), std::string::npos);
  EXPECT_NE(status.message().find("\n  stage 1 step"), std::string::npos);
}

} // namespace
} // namespace mgc::schedule
