// Rules of programs and their instructions.
#include "test/plan/prove/BrokenPlans.h"

#include <cmath>

namespace mgc::plan {
namespace {

const Broken kPrograms[] = {
    {"GemmTypes", kGemm, [](Gemm &op) { op.outputType = DType::bf16; },
     ": outputType bf16 of f32 operands; expected f32, or operands of bf16"},
    {"GemmInput", kGemm, [](Gemm &op) { op.inputType = DType::i32; }, ": inputType is i32, expected f32 or bf16"},
    {"GemmOutput", kGemm, [](Gemm &op) { op.outputType = DType::i32; }, ": outputType is i32, expected f32 or bf16"},
    {"AttentionType", kAttention, [](Attention &op) { op.type = DType::i32; }, ": type is i32, expected f32 or bf16"},
    {"AttentionCausal", kAttention,
     [](Attention &op) {
       op.zigzag = 1;
       op.s = 3;
     },
     ": s = 3 queries on each of 1 ranks are not all of t = 4 positions"},
    {"HostCopyBytes", kGemm,
     [](Instruction &op) { op = {HostCopy{HostCopy::Direction::in, 0}, {{0, 0}, {1, 0}}, "copy"}; },
     ": bytes = 0 must be positive"},
    {"SegmentInBothArenas",
     [](Plan &plan) { instruction(plan, kGemm) = {HostCopy{HostCopy::Direction::in, 64}, {{0, 0}, {1, 0}}, "copy"}; },
     "programs[0]: segment 'x' is memory of the host for some instructions and of the device for others"},
    {"SegmentCount", [](Plan &plan) { plan.programs[0].segments.pop_back(); },
     "programs[0]: found 1 segments and 2 segmentBytes"},
    {"SegmentBytes", [](Plan &plan) { plan.programs[0].segmentBytes[1] = -1; },
     "programs[0]: segmentBytes[1] = -1 is negative"},
    {"OperandCount", kGemm, [](Instruction &op) { op.operands.pop_back(); },
     ": found 2 operands, expected 3 (block.fwd/0)"},
    {"OperandCountAttention", kAttention, [](Attention &op) { op.dropout = 0.5; }, ": found 8 operands, expected 9"},
    {"OperandSegment", kGemm, [](Instruction &op) { op.operands[1].segment = 2; },
     ".operands[1]: segment 2 is not one of 2"},
    {"OperandSize", kGemm, [](Instruction &op) { op.operands[2].offset = 900; },
     ".operands[2]: operand C (128 bytes from 900 on) is not inside segment 'y' of 1024"},
    {"OperandNegative", kGemm, [](Instruction &op) { op.operands[2].offset = -64; },
     ".operands[2]: operand C (128 bytes from -64 on)"},
    {"OperandHuge", kGemm, [](Gemm &op) { op.m = kMax; }, ".operands[0]: operand A (more than 2^63 bytes from 0 on)"},
    {"OperandAligned", kGemm, [](Instruction &op) { op.operands[2].offset = 2; },
     ".operands[2]: offset 2 or stride 0 is not a multiple of 4"},
    {"RowKernelOffset", kRowKernel, [](Instruction &op) { op.operands[1].offset = 1028; },
     ".operands[1]: operand of the kernel (64 bytes from 1028 on) is not inside"},
    {"RowKernelSymbol", kRowKernel, [](RowKernel &op) { op.symbol = ""; }, ": symbol '' names no row kernel"},
    {"RowKernelNeeds", kRowKernel, [](RowKernel &op) { op.symbol += "_needs"; },
     ": symbol 'gelu_needs' names no row kernel"},
    {"RowKernelNul", kRowKernel, [](RowKernel &op) { op.symbol += '\0'; }, ": symbol 'gelu"},
    {"ScalarSum", kRowKernel, [](RowKernel &op) { op.scalars[0].terms[0].scale = kMax; },
     ": a scalar's terms add up to more"},
    {"RowKernelInPlaceOfLess",
     [](Plan &plan) {
       instruction(plan, kRowKernel).operands[0] = instruction(plan, kRowKernel).operands[1];
       body<RowKernel>(plan, kRowKernel).uses[0].bytes = 128;
     },
     "programs[0].instructions[1]: operand of the kernel is written and overlaps"},
    {"AttentionWorkspaceAligned", kAttention, [](Instruction &op) { op.operands[7].offset += 4; },
     ".operands[7]: offset 132 or stride 0 is not a multiple of 64"},
    {"RowKernelRange", kRowKernel, [](RowKernel &op) { op.range = -1; }, ": range = -1"},
    {"RowKernelFlops", kRowKernel, [](RowKernel &op) { op.flops = -1; }, ": flops = -1"},
    {"RowKernelBytes", kRowKernel, [](RowKernel &op) { op.bytes = NAN; }, ": bytes = nan"},
    {"ScalarAxes", kRowKernel, [](RowKernel &op) { op.scalars[0].terms[0].axes = {"xp"}; },
     ": axis 'xp' is not in the mesh"},
    {"GemmSize", kGemm, [](Gemm &op) { op.k = 0; }, ": k = 0 must be positive"},
    {"GemmPath", kGemm, [](Gemm &op) { op.path = GemmPath(9); },
     ": path 9 is none; expected one of rule whole rows columns"},
    {"GemmEpilogue", kGemm, [](Gemm &op) { op.epilogue = Epilogue(3); },
     ": epilogue 3 is none; expected one of none bias"},
    {"GemmEpilogueOnCpu", kGemm, [](Gemm &op) { op.epilogue = Epilogue::bias; },
     ": epilogue bias in a plan for cpu, whose products have none; compile for cuda, or without"},
    {"GroupedForm", kGroupedGemm, [](GroupedGemm &op) { op.form = GroupedGemm::Form(2); },
     ": form 2 is none; expected one of rows sums"},
    {"GroupedGroups", kGroupedGemm, [](GroupedGemm &op) { op.groups = 0; }, ": groups = 0 must be positive"},
    {"GroupedRows", kGroupedGemm, [](GroupedGemm &op) { op.m = 2; }, ": form rows has m = 2, expected 0"},
    {"GroupedRowsAdded", kGroupedGemm, [](GroupedGemm &op) { op.accumulate = true; },
     ": accumulate of form rows, of which only rows with data are written"},
    {"GroupedSumsTransposed", kGroupedSums, [](GroupedGemm &op) { op.transposeB = true; },
     ": transposeB of form sums, whose B is rows"},
    {"GroupedTypes", kGroupedSums, [](GroupedGemm &op) { op.outputType = DType::bf16; },
     ": outputType bf16 of f32 operands; expected f32, or operands of bf16"},
    {"GroupedCounts", kGroupedGemm, [](Instruction &op) { op.operands[2].offset = 1020; },
     ".operands[2]: operand counts (8 bytes from 1020 on) is not inside segment 'x'"},
    {"GroupedOverlap", kGroupedSums, [](Instruction &op) { op.operands[3] = {0, 64}; },
     ": operand C is written and overlaps operand B (block.fwd/13)"},
    {"GroupedHuge", kGroupedGemm, [](GroupedGemm &op) { op.groups = kMax; },
     ".operands[1]: operand B (more than 2^63 bytes from 64 on)"},
    {"GroupRowsGroups", kGroupRows, [](GroupRows &op) { op.groups = -1; }, ": groups = -1 must be positive"},
    {"GroupRowsMany", kGroupRows, [](GroupRows &op) { op.rows = int64_t(1) << 31; },
     ": rows = 2147483648 are more than i32 numbers"},
    {"GroupRowsOverlap", kGroupRows, [](Instruction &op) { op.operands[3] = {1, 64}; },
     ": operand sources is written and overlaps operand places"},
    {"GroupRowsPlaces", kGroupRows, [](GroupRows &op) { op.places = 6; }, ": places = 6 are more than the 5 rows"},
    {"GroupRowsAxes", kGroupRows, [](GroupRows &op) { op.axes = {"ep"}; }, ": axis 'ep' is"},
    {"DropChoicesCapacity", kDropChoices, [](DropChoices &op) { op.capacity = 0; }, ": capacity = 0 must be positive"},
    {"DropChoicesTogether", kDropChoices, [](DropChoices &op) { op.together = 3; },
     ": together = 3 does not divide 2 sequences"},
    {"DropChoicesChosen", kDropChoices, [](DropChoices &op) { op.chosen = 4; }, ": chosen = 4 of 3 experts"},
    {"DropChoicesMany", kDropChoices, [](DropChoices &op) { op.tokens = int64_t(1) << 31; },
     ": 2147483648 x 2 x 1 choices of 3 experts are more than i32 numbers"},
    {"DropChoicesOverlap", kDropChoices, [](Instruction &op) { op.operands[3] = {0, 64}; },
     ": operand kept is written and overlaps operand weights"},
    {"ExchangeWidth", kExchangeRows, [](ExchangeRows &op) { op.width = 0; }, ": width = 0 must be positive"},
    {"ExchangeMany", kExchangeRows, [](ExchangeRows &op) { op.places = int64_t(1) << 31; },
     ": rows = 4 and places = 2147483648 are more than i32 counts"},
    {"ExchangeAlone", kExchangeRows, [](ExchangeRows &op) { op.axes = {}; },
     ": exchangeRows over no axes; expected the axes that share out the groups"},
    {"ExchangeType", kExchangeRows, [](ExchangeRows &op) { op.type = DType::i32; }, ": type"},
    {"ExchangeCounts", kExchangeRows, [](ExchangeRows &op) { op.groups = 200; },
     ".operands[0]: operand counts (3200 bytes"},
    {"ExchangeOverlap", kExchangeRows, [](Instruction &op) { op.operands[2] = {0, 64}; },
     ": operand destination is written and overlaps operand source"},
    {"GemmOverlap", kGemm, [](Instruction &op) { op.operands[2] = {0, 32}; },
     ": operand C is written and overlaps operand B (block.fwd/0)"},
};

const Broken kAttentions[] = {
    {"AttentionSize", kAttention, [](Attention &op) { op.r = 0; }, ": r = 0 must be"},
    {"AttentionScale", kAttention, [](Attention &op) { op.scale = NAN; }, ": scale = nan"},
    {"AttentionWindow", kAttention, [](Attention &op) { op.window = -1; }, ": window = -1"},
    {"AttentionDropout", kAttention, [](Attention &op) { op.dropout = 1; }, ": dropout = 1 is not in [0, 1)"},
    {"AttentionStride", kAttention, [](Attention &op) { op.groupStride = -1; }, ": groupStride = -1 is negative"},
    {"AttentionRowStride", kAttentionBackward, [](Attention &op) { op.kStride = 1; },
     ": kStride = 1 is below the 2 elements of a row; expected 0"},
    {"AttentionRowStrideNegative", kAttention, [](Attention &op) { op.vStride = -6; }, ": vStride = -6 is below the 2"},
    {"AttentionRowStrideOfQueries", kAttentionBackward, [](Attention &op) { op.r = 4; },
     ": dqStride = 6 is below the 8 elements of a row"},
    {"AttentionRowStrideHuge", kAttentionBackward, [](Attention &op) { op.dvStride = kMax; },
     ".operands[11]: operand dv (more than 2^63 bytes from 16 on) is not inside"},
    {"AttentionRowsHuge", kAttentionBackward, [](Attention &op) { op.d = kMax; },
     ": qStride = 6 is below the 9223372036854775807 elements of a row"},
    {"AttentionSpan", kAttentionBackward, [](Attention &op) { op.qStride = 86; },
     ".operands[0]: operand q (1040 bytes from 0 on) is not inside segment 'x' of 1024 bytes"},
    {"AttentionInterleaved", kAttentionBackward, [](Instruction &op) { op.operands[10].offset = 4; },
     ": operand dk is written and overlaps operand dq (block.fwd/3)"},
    {"AttentionInterleavedBehind", kAttentionBackward, [](Instruction &op) { op.operands[11].offset = 20; },
     ": operand dv is written and overlaps operand dq (block.fwd/3)"},
    {"AttentionOtherStrides", kAttentionBackward, [](Attention &op) { op.dkStride = 12; },
     ": operand dk is written and overlaps operand dq (block.fwd/3)"},
    {"AttentionScalar", kAttention, [](Attention &op) { op.headOffset.terms = {{{"xp"}, 1}}; },
     ": axis 'xp' is not in the mesh"},
    {"AttentionAxes", kAttention, [](Attention &op) { op.queryAxes = {"xp"}; }, ": axis 'xp' is not in the mesh"},
    {"AttentionValues", kAttention, [](Attention &op) { op.w = -1; }, ": w = -1 is negative"},
    {"SinksBackward",
     [](Plan &plan) {
       auto &instruction = plan.programs[0].instructions[kAttentionBackward];
       body<Attention>(plan, kAttentionBackward).sinks = true;
       instruction.operands.insert(instruction.operands.begin() + 9, instruction.operands[8]);
     },
     "programs[0].instructions[3]: sinks backward; expected forward alone, whose o and lse count them"},
    {"AttentionResults", kAttention, [](Attention &op) { op.resultsInF32 = true; },
     ": resultsInF32 of type f32; expected of bf16 alone"},
    {"AttentionSoftcap", kAttention, [](Attention &op) { op.softcap = -1; },
     ": softcap = -1 must be finite, and 0 or more"},
    {"AttentionSoftcapNan", kAttention, [](Attention &op) { op.softcap = NAN; },
     ": softcap = nan must be finite, and 0 or more"},
    {"AttentionBias", kAttention,
     [](Attention &op) {
       op.biasBuckets = 32;
       op.biasMaxDistance = 128;
     },
     ": found 8 operands, expected 9"},
    {"AttentionBiasOfNegativeBuckets", kAttention, [](Attention &op) { op.biasBuckets = -1; },
     ": biasBuckets = -1 is negative"},
    {"AttentionBiasOfOneBucket", kAttention, [](Attention &op) { op.biasBuckets = 1; },
     ": bias of 1 buckets; expected 2 or more"},
    {"AttentionBiasOfBucketsOfOneDirection", kAttention,
     [](Attention &op) {
       op.biasBuckets = 3;
       op.causal = false;
     },
     ": bias of 3 buckets; expected 4 or more"},
    {"AttentionBiasOfShortDistances", kAttention,
     [](Attention &op) {
       op.biasBuckets = 32;
       op.biasMaxDistance = 16;
     },
     ": bias of 32 buckets up to a distance of 16; expected a distance from 17 to 65536"},
    {"AttentionBiasOfAHugeTable", kAttention,
     [](Attention &op) {
       op.biasBuckets = kMax;
       op.biasMaxDistance = kMax;
     },
     ": bias of 9223372036854775807 buckets up to a distance of 9223372036854775807; expected"},
    {"AttentionDistanceWithoutABias", kAttention, [](Attention &op) { op.biasMaxDistance = 128; },
     ": biasMaxDistance = 128 without biasBuckets; expected 0"},
    {"AttentionEnds", kAttention, [](Attention &op) { op.ends = true; }, ": found 8 operands, expected 9"},
    {"AttentionSlopes", kAttention, [](Attention &op) { op.slopes = {1, INFINITY}; },
     ": slopes[1] = inf must be finite"},
    {"AttentionSlopesOfFewHeads", kAttention,
     [](Attention &op) {
       op.slopes = {1};
       op.headOffset.terms = {{{"tp"}, 1}};
     },
     ": slopes of 1 heads; the first heads of the ranks are 0 to 1, and each has 1 groups of 1, 0 apart; expected "
     "slopes of all of them"},
    {"AttentionSlopesOfNegativeHeads", kAttention,
     [](Attention &op) {
       op.slopes = {1, 1};
       op.headOffset.value = -1;
     },
     ": slopes of 2 heads; the first heads of the ranks are -1 to -1"},
    {"AttentionSlopesOfHeadsFarApart", kAttention,
     [](Attention &op) {
       op.g = 2;
       op.slopes = {1, 1};
       op.groupStride = kMax;
     },
     ": slopes of 2 heads; the first heads of the ranks are 0 to 0"},
    {"AttentionSlopesOfARun", kAttention,
     [](Attention &op) {
       op.slopes = {1};
       op.headOffset.kind = Scalar::Kind::seed;
     },
     ": slopes with a headOffset of the call or the run; expected a linear one"},
    {"AttentionWorkspace", kAttention, [](Attention &op) { op.workspaceBytes = -4; },
     ".operands[7]: operand workspace (-4 bytes from 128 on) is not inside"},
    {"AttentionOutputs", kAttention, [](Instruction &op) { op.operands[6] = {1, 0}; },
     ": operand lse is written and overlaps operand o"},
};

const Broken kCollectives[] = {
    {"Chunk", kAllGather, [](Collective &op) { op.chunk = 0; }, ": chunk = 0 must be"},
    {"Outer", kAllGather, [](Collective &op) { op.outer = -1; }, ": outer = -1 must be"},
    {"AllReduceOuter", kAllReduce, [](Collective &op) { op.outer = 2; }, ": outer = 2, but all_reduce has outer = 1"},
    {"PermuteOuter", kAllReduce,
     [](Collective &op) {
       op.kind = Collective::Kind::permute;
       op.outer = 2;
     },
     ": outer = 2, but permute has outer = 1"},
    {"Middle", kAllGather, [](Collective &op) { op.middle = 2; }, ": middle = 2, but only all_to_all has a middle"},
    {"WorkspaceOfNothing", kAllToAll, [](Collective &op) { op.workspaceBytes = 256; },
     ": workspaceBytes = 256, expected 0: nothing is packed"},
    {"WorkspaceOfRows", [](Plan &plan) { plan.target = Target::cuda; },
     "programs[0].instructions[7]: workspaceBytes = 0, expected 256: the rows of all_to_all"},
    {"Axes", kAllGather, [](Collective &op) { op.axes = {"xp"}; }, ": axis 'xp' is not in the mesh"},
    {"AxesAndStages", kAllGather, [](Collective &op) { op.stages = {0, 1}; },
     ": a collective goes along axes or over stages, not both"},
    {"Stages", [](Plan &plan) { std::get<Collective>(plan.programs[1].instructions[0].body).stages = {0, 5}; },
     "programs[1].instructions[0]: [0, 5] must list stages below 2, each once"},
    {"Member", [](Plan &plan) { std::get<Collective>(plan.programs[1].instructions[0].body).stages = {0}; },
     "stages[1].chunks[1].calls[0]: stage 1 runs 'tied/sum', a collective of stages [0]"},
    {"GatherSize", kAllGather, [](Collective &op) { op.chunk = 65; },
     ".operands[1]: operand destination (1040 bytes from 0 on) is not inside"},
    {"ScatterSize", kReduceScatter, [](Collective &op) { op.chunk = 65; },
     ".operands[0]: operand source (1040 bytes from 0 on) is not inside"},
    {"AllToAllSize", kAllToAll, [](Collective &op) { op.middle = kMax; },
     ".operands[0]: operand source (more than 2^63 bytes from 0 on) is not inside"},
    {"AllReducePartly", kAllReduce, [](Instruction &op) { op.operands[0].offset = 32; },
     ": operand destination is written and overlaps operand source"},
    {"GatherInPlace", kAllGather, [](Instruction &op) { op.operands[0].segment = 1; },
     ": operand destination is written and overlaps operand source"},
    {"MoveBytes", kCopy, [](Move &op) { op.bytes = -1; }, ": bytes = -1 is negative"},
    {"FillSize", kFill, [](Move &op) { op.bytes = 1028; },
     ".operands[0]: operand destination (1028 bytes from 0 on) is not inside"},
    {"SliceSize", kSlice, [](Move &op) { op.chunkBytes = 0; }, ": chunkBytes = 0 must"},
    {"SliceSource", kSlice, [](Move &op) { op.outer = 33; },
     ".operands[0]: operand source (1056 bytes from 0 on) is not inside"},
    {"MoveAxes", kDemote, [](Move &op) { op.axes = {"tp", "tpg"}; }, ": axis 'tpg' comes twice"},
};

// With a bias in its product, and the rows of all_to_all packed.
Plan makeGpuPlan() {
  Plan plan = makeSmallPlan();
  plan.target = Target::cuda;
  plan.kernels = {{KernelLevel::sm90, "kernels/sm_90.ptx", 1}};
  Instruction &product = plan.programs[0].instructions[kGemm];
  std::get<Gemm>(product.body).epilogue = Epilogue::bias;
  product.operands = {{0, 0}, {0, 64}, {0, 128}, {1, 0}};
  plan.programs[0].instructions.erase(plan.programs[0].instructions.begin() + kGroupedGemm,
                                      plan.programs[0].instructions.end()); // GPUs have none of those behind it
  body<Collective>(plan, kAllToAll).workspaceBytes = 256;
  plan.programs[0].instructions[kAllToAll].operands.push_back({0, 512});
  return plan;
}

TEST(Verify, APlanForGpusIsSound) {
  const Status status = verifyPlan(makeGpuPlan());
  EXPECT_TRUE(status.isOk()) << status.message();
}

class VerifyGpu : public Verify {};
TEST_P(VerifyGpu, RefusesABrokenRule) { refuses(makeGpuPlan(), GetParam()); }

const Broken kGpu[] = {
    {"EpilogueAccumulates", kGemm, [](Gemm &op) { op.accumulate = true; },
     ": epilogue bias of a product that is added to C; expected one or the other"},
    {"EpilogueOperands", kGemm, [](Gemm &op) { op.epilogue = Epilogue::none; },
     ": found 4 operands, expected 3 (block.fwd/0)"},
    {"BiasInside", kGemm, [](Instruction &op) { op.operands[2].offset = 1000; },
     ".operands[2]: operand bias (32 bytes from 1000 on) is not inside segment 'x' of 1024"},
    {"BiasAligned", kGemm, [](Instruction &op) { op.operands[2].offset = 130; },
     ".operands[2]: offset 130 or stride 0 is not a multiple of 4"},
    {"BiasWritten", kGemm, [](Instruction &op) { op.operands[2] = {1, 64}; },
     ": operand C is written and overlaps operand bias (block.fwd/0)"},
};

INSTANTIATE_TEST_SUITE_P(Programs, Verify, testing::ValuesIn(kPrograms), ruleName);
INSTANTIATE_TEST_SUITE_P(Attentions, Verify, testing::ValuesIn(kAttentions), ruleName);
INSTANTIATE_TEST_SUITE_P(Epilogues, VerifyGpu, testing::ValuesIn(kGpu), ruleName);
INSTANTIATE_TEST_SUITE_P(Collectives, Verify, testing::ValuesIn(kCollectives), ruleName);

} // namespace
} // namespace mgc::plan
