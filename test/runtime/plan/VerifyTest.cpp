// Each rule of verifyPlan is broken once, and the message must say so and where.
#include "runtime/plan/Verify.h"
#include "test/runtime/plan/SmallPlan.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <utility>

namespace mgc::plan {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

struct Broken {
  const char *name;
  std::function<void(Plan &)> breakIt;
  const char *message; // a line of the error begins with it
};

void PrintTo(const Broken &broken, std::ostream *out) { *out << broken.name; }

class Verify : public testing::TestWithParam<Broken> {};

TEST(Verify, TheSmallPlanIsSound) {
  Status status = verifyPlan(makeSmallPlan());
  EXPECT_TRUE(status.isOk()) << status.message();
}

// The small plan with values of bf16: a slice of `tied` has 32 of them, so its f32 buffers get larger and lie, with the
// masters, in a region of their own.
Plan makeBf16Plan() {
  Plan plan = makeSmallPlan();
  plan.dtype = DType::bf16;
  for (StagePlan &stage : plan.stages) {
    Bucket &tied = stage.buckets[0], &plain = stage.buckets[1];
    tied.elements = 64;
    int64_t end = stage.bytes;
    const auto place = [&](int64_t &offset, int64_t bytes) { offset = std::exchange(end, end + bytes); };
    place(plain.masterOffset, 64);
    place(tied.masterOffset, 128);
    place(tied.gradientOffset, 256);
    place(tied.gradientShardOffset, 128);
    place(tied.firstMomentOffset, 128);
    place(tied.secondMomentOffset, 128);
    stage.regions.push_back({"optimizer", stage.bytes, end - stage.bytes});
    stage.bytes = end;
  }
  return plan;
}

TEST(Verify, APlanOfBf16IsSound) {
  const Status status = verifyPlan(makeBf16Plan());
  EXPECT_TRUE(status.isOk()) << status.message();
}

// With GELU in its product.
Plan makeGpuPlan() {
  Plan plan = makeSmallPlan();
  plan.target = Target::cuda;
  plan.kernels = {{KernelLevel::sm90, "kernels/sm_90.ptx", 1}};
  Instruction &product = plan.programs[0].instructions[kGemm];
  std::get<Gemm>(product.body).epilogue = Epilogue::gelu;
  product.operands = {{0, 0}, {0, 64}, {0, 128}, {1, 0}, {1, 128}};
  return plan;
}

TEST(Verify, APlanForGpusIsSound) {
  const Status status = verifyPlan(makeGpuPlan());
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Verify, ListsAllViolations) {
  Plan plan = makeSmallPlan();
  plan.vocabulary = 0;
  plan.stages[1].schedule[0].peer = 7;
  std::string message = verifyPlan(plan).message();
  EXPECT_NE(message.find("vocabulary: found 0"), std::string::npos) << message;
  EXPECT_NE(message.find("stages[1].schedule[0]: peer 7"), std::string::npos) << message;
}

void refuses(Plan plan, const Broken &broken) {
  broken.breakIt(plan);
  Status status = verifyPlan(plan);
  ASSERT_FALSE(status.isOk());
  EXPECT_NE(("\n" + status.message()).find(std::string("\n") + broken.message), std::string::npos)
      << status.message();
}

TEST_P(Verify, RefusesABrokenRule) { refuses(makeSmallPlan(), GetParam()); }

class VerifyBf16 : public Verify {};
TEST_P(VerifyBf16, RefusesABrokenRule) { refuses(makeBf16Plan(), GetParam()); }

class VerifyGpu : public Verify {};
TEST_P(VerifyGpu, RefusesABrokenRule) { refuses(makeGpuPlan(), GetParam()); }

Instruction &instruction(Plan &plan, SmallInstruction index) { return plan.programs[0].instructions[index]; }
template <typename T> T &body(Plan &plan, SmallInstruction index) {
  return std::get<T>(instruction(plan, index).body);
}

const Broken kNumbers[] = {
    {"Version", [](Plan &plan) { plan.version = 1; }, "version: found 1, expected 6"},
    {"MeshSize", [](Plan &plan) { plan.mesh.axes[1].size = -2; }, "mesh: axis 'dp' has size -2"},
    {"MeshProduct", [](Plan &plan) { plan.mesh.axes[1].size = kMax; }, "mesh: the axis sizes multiply"},
    {"StageCount", [](Plan &plan) { plan.stages.pop_back(); },
     "stages: found 1 stages, but the mesh has 2 along pp"},
    {"SequenceLength", [](Plan &plan) { plan.sequenceLength = 0; }, "sequenceLength: found 0"},
    {"MicroBatchSize", [](Plan &plan) { plan.microBatchSize = -1; }, "microBatchSize: found -1"},
    {"GlobalBatchSize", [](Plan &plan) { plan.globalBatchSize = 0; }, "globalBatchSize: found 0"},
    {"Microbatches", [](Plan &plan) { plan.microbatches = 0; }, "microbatches: found 0"},
    {"Vocabulary", [](Plan &plan) { plan.vocabulary = 0; }, "vocabulary: found 0"},
    {"VirtualStages", [](Plan &plan) { plan.virtualStages = 0; }, "virtualStages: found 0"},
    {"StepTokens", [](Plan &plan) { plan.sequenceLength = kMax; },
     "globalBatchSize: 4 samples of 9223372036854775807 tokens"},
    {"Zero", [](Plan &plan) { plan.zero = 3; }, "zero: found 3, expected 0 or 1"},
    {"DType", [](Plan &plan) { plan.dtype = DType::i32; }, "dtype: found i32, expected f32 or bf16"},
    {"GradientType", [](Plan &plan) { plan.gradientType = DType::bf16; },
     "gradientType: found bf16, expected f32 or what dtype says, f32"},
    {"GradientTypeIndex", [](Plan &plan) { plan.gradientType = DType::i32; }, "gradientType: found i32"},
    {"OtherTarget", [](Plan &plan) { plan.target = Target::cuda; },
     "kernels[1].level: x86-64-v4 is of target cpu, the plan is for cuda"},
    {"OtherLevel", [](Plan &plan) { plan.kernels[1].level = KernelLevel::sm90; },
     "kernels[1].level: sm_90 is of target cuda, the plan is for cpu"},
    {"LibraryOutside", [](Plan &plan) { plan.kernels[0].path = "kernels/../../x.so"; },
     "kernels[0].path: 'kernels/../../x.so' must"},
    {"LibraryAbsolute", [](Plan &plan) { plan.kernels[1].path = "/x.so"; },
     "kernels[1].path: '/x.so' must be a path inside"},
    {"LibraryUnnamed", [](Plan &plan) { plan.kernels[0].path = ""; }, "kernels[0].path: '' must be a path"},
    {"LibraryTwice", [](Plan &plan) { plan.kernels[1].level = KernelLevel::v3; },
     "kernels[1].level: x86-64-v3 comes twice"},
    {"LibraryMissing", [](Plan &plan) { plan.kernels.clear(); },
     "kernels: is empty, but programs run row kernels"},
};

const Broken kParameters[] = {
    {"SplitOverStages", [](Plan &plan) { plan.parameters[3].dims[0].axes = {"pp"}; },
     "parameters[3].dims: are split over pp"},
    {"OtherShape", [](Plan &plan) { plan.parameters[2].fileShape = {4, 9}; },
     "parameters: tensor 'h.0.attn.c_attn.weight' is [4, 9] in 'h.0.attn.c_attn.weight[v]', but [4, 8] in"},
    {"BothHold", [](Plan &plan) { plan.parameters[2].offset = {0, 3}; },
     "parameters: 'h.0.attn.c_attn.weight[k]' and 'h.0.attn.c_attn.weight[v]' both hold a part of"},
    {"NotAll", [](Plan &plan) { plan.parameters[1].fileShape = plan.parameters[2].fileShape = {4, 9}; },
     "parameters: of tensor 'h.0.attn.c_attn.weight' 32 elements are held, expected its 36"},
    {"Name", [](Plan &plan) { plan.parameters[1].name = "wte.weight"; },
     "parameters[1]: name 'wte.weight' is empty or comes twice"},
    {"Tensor", [](Plan &plan) { plan.parameters[0].tensor = ""; },
     "parameters[0]: 'wte.weight' names no tensor"},
    {"InitStd", [](Plan &plan) { plan.parameters[0].initStd = -1; }, "parameters[0]: initStd = -1 must be"},
    {"Grouping", [](Plan &plan) { plan.parameters[0].grouping = {1, 2}; },
     "parameters[0]: fileShape, grouping and offset must"},
    {"GroupingNegative", [](Plan &plan) { plan.parameters[0].grouping = {3, -1}; },
     "parameters[0]: fileShape, grouping and"},
    {"GroupingHuge", [](Plan &plan) { plan.parameters[0].grouping = {kMax, kMax}; },
     "parameters[0]: fileShape, grouping and"},
    {"Offsets", [](Plan &plan) { plan.parameters[0].offset = {0}; },
     "parameters[0]: fileShape, grouping and offset must"},
    {"FileView", [](Plan &plan) { plan.parameters[2].offset = {0, 9}; },
     "parameters[2]: file dimension 1: 4 elements from 9 on"},
    {"FileOffset", [](Plan &plan) { plan.parameters[2].offset = {-1, 8}; },
     "parameters[2]: file dimension 0: 4 elements from -1"},
    {"Divides", [](Plan &plan) { plan.parameters[0].dims[0].size = 9; },
     "parameters[0].dims[0]: size = 9 must be positive and"},
    {"DimZero", [](Plan &plan) { plan.parameters[0].dims[1].size = 0; },
     "parameters[0].dims[1]: size = 0 must be positive and"},
    {"Valid", [](Plan &plan) { plan.parameters[0].dims[0].valid = 9; },
     "parameters[0].dims[0]: valid = 9 is not in [1, size = 8]"},
    {"DimAxes", [](Plan &plan) { plan.parameters[0].dims[1].axes = {"xp"}; },
     "parameters[0].dims[1]: axis 'xp' is not in the mesh"},
    {"DimAxesTwice", [](Plan &plan) { plan.parameters[0].dims[1].axes = {"tpg"}; },
     "parameters[0].dims: axis 'tpg' comes twice"},
    {"DimsHuge",
     [](Plan &plan) {
       plan.parameters[3].dims = {{"h", kMax, 4, {}}, {"g", 2, 1, {}}};
       plan.parameters[3].grouping = {2};
     },
     "parameters[3].dims: the sizes multiply to more than 64 bits hold"},
    {"NoPlace", [](Plan &plan) { plan.parameters[3].places.clear(); },
     "parameters[3]: 'ln_f.weight' has no place"},
    {"PlaceStage", [](Plan &plan) { plan.parameters[3].places[0].stage = 2; },
     "parameters[3].places[0]: stage 2 is not one of 2"},
    {"PlaceTwice", [](Plan &plan) { plan.parameters[0].places[1].stage = 0; },
     "parameters[0].places[1]: 'wte.weight' has two places"},
    {"PlaceBucket", [](Plan &plan) { plan.parameters[3].places[0].bucket = -1; },
     "parameters[3].places[0]: bucket -1 is not one of 2"},
    {"PlaceRange", [](Plan &plan) { plan.parameters[3].places[0].elementOffset = 13; },
     "parameters[3].places[0]: 4 elements from 13"},
    {"PlaceOverlap",
     [](Plan &plan) {
       plan.parameters[2].rows = {};
       plan.parameters[2].places[0].elementOffset = 7;
     },
     "stages[0].buckets[1]: h.0.attn.c_attn.weight[k] [0, 16) and h.0.attn.c_attn.weight[v] [7, 15) overlap"},
    {"RowsDims", [](Plan &plan) { plan.parameters[1].rows.dims = 4; },
     "parameters[1].rows: dims = 4 is not in [0, 3], the dimensions of 'h.0.attn.c_attn.weight[k]'"},
    {"RowsDimsNegative", [](Plan &plan) { plan.parameters[1].rows.dims = -1; },
     "parameters[1].rows: dims = -1 is not in [0, 3]"},
    {"RowsOffset", [](Plan &plan) { plan.parameters[2].rows.offset = 3; },
     "parameters[2].rows: a row of 'h.0.attn.c_attn.weight[v]', 2 elements from 3 on, does not lie inside "
     "the "
     "matrix's of extent = 4"},
    {"RowsOffsetNegative", [](Plan &plan) { plan.parameters[2].rows.offset = -2; },
     "parameters[2].rows: a row of 'h.0.attn.c_attn.weight[v]', 2 elements from -2 on"},
    {"RowsOffsetHuge", [](Plan &plan) { plan.parameters[2].rows.offset = kMax; },
     "parameters[2].rows: a row of 'h.0.attn.c_attn.weight[v]', 2 elements from 9223372036854775807 on"},
    {"RowsLonger", [](Plan &plan) { plan.parameters[2].rows.dims = 0; },
     "parameters[2].rows: a row of 'h.0.attn.c_attn.weight[v]', 8 elements from 2 on, does not lie inside"},
    {"RowsExtentNegative", [](Plan &plan) { plan.parameters[1].rows.extent = -4; },
     "parameters[1].rows: a row of 'h.0.attn.c_attn.weight[k]', 2 elements from 0 on, does not lie inside "
     "the "
     "matrix's of extent = -4"},
    {"RowsExtentHuge", [](Plan &plan) { plan.parameters[1].rows.extent = kMax; },
     "parameters[1].places[0]: more than 2^63 elements from 0 on do not lie inside the 16 of bucket 1"},
    {"RowsWithoutExtent", [](Plan &plan) { plan.parameters[2].rows.extent = 0; },
     "parameters[2].rows: dims = 2 and offset = 2 without an extent"},
    {"RowsOverlap", [](Plan &plan) { plan.parameters[2].rows.offset = 1; },
     "stages[0].buckets[1]: h.0.attn.c_attn.weight[k] [0, 2) and h.0.attn.c_attn.weight[v] [1, 3) overlap"},
    {"RowsOfOtherExtent", [](Plan &plan) { plan.parameters[1].rows.extent = 3; },
     "parameters[2].places[0]: 'h.0.attn.c_attn.weight[v]' has 4 rows of a matrix of extent 4, but "
     "'h.0.attn.c_attn.weight[k]', which begins there too, 4 of 3"},
    {"RowsOfOtherCount", [](Plan &plan) { plan.parameters[1].rows = {3, 0, 2}; },
     "parameters[2].places[0]: 'h.0.attn.c_attn.weight[v]' has 4 rows of a matrix of extent 4, but "
     "'h.0.attn.c_attn.weight[k]', which begins there too, 8 of 2"},
    {"MatrixRange", [](Plan &plan) { plan.parameters[1].places[0].elementOffset = 1; },
     "parameters[1].places[0]: 16 elements from 1 on do not lie inside the 16 of bucket 1"},
    {"MatricesOverlap",
     [](Plan &plan) {
       plan.parameters[1].rows.extent = 2;
       plan.parameters[2].rows = {2, 0, 3};
       plan.parameters[2].places[0].elementOffset = 4;
     },
     "stages[0].buckets[1]: h.0.attn.c_attn.weight[k] [0, 8) and h.0.attn.c_attn.weight[v] [4, 16) overlap"},
    {"SplitAxes", [](Plan &plan) { plan.stages[0].buckets[1].splitAxes = {}; },
     "parameters[1].places[0]: 'h.0.attn.c_attn.weight[k]' is split over [tpg], its bucket 'plain' over []"},
    {"TiedApart",
     [](Plan &plan) {
       plan.stages[1].buckets[0].elements = 64;
       plan.parameters[0].places[1].elementOffset = 32;
     },
     "parameters[0].places[1]: 'wte.weight' begins at element 32, in stage 0 at 0"},
    {"Untied", [](Plan &plan) { plan.stages[1].buckets[0].tiedStages = {}; },
     "parameters[0].places[1]: 'wte.weight' is in stages [0, 1], but its bucket 'tied' is tied over stages "
     "[]"},
};

const Broken kBuckets[] = {
    {"TiedStage", [](Plan &plan) { plan.stages[1].buckets[0].tiedStages = {0, 2}; },
     "stages[1].buckets[0].tiedStages: [0, 2] must"},
    {"TiedTwice", [](Plan &plan) { plan.stages[1].buckets[0].tiedStages = {0, 0}; },
     "stages[1].buckets[0].tiedStages: [0, 0] must"},
    {"TiedSelf", [](Plan &plan) { plan.stages[1].buckets[0].tiedStages = {0}; },
     "stages[1].buckets[0]: tiedStages [0] does not have"},
    {"Elements", [](Plan &plan) { plan.stages[1].buckets[1].elements = -16; },
     "stages[1].buckets[1]: elements = -16 is negative"},
    {"Axes", [](Plan &plan) { plan.stages[0].buckets[0].dataAxes = {"xp"}; },
     "stages[0].buckets[0]: axis 'xp' is not in the mesh"},
    {"AxesApart", [](Plan &plan) { plan.stages[0].buckets[0].dataAxes = {"tpg"}; },
     "stages[0].buckets[0]: axis 'tpg' comes twice"},
    {"ShardDivides", [](Plan &plan) { plan.stages[0].buckets[0].elements = 31; },
     "stages[0].buckets[0]: elements = 31 does not divide into aligned slices for 2 ranks; a multiple of 32 "
     "would"},
    {"ShardAligned", [](Plan &plan) { plan.stages[0].buckets[0].elements = 16; },
     "stages[0].buckets[0]: elements = 16 does not"},
    {"MastersOfF32", [](Plan &plan) { plan.stages[0].buckets[1].masterOffset = 0; },
     "stages[0].buckets[1]: masterOffset = 0, but values are f32; expected -1: no masters"},
    {"ShardedWithoutZero", [](Plan &plan) { plan.zero = 0; },
     "stages[0].buckets[0]: is sharded, but the plan has zero = 0"},
    {"GradientShard", [](Plan &plan) { plan.stages[0].buckets[1].gradientShardOffset = 512; },
     "stages[0].buckets[1]: is not sharded, so gradientShardOffset must equal gradientOffset"},
    {"ValueAligned", [](Plan &plan) { plan.stages[0].buckets[0].valueOffset = 4; },
     "stages[0].buckets[0]: valueOffset = 4 must"},
    {"GradientInside", [](Plan &plan) { plan.stages[0].buckets[0].gradientOffset = 3136; },
     "stages[0].buckets[0]: gradientOffset = 3136 must be a multiple of 64, and its 32 elements lie inside"},
    {"ShardInside", [](Plan &plan) { plan.stages[0].buckets[0].gradientShardOffset = 3200; },
     "stages[0].buckets[0]: gradientShardOffset = 3200 must be a multiple of 64, and its 16 elements lie "
     "inside"},
    {"MomentNegative", [](Plan &plan) { plan.stages[0].buckets[1].firstMomentOffset = -64; },
     "stages[0].buckets[1]: firstMomentOffset = -64 must"},
    {"MomentHuge", [](Plan &plan) { plan.stages[0].buckets[1].elements = kMax; },
     "stages[0].buckets[1]: secondMomentOffset = 768"},
    {"BuffersApart", [](Plan &plan) { plan.stages[0].buckets[1].secondMomentOffset = 640; },
     "stages[0].buckets: secondMoment of bucket 'plain' [640, 704) and secondMoment of bucket 'tied' [640, "
     "704) overlap"},
};

const Broken kBf16[] = {
    {"NoMasters", [](Plan &plan) { plan.stages[0].buckets[0].masterOffset = -1; },
     "stages[0].buckets[0]: masterOffset = -1, but values are bf16; expected where the f32 masters lie"},
    {"MasterAligned", [](Plan &plan) { plan.stages[0].buckets[0].masterOffset += 4; },
     "stages[0].buckets[0]: masterOffset = 3268 must be a multiple of 64, and its 32 elements lie inside"},
    {"MasterInside", [](Plan &plan) { plan.stages[0].buckets[1].masterOffset = plan.stages[0].bytes; },
     "stages[0].buckets[1]: masterOffset = 4032 must"},
    {"MastersApart", [](Plan &plan) { plan.stages[0].buckets[1].masterOffset = 128; },
     "stages[0].buckets: value of bucket 'plain' [128, 160) and master of bucket 'plain' [128, 192) overlap"},
    {"ShardAligned", [](Plan &plan) { plan.stages[0].buckets[0].elements = 32; },
     "stages[0].buckets[0]: elements = 32 does not divide into aligned slices for 2 ranks; a multiple of 64 "
     "would"},
    {"OperandAligned",
     [](Plan &plan) {
       body<Gemm>(plan, kGemm).inputType = DType::bf16;
       instruction(plan, kGemm).operands[0].offset = 1;
     },
     "programs[0].instructions[0].operands[0]: offset 1 is not a multiple of 2"},
    {"ResultAligned",
     [](Plan &plan) {
       body<Gemm>(plan, kGemm).inputType = DType::bf16;
       instruction(plan, kGemm).operands[2].offset = 2;
     },
     "programs[0].instructions[0].operands[2]: offset 2 is not a multiple of 4"},
    {"RowKernelAligned", [](Plan &plan) { instruction(plan, kRowKernel).operands[0].offset = 3; },
     "programs[0].instructions[1].operands[0]: offset 3 is not a multiple of 2"},
    {"BindingAligned", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments[1].offset = 3; },
     "stages[0].chunks[0].calls[0].segments[1]: offset 3 is not a multiple of 2"},
};

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
     "programs[0].instructions[0].operands[2]: offset 130 is not a multiple of 4"},
    {"BiasWritten", [](Plan &plan) { instruction(plan, kGemm).operands[2] = {1, 64}; },
     "programs[0].instructions[0]: operand C is written and overlaps operand bias (block.fwd/0)"},
    {"PreactivationInside", [](Plan &plan) { instruction(plan, kGemm).operands[4].offset = 900; },
     "programs[0].instructions[0].operands[4]: operand preactivation (128 bytes from 900 on) is not inside "
     "segment 'y' of 1024"},
    {"PreactivationApart", [](Plan &plan) { instruction(plan, kGemm).operands[4].offset = 64; },
     "programs[0].instructions[0]: operand preactivation is written and overlaps operand C (block.fwd/0)"},
};

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
       body<Attention>(plan, kAttention).causal = true;
       body<Attention>(plan, kAttention).s = 3;
     },
     "programs[0].instructions[2]: is causal with s = 3 queries and t = 4 keys"},
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
     "programs[0].instructions[0].operands[2]: offset 2 is not a multiple of 4"},
    {"RowKernelOffset", [](Plan &plan) { instruction(plan, kRowKernel).operands[1].offset = 1028; },
     "programs[0].instructions[1].operands[1]: operand (0 bytes from 1028 on) is not inside"},
    {"RowKernelSymbol", [](Plan &plan) { body<RowKernel>(plan, kRowKernel).symbol = ""; },
     "programs[0].instructions[1]: the row"},
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
    {"AttentionInterleaved",
     [](Plan &plan) { instruction(plan, kAttentionBackward).operands[10].offset = 4; },
     "programs[0].instructions[3]: operand dk is written and overlaps operand dq (block.fwd/3)"},
    {"AttentionInterleavedBehind",
     [](Plan &plan) { instruction(plan, kAttentionBackward).operands[11].offset = 20; },
     "programs[0].instructions[3]: operand dv is written and overlaps operand dq (block.fwd/3)"},
    {"AttentionOtherStrides", [](Plan &plan) { body<Attention>(plan, kAttentionBackward).dkStride = 12; },
     "programs[0].instructions[3]: operand dk is written and overlaps operand dq (block.fwd/3)"},
    {"AttentionScalar",
     [](Plan &plan) { body<Attention>(plan, kAttention).headOffset.terms = {{{"xp"}, 1}}; },
     "programs[0].instructions[2]: axis 'xp' is not in the mesh"},
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
    {"Middle", [](Plan &plan) { body<Collective>(plan, kAllGather).middle = 2; },
     "programs[0].instructions[5]: middle = 2, but only all_to_all has a middle"},
    {"Axes", [](Plan &plan) { body<Collective>(plan, kAllGather).axes = {"xp"}; },
     "programs[0].instructions[5]: axis 'xp' is not in the mesh"},
    {"AxesAndStages", [](Plan &plan) { body<Collective>(plan, kAllGather).stages = {0, 1}; },
     "programs[0].instructions[5]: a collective goes along axes or over stages, not both"},
    {"Stages",
     [](Plan &plan) { std::get<Collective>(plan.programs[1].instructions[0].body).stages = {0, 5}; },
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

const Broken kStages[] = {
    {"Bytes", [](Plan &plan) { plan.stages[1].bytes = -1; }, "stages[1]: bytes = -1 is negative"},
    {"Layers", [](Plan &plan) { plan.stages[1].layersBegin = 9; }, "stages[1]: layers [9, 2) are no range"},
    {"RegionKind", [](Plan &plan) { plan.stages[1].regions[2].kind = "heap"; },
     "stages[1].regions[2]: kind 'heap' is none of"},
    {"RegionAligned", [](Plan &plan) { plan.stages[1].regions[2].offset = 577; },
     "stages[1].regions[2]: offset 577 is not a mult"},
    {"RegionInside", [](Plan &plan) { plan.stages[1].regions[7].bytes = kMax; },
     "stages[1].regions[7]: 9223372036854775807 bytes from 3136 on are not inside the allocation of 3200 "
     "bytes"},
    {"RegionGap", [](Plan &plan) { plan.stages[1].regions[2].bytes = 256; },
     "stages[1].regions[3]: begins at 896, but the regions before it end at 832"},
    {"RegionOverlap", [](Plan &plan) { plan.stages[1].regions[2].bytes = 384; },
     "stages[1].regions[3]: begins at 896, but the regions before it end at 960"},
    {"LeastBytes", [](Plan &plan) { plan.stages[0].leastBytes = 3201; },
     "stages[0].leastBytes: 3201 is not in [0, 3200]"},
    {"LeastBytesNegative", [](Plan &plan) { plan.stages[1].leastBytes = -1; },
     "stages[1].leastBytes: -1 is not"},
    {"RegionEnd", [](Plan &plan) { plan.stages[1].regions.pop_back(); },
     "stages[1].regions: end at 3136, but the allocation has 3200 bytes"},
    {"StepScalars", [](Plan &plan) { plan.stages[1].stepScalarsOffset = 3172; },
     "stages[1].stepScalarsOffset: 32 bytes from 3172"},
    {"Results", [](Plan &plan) { plan.stages[1].resultsOffset = -4; },
     "stages[1].resultsOffset: 12 bytes from -4 on"},
    {"ResultsAligned", [](Plan &plan) { plan.stages[1].resultsOffset = 3169; },
     "stages[1].resultsOffset: 12 bytes from 3169 on"},
    {"ScalarsApart", [](Plan &plan) { plan.stages[1].resultsOffset = 3164; },
     "stages[1]: stepScalars [3136, 3168) and results [3164, 3176) overlap"},
    {"InputsApart", [](Plan &plan) { plan.stages[0].inputs[1].offset = plan.stages[0].inputs[0].offset; },
     "stages[0]: inputs[0] [2944, 2960) and inputs[1] [2944, 2976) overlap"},
    {"InputAndScalarsApart", [](Plan &plan) { plan.stages[0].inputs[1].offset = 3136; },
     "stages[0]: inputs[1] [3136, 3168) and stepScalars [3136, 3168) overlap"},
    {"InputType", [](Plan &plan) { plan.stages[0].inputs[1].type = DType::f32; },
     "stages[0].inputs[1]: loss weights are f32"},
    {"InputName", [](Plan &plan) { plan.stages[0].inputs[1].dims[0].name = "x"; },
     "stages[0].inputs[1].dims[0]: name 'x' is none"},
    {"InputBatch", [](Plan &plan) { plan.stages[0].inputs[1].dims[1].size = 4; },
     "stages[0].inputs[1].dims[1]: 2 microbatches of b = 4 are not globalBatchSize = 4"},
    {"InputLength", [](Plan &plan) { plan.stages[0].inputs[1].dims[0].size = 8; },
     "stages[0].inputs[1].dims[0]: s = 8 is not seq"},
    {"InputAxes", [](Plan &plan) { plan.stages[0].inputs[1].dims[0].axes = {"xp"}; },
     "stages[0].inputs[1].dims[0]: axis 'xp' is"},
    {"InputAxesTwice", [](Plan &plan) { plan.stages[0].inputs[1].dims[0].axes = {"dp"}; },
     "stages[0].inputs[1].dims: axis 'dp' comes"},
    {"InputStride", [](Plan &plan) { plan.stages[0].inputs[1].microbatchStride = 8; },
     "stages[0].inputs[1]: microbatchStride = 8 is below the 16 bytes of one"},
    {"InputStrideZero", [](Plan &plan) { plan.stages[0].inputs[1].microbatchStride = 0; },
     "stages[0].inputs[1]: microbatchStride = 0 is below the 16 bytes of one (0 is for positions)"},
    {"InputDimTwice", [](Plan &plan) { plan.stages[0].inputs[1].dims[1] = {"t", 4, {}}; },
     "stages[0].inputs[1].dims[1]: an input has at most one dimension b and one of s and t"},
    {"InputStrideHuge", [](Plan &plan) { plan.stages[0].inputs[1].microbatchStride = kMax - 3; },
     "stages[0].inputs[1]: 2 microbatches of 16 bytes, 9223372036854775804 apart from 3008 on, are not "
     "inside"},
    {"InputInside", [](Plan &plan) { plan.stages[0].inputs[1].offset = 3172; },
     "stages[0].inputs[1]: 2 microbatches of 16 bytes, 16 apart from 3172 on, are not inside"},
    {"InputAligned", [](Plan &plan) { plan.stages[0].inputs[1].offset = 3009; },
     "stages[0].inputs[1]: offset 3009 and microbatch"},
};

const Broken kChunks[] = {
    {"SlotCount", [](Plan &plan) { plan.stages[0].chunks[0].slots.clear(); },
     "stages[0].chunks[0]: found 0 slots and 1 slotBytes"},
    {"SlotBytes", [](Plan &plan) { plan.stages[0].chunks[0].slotBytes[0] = -1; },
     "stages[0].chunks[0]: slotBytes[0] = -1 is neg"},
    {"CallInstance", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].instance = -1; },
     "stages[0].chunks[0].calls[0]: instance"},
    {"CallProgram", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].program = 2; },
     "stages[0].chunks[0].calls[0]: program 2 is not one of 2"},
    {"CallSegments", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments.pop_back(); },
     "stages[0].chunks[0].calls[0]: binds 1 segments, but program 'block.fwd' has 2"},
    {"BindingSlot", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments[0].slot = 1; },
     "stages[0].chunks[0].calls[0].segments[0]: slot 1 is neither -1 nor one of 1"},
    {"BindingSlotNegative", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments[0].slot = -2; },
     "stages[0].chunks[0].calls[0].segments[0]: slot -2 is neither -1 nor one of 1"},
    {"BindingInSlot", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments[0].offset = 64; },
     "stages[0].chunks[0].calls[0].segments[0]: segment 0 of program 'block.fwd' (1024 bytes from 64 on) is "
     "not inside the 1024 bytes of slot 0"},
    {"BindingInAllocation", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments[1].offset = kMax; },
     "stages[0].chunks[0].calls[0].segments[1]: segment 1 of program 'block.fwd' (1024 bytes from "
     "9223372036854775807"},
    {"BindingAligned", [](Plan &plan) { plan.stages[0].chunks[0].calls[0].segments[1].offset = 3; },
     "stages[0].chunks[0].calls[0].segments[1]: offset 3 is not a multiple of 4"},
};

const Broken kTasks[] = {
    {"VirtualStage", [](Plan &plan) { plan.stages[0].chunks[0].virtualStage = 1; },
     "stages[0].chunks[0]: virtualStage 1 of 'forward' is not one of 1"},
    {"VirtualStageNegative", [](Plan &plan) { plan.stages[0].chunks[0].virtualStage = -1; },
     "stages[0].chunks[0]: virtualStage -1 of 'forward' is not one of 1"},
    {"VirtualStageOfReduce", [](Plan &plan) { plan.stages[0].chunks[1].virtualStage = 1; },
     "stages[0].chunks[1]: virtualStage 1 of 'reduce' is not one of 1"},
    {"VirtualStages", [](Plan &plan) { plan.virtualStages = kMax; },
     "stages[0].chunks: 1 chunks are forward, expected one for each of the 9223372036854775807 virtual "
     "stages"},
    {"SecondForward", [](Plan &plan) { plan.stages[0].chunks[1].task = Task::forward; },
     "stages[0].chunks[1]: a second chunk 'forward.0'"},
};

const Broken kSchedules[] = {
    {"Microbatch", [](Plan &plan) { plan.stages[0].schedule[0].microbatch = 2; },
     "stages[0].schedule[0]: microbatch 2 is neither -1 nor one of 2"},
    {"WaitSelf", [](Plan &plan) { plan.stages[0].schedule[1].waits = {1}; },
     "stages[0].schedule[1]: waits for step 1, which is not before it"},
    {"WaitNegative", [](Plan &plan) { plan.stages[0].schedule[1].waits = {-1}; },
     "stages[0].schedule[1]: waits for step -1"},
    {"RunChunk", [](Plan &plan) { plan.stages[0].schedule[0].chunk = 2; },
     "stages[0].schedule[0]: chunk 2 is not one of 2"},
    {"RunForNone", [](Plan &plan) { plan.stages[0].schedule[0].microbatch = -1; },
     "stages[0].schedule[0]: chunk 'forward.0' runs for microbatch -1"},
    {"RunOnceForOne", [](Plan &plan) { plan.stages[0].schedule.back().microbatch = 0; },
     "stages[0].schedule[6]: chunk 'reduce' runs for microbatch 0"},
    {"RunTwice", [](Plan &plan) { plan.stages[0].schedule[3].microbatch = 0; },
     "stages[0].schedule[3]: chunk 'forward.0' runs twice for microbatch 0"},
    {"RunNever", [](Plan &plan) { plan.stages[0].schedule.pop_back(); },
     "stages[0].chunks[1]: no step runs chunk 'reduce'"},
    {"SlotCount", [](Plan &plan) { plan.stages[0].schedule[0].slots.clear(); },
     "stages[0].schedule[0]: binds 0 slots, but chunk 'forward.0' has 1"},
    {"SlotAligned", [](Plan &plan) { plan.stages[0].schedule[0].slots[0] = 900; },
     "stages[0].schedule[0].slots[0]: offset 900 must be a multiple of 64"},
    {"SlotInside", [](Plan &plan) { plan.stages[0].schedule[0].slots[0] = 2240; },
     "stages[0].schedule[0].slots[0]: offset 2240 must be a multiple of 64, and the slot's 1024 bytes "
     "inside"},
    {"Peer", [](Plan &plan) { plan.stages[0].schedule[1].peer = 2; },
     "stages[0].schedule[1]: peer 2 is no other stage than 0"},
    {"PeerSelf", [](Plan &plan) { plan.stages[0].schedule[1].peer = 0; },
     "stages[0].schedule[1]: peer 0 is no other stage than 0"},
    {"Value", [](Plan &plan) { plan.stages[0].schedule[1].value = -1; },
     "stages[0].schedule[1]: value = -1 is negative"},
    {"TransferInside", [](Plan &plan) { plan.stages[0].schedule[1].offset = 3140; },
     "stages[0].schedule[1]: 64 bytes from 3140 on are not inside the allocation of 3200 bytes"},
    {"TransferEmpty", [](Plan &plan) { plan.stages[0].schedule[1].bytes = 0; },
     "stages[0].schedule[1]: 0 bytes from 896 on"},
    {"TransferAligned", [](Plan &plan) { plan.stages[0].schedule[1].offset = 898; },
     "stages[0].schedule[1]: offset 898 and bytes 64 must be multiples of 4"},
    {"SendWithoutReceive", [](Plan &plan) { plan.stages[1].schedule[3].peer = 7; },
     "stages[0].schedule: has 2 sends to stage 1, which has 1 recvs"},
    {"ReceiveWithoutSend",
     [](Plan &plan) { plan.stages[1].schedule[2].peer = plan.stages[1].schedule[5].peer = 7; },
     "stages[1].schedule: has 0 sends to stage 0, which has 2 recvs"},
    {"MatchValue", [](Plan &plan) { plan.stages[0].schedule[4].value = 3; },
     "stages[0].schedule[4]: sends value 3 of microbatch 1 (64 bytes), but stages[1].schedule[3] receives "
     "value 0 of 1"},
    {"MatchMicrobatch", [](Plan &plan) { plan.stages[1].schedule[0].microbatch = 1; },
     "stages[0].schedule[1]: sends value 0 of microbatch 0 (64 bytes), but stages[1].schedule[0] receives "
     "value 0 of 1"},
    {"MatchBytes", [](Plan &plan) { plan.stages[1].schedule[3].bytes = 60; },
     "stages[0].schedule[4]: sends value 0 of microbatch 1 (64 bytes), but stages[1].schedule[3] receives "
     "value 0 of 1 (60 bytes)"},
};

std::string nameOf(const testing::TestParamInfo<Broken> &info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Numbers, Verify, testing::ValuesIn(kNumbers), nameOf);
INSTANTIATE_TEST_SUITE_P(Parameters, Verify, testing::ValuesIn(kParameters), nameOf);
INSTANTIATE_TEST_SUITE_P(Buckets, Verify, testing::ValuesIn(kBuckets), nameOf);
INSTANTIATE_TEST_SUITE_P(Types, VerifyBf16, testing::ValuesIn(kBf16), nameOf);
INSTANTIATE_TEST_SUITE_P(Epilogues, VerifyGpu, testing::ValuesIn(kGpu), nameOf);
INSTANTIATE_TEST_SUITE_P(Programs, Verify, testing::ValuesIn(kPrograms), nameOf);
INSTANTIATE_TEST_SUITE_P(Collectives, Verify, testing::ValuesIn(kCollectives), nameOf);
INSTANTIATE_TEST_SUITE_P(Stages, Verify, testing::ValuesIn(kStages), nameOf);
INSTANTIATE_TEST_SUITE_P(Chunks, Verify, testing::ValuesIn(kChunks), nameOf);
INSTANTIATE_TEST_SUITE_P(Tasks, Verify, testing::ValuesIn(kTasks), nameOf);
INSTANTIATE_TEST_SUITE_P(Schedules, Verify, testing::ValuesIn(kSchedules), nameOf);

} // namespace
} // namespace mgc::plan
