// Attention's graphs, given to the real cuDNN for GPUs that are only described to it: whether it has kernels, and what workspace
// they ask for.
#include "runtime/device/CallFacts.h"
#include "runtime/device/cuda/CudnnAttentionGraph.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::cuda;

// Stubs of the functions that attention asks of a device; these tests call none.
Status mgc_device::enter() { return Status::ok(); }
Status cuda::allocate(mgc_device *, int64_t, mgc_address *) { return errorf("there is no device"); }
void cuda::release(mgc_device *, mgc_address) {}
Status cuda::copyInNow(mgc_device &, mgc_address, const void *, int64_t) { return errorf("there is no device"); }
Status cuda::fill(mgc_stream *, mgc_address, uint8_t, int64_t) { return errorf("there is no device"); }
Result<CUfunction> cuda::ownKernel(mgc_device &, const OwnModule &, const char *) {
  return errorf("there is no device");
}
Status cuda::launchWith(mgc_stream &, CUfunction, const KernelLaunch &, void **, std::string_view) {
  return errorf("there is no device");
}

namespace {

// A GPU, as far as its numbers differ: an A100, an RTX A6000, an RTX 4090, an H100, a B200 and an RTX 5090.
struct Gpu {
  int capability, processors, shared, threads;
};
constexpr auto kGpus = std::to_array<Gpu>({{80, 108, 166912, 2048},
                                           {86, 84, 101376, 1536},
                                           {89, 128, 101376, 1536},
                                           {90, 132, 232448, 2048},
                                           {100, 148, 232448, 2048},
                                           {120, 170, 101376, 1536}});

// Properties of the GPU, as far as the choice of kernels reads them.
std::string properties(int capability) {
  const Gpu &gpu = *std::ranges::find(kGpus, capability, &Gpu::capability);
  return fmt::format(
      R"({{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":{},)"
      R"("warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},"reservedSharedMemoryPerBlock":1024,)"
      R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":{},"pciDeviceId":0,)"
      R"("isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":84987740160,"smClockRateKHz":1980000,"memClockRateKHz":2619000,)"
      R"("l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":{},"driverVer":13000,"deviceName":"GPU"}})",
      gpu.processors, gpu.shared, gpu.threads, capability * 10);
}

class CudnnAttention : public testing::TestWithParam<int> {
protected:
  void SetUp() override {
    auto made = Cudnn::without(properties(GetParam()));
    if (!made.isOk())
      GTEST_SKIP() << made.status().message();
    cudnn = *made;
  }
  mgc_attention_facts factsOf(int64_t s, int64_t r, int64_t d) {
    mgc_attention_facts facts = {};
    facts.causal = 1, facts.zigzag = 1, facts.type = MGC_BF16, facts.scale = 0.125;
    facts.s = facts.t = s, facts.b = 2, facts.g = 2, facts.r = r, facts.d = d;
    return facts;
  }
  // The compiler's bytes are enough, for each run.
  void expectPlan(mgc_attention_facts facts, bool backward, bool deterministic) {
    facts.backward = backward;
    facts.workspace_bytes = cudaAttentionWorkspaceBytes(planOf(facts), deterministic);
    for (const CudaAttentionRun &run : cudaAttentionRuns(planOf(facts), facts.part)) {
      const auto graph = makeCudnnGraph(cudnn, planOf(facts), run, deterministic);
      EXPECT_TRUE(graph.isOk()) << fmt::format("backward={} deterministic={} queries={} keys={}: {}", backward,
                                               deterministic, run.queries, run.keys, graph.status().message());
    }
  }
  void expectPlans(const mgc_attention_facts &facts) {
    expectPlan(facts, false, true);
    for (const bool deterministic : {true, false})
      expectPlan(facts, true, deterministic);
  }
  // cuDNN has some kernels of backward on these alone.
  static bool hasMoreKernels() { return GetParam() == 90 || GetParam() == 100; }
  std::shared_ptr<Cudnn> cudnn;
};

INSTANTIATE_TEST_SUITE_P(, CudnnAttention, testing::Values(80, 86, 89, 90, 100, 120),
                         [](const auto &info) { return fmt::format("sm_{}", info.param); });

TEST_P(CudnnAttention, groupedHeads) { expectPlans(factsOf(4096, 4, 128)); }

TEST_P(CudnnAttention, windowsAndPartsOfOneBuffer) {
  mgc_attention_facts facts = factsOf(129, 3, 40);
  facts.window = 64;
  facts.q_stride = facts.k_stride = facts.v_stride = facts.dq_stride = facts.dk_stride = facts.dv_stride = (3 + 2) * 40;
  expectPlans(facts);
}

// The last part of a zigzag order is one run, the others two.
TEST_P(CudnnAttention, partsOfAnOrder) {
  mgc_attention_facts facts = factsOf(1024, 2, 64);
  facts.t = 4096, facts.zigzag = 4;
  for (const int64_t window : {0, 200})
    for (const int64_t part : {0, 3}) {
      facts.part = part, facts.window = window;
      expectPlans(facts);
    }
}

TEST_P(CudnnAttention, bidirectional) {
  mgc_attention_facts facts = factsOf(1024, 2, 64);
  facts.causal = 0;
  for (const int64_t zigzag : {0, 4}) {
    facts.zigzag = zigzag, facts.t = zigzag ? 4096 : 500;
    expectPlans(facts);
  }
}

TEST_P(CudnnAttention, bidirectionalWindows) {
  mgc_attention_facts facts = factsOf(1024, 1, 64);
  facts.causal = 0, facts.window = 65;
  expectPlans(facts);
}

TEST_P(CudnnAttention, bidirectionalWindowsOfParts) {
  mgc_attention_facts facts = factsOf(1024, 1, 64);
  facts.causal = 0, facts.window = 65;
  facts.t = 4096, facts.zigzag = 4;
  for (const int64_t part : {0, 3}) {
    facts.part = part;
    expectPlans(facts);
  }
}

// Backward, equal bits are on 9.0 alone; 8.x and 12.0 have no such kernel.
TEST_P(CudnnAttention, softcap) {
  mgc_attention_facts facts = factsOf(1024, 2, 128);
  facts.softcap = 50;
  for (const int64_t window : {0, 100}) {
    facts.window = window;
    expectPlan(facts, false, true);
    if (GetParam() == 90)
      expectPlan(facts, true, true);
    if (hasMoreKernels())
      expectPlan(facts, true, false);
  }
  facts.d = 256;
  expectPlan(facts, false, true);
}

TEST_P(CudnnAttention, oneHead) { expectPlan(factsOf(1000, 1, 64), true, true); }

TEST_P(CudnnAttention, valuesOfAnotherSize) {
  mgc_attention_facts facts = factsOf(1024, 1, 96);
  facts.w = 64;
  expectPlans(facts);
}

// The heads are those of DeepSeek-V3's latent attention. Only 9.0 has equal bits in backward; 8.x and 12.0 have no such
// kernel.
TEST_P(CudnnAttention, largeHeadsWithValuesOfAnotherSize) {
  mgc_attention_facts facts = factsOf(1024, 1, 192);
  facts.w = 128;
  expectPlan(facts, false, true);
  if (GetParam() == 90)
    expectPlan(facts, true, true);
  if (hasMoreKernels())
    expectPlan(facts, true, false);
}

TEST_P(CudnnAttention, largeHeadsForward) { expectPlan(factsOf(500, 2, 256), false, true); }

TEST_P(CudnnAttention, aSmallWorkspaceIsSaid) {
  mgc_attention_facts facts = factsOf(500, 2, 64);
  facts.backward = 1, facts.workspace_bytes = 1 << 20;
  const auto graph = makeCudnnGraph(cudnn, planOf(facts), cudaAttentionRuns(planOf(facts), 0)[0], true);
  ASSERT_FALSE(graph.isOk());
  EXPECT_NE(graph.status().message().find("a kernel needs"), std::string::npos) << graph.status().message();
}

} // namespace
