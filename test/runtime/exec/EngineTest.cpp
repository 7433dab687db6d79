// The engine on the two-stage plan: what it computes, that it is the same every time, and that a step
// allocates nothing.
#include "runtime/base/Bf16.h"
#include "runtime/base/Cores.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/train/OptimizerSchedule.h"
#include "test/runtime/exec/HandMadePlans.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

constexpr float kRate = 0.5f;

StepScalars scalarsOf(int64_t step) { return stepScalars({}, kRate, step); }

// The same model in a few loops over the global batch.
struct Reference {
  std::vector<double> w, gradient;
  double lossSum = 0, tokens = 0, rate = kRate;
  explicit Reference(const plan::Plan &plan) {
    for (int64_t s = 0; s < plan.sequenceLength; ++s)
      w.push_back(0.25 * static_cast<double>(s + 1));
  }
  void step(const plan::Plan &plan, const GlobalBatch &batch) {
    gradient.assign(w.size(), 0);
    lossSum = tokens = 0;
    for (size_t i = 0; i < batch.tokens.size(); ++i) {
      if (batch.labels[i] == kIgnoredLabel)
        continue;
      lossSum += batch.tokens[i] * w[i % w.size()];
      gradient[i % w.size()] += batch.tokens[i];
      tokens += 1;
    }
    for (size_t s = 0; s < w.size(); ++s)
      w[s] -= rate * gradient[s] / tokens;
  }
  double norm() const {
    double squares = 0;
    for (double value : gradient)
      squares += value * value;
    return std::sqrt(squares);
  }
};

TEST(Engine, trainsAsTheReferenceDoes) {
  for (int64_t dp : {1, 2, 3})
    for (int threads : {1, 2}) {
      const PipelinePlan pipeline = makePipelinePlan(dp);
      std::unique_ptr<Engine> engine = makeEngine(pipeline.plan, {.threadsPerRank = threads});
      setWeights(pipeline, *engine);
      Reference reference(pipeline.plan);
      for (int64_t step = 0; step < 4; ++step) {
        const GlobalBatch batch = makeBatch(pipeline.plan, step);
        reference.step(pipeline.plan, batch);
        Result<StepResult> result = engine->step(step, batch, scalarsOf(step));
        ASSERT_TRUE(result.isOk()) << result.status().message();
        EXPECT_EQ(result->tokens, reference.tokens);
        EXPECT_NEAR(result->loss, reference.lossSum / reference.tokens, 1e-3);
        EXPECT_NEAR(result->gradientNorm, reference.norm(), 1e-2);
      }
      for (int64_t rank = 0; rank < dp; ++rank)
        for (size_t s = 0; s < reference.w.size(); ++s)
          EXPECT_NEAR(inArena<float>(*engine, rank, pipeline.valueOffset)[s], reference.w[s], 1e-3);
    }
}

// Sample n has n % s + 1 tokens, and then padding; the loss of its tokens is worked out in loops over the global batch.
TEST(Engine, readsTypesAndEndsInEveryLayout) {
  for (int64_t dp : {1, 2})
    for (int64_t cp : {1, 2, 4}) {
      const plan::Plan plan = makeEncoderPlan(dp, cp, {.microBatch = 4 / dp});
      const std::unique_ptr<Engine> engine = makeEngine(plan);
      GlobalBatch batch = makeBatch(plan, 0);
      const auto length = static_cast<size_t>(plan.sequenceLength);
      double lossSum = 0, tokens = 0;
      for (size_t i = 0; i < batch.tokens.size(); ++i) {
        const size_t end = i / length % length + 1;
        batch.ends[i] = static_cast<int32_t>(end), batch.types[i] = static_cast<int32_t>(i % 3);
        if (batch.labels[i] != kIgnoredLabel) // all keys of a sample have its one end
          lossSum += static_cast<double>(100 * (i % 3) + end + length), tokens += 1;
      }
      const Result<StepResult> result = engine->step(0, batch, scalarsOf(0));
      ASSERT_TRUE(result.isOk()) << result.status().message();
      EXPECT_EQ(result->tokens, tokens);
      EXPECT_NEAR(result->loss, lossSum / tokens, 1e-6 * lossSum / tokens);
      batch.ends[0] = 0;
      const Result<StepResult> refused = engine->step(1, batch, scalarsOf(1));
      ASSERT_FALSE(refused.isOk());
      EXPECT_EQ(refused.status().message(),
                "sample 0 of the batch, position 0: its document ends at 0, expected 1 to 16");
    }
}

// Rounding of f32 and bf16: half the distance from one number to the next, as a part of the number.
constexpr double kRoundF32 = 0x1p-24, kRoundBf16 = 0x1p-8;

// Gradients are sums of integers below 2^24: exact in f32. In bf16 they are rounded after every microbatch and once
// when they are reduced. A step of the masters rounds a product, a quotient and a difference in f32, on top of what
// the gradient is off by.
double masterTolerance(const Reference &before, const Reference &after, size_t s, double gradientError) {
  const double change = std::abs(before.w[s] - after.w[s]);
  return 3 * kRoundF32 * (std::abs(before.w[s]) + change) + gradientError * change;
}

// The prediction of a token reads a rounded value and is rounded itself; what is summed up has `terms` of them.
double lossTolerance(const Reference &reference, double masterError, double terms) {
  const double size = std::abs(reference.lossSum); // all terms of these plans have one sign as long as w > 0
  return size * (2 * kRoundBf16 + kRoundBf16 * kRoundBf16 + terms * kRoundF32) + masterError * size;
}

TEST(Engine, trainsInBf16WithF32Masters) {
  using plan::DType;
  for (int64_t dp : {1, 2})
    for (DType gradientType : {DType::f32, DType::bf16}) {
      const PipelinePlan pipeline = makePipelinePlan(dp, {.dtype = DType::bf16, .gradientType = gradientType});
      const plan::Plan &plan = pipeline.plan;
      const auto elements = static_cast<size_t>(plan.sequenceLength);
      std::unique_ptr<Engine> engine = makeEngine(plan);
      ASSERT_TRUE(initWeights(plan, 1, engine->arenas()).isOk());
      const double gradientError =
          gradientType == DType::f32 ? 0 : double(plan.microbatches + 1) * kRoundBf16 * (1 + kRoundBf16);
      Reference reference(plan);
      reference.w.assign(elements, 1);
      reference.rate = 0.001f;
      std::vector<double> error(elements, 0); // error of the masters so far
      for (int64_t step = 0; step < 4; ++step) {
        const GlobalBatch batch = makeBatch(plan, step);
        const Reference before = reference;
        reference.step(plan, batch);
        Result<StepResult> result = engine->step(step, batch, stepScalars({}, reference.rate, step));
        ASSERT_TRUE(result.isOk()) << result.status().message();
        EXPECT_EQ(result->tokens, reference.tokens);
        const double least = *std::ranges::min_element(before.w), most = *std::ranges::max_element(error);
        ASSERT_GT(least, 0);
        EXPECT_NEAR(result->loss * reference.tokens, reference.lossSum,
                    lossTolerance(reference, most / least, double(batch.tokens.size())));
        EXPECT_NEAR(result->gradientNorm, reference.norm(),
                    reference.norm() * (gradientError + double(elements + 2) * kRoundF32));
        for (size_t s = 0; s < elements; ++s) {
          error[s] += masterTolerance(before, reference, s, gradientError);
          for (int64_t rank = 0; rank < dp; ++rank) {
            const float master = inArena<float>(*engine, rank, pipeline.masterOffset)[s];
            EXPECT_NEAR(master, reference.w[s], error[s]) << "step " << step << " element " << s;
            EXPECT_EQ(inArena<Bf16>(*engine, rank, pipeline.valueOffset)[s], toBf16(master));
          }
        }
      }
    }
}

// Steps that are too small for bf16 add up in the masters.
TEST(Engine, mastersKeepWhatBf16WouldLose) {
  const PipelinePlan pipeline = makePipelinePlan(1, {.dtype = plan::DType::bf16});
  std::unique_ptr<Engine> engine = makeEngine(pipeline.plan);
  ASSERT_TRUE(initWeights(pipeline.plan, 1, engine->arenas()).isOk());
  const Bf16 *value = inArena<Bf16>(*engine, 0, pipeline.valueOffset);
  const float *master = inArena<float>(*engine, 0, pipeline.masterOffset);
  const GlobalBatch batch = makeBatch(pipeline.plan, 0);
  for (int64_t step = 0; step < 30; ++step) {
    const float before = *master;
    ASSERT_TRUE(engine->step(step, batch, stepScalars({}, 2e-4f, step)).isOk());
    ASSERT_LT(*master, before);
    ASSERT_EQ(toBf16(toFloat(*value) + (*master - before)), *value) << "alone it is rounded away";
  }
  EXPECT_LT(toFloat(*value), 1);
}

TEST(Engine, sameRunTwiceGivesTheSameBits) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  std::vector<std::vector<float>> runs;
  for (int threads : {1, 1, 3}) {
    std::unique_ptr<Engine> engine = makeEngine(pipeline.plan, {.threadsPerRank = threads});
    setWeights(pipeline, *engine);
    std::vector<float> seen;
    for (int64_t step = 0; step < 3; ++step) {
      Result<StepResult> result = engine->step(step, makeBatch(pipeline.plan, step), scalarsOf(step));
      ASSERT_TRUE(result.isOk()) << result.status().message();
      seen.push_back(static_cast<float>(result->loss));
    }
    const float *w = inArena<float>(*engine, 0, pipeline.valueOffset);
    seen.insert(seen.end(), w, w + pipeline.plan.sequenceLength);
    runs.push_back(seen);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[0], runs[2]) << "the number of threads must not matter to row kernels";
}

TEST(Engine, allocatesExactlyWhatThePlanSays) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  std::unique_ptr<Engine> engine = makeEngine(pipeline.plan);
  ASSERT_EQ(engine->arenas().size(), 4u);
  // The last byte was poisoned, so it is there; the sanitizer watches the next one.
  for (int64_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(*inArena<uint8_t>(*engine, rank, pipeline.plan.stages[rank / 2].bytes - 1), 0xFF);
}

TEST(Engine, beforeUpdateSeesCompleteGradientsAndOldValues) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  std::unique_ptr<Engine> engine = makeEngine(pipeline.plan);
  setWeights(pipeline, *engine);
  Reference reference(pipeline.plan);
  const GlobalBatch batch = makeBatch(pipeline.plan, 0);
  const std::vector<double> before = reference.w;
  reference.step(pipeline.plan, batch);
  int64_t calls = 0;
  Result<StepResult> result = engine->step(0, batch, scalarsOf(0), [&] {
    ++calls;
    for (int64_t rank : {0, 1})
      for (size_t s = 0; s < before.size(); ++s) {
        EXPECT_EQ(inArena<float>(*engine, rank, pipeline.gradientOffset)[s], reference.gradient[s]);
        EXPECT_EQ(inArena<float>(*engine, rank, pipeline.valueOffset)[s], before[s]);
      }
    EXPECT_EQ(engine->results().tokens, reference.tokens);
    return Status::ok();
  });
  ASSERT_TRUE(result.isOk()) << result.status().message();
  EXPECT_EQ(calls, 1);
}

// A step that is refused leaves everything as it was, and the next one updates as if it had not been.
TEST(Engine, aRefusedStepUpdatesNothing) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  const std::unique_ptr<Engine> skipping = makeEngine(pipeline.plan), plain = makeEngine(pipeline.plan);
  const auto weights = [&](Engine &engine, int64_t rank) {
    return std::vector<float>(inArena<float>(engine, rank, pipeline.valueOffset),
                              inArena<float>(engine, rank, pipeline.valueOffset) + pipeline.plan.sequenceLength);
  };
  setWeights(pipeline, *skipping);
  setWeights(pipeline, *plain);
  const std::vector<float> before = weights(*skipping, 0);
  double asked = 0;
  const Accepts refuses = [&](const StepResult &result) {
    asked = result.gradientNorm;
    return false;
  };
  const Result<StepResult> refused = skipping->step(0, makeBatch(pipeline.plan, 0), scalarsOf(0), nullptr, refuses);
  ASSERT_TRUE(refused.isOk()) << refused.status().message();
  EXPECT_FALSE(refused->isUpdated);
  EXPECT_EQ(asked, refused->gradientNorm);
  for (int64_t rank : {0, 1})
    EXPECT_EQ(weights(*skipping, rank), before);
  const Accepts accepts = [](const StepResult &) { return true; };
  const Result<StepResult> next = skipping->step(1, makeBatch(pipeline.plan, 1), scalarsOf(0), nullptr, accepts);
  const Result<StepResult> expected = plain->step(1, makeBatch(pipeline.plan, 1), scalarsOf(0));
  ASSERT_TRUE(next.isOk()) << next.status().message();
  ASSERT_TRUE(expected.isOk()) << expected.status().message();
  EXPECT_TRUE(next->isUpdated);
  EXPECT_EQ(next->loss, expected->loss);
  EXPECT_NE(weights(*skipping, 0), before);
  for (int64_t rank : {0, 1})
    EXPECT_EQ(weights(*skipping, rank), weights(*plain, rank));
}

TEST(Engine, writesTheStepScalarsToEveryRank) {
  const PipelinePlan pipeline = makePipelinePlan(1);
  std::unique_ptr<Engine> engine = makeEngine(pipeline.plan);
  setWeights(pipeline, *engine);
  const StepScalars scalars = scalarsOf(6);
  ASSERT_TRUE(engine->step(0, makeBatch(pipeline.plan, 0), scalars).isOk());
  for (int64_t rank : {0, 1})
    EXPECT_EQ(std::memcmp(inArena<float>(*engine, rank, pipeline.plan.stages[rank].stepScalarsOffset), scalars.data(),
                          sizeof scalars),
              0);
}

TEST(Engine, ranksHaveCoresOfTheirOwnWhereThereAreEnough) {
  const std::vector<int> all = availableCores();
  for (int threads : {1, static_cast<int>(all.size())}) {
    std::unique_ptr<Engine> engine = makeEngine(makePipelinePlan(1).plan, {.threadsPerRank = threads});
    std::vector<std::vector<int>> cores(2);
    engine->onRanks([&](int64_t rank) { cores[rank] = availableCores(); });
    if (2 * threads > static_cast<int>(all.size())) {
      EXPECT_EQ(cores, (std::vector<std::vector<int>>{all, all}));
      continue;
    }
    std::vector<int> both;
    std::ranges::set_union(cores[0], cores[1], std::back_inserter(both));
    EXPECT_EQ(both, all);
    EXPECT_EQ(cores[0].size() + cores[1].size(), all.size());
  }
  EXPECT_EQ(availableCores(), all) << "the caller's are as they were";
}

TEST(Engine, sharesOfTheCoresAreDisjointAndEqual) {
  const std::vector<int> cores = {0, 1, 2, 5, 6, 7, 9};
  std::vector<int> joined;
  for (int64_t part = 0; part < 3; ++part) {
    const std::span<const int> share = shareOf(cores, part, 3);
    EXPECT_GE(share.size(), 2u);
    EXPECT_LE(share.size(), 3u);
    joined.insert(joined.end(), share.begin(), share.end());
  }
  EXPECT_EQ(joined, cores);
}

// Stage 0 may not block at the send that waits for a receive: stage 1 sends what it receives only after a
// collective that stage 0 joins later in its list. The second send must not overtake the first, deferred one.
TEST(Engine, aTransferThatWaitsDoesNotHoldUpTheList) {
  plan::Plan plan = emptyPlan({{"pp", 2, plan::AxisRole::stage}});
  std::vector<int64_t> meet(2), buffers(2);
  for (int64_t stage : {0, 1}) {
    plan::StagePlan &to = plan.stages[stage];
    StageLayout layout(to);
    buffers[stage] = layout.place("activations", 3 * 64);
    layout.finish();
    const plan::Collective collective{.stages = {0, 1}, .chunk = 16};
    meet[stage] = addChunk(plan, stage, plan::Task::forward, ProgramBuilder("meet", {64}).add(collective, {0, 0}),
                           {to.resultsOffset});
  }
  const int64_t a = buffers[0], b = buffers[1];
  const auto ring = [&](int64_t stage, int64_t offset, int64_t value) {
    return addRing(plan, stage, offset, 64, 1, 1 - stage, value);
  };
  plan.stages[0].schedule = {receiveStep(ring(0, a, 10), 0), sendStep(ring(0, a, 11), 0, {1}),
                             sendStep(ring(0, a + 64, 12), 0), runStep(meet[0], 0), runStep(meet[0], 1)};
  plan.stages[1].schedule = {runStep(meet[1], 0), sendStep(ring(1, b, 10), 0), runStep(meet[1], 1),
                             receiveStep(ring(1, b + 64, 11), 0), receiveStep(ring(1, b + 128, 12), 0)};
  std::unique_ptr<Engine> engine = makeEngine(plan, {.timeout = std::chrono::seconds(30)});
  for (int64_t step = 0; step < 20; ++step) {
    std::memset(engine->arenas()[0] + a + 64, 7, 64);
    std::memset(engine->arenas()[1] + b, static_cast<int>(step + 1), 64);
    Result<StepResult> result = engine->step(step, makeBatch(plan, 0), scalarsOf(0));
    ASSERT_TRUE(result.isOk()) << result.status().message();
    EXPECT_EQ(*inArena<uint8_t>(*engine, 1, b + 64), step + 1) << "forwarded by stage 0";
    EXPECT_EQ(*inArena<uint8_t>(*engine, 1, b + 128), 7);
  }
}

} // namespace
} // namespace mgc::test
