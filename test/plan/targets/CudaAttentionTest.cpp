// What the compiler must know of attention on NVIDIA GPUs.
#include "plan/targets/CudaAttention.h"

#include <gtest/gtest.h>
#include <limits>

using namespace mgc;

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
  EXPECT_EQ(reason([](auto &a) { a.zigzag = 0; }), "positions are not 0, 1, .. on both sides");
  EXPECT_EQ(reason([](auto &a) { a.t = 128; }), "positions are not 0, 1, .. on both sides");
  EXPECT_EQ(reason([](auto &a) { a.dropout = 0.1; }), "dropout is 0.1: cuDNN would draw another mask");
  EXPECT_EQ(reason([](auto &a) { a.d = 60; }), "d = 60; cuDNN takes multiples of 8 up to 256");
  EXPECT_EQ(reason([](auto &a) { a.d = 264; }), "d = 264; cuDNN takes multiples of 8 up to 256");
  EXPECT_EQ(reason([](auto &a) { a.kStride = 68; }),
            "groups are 68 elements apart; cuDNN takes multiples of 8");
}

TEST(CudaAttentionWorkspaceBytes, ownKernelsNeedDeltaOnly) {
  plan::Attention a = {.s = 100, .t = 100, .b = 2, .g = 2, .r = 3, .d = 64};
  EXPECT_EQ(cudaAttentionWorkspaceBytes(a), 0);
  a.backward = true;
  EXPECT_EQ(cudaAttentionWorkspaceBytes(a), (100 * 2 * 2 * 3 * 4 + 255) / 256 * 256);
}

TEST(CudaAttentionWorkspaceBytes, hugeSizesAreClamped) {
  plan::Attention a = {
      .backward = true, .s = int64_t(1) << 40, .t = int64_t(1) << 40, .b = 1, .g = 1, .r = 1, .d = 64};
  a.type = plan::DType::bf16, a.zigzag = 1;
  EXPECT_EQ(cudaAttentionWorkspaceBytes(a), std::numeric_limits<int64_t>::max());
}
