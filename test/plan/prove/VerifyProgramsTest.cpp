// Rules of programs and their instructions.
#include "test/plan/prove/BrokenPlans.h"

#include <cmath>

namespace mgc::plan {
namespace {

const Broken kPrograms[] = {
    {"GemmTypes", [](Plan &plan) { body<Gemm>(plan, kGemm).outputType = DType::bf16; },
     "programs[0].instructions[0]: outputType bf16 of f32 operands; expected f32, or operands of bf16"},
    {"GemmInput", [](Plan &plan) { body<Gemm>(plan, kGemm).inputType = DType::i32; },
     "programs[0].instructions[0]: inputType is i32, expected f32 or bf16"},
    {"GemmOutput", [](Plan &plan) { body<Gemm>(plan, kGemm).outputType = DType::i32; },
     "programs[0].instructions[0]: outputType is i32, expected f32 or bf16"},
    {"AttentionType", [](Plan &plan) { body<Attention>(plan, kAttention).type = DType::i32; },
     "programs[0].instructions[2]: type is i32, expected f32 or bf16"},
    {"AttentionCausal",
     [](Plan &plan) {
       body<Attention>(plan, kAttention).zigzag = 1;
       body<Attention>(plan, kAttention).s = 3;
     },
     "programs[0].instructions[2]: s = 3 queries on each of 1 ranks are not all of t = 4 positions"},
    {"SegmentCount", [](Plan &plan) { plan.programs[0].segments.pop_back(); },
     "programs[0]: found 1 segments and 2 segmentBytes"},
    {"SegmentBytes", [](Plan &plan) { plan.programs[0].segmentBytes[1] = -1; },
     "programs[0]: segmentBytes[1] = -1 is negative"},
    {"OperandCount", [](Plan &plan) { instruction(plan, kGemm).operands.pop_back(); },
     "programs[0].instructions[0]: found 2 operands, expected 3 (block.fwd/0)"},
    {"OperandCountAttention", [](Plan &plan) { body<Attention>(plan, kAttention).dropout = 0.5; },
     "programs[0].instructions[2]: found 8 operands, expected 9"},
    {"OperandSegment", [](Plan &plan) { instruction(plan, kGemm).operands[1].segment = 2; },
     "programs[0].instructions[0].operands[1]: segment 2 is not one of 2"},
    {"OperandSize", [](Plan &plan) { instruction(plan, kGemm).operands[2].offset = 900; },
     "programs[0].instructions[0].operands[2]: operand C (128 bytes from 900 on) is not inside segment 'y' "
     "of 1024"},
    {"OperandNegative", [](Plan &plan) { instruction(plan, kGemm).operands[2].offset = -64; },
     "programs[0].instructions[0].operands[2]: operand C (128 bytes from -64 on)"},
    {"OperandHuge", [](Plan &plan) { body<Gemm>(plan, kGemm).m = kMax; },
     "programs[0].instructions[0].operands[0]: operand A (more than 2^63 bytes from 0 on)"},
    {"OperandAligned", [](Plan &plan) { instruction(plan, kGemm).operands[2].offset = 2; },
     "programs[0].instructions[0].operands[2]: offset 2 or stride 0 is not a multiple of 4"},
    {"RowKernelOffset", [](Plan &plan) { instruction(plan, kRowKernel).operands[1].offset = 1028; },
     "programs[0].instructions[1].operands[1]: operand of the kernel (64 bytes from 1028 on) is not inside"},
    {"RowKernelSymbol", [](Plan &plan) { body<RowKernel>(plan, kRowKernel).symbol = ""; },
     "programs[0].instructions[1]: symbol '' names no row kernel"},
    {"RowKernelNeeds", [](Plan &plan) { body<RowKernel>(plan, kRowKernel).symbol += "_needs"; },
     "programs[0].instructions[1]: symbol 'gelu_needs' names no row kernel"},
    {"RowKernelNul", [](Plan &plan) { body<RowKernel>(plan, kRowKernel).symbol += '\0'; },
     "programs[0].instructions[1]: symbol 'gelu"},
    {"ScalarSum", [](Plan &plan) { body<RowKernel>(plan, kRowKernel).scalars[0].terms[0].scale = kMax; },
     "programs[0].instructions[1]: a scalar's terms add up to more"},
    {"RowKernelInPlaceOfLess",
     [](Plan &plan) {
       instruction(plan, kRowKernel).operands[0] = instruction(plan, kRowKernel).operands[1];
       body<RowKernel>(plan, kRowKernel).uses[0].bytes = 128;
     },
     "programs[0].instructions[1]: operand of the kernel is written and overlaps"},
    {"AttentionWorkspaceAligned", [](Plan &plan) { instruction(plan, kAttention).operands[7].offset += 4; },
     "programs[0].instructions[2].operands[7]: offset 132 or stride 0 is not a multiple of 64"},
    {"RowKernelRange", [](Plan &plan) { body<RowKernel>(plan, kRowKernel).range = -1; },
     "programs[0].instructions[1]: range = -1"},
    {"RowKernelFlops", [](Plan &plan) { body<RowKernel>(plan, kRowKernel).flops = -1; },
     "programs[0].instructions[1]: flops = -1"},
    {"RowKernelBytes", [](Plan &plan) { body<RowKernel>(plan, kRowKernel).bytes = NAN; },
     "programs[0].instructions[1]: bytes = nan"},
    {"ScalarAxes", [](Plan &plan) { body<RowKernel>(plan, kRowKernel).scalars[0].terms[0].axes = {"xp"}; },
     "programs[0].instructions[1]: axis 'xp' is not in the mesh"},
    {"GemmSize", [](Plan &plan) { body<Gemm>(plan, kGemm).k = 0; },
     "programs[0].instructions[0]: k = 0 must be positive"},
    {"GemmPath", [](Plan &plan) { body<Gemm>(plan, kGemm).path = GemmPath(9); },
     "programs[0].instructions[0]: path 9 is none; expected one of rule whole rows columns"},
    {"GemmEpilogue", [](Plan &plan) { body<Gemm>(plan, kGemm).epilogue = Epilogue(3); },
     "programs[0].instructions[0]: epilogue 3 is none; expected one of none bias gelu"},
    {"GemmEpilogueOnCpu", [](Plan &plan) { body<Gemm>(plan, kGemm).epilogue = Epilogue::bias; },
     "programs[0].instructions[0]: epilogue bias in a plan for cpu, whose products have none; compile for "
     "cuda, or without"},
    {"GroupedForm", [](Plan &plan) { body<GroupedGemm>(plan, kGroupedGemm).form = GroupedGemm::Form(2); },
     "programs[0].instructions[12]: form 2 is none; expected one of rows sums"},
    {"GroupedGroups", [](Plan &plan) { body<GroupedGemm>(plan, kGroupedGemm).groups = 0; },
     "programs[0].instructions[12]: groups = 0 must be positive"},
    {"GroupedRows", [](Plan &plan) { body<GroupedGemm>(plan, kGroupedGemm).m = 2; },
     "programs[0].instructions[12]: form rows has m = 2, expected 0"},
    {"GroupedRowsAdded", [](Plan &plan) { body<GroupedGemm>(plan, kGroupedGemm).accumulate = true; },
     "programs[0].instructions[12]: accumulate of form rows, of which only rows with data are written"},
    {"GroupedSumsTransposed", [](Plan &plan) { body<GroupedGemm>(plan, kGroupedSums).transposeB = true; },
     "programs[0].instructions[13]: transposeB of form sums, whose B is rows"},
    {"GroupedTypes", [](Plan &plan) { body<GroupedGemm>(plan, kGroupedSums).outputType = DType::bf16; },
     "programs[0].instructions[13]: outputType bf16 of f32 operands; expected f32, or operands of bf16"},
    {"GroupedCounts", [](Plan &plan) { instruction(plan, kGroupedGemm).operands[2].offset = 1020; },
     "programs[0].instructions[12].operands[2]: operand counts (8 bytes from 1020 on) is not inside segment "
     "'x'"},
    {"GroupedOverlap", [](Plan &plan) { instruction(plan, kGroupedSums).operands[3] = {0, 64}; },
     "programs[0].instructions[13]: operand C is written and overlaps operand B (block.fwd/13)"},
    {"GroupedHuge", [](Plan &plan) { body<GroupedGemm>(plan, kGroupedGemm).groups = kMax; },
     "programs[0].instructions[12].operands[1]: operand B (more than 2^63 bytes from 64 on)"},
    {"GroupRowsGroups", [](Plan &plan) { body<GroupRows>(plan, kGroupRows).groups = -1; },
     "programs[0].instructions[14]: groups = -1 must be positive"},
    {"GroupRowsMany", [](Plan &plan) { body<GroupRows>(plan, kGroupRows).rows = int64_t(1) << 31; },
     "programs[0].instructions[14]: rows = 2147483648 are more than i32 numbers"},
    {"GroupRowsOverlap", [](Plan &plan) { instruction(plan, kGroupRows).operands[3] = {1, 64}; },
     "programs[0].instructions[14]: operand sources is written and overlaps operand places"},
    {"GroupRowsPlaces", [](Plan &plan) { body<GroupRows>(plan, kGroupRows).places = 6; },
     "programs[0].instructions[14]: places = 6 are more than the 5 rows"},
    {"GroupRowsAxes", [](Plan &plan) { body<GroupRows>(plan, kGroupRows).axes = {"ep"}; },
     "programs[0].instructions[14]: axis 'ep' is"},
    {"DropChoicesCapacity", [](Plan &plan) { body<DropChoices>(plan, kDropChoices).capacity = 0; },
     "programs[0].instructions[15]: capacity = 0 must be positive"},
    {"DropChoicesTogether", [](Plan &plan) { body<DropChoices>(plan, kDropChoices).together = 3; },
     "programs[0].instructions[15]: together = 3 does not divide 2 sequences"},
    {"DropChoicesChosen", [](Plan &plan) { body<DropChoices>(plan, kDropChoices).chosen = 4; },
     "programs[0].instructions[15]: chosen = 4 of 3 experts"},
    {"DropChoicesMany", [](Plan &plan) { body<DropChoices>(plan, kDropChoices).tokens = int64_t(1) << 31; },
     "programs[0].instructions[15]: 2147483648 x 2 x 1 choices of 3 experts are more than i32 numbers"},
    {"DropChoicesOverlap", [](Plan &plan) { instruction(plan, kDropChoices).operands[3] = {0, 64}; },
     "programs[0].instructions[15]: operand kept is written and overlaps operand weights"},
    {"ExchangeWidth", [](Plan &plan) { body<ExchangeRows>(plan, kExchangeRows).width = 0; },
     "programs[0].instructions[16]: width = 0 must be positive"},
    {"ExchangeMany", [](Plan &plan) { body<ExchangeRows>(plan, kExchangeRows).places = int64_t(1) << 31; },
     "programs[0].instructions[16]: rows = 4 and places = 2147483648 are more than i32 counts"},
    {"ExchangeAlone", [](Plan &plan) { body<ExchangeRows>(plan, kExchangeRows).axes = {}; },
     "programs[0].instructions[16]: exchangeRows over no axes; expected the axes that share out the groups"},
    {"ExchangeType", [](Plan &plan) { body<ExchangeRows>(plan, kExchangeRows).type = DType::i32; },
     "programs[0].instructions[16]: type"},
    {"ExchangeCounts", [](Plan &plan) { body<ExchangeRows>(plan, kExchangeRows).groups = 200; },
     "programs[0].instructions[16].operands[0]: operand counts (3200 bytes"},
    {"ExchangeOverlap", [](Plan &plan) { instruction(plan, kExchangeRows).operands[2] = {0, 64}; },
     "programs[0].instructions[16]: operand destination is written and overlaps operand source"},
    {"GemmOverlap", [](Plan &plan) { instruction(plan, kGemm).operands[2] = {0, 32}; },
     "programs[0].instructions[0]: operand C is written and overlaps operand B (block.fwd/0)"},
    {"AttentionSize", [](Plan &plan) { body<Attention>(plan, kAttention).r = 0; },
     "programs[0].instructions[2]: r = 0 must be"},
    {"AttentionScale", [](Plan &plan) { body<Attention>(plan, kAttention).scale = NAN; },
     "programs[0].instructions[2]: scale = nan"},
    {"AttentionWindow", [](Plan &plan) { body<Attention>(plan, kAttention).window = -1; },
     "programs[0].instructions[2]: window = -1"},
    {"AttentionDropout", [](Plan &plan) { body<Attention>(plan, kAttention).dropout = 1; },
     "programs[0].instructions[2]: dropout = 1 is not in [0, 1)"},
    {"AttentionStride", [](Plan &plan) { body<Attention>(plan, kAttention).groupStride = -1; },
     "programs[0].instructions[2]: groupStride = -1 is negative"},
    {"AttentionRowStride", [](Plan &plan) { body<Attention>(plan, kAttentionBackward).kStride = 1; },
     "programs[0].instructions[3]: kStride = 1 is below the 2 elements of a row; expected 0"},
    {"AttentionRowStrideNegative", [](Plan &plan) { body<Attention>(plan, kAttention).vStride = -6; },
     "programs[0].instructions[2]: vStride = -6 is below the 2"},
    {"AttentionRowStrideOfQueries", [](Plan &plan) { body<Attention>(plan, kAttentionBackward).r = 4; },
     "programs[0].instructions[3]: dqStride = 6 is below the 8 elements of a row"},
    {"AttentionRowStrideHuge", [](Plan &plan) { body<Attention>(plan, kAttentionBackward).dvStride = kMax; },
     "programs[0].instructions[3].operands[11]: operand dv (more than 2^63 bytes from 16 on) is not inside"},
    {"AttentionRowsHuge", [](Plan &plan) { body<Attention>(plan, kAttentionBackward).d = kMax; },
     "programs[0].instructions[3]: qStride = 6 is below the 9223372036854775807 elements of a row"},
    {"AttentionSpan", [](Plan &plan) { body<Attention>(plan, kAttentionBackward).qStride = 86; },
     "programs[0].instructions[3].operands[0]: operand q (1040 bytes from 0 on) is not inside segment 'x' of "
     "1024 bytes"},
    {"AttentionInterleaved", [](Plan &plan) { instruction(plan, kAttentionBackward).operands[10].offset = 4; },
     "programs[0].instructions[3]: operand dk is written and overlaps operand dq (block.fwd/3)"},
    {"AttentionInterleavedBehind", [](Plan &plan) { instruction(plan, kAttentionBackward).operands[11].offset = 20; },
     "programs[0].instructions[3]: operand dv is written and overlaps operand dq (block.fwd/3)"},
    {"AttentionOtherStrides", [](Plan &plan) { body<Attention>(plan, kAttentionBackward).dkStride = 12; },
     "programs[0].instructions[3]: operand dk is written and overlaps operand dq (block.fwd/3)"},
    {"AttentionScalar", [](Plan &plan) { body<Attention>(plan, kAttention).headOffset.terms = {{{"xp"}, 1}}; },
     "programs[0].instructions[2]: axis 'xp' is not in the mesh"},
    {"AttentionAxes", [](Plan &plan) { body<Attention>(plan, kAttention).queryAxes = {"xp"}; },
     "programs[0].instructions[2]: axis 'xp' is not in the mesh"},
    {"AttentionValues", [](Plan &plan) { body<Attention>(plan, kAttention).w = -1; },
     "programs[0].instructions[2]: w = -1 is negative"},
    {"SinksBackward",
     [](Plan &plan) {
       auto &instruction = plan.programs[0].instructions[kAttentionBackward];
       body<Attention>(plan, kAttentionBackward).sinks = true;
       instruction.operands.insert(instruction.operands.begin() + 9, instruction.operands[8]);
     },
     "programs[0].instructions[3]: sinks backward; expected forward alone, whose o and lse count them"},
    {"AttentionResults", [](Plan &plan) { body<Attention>(plan, kAttention).resultsInF32 = true; },
     "programs[0].instructions[2]: resultsInF32 of type f32; expected of bf16 alone"},
    {"AttentionSoftcap", [](Plan &plan) { body<Attention>(plan, kAttention).softcap = -1; },
     "programs[0].instructions[2]: softcap = -1 must be finite, and 0 or more"},
    {"AttentionSoftcapNan", [](Plan &plan) { body<Attention>(plan, kAttention).softcap = NAN; },
     "programs[0].instructions[2]: softcap = nan must be finite, and 0 or more"},
    {"AttentionBias",
     [](Plan &plan) {
       body<Attention>(plan, kAttention).biasBuckets = 32;
       body<Attention>(plan, kAttention).biasMaxDistance = 128;
     },
     "programs[0].instructions[2]: found 8 operands, expected 9"},
    {"AttentionBiasOfNegativeBuckets", [](Plan &plan) { body<Attention>(plan, kAttention).biasBuckets = -1; },
     "programs[0].instructions[2]: biasBuckets = -1 is negative"},
    {"AttentionBiasOfOneBucket", [](Plan &plan) { body<Attention>(plan, kAttention).biasBuckets = 1; },
     "programs[0].instructions[2]: bias of 1 buckets; expected 2 or more"},
    {"AttentionBiasOfBucketsOfOneDirection",
     [](Plan &plan) {
       body<Attention>(plan, kAttention).biasBuckets = 3;
       body<Attention>(plan, kAttention).causal = false;
     },
     "programs[0].instructions[2]: bias of 3 buckets; expected 4 or more"},
    {"AttentionBiasOfShortDistances",
     [](Plan &plan) {
       body<Attention>(plan, kAttention).biasBuckets = 32;
       body<Attention>(plan, kAttention).biasMaxDistance = 16;
     },
     "programs[0].instructions[2]: bias of 32 buckets up to a distance of 16; expected a distance from 17 to "
     "65536"},
    {"AttentionBiasOfAHugeTable",
     [](Plan &plan) {
       body<Attention>(plan, kAttention).biasBuckets = kMax;
       body<Attention>(plan, kAttention).biasMaxDistance = kMax;
     },
     "programs[0].instructions[2]: bias of 9223372036854775807 buckets up to a distance of "
     "9223372036854775807; expected"},
    {"AttentionDistanceWithoutABias", [](Plan &plan) { body<Attention>(plan, kAttention).biasMaxDistance = 128; },
     "programs[0].instructions[2]: biasMaxDistance = 128 without biasBuckets; expected 0"},
    {"AttentionEnds", [](Plan &plan) { body<Attention>(plan, kAttention).ends = true; },
     "programs[0].instructions[2]: found 8 operands, expected 9"},
    {"AttentionSlopes", [](Plan &plan) { body<Attention>(plan, kAttention).slopes = {1, INFINITY}; },
     "programs[0].instructions[2]: slopes[1] = inf must be finite"},
    {"AttentionSlopesOfFewHeads",
     [](Plan &plan) {
       body<Attention>(plan, kAttention).slopes = {1};
       body<Attention>(plan, kAttention).headOffset.terms = {{{"tp"}, 1}};
     },
     "programs[0].instructions[2]: slopes of 1 heads; the first heads of the ranks are 0 to 1, and each has "
     "1 groups "
     "of 1, 0 apart; expected slopes of all of them"},
    {"AttentionSlopesOfNegativeHeads",
     [](Plan &plan) {
       body<Attention>(plan, kAttention).slopes = {1, 1};
       body<Attention>(plan, kAttention).headOffset.value = -1;
     },
     "programs[0].instructions[2]: slopes of 2 heads; the first heads of the ranks are -1 to -1"},
    {"AttentionSlopesOfHeadsFarApart",
     [](Plan &plan) {
       body<Attention>(plan, kAttention).g = 2;
       body<Attention>(plan, kAttention).slopes = {1, 1};
       body<Attention>(plan, kAttention).groupStride = kMax;
     },
     "programs[0].instructions[2]: slopes of 2 heads; the first heads of the ranks are 0 to 0"},
    {"AttentionSlopesOfARun",
     [](Plan &plan) {
       body<Attention>(plan, kAttention).slopes = {1};
       body<Attention>(plan, kAttention).headOffset.kind = Scalar::Kind::seed;
     },
     "programs[0].instructions[2]: slopes with a headOffset of the call or the run; expected a linear one"},
    {"AttentionWorkspace", [](Plan &plan) { body<Attention>(plan, kAttention).workspaceBytes = -4; },
     "programs[0].instructions[2].operands[7]: operand workspace (-4 bytes from 128 on) is not inside"},
    {"AttentionOutputs", [](Plan &plan) { instruction(plan, kAttention).operands[6] = {1, 0}; },
     "programs[0].instructions[2]: operand lse is written and overlaps operand o"},
};

const Broken kCollectives[] = {
    {"Chunk", [](Plan &plan) { body<Collective>(plan, kAllGather).chunk = 0; },
     "programs[0].instructions[5]: chunk = 0 must be"},
    {"Outer", [](Plan &plan) { body<Collective>(plan, kAllGather).outer = -1; },
     "programs[0].instructions[5]: outer = -1 must be"},
    {"AllReduceOuter", [](Plan &plan) { body<Collective>(plan, kAllReduce).outer = 2; },
     "programs[0].instructions[4]: outer = 2, but all_reduce has outer = 1"},
    {"PermuteOuter",
     [](Plan &plan) {
       body<Collective>(plan, kAllReduce).kind = Collective::Kind::permute;
       body<Collective>(plan, kAllReduce).outer = 2;
     },
     "programs[0].instructions[4]: outer = 2, but permute has outer = 1"},
    {"Middle", [](Plan &plan) { body<Collective>(plan, kAllGather).middle = 2; },
     "programs[0].instructions[5]: middle = 2, but only all_to_all has a middle"},
    {"WorkspaceOfNothing", [](Plan &plan) { body<Collective>(plan, kAllToAll).workspaceBytes = 256; },
     "programs[0].instructions[7]: workspaceBytes = 256, expected 0: nothing is packed"},
    {"WorkspaceOfRows", [](Plan &plan) { plan.target = Target::cuda; },
     "programs[0].instructions[7]: workspaceBytes = 0, expected 256: the rows of all_to_all"},
    {"Axes", [](Plan &plan) { body<Collective>(plan, kAllGather).axes = {"xp"}; },
     "programs[0].instructions[5]: axis 'xp' is not in the mesh"},
    {"AxesAndStages", [](Plan &plan) { body<Collective>(plan, kAllGather).stages = {0, 1}; },
     "programs[0].instructions[5]: a collective goes along axes or over stages, not both"},
    {"Stages", [](Plan &plan) { std::get<Collective>(plan.programs[1].instructions[0].body).stages = {0, 5}; },
     "programs[1].instructions[0]: [0, 5] must list stages below 2, each once"},
    {"Member", [](Plan &plan) { std::get<Collective>(plan.programs[1].instructions[0].body).stages = {0}; },
     "stages[1].chunks[1].calls[0]: stage 1 runs 'tied/sum', a collective of stages [0]"},
    {"GatherSize", [](Plan &plan) { body<Collective>(plan, kAllGather).chunk = 65; },
     "programs[0].instructions[5].operands[1]: operand destination (1040 bytes from 0 on) is not inside"},
    {"ScatterSize", [](Plan &plan) { body<Collective>(plan, kReduceScatter).chunk = 65; },
     "programs[0].instructions[6].operands[0]: operand source (1040 bytes from 0 on) is not inside"},
    {"AllToAllSize", [](Plan &plan) { body<Collective>(plan, kAllToAll).middle = kMax; },
     "programs[0].instructions[7].operands[0]: operand source (more than 2^63 bytes from 0 on) is not "
     "inside"},
    {"AllReducePartly", [](Plan &plan) { instruction(plan, kAllReduce).operands[0].offset = 32; },
     "programs[0].instructions[4]: operand destination is written and overlaps operand source"},
    {"GatherInPlace", [](Plan &plan) { instruction(plan, kAllGather).operands[0].segment = 1; },
     "programs[0].instructions[5]: operand destination is written and overlaps operand source"},
    {"MoveBytes", [](Plan &plan) { body<Move>(plan, kCopy).bytes = -1; },
     "programs[0].instructions[8]: bytes = -1 is negative"},
    {"FillSize", [](Plan &plan) { body<Move>(plan, kFill).bytes = 1028; },
     "programs[0].instructions[9].operands[0]: operand destination (1028 bytes from 0 on) is not inside"},
    {"SliceSize", [](Plan &plan) { body<Move>(plan, kSlice).chunkBytes = 0; },
     "programs[0].instructions[10]: chunkBytes = 0 must"},
    {"SliceSource", [](Plan &plan) { body<Move>(plan, kSlice).outer = 33; },
     "programs[0].instructions[10].operands[0]: operand source (1056 bytes from 0 on) is not inside"},
    {"MoveAxes", [](Plan &plan) { body<Move>(plan, kDemote).axes = {"tp", "tpg"}; },
     "programs[0].instructions[11]: axis 'tpg' comes twice"},
};

// With GELU in its product, and the rows of all_to_all packed.
Plan makeGpuPlan() {
  Plan plan = makeSmallPlan();
  plan.target = Target::cuda;
  plan.kernels = {{KernelLevel::sm90, "kernels/sm_90.ptx", 1}};
  Instruction &product = plan.programs[0].instructions[kGemm];
  std::get<Gemm>(product.body).epilogue = Epilogue::gelu;
  product.operands = {{0, 0}, {0, 64}, {0, 128}, {1, 0}, {1, 128}};
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
    {"EpilogueAccumulates", [](Plan &plan) { body<Gemm>(plan, kGemm).accumulate = true; },
     "programs[0].instructions[0]: epilogue gelu of a product that is added to C; expected one or the other"},
    {"GeluColumns", [](Plan &plan) { body<Gemm>(plan, kGemm).n = 4; },
     "programs[0].instructions[0]: n = 4 with epilogue gelu; expected a multiple of 8"},
    {"EpilogueOperands", [](Plan &plan) { body<Gemm>(plan, kGemm).epilogue = Epilogue::bias; },
     "programs[0].instructions[0]: found 5 operands, expected 4 (block.fwd/0)"},
    {"BiasInside", [](Plan &plan) { instruction(plan, kGemm).operands[2].offset = 1000; },
     "programs[0].instructions[0].operands[2]: operand bias (32 bytes from 1000 on) is not inside segment "
     "'x' "
     "of 1024"},
    {"BiasAligned", [](Plan &plan) { instruction(plan, kGemm).operands[2].offset = 130; },
     "programs[0].instructions[0].operands[2]: offset 130 or stride 0 is not a multiple of 4"},
    {"BiasWritten", [](Plan &plan) { instruction(plan, kGemm).operands[2] = {1, 64}; },
     "programs[0].instructions[0]: operand C is written and overlaps operand bias (block.fwd/0)"},
    {"PreactivationInside", [](Plan &plan) { instruction(plan, kGemm).operands[4].offset = 900; },
     "programs[0].instructions[0].operands[4]: operand preactivation (128 bytes from 900 on) is not inside "
     "segment 'y' of 1024"},
    {"PreactivationApart", [](Plan &plan) { instruction(plan, kGemm).operands[4].offset = 64; },
     "programs[0].instructions[0]: operand preactivation is written and overlaps operand C (block.fwd/0)"},
};

INSTANTIATE_TEST_SUITE_P(Programs, Verify, testing::ValuesIn(kPrograms), ruleName);
INSTANTIATE_TEST_SUITE_P(Epilogues, VerifyGpu, testing::ValuesIn(kGpu), ruleName);
INSTANTIATE_TEST_SUITE_P(Collectives, Verify, testing::ValuesIn(kCollectives), ruleName);

} // namespace
} // namespace mgc::plan
