// Facts that the compiler must know of attention on NVIDIA GPUs.
#include "plan/targets/CudaAttention.h"

#include "plan/SequenceOrder.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <limits>
#include <set>
#include <utility>

using namespace mgc;

constexpr std::pair<int64_t, int64_t> kOrders[] = {{1, 1}, {3, 1}, {1, 4}, {2, 2},
                                                   {4, 4}, {2, 8}, {4, 8}}; // parts, zigzag

TEST(CudnnTakes, whatItsKernelsDoAsAPlanSays) {
  const plan::Attention good = {
      .s = 64, .t = 64, .b = 1, .g = 2, .r = 2, .d = 64, .type = plan::DType::bf16, .zigzag = 1};
  EXPECT_TRUE(cudnnTakes(good).isOk());
  const auto reason = [&](auto change) {
    plan::Attention a = good;
    change(a);
    const Status status = cudnnTakes(a);
    return status.isOk() ? "" : status.message();
  };
  EXPECT_EQ(reason([](auto &a) { a.type = plan::DType::f32; }), "values are f32; cuDNN's kernels take bf16");
  EXPECT_EQ(reason([](auto &a) { a.sinks = true; }), "heads have sinks");
  EXPECT_EQ(reason([](auto &a) { a.biasBuckets = 32, a.biasMaxDistance = 128; }), "scores have a bias");
  EXPECT_EQ(reason([](auto &a) { a.ends = true; }), "samples or documents have ends");
  EXPECT_EQ(reason([](auto &a) { a.slopes = {1, 1, 1, 1}; }), "heads have slopes");
  EXPECT_EQ(reason([](auto &a) { a.softcap = 30; }), "");
  EXPECT_EQ(reason([](auto &a) { a.causal = false, a.zigzag = 0, a.t = 100; }), "");
  EXPECT_EQ(reason([](auto &a) { a.causal = false, a.zigzag = 0, a.window = 8; }),
            "no order of the positions is stated");
  EXPECT_EQ(reason([](auto &a) { a.t = 0; }), "there are no elements");
  EXPECT_EQ(reason([](auto &a) { a.t = 128; }), "");
  EXPECT_EQ(reason([](auto &a) { a.zigzag = 4; }), "");
  EXPECT_EQ(reason([](auto &a) { a.zigzag = 0; }), "no order of the positions is stated");
  EXPECT_EQ(reason([](auto &a) { a.t = 100; }), "64 queries are no part of 100 keys in the order of 1 ranks");
  EXPECT_EQ(reason([](auto &a) { a.t = 256, a.zigzag = 2; }),
            "64 queries are no part of 256 keys in the order of 2 ranks");
  EXPECT_EQ(reason([](auto &a) { a.zigzag = 5; }), "64 queries are no part of 64 keys in the order of 5 ranks");
  EXPECT_EQ(reason([](auto &a) { a.s = a.t = 0; }), "there are no elements");
  EXPECT_EQ(reason([](auto &a) { a.dropout = 0.1; }), "dropout is 0.1: cuDNN would draw another mask");
  EXPECT_EQ(reason([](auto &a) { a.d = 60; }), "d = 60; cuDNN takes multiples of 8 up to 256");
  EXPECT_EQ(reason([](auto &a) { a.d = 264; }), "d = 264; cuDNN takes multiples of 8 up to 256");
  EXPECT_EQ(reason([](auto &a) { a.w = 60; }), "w = 60; cuDNN takes multiples of 8 up to 256");
  EXPECT_EQ(reason([](auto &a) { a.d = 192, a.w = 128; }), "");
  EXPECT_EQ(reason([](auto &a) { a.kStride = 68; }), "groups are 68 elements apart; cuDNN takes multiples of 8");
}

TEST(CudaAttentionWorkspaceBytes, ownKernelsNeedDeltaOnly) {
  plan::Attention a = {.s = 100, .t = 100, .b = 2, .g = 2, .r = 3, .d = 64};
  EXPECT_EQ(cudaAttentionWorkspaceBytes(a), 0);
  a.backward = true;
  EXPECT_EQ(cudaAttentionWorkspaceBytes(a), (100 * 2 * 2 * 3 * 4 + 255) / 256 * 256);
}

// Each query of a part is in one run, and the run has the keys that the query's own position lets it see, and no more.
static void checkRuns(bool causal) {
  for (const int64_t window : {0, 1, 5, 40, 500})
    for (const auto &[parts, zigzag] : kOrders) {
      const plan::Attention a = {.s = 96 / parts, .t = 96, .window = window, .causal = causal, .zigzag = zigzag};
      if (!causal && window == 0)
        continue;
      for (int64_t part = 0; part < parts; ++part) {
        std::set<int64_t> expected, found;
        for (int64_t i = 0; i < a.s; ++i)
          expected.insert(plan::positionAt(part * a.s + i, a.t, zigzag));
        int64_t queries = 0;
        for (const CudaAttentionRun &run : cudaAttentionRuns(a, part)) {
          EXPECT_EQ(run.query, queries);
          queries += run.queries;
          for (int64_t i = 0; i < run.queries; ++i)
            found.insert(run.position + i);
          const int64_t end = run.position + run.queries;
          EXPECT_EQ(run.firstKey + run.keys, causal ? end : std::min<int64_t>(end + window - 1, 96));
          EXPECT_EQ(run.firstKey, window ? std::max<int64_t>(0, run.position - window + 1) : 0);
        }
        EXPECT_EQ(queries, a.s);
        EXPECT_EQ(found, expected);
      }
    }
}

TEST(CudaAttentionRuns, haveWhatTheirQueriesSee) { checkRuns(true); }
TEST(CudaAttentionRuns, haveWhatTheirQueriesSeeOnBothSides) { checkRuns(false); }

// One without a mask, in whatever order keys and queries lie, and nothing is copied.
TEST(CudaAttentionRuns, isOneWhereAllKeysAreSeen) {
  for (const int64_t zigzag : {0, 1, 4}) {
    plan::Attention a = {.backward = true, .s = 24, .t = 96, .b = 2, .g = 2, .r = 3, .d = 8, .causal = false};
    a.zigzag = zigzag;
    const std::vector<CudaAttentionRun> runs = cudaAttentionRuns(a, 2);
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].query, 0);
    EXPECT_EQ(runs[0].queries, 24);
    EXPECT_EQ(runs[0].firstKey, 0);
    EXPECT_EQ(runs[0].keys, 96);
    const CudaAttentionWorkspace w(a, true);
    EXPECT_EQ(w.bytes(), w.rows + w.delta);
  }
}

// The bytes stated for all parts at once are enough for each and, without windows, as many as one of them needs.
static void checkLargestPart(bool causal) {
  const auto padded = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
  for (const int64_t window : {0, 1, 5, 40, 500})
    for (const auto &[parts, zigzag] : kOrders) {
      plan::Attention a = {.backward = true, .s = 768 / parts, .t = 768, .b = 1, .g = 2, .r = 3, .d = 8};
      a.causal = causal;
      if (!causal && window == 0)
        continue;
      a.type = plan::DType::bf16, a.window = window, a.zigzag = zigzag;
      int64_t mostKeys = 0, mostLibrary = 0;
      for (int64_t part = 0; part < parts; ++part) {
        int64_t keys = 0;
        for (const CudaAttentionRun &run : cudaAttentionRuns(a, part)) {
          const int64_t scores = (run.queries + 127) / 128 * ((run.keys + 127) / 128) * 128 * 128;
          keys += run.keys, mostLibrary = std::max(mostLibrary, 6 * (2 * scores + 4 * run.keys * a.d));
        }
        mostKeys = std::max(mostKeys, keys);
      }
      const CudaAttentionWorkspace workspace(a, true);
      const int64_t gradients = parts == 1 && zigzag == 1 ? 0 : padded(mostKeys * 2 * 8 * 2);
      const int64_t library = cudaAttentionWorkspaceBytes(a) - workspace.bytes() - (64 << 10);
      SCOPED_TRACE(testing::Message() << parts << " parts, zigzag " << zigzag << ", window " << window);
      EXPECT_GE(workspace.keyGradients, gradients);
      EXPECT_GE(library, mostLibrary);
      if (window == 0) {
        EXPECT_EQ(workspace.keyGradients, gradients);
        EXPECT_EQ(library, mostLibrary);
      }
    }
}

TEST(CudaAttentionWorkspaceBytes, isThatOfTheLargestPart) { checkLargestPart(true); }
TEST(CudaAttentionWorkspaceBytes, isThatOfTheLargestPartOnBothSides) { checkLargestPart(false); }

TEST(CudaAttentionWorkspaceBytes, copiesAreOfWhatLiesInAnotherOrder) {
  const auto of = [](int64_t parts, int64_t zigzag) {
    plan::Attention a = {.backward = true, .s = 96 / parts, .t = 96, .b = 2, .g = 2, .r = 3, .d = 8};
    a.zigzag = zigzag;
    const CudaAttentionWorkspace w(a, true);
    return std::array{w.keys > 0, w.queries > 0, w.queryGradients > 0, w.keyGradients > 0};
  };
  EXPECT_EQ(of(1, 1), (std::array{false, false, false, false}));
  EXPECT_EQ(of(3, 1), (std::array{false, false, false, true}));
  EXPECT_EQ(of(4, 4), (std::array{true, false, false, true}));
  EXPECT_EQ(of(2, 4), (std::array{true, true, true, true}));
}

// v and o have rows of w: as many bytes as with d, w / d times.
TEST(CudaAttentionWorkspaceBytes, valuesHaveTheirOwnSize) {
  plan::Attention a = {.backward = true, .s = 128, .t = 256, .b = 2, .g = 2, .r = 3, .d = 64, .w = 32};
  a.type = plan::DType::bf16, a.zigzag = 4;
  const CudaAttentionWorkspace both(a, true);
  EXPECT_EQ(both.values * 2, both.keys);
  EXPECT_EQ(both.outputs * 2, both.queries);
  EXPECT_EQ(both.outputGradients * 2, both.queryGradients);
  EXPECT_EQ(both.valueGradients * 2, both.keyGradients);
  const auto bytes = [&](int64_t w) {
    plan::Attention other = a;
    other.w = w;
    return cudaAttentionWorkspaceBytes(other);
  };
  EXPECT_EQ(bytes(64) - bytes(32), bytes(96) - bytes(64));
  EXPECT_EQ(bytes(64), bytes(0));
}

TEST(CudaAttentionWorkspaceBytes, hugeSizesAreClamped) {
  plan::Attention a = {.backward = true, .s = int64_t(1) << 40, .t = int64_t(1) << 40, .b = 1, .g = 1, .r = 1, .d = 64};
  a.type = plan::DType::bf16, a.zigzag = 1;
  EXPECT_EQ(cudaAttentionWorkspaceBytes(a), std::numeric_limits<int64_t>::max());
}
