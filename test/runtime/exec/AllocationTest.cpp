// Tests that a step allocates nothing: this binary replaces operator new for all its threads. A sanitizer brings its
// own, so it is not built with one.
#include "runtime/kernels/CpuGemm.h"
#include "runtime/kernels/GemmBf16.h"
#include "test/runtime/exec/RandomPrograms.h"
#include "test/runtime/kernels/AttentionReference.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>

static std::atomic<bool> counting{false};
static std::atomic<int64_t> allocations{0};

static void *allocate(std::size_t bytes, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed))
    allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (void *data = std::aligned_alloc(alignment, rounded > 0 ? rounded : alignment))
    return data;
  throw std::bad_alloc();
}

void *operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void *operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void *data) noexcept { std::free(data); }
void operator delete(void *data, std::size_t) noexcept { std::free(data); }
void operator delete(void *data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void *data, std::size_t, std::align_val_t) noexcept { std::free(data); }

namespace mgc::test {
namespace {

class AllocationCount { // while it lives
public:
  AllocationCount() {
    allocations = 0;
    counting = true;
  }
  ~AllocationCount() { counting = false; }
  int64_t count() const { return allocations; }
};

TEST(Allocation, isSeen) {
  const AllocationCount count;
  const auto value = std::make_unique<std::vector<int>>(100);
  EXPECT_GE(count.count(), 2);
}

TEST(Allocation, noneInAStep) {
  for (int threads : {1, 2}) {
    const PipelinePlan pipeline = makePipelinePlan(2);
    const TimelineOptions recordAll{.traceSteps = 5, .measure = true};
    std::unique_ptr<Engine> engine = makeEngine(
        pipeline.plan, {.threadsPerRank = threads, .timeline = threads == 1 ? recordAll : TimelineOptions()});
    for (int64_t rank : {0, 1})
      std::fill_n(inArena<float>(*engine, rank, pipeline.valueOffset), pipeline.plan.sequenceLength, 1.0f);
    const GlobalBatch batch = makeBatch(pipeline.plan, 0);
    int64_t calls = 0;
    const std::function<Status()> beforeUpdate = [&] {
      ++calls;
      return Status::ok();
    };
    const AllocationCount count;
    for (int64_t step = 0; step < 5; ++step)
      ASSERT_TRUE(engine->step(step, batch, StepScalars{}, beforeUpdate).isOk());
    EXPECT_EQ(count.count(), 0) << threads << " threads";
    EXPECT_EQ(calls, 5);
  }
}

// An extra thread of a rank waits for work of both kinds.
TEST(Allocation, noneInAStepOfSeveralThreads) {
  for (const plan::Plan &plan : {sumAndProductPlan(), concurrentGradientsPlan()}) {
    const std::unique_ptr<Engine> engine = makeEngine(plan, {.isConcurrent = true});
    const GlobalBatch batch = makeBatch(plan, 0);
    ASSERT_TRUE(engine->step(0, batch, StepScalars{}).isOk()); // oneDNN makes its code
    const AllocationCount count;
    for (int64_t step = 1; step < 5; ++step)
      ASSERT_TRUE(engine->step(step, batch, StepScalars{}).isOk());
    EXPECT_EQ(count.count(), 0);
  }
}

// The library calls, which the plan above has none of.
TEST(Allocation, noneInAttentionAndProducts) {
  AttentionProblem x({.s = 200, .t = 200, .b = 2, .g = 2, .r = 2, .d = 16});
  x.run(1);
  plan::Attention backward = x.a, forward = x.a;
  forward.backward = false;
  std::vector<char> workspace(attentionWorkspaceBytes(backward) + plan::kAlignment);
  char *aligned = workspace.data();
  aligned += -reinterpret_cast<uintptr_t>(aligned) % plan::kAlignment;
  const AttentionOperands operands = x.operandsWith(aligned);
  const auto product = [&](int threads) {
    gemm({.m = 50, .n = 16, .k = 30}, x.q.data(), x.k.data(), x.dq.data(), threads);
  };
  product(1); // oneDNN makes its code at the first call
  for (int threads : {1, 2}) {
    const AllocationCount count;
    attention(forward, operands, threads);
    attention(backward, operands, threads);
    product(threads);
    EXPECT_EQ(count.count(), 0) << threads << " threads";
  }
}

// Each thread allocates its panels of bf16 once. (oneDNN's native products allocate lists of arguments in each call.) The
// bytes of the f32 operands are more than enough.
TEST(Allocation, noneInProductsAndAttentionOfBf16) {
  setBf16Product(Bf16Product::panels);
  AttentionProblem x({.s = 200, .t = 200, .b = 2, .g = 2, .r = 2, .d = 16, .type = plan::DType::bf16});
  const auto product = [&] {
    gemm({.m = 50,
          .n = 16,
          .k = 30,
          .accumulate = true,
          .inputType = plan::DType::bf16,
          .outputType = plan::DType::bf16},
         x.q.data(), x.k.data(), x.v.data(), 1);
  };
  const auto both = [&] {
    for (bool isBackward : {false, true})
      x.pass(isBackward, 1);
    product();
  };
  for (auto *made : {&x.o, &x.lse, &x.dq, &x.dk, &x.dv})
    made->assign(x.q.size(), 0);
  both();
  const AllocationCount count;
  both();
  EXPECT_EQ(count.count(), 0);
}

} // namespace
} // namespace mgc::test
