// Costs of instructions, worked out on paper.
#include "plan/Plan.h"

#include <gtest/gtest.h>

namespace mgc::plan {
namespace {

Attention makeAttention() {
  Attention attention;
  attention.s = attention.t = 8, attention.b = 3, attention.g = 2, attention.r = 5, attention.d = 4;
  attention.workspaceBytes = 4096;
  return attention;
}

TEST(Work, Products) {
  Gemm gemm{.m = 2, .n = 3, .k = 5};
  EXPECT_EQ(workOf({}, gemm).flops, 60);
  EXPECT_EQ(workOf({}, gemm).bytes, 4 * (10 + 15 + 6));
  gemm.accumulate = true;
  EXPECT_EQ(workOf({}, gemm).bytes, 4 * (10 + 15 + 2 * 6)) << "C is read and written";
  gemm.inputType = DType::bf16;
  EXPECT_EQ(workOf({}, gemm).bytes, 2 * (10 + 15) + 4 * 2 * 6);
  gemm.outputType = DType::bf16;
  EXPECT_EQ(workOf({}, gemm).bytes, 2 * (10 + 15 + 2 * 6));
  gemm.accumulate = false;
  gemm.workspaceBytes = 64;
  gemm.epilogue = Epilogue::bias;
  EXPECT_EQ(workOf({}, gemm).bytes, 2 * (10 + 15 + 3 + 6)) << "the bias is read";
}

TEST(Work, GroupedProductsAsIfAllGroupsHadAsMuch) {
  GroupedGemm gemm{.groups = 4, .rows = 20, .n = 3, .k = 7};
  EXPECT_EQ(workOf({}, gemm).flops, 2 * 20 * 3 * 7);
  EXPECT_EQ(workOf({}, gemm).bytes, 4 * (20 * 7 + 4 * 7 * 3 + 4 + 20 * 3));
  EXPECT_EQ(workOf({}, gemm).product.m, 5);
  EXPECT_EQ(workOf({}, gemm).product.count, 4);
  gemm = {.form = GroupedGemm::Form::sums, .groups = 4, .rows = 20, .m = 7, .n = 3, .accumulate = true};
  EXPECT_EQ(workOf({}, gemm).flops, 2 * 20 * 3 * 7);
  EXPECT_EQ(workOf({}, gemm).product.k, 5);
}

// 30 heads of 8 x 8 pairs, half of them visible; a product is 2 d operations a pair, two of them forward.
TEST(Work, Attention) {
  Attention attention = makeAttention();
  EXPECT_EQ(workOf({}, attention).flops, 30 * 32 * 2 * 4 * 2);
  attention.window = 100;
  EXPECT_EQ(workOf({}, attention).flops, 30 * 32 * 2 * 4 * 2) << "wider than the sequence";
  attention.window = 2; // a query sees 2 keys, the first two fewer: 2 - 2 * 2 / 16 on average
  EXPECT_EQ(workOf({}, attention).flops, 30 * 8 * 1.75 * 2 * 4 * 2);
  attention.backward = true;
  EXPECT_EQ(workOf({}, attention).flops, 30 * 8 * 1.75 * 2 * 4 * 5);
  attention.w = 6; // three products over d, two over w
  EXPECT_EQ(workOf({}, attention).flops, 30 * 8 * 1.75 * 2 * (3 * 4 + 2 * 6));
  attention.backward = false;
  EXPECT_EQ(workOf({}, attention).flops, 30 * 8 * 1.75 * 2 * (4 + 6));
}

// All 8 x 8 pairs; of a window |s - t| < 2, 2 * 2 - 2 * 2 / 8 keys a query on average.
TEST(Work, BidirectionalAttention) {
  Attention attention = makeAttention();
  attention.causal = false;
  EXPECT_EQ(workOf({}, attention).flops, 30 * 64 * 2 * 4 * 2);
  attention.window = 2;
  EXPECT_EQ(workOf({}, attention).flops, 30 * 8 * 3.5 * 2 * 4 * 2);
  EXPECT_EQ(attention.sizes(), "s 8 t 8 b 3 g 2 r 5 d 4 bidirectional");
}

// q and o [8, 3, 10, 4], k and v [8, 3, 2, 4], lse [8, 3, 10], twice positions [8, 3]; no workspace.
TEST(Work, AttentionBytes) { EXPECT_EQ(workOf({}, makeAttention()).bytes, 4 * (2 * 960 + 2 * 192 + 240 + 2 * 24)); }

TEST(Work, CollectivesAndMoves) {
  Mesh mesh{{{"tp", 4}}, {{"tp", {"tp"}}}};
  Collective gather{.kind = Collective::Kind::allGather, .axes = {"tp"}, .chunk = 16};
  EXPECT_EQ(workOf(mesh, gather).flops, 0);
  EXPECT_EQ(workOf(mesh, gather).bytes, 4 * (16 + 4 * 16));
  EXPECT_EQ(workOf(mesh, Move{.kind = Move::Kind::fill, .bytes = 64}).bytes, 64);
  EXPECT_EQ(workOf(mesh, Move{.kind = Move::Kind::copy, .bytes = 64}).bytes, 128);
  EXPECT_EQ(workOf(mesh, RowKernel{.flops = 7, .bytes = 9}).bytes, 9);
  EXPECT_EQ(workOf({}, RowKernel{.flops = 7, .bytes = 9}).flops, 7);
}

// The source is on the host where it is copied in.
TEST(Work, HostCopies) {
  const HostCopy in{HostCopy::Direction::in, 64}, out{HostCopy::Direction::out, 64};
  EXPECT_EQ(workOf({}, in).bytes, 128);
  EXPECT_EQ(kindOf(in), WorkKind::hostCopy);
  for (const HostCopy &copy : {in, out}) {
    const OperandInfos infos = operandsOf({}, copy);
    ASSERT_EQ(infos.size(), 2u);
    EXPECT_EQ(infos[0].isOnHost, copy == in);
    EXPECT_EQ(infos[1].isOnHost, copy == out);
    EXPECT_FALSE(infos[0].isWritten());
    EXPECT_TRUE(infos[1].isWritten());
  }
}

// Pairs of positions 0 to 7 in two parts: 0 to 3 have 8 of the 32 pairs, 4 to 7 have 24.
TEST(Work, SharesOfAttention) {
  Attention attention{.s = 4, .t = 8, .b = 1, .g = 1, .r = 1, .d = 8, .zigzag = 1};
  EXPECT_DOUBLE_EQ(shareOfPart(attention, 0, 2), 0.5);
  EXPECT_DOUBLE_EQ(shareOfPart(attention, 1, 2), 1.5);
  attention.zigzag = 2; // 0 1 6 7 | 2 3 4 5
  EXPECT_DOUBLE_EQ(shareOfPart(attention, 0, 2), 1);
  EXPECT_DOUBLE_EQ(shareOfPart(attention, 1, 2), 1);
  attention.window = 2; // 2 * 2 / 2 + 6 * 2 = 14 pairs: 0 1 | 6 7 have 2 + 4, 2 to 5 have 8
  EXPECT_DOUBLE_EQ(shareOfPart(attention, 0, 2), 2.0 * 6 / 14);
  EXPECT_DOUBLE_EQ(shareOfPart(attention, 1, 2), 2.0 * 8 / 14);
}

// Without causality every part has as much, in every order; with a window |s - t| < 2 those at the ends have less: of 28 pairs, 0 to 3
// and 4 to 7 have half, 2 to 5 have 16.
TEST(Work, SharesOfBidirectionalAttention) {
  Attention attention{.s = 4, .t = 8, .b = 1, .g = 1, .r = 1, .d = 8, .causal = false};
  for (const int64_t zigzag : {1, 2})
    for (const int64_t part : {0, 1}) {
      attention.zigzag = zigzag;
      EXPECT_DOUBLE_EQ(shareOfPart(attention, part, 2), 1);
    }
  attention.window = 2;
  EXPECT_DOUBLE_EQ(shareOfPart(attention, 1, 2), 2.0 * 16 / 28);
  attention.zigzag = 1;
  EXPECT_DOUBLE_EQ(shareOfPart(attention, 1, 2), 1);
}

} // namespace
} // namespace mgc::plan
