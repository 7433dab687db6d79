// Schedules with their repeats against those that are generated whole.
#include "compiler/schedule/Periodic.h"

#include "plan/Expand.h"
#include "test/Samples.h"
#include "test/compiler/schedule/Sweep.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>

namespace mgc::schedule {
namespace {

// Calls visit(problem) for every row over pp 1..4, v 1..3 and the microbatches.
template <typename Visit> void sweepPeriodic(const std::vector<int64_t> &microbatches, Sizes bytes, Visit &&visit) {
  for (const ScheduleRow &row : schedules())
    for (int64_t pp = 1; pp <= 4; ++pp)
      for (int64_t v = 1; v <= 3; ++v)
        for (int64_t m : microbatches)
          if (takes(row, v) && findSchedule(row.name, {pp, v, m}).isOk())
            visit(uniformProblem(row.name, {pp, v, m}, bytes));
}

std::vector<int64_t> upTo(int64_t last) {
  std::vector<int64_t> numbers;
  for (int64_t i = 1; i <= last; ++i)
    numbers.push_back(i);
  return numbers;
}

std::vector<Step> stepsThatRun(const PeriodicStage &stage) {
  std::vector<Step> steps;
  plan::forEachRun(stage.steps.size(), stage.repeats, [&](int64_t item, int64_t iteration) {
    steps.push_back(stage.steps[item].step);
    const int64_t more = iteration * stage.steps[item].microbatchStride;
    steps.back().microbatch += more, steps.back().task.microbatch += more;
  });
  return steps;
}

void expectSameSteps(const PeriodicStage &found, const PeriodicStage &expected, const std::string &what) {
  const std::vector<Step> a = stepsThatRun(found), b = stepsThatRun(expected);
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].waits, b[i].waits) << what << " step " << i << " " << toString(a[i]);
    ASSERT_TRUE(a[i] == b[i]) << what << " step " << i << " " << toString(a[i]) << ", expected " << toString(b[i]);
  }
}

// Buffers that live at the same time have no byte in common where the rings place them.
class Apart {
public:
  Apart(const StageSchedule &stage, const PeriodicStage &rings) : stage_(stage), rings_(rings) {}

  void expect(const std::string &what) {
    std::multimap<std::pair<int64_t, bool>, const ScheduledBuffer *> events; // ends come before begins
    for (const ScheduledBuffer &buffer : stage_.buffers) {
      events.emplace(std::pair(buffer.begin, true), &buffer);
      events.emplace(std::pair(buffer.end, false), &buffer);
    }
    for (const auto &[when, buffer] : events)
      if (when.second)
        begin(*buffer, what);
      else
        alive_.erase(offsetOf(*buffer));
  }

private:
  int64_t offsetOf(const ScheduledBuffer &buffer) const {
    return rings_.rings[buffer.ring].offsetOf(buffer.microbatch);
  }

  void begin(const ScheduledBuffer &buffer, const std::string &what) {
    const int64_t offset = offsetOf(buffer), end = offset + buffer.bytes;
    const auto next = alive_.lower_bound(offset);
    ASSERT_TRUE(next == alive_.end() || next->first >= end) << what << ": at " << offset;
    ASSERT_TRUE(next == alive_.begin() || std::prev(next)->second <= offset) << what << ": at " << offset;
    ASSERT_LE(end, rings_.bytes) << what;
    alive_.emplace(offset, end);
  }

  const StageSchedule &stage_;
  const PeriodicStage &rings_;
  std::map<int64_t, int64_t> alive_; // begin and end
};

TEST(Periodic, RunsTheStepsOfTheWholeProblem) {
  int64_t number = 0;
  sweepPeriodic(upTo(60), kSizes, [&number](const Problem &problem) {
    if (!isSampled(number++, 5))
      return;
    const Result<Solution> whole = generate(problem);
    const Result<PeriodicSolution> periodic = generatePeriodic(problem);
    ASSERT_TRUE(whole.isOk() && periodic.isOk()) << nameOf(problem);
    for (size_t s = 0; s < whole->stages.size(); ++s) {
      const std::string what = fmt::format("{} stage {}", nameOf(problem), s);
      const PeriodicStage found = findRepeats(whole->stages[s]);
      expectSameSteps(periodic->stages[s], found, what);
      ASSERT_EQ(periodic->stages[s].leastBytes, found.leastBytes) << what;
      ASSERT_LE(periodic->stages[s].bytes, found.bytes) << what;
      Apart(whole->stages[s], periodic->stages[s]).expect(what);
      ASSERT_FALSE(testing::Test::HasFatalFailure());
    }
  });
}

// The list of a stage whose repeats are found is the list that was given.
TEST(Periodic, RepeatsChangeNothing) {
  sweepPeriodic({1, 2, 5, 12}, kSizes, [](const Problem &problem) {
    const Result<Solution> whole = generate(problem);
    for (const StageSchedule &stage : whole->stages) {
      const std::vector<Step> steps = stepsThatRun(findRepeats(stage));
      ASSERT_EQ(steps.size(), stage.steps.size());
      for (size_t i = 0; i < steps.size(); ++i) {
        std::vector<int64_t> waits;
        for (int64_t distance : steps[i].waits)
          waits.push_back(int64_t(i) - distance);
        std::ranges::reverse(waits);
        ASSERT_EQ(toString(steps[i]), toString(stage.steps[i])) << nameOf(problem) << " step " << i;
        ASSERT_TRUE(std::ranges::is_permutation(waits, stage.steps[i].waits)) << nameOf(problem) << " step " << i;
      }
    }
  });
}

// Items, repeats and rings of all stages.
std::vector<size_t> sizesOf(const PeriodicSolution &solution) {
  std::vector<size_t> sizes;
  for (const PeriodicStage &stage : solution.stages)
    sizes.insert(sizes.end(), {stage.steps.size(), stage.repeats.size(), stage.rings.size()});
  return sizes;
}

TEST(Periodic, ListsDoNotGrowWithMicrobatches) {
  sweepPeriodic({64, 65, 66, 67}, kSizes, [](Problem problem) {
    const std::vector<size_t> sizes = sizesOf(*generatePeriodic(problem));
    for (int64_t more : {12, 120}) { // multiples of every group
      problem.shape.microbatches += more;
      if (findSchedule(problem.schedule, problem.shape).isOk()) {
        EXPECT_EQ(sizesOf(*generatePeriodic(problem)), sizes) << nameOf(problem);
      }
    }
  });
}

// In warm-up zb-v runs the first microbatches of its second chunk in a slot that the first chunk takes next, which no ring
// says: it has one slot more than its 2 pp.
TEST(Periodic, RingsWasteLittleMemory) {
  constexpr int64_t boundary = 12582912, activation = 742981632; // a GPT-3 layer's chunk
  std::map<std::string, double> worst;
  sweepPeriodic({1, 2, 3, 4, 7, 8, 16, 64, 200}, {boundary, activation, boundary, boundary, boundary, boundary},
                [&](const Problem &problem) {
                  const Result<PeriodicSolution> solution = generatePeriodic(problem);
                  const bool isV = problem.schedule == "zb-v" || problem.schedule == "auto";
                  for (const PeriodicStage &stage : solution->stages) {
                    const double ratio = double(stage.bytes - (isV ? activation : 0)) / double(stage.leastBytes);
                    worst[problem.schedule] = std::max(worst[problem.schedule], ratio);
                  }
                });
  for (const auto &[schedule, ratio] : worst) {
    std::printf("%s: worst area / lower bound %.4f\n", schedule.c_str(), ratio);
    EXPECT_LT(ratio, 1.05) << schedule;
  }
}

TEST(Periodic, PartsOfTheLastBackwardsRunOnce) {
  sweepPeriodic({3, 40}, kSizes, [](const Problem &whole) {
    const Problem problem = inParts(whole);
    const Result<Solution> solution = generate(problem);
    const Result<PeriodicSolution> periodic = generatePeriodic(problem);
    ASSERT_TRUE(solution.isOk() && periodic.isOk()) << nameOf(problem);
    for (size_t s = 0; s < solution->stages.size(); ++s)
      expectSameSteps(periodic->stages[s], findRepeats(solution->stages[s]), nameOf(problem));
  });
}

TEST(Periodic, RefusesWhatGenerateRefuses) {
  const Problem none = uniformProblem("1f1b", {2, 1, 0}, kSizes), unknown = uniformProblem("2f2b", {2, 1, 99}, kSizes);
  for (const Problem &problem : {none, unknown})
    EXPECT_EQ(generatePeriodic(problem).status().message(), generate(problem).status().message());
  Problem sizes = uniformProblem("1f1b", {2, 1, 99}, kSizes);
  sizes.bytes.pop_back();
  EXPECT_EQ(generatePeriodic(sizes).status().message(), generate(sizes).status().message());
}

} // namespace
} // namespace mgc::schedule
