// Operand sizes, each worked out by hand, and the checked arithmetic below them.
#include "plan/Plan.h"
#include "test/plan/SmallPlan.h"

#include <array>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>

namespace mgc::plan {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// "A:32 B:64 C:128!" of an instruction of the small plan; ! is written.
std::string describe(SmallInstruction index) {
  Plan plan = makeSmallPlan();
  std::string text;
  for (const OperandInfo &info : operandsOf(plan.mesh, plan.programs[0].instructions[index].body))
    text += fmt::format("{}{}:{}{}", text.empty() ? "" : " ", info.name, info.bytes.value_or(-1),
                        info.use == OperandInfo::Use::read ? "" : "!");
  return text;
}

TEST(Operands, SizesByHand) {
  EXPECT_EQ(describe(kGemm), "A:32 B:64 C:128!");
  EXPECT_EQ(describe(kRowKernel), "of the kernel:64 of the kernel:64!");
  EXPECT_EQ(describe(kAttention), "q:32 k:32 v:32 queryPos:16 keyPos:16 o:32! lse:16! workspace:64!");
  EXPECT_EQ(describe(kAttentionBackward), "q:32 k:32 v:32 o:32 lse:16 do:32 queryPos:16 keyPos:16 sample:4 "
                                          "dq:32! dk:32! dv:32! workspace:64!");
  EXPECT_EQ(describe(kAllReduce), "source:64 destination:64!");
  EXPECT_EQ(describe(kAllGather), "source:64 destination:128!");
  EXPECT_EQ(describe(kReduceScatter), "source:128 destination:64!");
  EXPECT_EQ(describe(kAllToAll), "source:256 destination:256!");
  EXPECT_EQ(describe(kCopy), "source:64 destination:64!");
  EXPECT_EQ(describe(kFill), "destination:64!");
  EXPECT_EQ(describe(kSlice), "source:64 destination:32!");
  EXPECT_EQ(describe(kDemote), "source:64 destination:64!");
  EXPECT_EQ(describe(kGroupedGemm), "A:32 B:64 counts:8 C:64!");
  EXPECT_EQ(describe(kGroupedSums), "A:32 B:64 counts:8 C:64!"); // updated
  EXPECT_EQ(describe(kGroupRows), "numbers:20 counts:12! places:20! sources:20!");
  EXPECT_EQ(describe(kDropChoices), "experts:16 weights:16 positions:16 kept:16! workspace:24!");
  EXPECT_EQ(describe(kExchangeRows), "counts:32 source:32 destination:48!");
}

// Lists operands whose rows behind the last one nobody reads or writes.
TEST(Operands, whoseRowsAreCounted) {
  const auto counted = [](const InstructionBody &body) {
    std::string text;
    for (const OperandInfo &info : operandsOf(makeSmallPlan().mesh, body))
      text += info.isCounted ? fmt::format("{} ", info.name) : "";
    return text;
  };
  const RowKernel kernel{.uses = {{OperandUse::read, 4}, {.use = OperandUse::written, .bytes = 64, .counted = true}}};
  EXPECT_EQ(counted(GroupedGemm{.form = GroupedGemm::Form::rows, .groups = 2, .rows = 4, .n = 8, .k = 2}), "A C ");
  EXPECT_EQ(counted(GroupedGemm{.form = GroupedGemm::Form::sums, .groups = 2, .rows = 4, .m = 2, .n = 8}), "A B ");
  EXPECT_EQ(counted(ExchangeRows{.groups = 2, .rows = 4, .places = 8, .width = 2}), "source destination ");
  EXPECT_EQ(counted(GroupRows{.groups = 2, .rows = 4, .places = 4}), "");
  EXPECT_EQ(counted(kernel), "of the kernel ");
}

// A, B and what the epilogue reads, then what is written; its numbers are those of the list.
TEST(Operands, OfEpilogues) {
  const auto describe = [](const Gemm &gemm) {
    std::string text;
    for (const OperandInfo &info : operandsOf(Mesh(), gemm))
      text += fmt::format("{}{}:{}/{}{}", text.empty() ? "" : " ", info.name, info.bytes.value_or(-1),
                          info.elementBytes, info.use == OperandInfo::Use::written ? "!" : "");
    return text;
  };
  const auto numbers = [](const Gemm &gemm) {
    const GemmOperands found = operandNumbersOf(gemm);
    return std::array{found.bias, found.c, found.workspace};
  };
  using Numbers = std::array<int64_t, 3>;
  Gemm gemm{.m = 2, .n = 8, .k = 5, .inputType = DType::bf16};
  EXPECT_EQ(numbers(gemm), (Numbers{-1, 2, -1}));
  gemm.epilogue = Epilogue::bias;
  EXPECT_EQ(describe(gemm), "A:20/2 B:80/2 bias:32/4 C:64/4!");
  EXPECT_EQ(numbers(gemm), (Numbers{2, 3, -1}));
  gemm.outputType = DType::bf16;
  gemm.workspaceBytes = 64;
  EXPECT_EQ(describe(gemm), "A:20/2 B:80/2 bias:16/2 C:32/2! workspace:64/64!");
  EXPECT_EQ(numbers(gemm), (Numbers{2, 3, 4}));
  gemm.epilogue = Epilogue::none;
  EXPECT_EQ(numbers(gemm), (Numbers{-1, 2, 3}));
}

TEST(Operands, GroupedQueriesAreLargerThanKeys) {
  Attention attention{.s = 2, .t = 3, .b = 5, .g = 7, .r = 11, .d = 13};
  std::vector<OperandInfo> infos = operandsOf(Mesh(), attention);
  EXPECT_EQ(infos[0].bytes, Checked(4 * 2 * 5 * 7 * 11 * 13));
  EXPECT_EQ(infos[1].bytes, Checked(4 * 3 * 5 * 7 * 13));
  EXPECT_EQ(infos[4].bytes, Checked(4 * 3 * 5));
  EXPECT_EQ(infos[6].bytes, Checked(4 * 2 * 5 * 7 * 11));
}

TEST(Operands, HeadsOfValuesHaveASizeOfTheirOwn) {
  Attention attention{.s = 2, .t = 3, .b = 5, .g = 7, .r = 3, .d = 13, .w = 8, .vStride = 9};
  std::vector<OperandInfo> infos = operandsOf(Mesh(), attention);
  EXPECT_EQ(infos[1].bytes, Checked(4 * 105 * 13)) << "k";
  EXPECT_EQ(infos[2].bytes, Checked(4 * 105 * 8)) << "v";
  EXPECT_EQ(infos[2].span(), Checked(4 * (104 * 9 + 8)));
  EXPECT_EQ(infos[5].bytes, Checked(4 * 70 * 3 * 8)) << "o";
  attention.backward = true;
  infos = operandsOf(Mesh(), attention);
  EXPECT_EQ(infos[5].bytes, Checked(4 * 70 * 3 * 8)) << "do";
  EXPECT_EQ(infos[8].bytes, Checked(4 * 70 * 3 * 13)) << "dq";
  EXPECT_EQ(infos[9].bytes, Checked(4 * 105 * 13)) << "dk";
  EXPECT_EQ(infos[10].bytes, Checked(4 * 105 * 8)) << "dv";
}

TEST(Operands, SinksAreANumberForEachHead) {
  const Attention attention{
      .s = 2, .t = 3, .b = 5, .g = 7, .r = 3, .d = 13, .dropout = 0.1, .type = DType::bf16, .sinks = true};
  std::vector<OperandInfo> infos = operandsOf(Mesh(), attention);
  EXPECT_EQ(infos[6].name, "sink") << "behind the samples";
  EXPECT_EQ(infos[6].bytes, Checked(2 * 21));
  EXPECT_EQ(infos[7].name, "o");
}

TEST(Operands, EndsFollowStarts) {
  Attention attention{.s = 2, .t = 3, .b = 5, .g = 7, .r = 3, .d = 13, .dropout = 0.1, .documents = true, .ends = true};
  std::vector<OperandInfo> infos = operandsOf(Mesh(), attention);
  EXPECT_EQ(infos[5].name, "start");
  EXPECT_EQ(infos[6].name, "end");
  EXPECT_EQ(infos[6].bytes, Checked(4 * 2 * 5));
  EXPECT_EQ(infos[7].name, "sample");
  attention.backward = true;
  infos = operandsOf(Mesh(), attention);
  EXPECT_EQ(infos[9].name, "end");
  EXPECT_EQ(infos[11].name, "dq");
}

// A number for each bucket and head; its gradient is f32.
TEST(Operands, ABiasIsATableOfBuckets) {
  Attention attention{.s = 2,
                      .t = 3,
                      .b = 5,
                      .g = 7,
                      .r = 3,
                      .d = 13,
                      .biasBuckets = 32,
                      .biasMaxDistance = 128,
                      .type = DType::bf16,
                      .sinks = true};
  std::vector<OperandInfo> infos = operandsOf(Mesh(), attention);
  EXPECT_EQ(infos[5].name, "sink");
  EXPECT_EQ(infos[6].name, "bias");
  EXPECT_EQ(infos[6].bytes, Checked(2 * 32 * 7 * 3));
  EXPECT_EQ(infos[7].name, "o");
  attention.backward = true, attention.sinks = false;
  infos = operandsOf(Mesh(), attention);
  EXPECT_EQ(infos[8].name, "bias");
  EXPECT_EQ(infos[11].name, "dv");
  EXPECT_EQ(infos[12].name, "dbias");
  EXPECT_EQ(infos[12].bytes, Checked(4 * 32 * 7 * 3));
  EXPECT_EQ(infos[12].use, OperandUse::written);
}

TEST(Operands, ElementsOfTheirTypes) {
  const Gemm gemm{.m = 2, .n = 3, .k = 5, .inputType = DType::bf16};
  std::vector<OperandInfo> infos = operandsOf(Mesh(), gemm);
  EXPECT_EQ(infos[0].bytes, Checked(2 * 10));
  EXPECT_EQ(infos[1].bytes, Checked(2 * 15));
  EXPECT_EQ(infos[2].bytes, Checked(4 * 6));
  EXPECT_EQ(infos[2].elementBytes, 4);
  const Attention attention{.backward = true,
                            .s = 2,
                            .t = 3,
                            .b = 5,
                            .g = 7,
                            .r = 3,
                            .d = 13,
                            .dropout = 0.1,
                            .qStride = 65,
                            .type = DType::bf16};
  infos = operandsOf(Mesh(), attention);
  EXPECT_EQ(infos[0].span(), Checked(2 * (69 * 65 + 39)));
  EXPECT_EQ(infos[3].bytes, Checked(2 * 70 * 39)) << "o";
  EXPECT_EQ(infos[4].bytes, Checked(4 * 70 * 3)) << "lse";
  EXPECT_EQ(infos[6].bytes, Checked(4 * 10)) << "queryPos";
  EXPECT_EQ(infos[8].bytes, Checked(4 * 5)) << "sample";
  EXPECT_EQ(infos[10].bytes, Checked(2 * 105 * 13)) << "dk";
  EXPECT_EQ(operandsOf(Mesh(), Collective{.type = DType::bf16, .chunk = 8})[0].bytes, Checked(16));
}

// In [s, b, g, 5, d] with r = 3: the last row ends before that of another part does.
TEST(Operands, PartsOfABufferReachOverIt) {
  Attention attention{.s = 2, .t = 3, .b = 5, .g = 7, .r = 3, .d = 13, .qStride = 65, .vStride = 65};
  std::vector<OperandInfo> infos = operandsOf(Mesh(), attention);
  EXPECT_EQ(infos[0].bytes, Checked(4 * 70 * 39));
  EXPECT_EQ(infos[0].span(), Checked(4 * (69 * 65 + 39)));
  EXPECT_EQ(infos[1].span(), Checked(4 * 105 * 13));
  EXPECT_EQ(infos[2].bytes, Checked(4 * 105 * 13));
  EXPECT_EQ(infos[2].span(), Checked(4 * (104 * 65 + 13)));
  attention.vStride = kMax;
  EXPECT_FALSE(operandsOf(Mesh(), attention)[2].span());
}

TEST(Operands, PartsOfEqualStrideInterleave) {
  using Use = OperandInfo::Use;
  const OperandInfo one{"one", 80, Use::written, 8, 24}, wide{"wide", 160, Use::written, 16, 24},
      other{"other", 80, Use::written, 8, 32}, plain{"plain", 8, Use::read};
  EXPECT_TRUE(areApart(one, 0, one, 8));
  EXPECT_TRUE(areApart(one, 0, one, 16));
  EXPECT_TRUE(areApart(one, 40, one, 0));
  EXPECT_TRUE(areApart(wide, 48, one, 16));
  EXPECT_FALSE(areApart(wide, 48, one, 8));
  EXPECT_FALSE(areApart(one, 0, one, 4));
  EXPECT_FALSE(areApart(one, 0, one, 20)) << "reaches into the next row";
  EXPECT_FALSE(areApart(one, 0, one, 24)) << "the rows of the other";
  EXPECT_FALSE(areApart(one, 0, other, 8));
  EXPECT_FALSE(areApart(one, 0, plain, 8)) << "only rows interleave";
  EXPECT_TRUE(areApart(one, 0, plain, 224)) << "behind the last row";
}

TEST(Operands, OverflowGivesNoSize) {
  std::vector<OperandInfo> infos = operandsOf(Mesh(), Gemm{.m = kMax, .n = 1, .k = 2});
  EXPECT_FALSE(infos[0].bytes);
  EXPECT_EQ(infos[1].bytes, Checked(8));
}

TEST(Operands, StagesFormTheGroup) {
  Mesh mesh = makeSmallPlan().mesh;
  EXPECT_EQ(groupSize(mesh, Collective{.stages = {0, 1}, .chunk = 1}.group()), 2);
  EXPECT_EQ(groupSize(mesh, Collective{.axes = {"dp", "tp"}, .chunk = 1}.group()), 4);
}

TEST(Checked, StopsAtTheLimits) {
  EXPECT_EQ(checkedAdd(kMax - 1, 1), Checked(kMax));
  EXPECT_FALSE(checkedAdd(kMax, 1));
  EXPECT_FALSE(checkedAdd(std::numeric_limits<int64_t>::min(), -1));
  EXPECT_EQ(checkedMultiply(int64_t(1) << 31, int64_t(1) << 31), Checked(int64_t(1) << 62));
  EXPECT_FALSE(checkedMultiply(int64_t(1) << 32, int64_t(1) << 31));
  EXPECT_FALSE(checkedAdd(std::nullopt, 0));
  EXPECT_EQ(checkedProduct({}), Checked(1));
  EXPECT_EQ(checkedProduct({2, 3, 7}), Checked(42));
  EXPECT_FALSE(checkedProduct({kMax, 2, 0}));
}

TEST(Checked, RangesInsideLimits) {
  EXPECT_TRUE(fitsInside(0, 10, 10));
  EXPECT_TRUE(fitsInside(10, 0, 10));
  EXPECT_FALSE(fitsInside(1, 10, 10));
  EXPECT_FALSE(fitsInside(11, 0, 10));
  EXPECT_FALSE(fitsInside(-1, 5, 10));
  EXPECT_FALSE(fitsInside(0, -1, 10));
  EXPECT_FALSE(fitsInside(0, std::nullopt, 10));
  EXPECT_FALSE(fitsInside(kMax, kMax, kMax));
}

} // namespace
} // namespace mgc::plan
