// Every schedule over many shapes proved, and the memory each one promises.
#include "compiler/assemble/memory/MemorySolver.h"
#include "compiler/schedule/CheckOrders.h"
#include "plan/play/Player.h"
#include "plan/play/SolutionLists.h"
#include "test/compiler/schedule/Sweep.h"

#include <algorithm>
#include <ctime>
#include <gtest/gtest.h>

namespace mgc::schedule {
namespace {

// The largest live set: no placement needs less.
int64_t lowerBound(const StageSchedule &stage) {
  std::vector<memory::LiveBuffer> buffers;
  for (const ScheduledBuffer &buffer : stage.buffers)
    buffers.push_back({buffer.bytes, buffer.begin, buffer.end});
  return memory::lowerBound(buffers);
}

// Largest number of microbatches whose saved activations live at one time on a stage, chunks counted singly.
int64_t peakInFlight(const Solution &solution, int64_t stage) {
  const std::vector<Step> &steps = solution.stages[stage].steps;
  auto runs = [](const Step &step, TaskKind kind) { return step.kind == Step::Kind::run && step.task.kind == kind; };
  bool isSplit =
      std::any_of(steps.begin(), steps.end(), [&](const Step &step) { return runs(step, TaskKind::weight); });
  int64_t live = 0, most = 0;
  for (const Step &step : steps) {
    live += runs(step, TaskKind::forward);
    live -= runs(step, isSplit ? TaskKind::weight : TaskKind::backward);
    most = std::max(most, live);
  }
  return most;
}

// Whether the run's buffers are those that the table of accesses says.
bool usesItsBuffers(const Problem &problem, int64_t stage, const Step &step) {
  int64_t reads = 0, writes = 0;
  for (int64_t kind = 0; kind < kBufferKinds && step.microbatch >= 0; ++kind)
    if (bytesOf(problem, stage, step.task.chunk, BufferKind(kind)) > 0) {
      const BufferAccess access = problem.access[int(step.task.kind)][kind];
      reads += access == BufferAccess::read, writes += access == BufferAccess::write;
    }
  return std::ssize(step.reads) == reads && std::ssize(step.writes) == writes;
}

// The solution of a problem, which is proved; all its tasks are there, with their buffers.
Solution sound(const Problem &problem) {
  EXPECT_TRUE(checkOrders(problem.shape, rowOf(problem)->orders(problem)).isOk()) << nameOf(problem);
  Result<Solution> solution = generate(problem);
  EXPECT_TRUE(solution.isOk()) << nameOf(problem) << ": " << solution.status().message();
  const Status status = solution.isOk() ? prove(problem, *solution) : Status::ok();
  EXPECT_TRUE(status.isOk()) << nameOf(problem) << "\n" << status.message();
  for (size_t stage = 0; solution.isOk() && stage < solution->stages.size(); ++stage)
    for (const Step &step : solution->stages[stage].steps)
      EXPECT_TRUE(step.kind != Step::Kind::run || usesItsBuffers(problem, int64_t(stage), step)) << toString(step);
  return solution.isOk() ? solution.take() : Solution();
}

TEST(Schedule, EveryRowIsValidForEveryShape) {
  int64_t solutions = 0;
  double worst = 0;
  sweep(6, 3, 12, [&](const ScheduleRow &, const Problem &problem) {
    const Solution solution = sound(problem);
    for (const StageSchedule &stage : solution.stages)
      worst = std::max(worst, double(stage.bytes) / double(std::max<int64_t>(1, lowerBound(stage))));
    ++solutions;
  });
  std::printf("%ld solutions; worst area / lower bound %.3f\n", long(solutions), worst);
  int64_t ofShape = 0; // rows by the virtual stages that they take
  for (const ScheduleRow &row : schedules())
    ofShape += std::min<int64_t>(row.maxVirtualStages, 3) - row.minVirtualStages + 1;
  EXPECT_EQ(solutions, 6 * 12 * ofShape);
  EXPECT_LT(worst, 1.4); // for small sizes that differ; PeriodicTest has a model's
}

TEST(Schedule, EveryRowIsValidInParts) {
  sweep(5, 3, 8, [&](const ScheduleRow &row, const Problem &whole) {
    Problem problem = inParts(whole);
    const Solution solution = sound(problem);
    for (size_t stage = 0; stage < solution.stages.size(); ++stage)
      for (int64_t chunk = 0; chunk < problem.shape.virtualStages; ++chunk)
        EXPECT_EQ(std::ranges::count_if(solution.stages[stage].steps,
                                        [&](const Step &step) {
                                          return step.task.kind == TaskKind::gradients && step.task.chunk == chunk;
                                        }),
                  problem.parts[stage][chunk])
            << row.name;
  });
}

// Gradients are completed while the backward goes on: with a collective as long as a part, all but the last is hidden.
TEST(Schedule, GradientsAreCompletedBesideTheBackward) {
  Problem problem = uniformProblem("1f1b", {1, 1, 2}, kSizes);
  problem.parts = {{4}};
  Costs costs;
  costs.chunks = {{1, 4, 2, 2, 4}};
  EXPECT_DOUBLE_EQ(play(listsOf(*generate(problem), costs)).makespan, 2 * (1 + 4) + 1);
}

// In steady state each forward is paired with a backward of the other chunk, and every stage holds pp + 1 microbatches
// of a chunk at most.
TEST(Schedule, DualPipeVPairsForwardsWithBackwards) {
  for (int64_t pp = 1; pp <= 6; ++pp)
    for (int64_t m = 1; m <= 24; ++m) {
      const Problem problem = uniformProblem("dualpipev", {pp, 2, m}, kSizes);
      const Result<Solution> solution = generate(problem);
      ASSERT_TRUE(solution.isOk()) << nameOf(problem);
      for (int64_t stage = 0; stage < pp; ++stage) {
        const std::vector<Step> &steps = solution->stages[stage].steps;
        const int64_t pairs = std::ranges::count_if(steps, isPaired);
        if (m >= 2 * pp)
          EXPECT_EQ(pairs, 2 * (m - 2 * pp + stage + 1) - (stage + 1 == pp) + pp - 1 - stage)
              << nameOf(problem) << " stage " << stage;
        for (size_t i = 0; i < steps.size(); ++i)
          if (isPaired(steps[i])) {
            EXPECT_EQ(steps[i].task.kind, TaskKind::backward);
            EXPECT_EQ(steps[i - 1].task.kind, TaskKind::forward);
            EXPECT_NE(steps[i].task.chunk, steps[i - 1].task.chunk);
          }
        EXPECT_LE(peakInFlight(*solution, stage), 2 * pp + 1) << nameOf(problem) << " stage " << stage;
      }
    }
}

// Runs of a pair in parts come by themselves.
TEST(Schedule, PartsArePartOfNoPair) {
  Problem problem = uniformProblem("dualpipev", {1, 2, 4}, kSizes);
  const int64_t whole = std::ranges::count_if(generate(problem)->stages[0].steps, isPaired);
  problem.parts = {{2, 2}};
  const Result<Solution> solution = generate(problem);
  EXPECT_TRUE(prove(problem, *solution).isOk());
  EXPECT_EQ(std::ranges::count_if(solution->stages[0].steps, isPaired), whole);
  for (const Step &step : solution->stages[0].steps)
    EXPECT_FALSE(isPaired(step) && step.task.part >= 0);
}

TEST(Schedule, UnevenSizesAndBuffersThatAreAbsent) {
  for (const ScheduleRow &row : schedules()) {
    int64_t v = row.minVirtualStages;
    Problem problem = uniformProblem(row.name, {3, v, 5}, {256, 0, 256, 320, 320, 0});
    for (int64_t stage = 0; stage < 3; ++stage)
      for (int64_t chunk = 0; chunk < v; ++chunk)
        problem.bytes[stage][chunk][int(BufferKind::activation)] = 100 * (stage + 2 * chunk);
    sound(problem);
  }
}

TEST(Schedule, AnotherAccessTable) { // a backward that does not need the chunk's input frees it early
  sweep(4, 2, 6, [&](const ScheduleRow &, Problem problem) {
    int64_t before = generate(problem)->stages.back().bytes;
    for (TaskKind kind : {TaskKind::backward, TaskKind::input, TaskKind::weight})
      problem.access[int(kind)][int(BufferKind::input)] = BufferAccess::none;
    EXPECT_LE(lowerBound(sound(problem).stages.back()), before);
  });
}

TEST(Schedule, MicrobatchesInFlight) {
  sweep(6, 1, 12, [&](const ScheduleRow &row, const Problem &problem) {
    Result<Solution> solution = generate(problem);
    int64_t pp = problem.shape.stages, m = problem.shape.microbatches;
    for (int64_t stage = 0; stage < pp; ++stage) {
      int64_t peak = peakInFlight(*solution, stage);
      if (row.name == std::string("gpipe")) {
        EXPECT_EQ(peak, m);
      }
      if (row.name == std::string("1f1b")) {
        EXPECT_EQ(peak, std::min(pp - stage, m)) << nameOf(problem) << " stage " << stage;
      }
      if (row.name == std::string("zb-h1")) { // 1F1B's largest, on its first stage
        EXPECT_LE(peak, std::min(pp, m)) << nameOf(problem) << " stage " << stage;
      }
    }
  });
}

TEST(Schedule, InterleavedHoldsNoMoreThanItsWarmup) {
  for (int64_t pp = 1; pp <= 6; ++pp)
    for (int64_t v = 2; v <= 3; ++v)
      for (int64_t m = 1; m <= 20; ++m) {
        Result<Solution> solution = generate(uniformProblem("interleaved", {pp, v, m}, kSizes));
        for (int64_t stage = 0; stage < pp; ++stage)
          EXPECT_LE(peakInFlight(*solution, stage), std::min(2 * (pp - stage - 1) + (v - 1) * pp + 1, m * v));
      }
}

TEST(Schedule, SchedulesInAVHoldWhatTheySay) { // chunks; 1F1B holds 2 pp
  for (int64_t pp = 1; pp <= 12; ++pp)
    for (int64_t m = 1; m <= 24; ++m) {
      Result<Solution> zeroBubble = generate(uniformProblem("zb-v", {pp, 2, m}, kSizes));
      Result<Solution> half = generate(uniformProblem("v-half", {pp, 2, m}, kSizes));
      for (int64_t stage = 0; stage < pp; ++stage) {
        EXPECT_LE(peakInFlight(*zeroBubble, stage), std::min(2 * pp, 2 * m)) << pp << " " << m;
        EXPECT_LE(peakInFlight(*half, stage), std::min(pp + (pp % 2 ? 1 : 3), 2 * m)) << pp << " " << m;
      }
    }
}

// The boundary in the middle of a V is on the last stage: no message crosses it, and the second chunk has no input buffer.
TEST(Schedule, TheTurnOfAVIsNoMessage) {
  Problem problem = uniformProblem("zb-v", {3, 2, 4}, kSizes);
  Result<Solution> solution = generate(problem);
  const StageSchedule &last = solution->stages[2];
  for (const Step &step : last.steps)
    EXPECT_TRUE(step.kind == Step::Kind::run || step.value / 2 != 2) << toString(step);
  for (const ScheduledBuffer &buffer : last.buffers)
    EXPECT_FALSE(buffer.chunk == 1 && buffer.kind == BufferKind::input);
}

TEST(Schedule, PlacementsAreOneToOne) {
  for (ChunkPlacement placement : {ChunkPlacement::loop, ChunkPlacement::v})
    for (int64_t pp = 1; pp <= 5; ++pp)
      for (int64_t v = 1; v <= 4; ++v) {
        const Shape shape{pp, v, 1, placement};
        for (int64_t global = 0; global < shape.chunks(); ++global)
          EXPECT_EQ(shape.globalChunk(shape.stageOf(global), shape.chunkOf(global)), global);
        EXPECT_EQ(shape.isLocal(pp - 1) && v > 1, v > 1 && (pp == 1 || placement == ChunkPlacement::v));
      }
  EXPECT_NE(findSchedule("zb-v", {2, 2, 4}).status().message().find("in placement v, not loop"), std::string::npos);
}

TEST(Schedule, SentBuffersAreReused) { // the ring of output buffers does not grow with the microbatches
  auto outputs = [](int64_t m) {
    Result<Solution> solution = generate(uniformProblem("gpipe", {2, 1, m}, {64, 0, 64, 64, 64, 0}));
    std::vector<int64_t> offsets;
    for (const ScheduledBuffer &buffer : solution->stages[0].buffers)
      if (buffer.kind == BufferKind::output)
        offsets.push_back(buffer.offset);
    std::sort(offsets.begin(), offsets.end());
    return std::unique(offsets.begin(), offsets.end()) - offsets.begin();
  };
  EXPECT_EQ(outputs(8), outputs(40));
  EXPECT_LE(outputs(40), 4);
}

TEST(Schedule, GradientsAccumulateInMicrobatchOrder) {
  sweep(5, 3, 9, [&](const ScheduleRow &row, const Problem &problem) {
    TaskKind kind = row.splitBackward ? TaskKind::weight : TaskKind::backward;
    for (const Order &order : row.orders(problem)) {
      std::vector<int64_t> next(problem.shape.virtualStages, 0);
      for (const ScheduledTask &task : order)
        if (task.kind == kind) {
          EXPECT_EQ(task.microbatch, next[task.chunk]++) << nameOf(problem);
        }
    }
  });
}

TEST(Schedule,
     InterleavedIsMegatronsWhenMicrobatchesDivide) { // warmup 2 (pp - rank - 1) + (v - 1) pp, capped
  for (int64_t pp = 1; pp <= 5; ++pp)
    for (int64_t v = 2; v <= 3; ++v)
      for (int64_t m = pp; m <= 4 * pp; m += pp) {
        std::vector<Order> orders =
            (*findSchedule("interleaved", {pp, v, m}))->orders(uniformProblem("interleaved", {pp, v, m}, kSizes));
        for (int64_t stage = 0; stage < pp; ++stage) {
          auto first = std::find_if(orders[stage].begin(), orders[stage].end(),
                                    [](const ScheduledTask &task) { return task.kind == TaskKind::backward; });
          int64_t warmup = std::min(2 * (pp - stage - 1) + (v - 1) * pp, m * v);
          EXPECT_EQ(first - orders[stage].begin(), std::min(warmup + 1, m * v));
          EXPECT_EQ(first->chunk, v - 1);
        }
      }
}

TEST(Schedule, LargeProblemsAreFast) {
  for (auto [name, v] : {std::pair("1f1b", 1), {"interleaved", 2}, {"gpipe", 2}, {"zb-h1", 1}, {"zb-v", 2}}) {
    Problem problem = uniformProblem(name, {64, v, 64}, kSizes);
    std::clock_t start = std::clock();
    Result<Solution> solution = generate(problem);
    std::clock_t middle = std::clock();
    ASSERT_TRUE(solution.isOk());
    Status status = prove(problem, *solution);
    std::clock_t end = std::clock();
    ASSERT_TRUE(status.isOk()) << status.message();
    double milliseconds = 1000.0 * double(end - middle) / CLOCKS_PER_SEC;
    std::printf("%s pp 64 v %d M 64: generate %.0f ms, prove %.0f ms\n", name, v,
                1000.0 * double(middle - start) / CLOCKS_PER_SEC, milliseconds);
    EXPECT_LT(milliseconds, 1000); // far under 200 in an optimised build; sanitizers take more
  }
}

TEST(Schedule, TakesTheMostMicrobatchesAndNoMore) {
  for (const ScheduleRow &row : schedules())
    for (const auto &[stages, chunks] :
         {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {3, 5}, {2000, 1}, {INT64_MAX, 2}}) {
      const int64_t virtualStages = std::clamp(chunks, row.minVirtualStages, row.maxVirtualStages);
      const int64_t most = mostMicrobatches(row, stages, virtualStages);
      const Shape shape{stages, virtualStages, most, row.placement},
          more{stages, virtualStages, most + 1, row.placement};
      EXPECT_EQ(findSchedule(row.name, shape).isOk(), most > 0) << row.name << stages;
      EXPECT_FALSE(findSchedule(row.name, more).isOk()) << row.name << stages;
    }
}

TEST(Schedule, RefusesBadProblems) {
  auto message = [](const Problem &problem) {
    Result<Solution> solution = generate(problem);
    return solution.isOk() ? "" : solution.status().message();
  };
  for (const ScheduleRow &row : schedules())
    EXPECT_NE(message(uniformProblem("2f2b", {2, 1, 4}, kSizes)).find(row.name), std::string::npos) << row.name;
  EXPECT_NE(message(uniformProblem("1f1b", {2, 2, 4}, kSizes)).find("at most 1"), std::string::npos);
  EXPECT_NE(message(uniformProblem("interleaved", {2, 1, 4}, kSizes)).find("at least 2"), std::string::npos);
  EXPECT_NE(message(uniformProblem("gpipe", {2, 1, 0}, kSizes)).find("at least 1"), std::string::npos);
  Problem huge = uniformProblem("gpipe", {2, 1, 2}, kSizes);
  huge.shape.microbatches = int64_t(1) << 62;
  EXPECT_NE(message(huge).find("at most"), std::string::npos);
  // A bit is kept per pair of steps: 32767 microbatches are 65536 steps of one device, 1000000 too many.
  EXPECT_TRUE(findSchedule("1f1b", {1, 1, 32767}).isOk());
  EXPECT_NE(findSchedule("1f1b", {1, 1, 1000000})
                .status()
                .message()
                .find("1000000 microbatches make more than 65536 steps on a stage, or 16777216 tasks in all; at most "
                      "32767 with 1 stages"),
            std::string::npos);
  EXPECT_FALSE(findSchedule("interleaved", {4, 1000000, 8}).isOk());
  Problem problem = uniformProblem("gpipe", {2, 1, 2}, kSizes);
  problem.bytes[0][0][int(BufferKind::output)] = 128;
  EXPECT_NE(message(problem).find("output of 128 bytes"), std::string::npos);
  problem = uniformProblem("gpipe", {2, 1, 2}, kSizes);
  problem.bytes[1][0][int(BufferKind::gradientOut)] = 0;
  EXPECT_NE(message(problem).find("gradientOut of 0 bytes"), std::string::npos);
  problem = uniformProblem("gpipe", {2, 1, 2}, kSizes);
  problem.bytes[1][0][int(BufferKind::activation)] = -1;
  EXPECT_NE(message(problem).find("-1 bytes"), std::string::npos);
  problem.bytes.pop_back();
  EXPECT_NE(message(problem).find("sizes for 1 stages"), std::string::npos);
  problem = inParts(uniformProblem("gpipe", {2, 1, 2}, kSizes));
  problem.parts[1][0] = kMaxParts + 1;
  EXPECT_NE(message(problem).find("stage 1: its last backward"), std::string::npos);
  problem.parts.pop_back();
  EXPECT_NE(message(problem).find("parts for 1 stages"), std::string::npos);
}

} // namespace
} // namespace mgc::schedule
