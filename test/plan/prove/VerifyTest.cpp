// Sound plans, all violations at once, and the rules of the plan's own numbers.
#include "test/plan/prove/BrokenPlans.h"

namespace mgc::plan {
namespace {

TEST(Verify, TheSmallPlanIsSound) {
  Status status = verifyPlan(makeSmallPlan());
  EXPECT_TRUE(status.isOk()) << status.message();
}

TEST(Verify, ListsAllViolations) {
  Plan plan = makeSmallPlan();
  plan.vocabulary = 0;
  plan.stages[1].rings[4].peer = 7;
  std::string message = verifyPlan(plan).message();
  EXPECT_NE(message.find("vocabulary: found 0"), std::string::npos) << message;
  EXPECT_NE(message.find("stages[1].rings[4]: peer 7"), std::string::npos) << message;
}

TEST_P(Verify, RefusesABrokenRule) { refuses(makeSmallPlan(), GetParam()); }

const Broken kNumbers[] = {
    {"Version", [](Plan &plan) { plan.version = 1; }, "version: found 1, expected 33"},
    {"MeshSize", [](Plan &plan) { plan.mesh.axes[1].size = -2; }, "mesh: axis 'dp' has size -2"},
    {"MeshProduct", [](Plan &plan) { plan.mesh.axes[1].size = kMax; }, "mesh: the axis sizes multiply"},
    {"StageCount", [](Plan &plan) { plan.stages.pop_back(); }, "stages: found 1 stages, but the mesh has 2 along pp"},
    {"SequenceLength", [](Plan &plan) { plan.sequenceLength = 0; }, "sequenceLength: found 0"},
    {"MicroBatchSize", [](Plan &plan) { plan.microBatchSize = -1; }, "microBatchSize: found -1"},
    {"MicroBatchSizeOfInputs", [](Plan &plan) { plan.microBatchSize += 1; },
     "stages[0].inputs[1].dims[1]: b = 1 on a rank is not microBatchSize = 2"},
    {"GlobalBatchSize", [](Plan &plan) { plan.globalBatchSize = 0; }, "globalBatchSize: found 0"},
    {"Fit", [](Plan &plan) { plan.fit.deviceBytes = -1; },
     "fit: -1 bytes of the device and 0 of the host, expected 0 to 1152921504606846976"},
    {"FitOfManyBytes", [](Plan &plan) { plan.fit.changes = {{"--tp 2", 1, INT64_MAX, 1}}; },
     "fit.changes[0]: 1 ranks, 9223372036854775807 bytes, 1 seconds, expected numbers from 0 on"},
    {"FitOfNoNumber", [](Plan &plan) { plan.fit.changes = {{"--tp 2", 1, 1, NAN}}; },
     "fit.changes[0]: 1 ranks, 1 bytes, nan"},
    {"Budget", [](Plan &plan) { plan.budget = {.bytes = -1, .seconds = 1}; },
     "budget: bytes -1, seconds 1 and leastSeconds 0, expected numbers from 0 to 1e+18"},
    {"BudgetOfNoNumber", [](Plan &plan) { plan.budget = {.bytes = 8, .seconds = NAN}; },
     "budget: bytes 8, seconds nan"},
    {"BudgetWithoutCurve", [](Plan &plan) { plan.budget = {.bytes = 8, .seconds = 1}; },
     "budget.curve: 0 points, expected some: there are bytes"},
    {"BudgetPolicy", [](Plan &plan) { plan.budget.policies = {{.block = "layer", .kept = -4}}; },
     "budget.policies[0]: bytes -4, 0, 0 and seconds 0, expected numbers from 0 to 1e+18"},
    {"BudgetBytes", [](Plan &plan) { plan.budget.policies = {{.block = "layer", .split = INT64_MAX}}; },
     "budget.policies[0]: bytes 0, 9223372036854775807"},
    {"BudgetCurve", [](Plan &plan) { plan.budget = {.bytes = 8, .seconds = 2, .curve = {{8, 2}, {16, 2}}}; },
     "budget.curve[1]: 16 bytes, 2 seconds, expected more bytes and fewer seconds than before"},
    {"BudgetInNoTime", [](Plan &plan) { plan.budget = {.bytes = 8, .seconds = 2, .curve = {{8, 0}}}; },
     "budget.curve[0]: 8 bytes, 0 seconds"},
    {"Microbatches", [](Plan &plan) { plan.microbatches = 0; }, "microbatches: found 0"},
    {"Vocabulary", [](Plan &plan) { plan.vocabulary = 0; }, "vocabulary: found 0"},
    {"ImagesOfNobody", [](Plan &plan) { plan.images.channels = 3; },
     "images: found images, expected none: no stage reads them"},
    {"ImagesWithoutSizes",
     [](Plan &plan) {
       plan.stages[0].inputs[0].kind = Input::Kind::imagePlaces;
       plan.images = {.channels = 3, .patchSize = 0, .rows = 1, .columns = 2};
     },
     "images.patchSize: found 0, expected 1 to 1048576"},
    {"ImagesLongerThanTheEncoder",
     [](Plan &plan) {
       plan.stages[0].inputs[0].kind = Input::Kind::imagePlaces;
       plan.images = {.channels = 3, .patchSize = 2, .rows = 1, .columns = 2};
     },
     "images: 2 positions of an image, expected no more than encoderLength = 0"},
    {"ImagesLongerThanTheDecoder",
     [](Plan &plan) {
       plan.stages[0].inputs[0].kind = Input::Kind::imagePlaces;
       plan.images = {.channels = 3, .patchSize = 2, .rows = 3, .columns = 2};
     },
     "images: an image takes the places of 6 tokens, expected no more than sequenceLength = 4"},
    {"ImageTokenOutside",
     [](Plan &plan) {
       plan.stages[0].inputs[0].kind = Input::Kind::imagePlaces;
       plan.images = {.channels = 3, .patchSize = 2, .rows = 1, .columns = 2, .token = plan.vocabulary};
     },
     "images.token: found "},
    {"FirstFeatureOutside",
     [](Plan &plan) {
       plan.stages[0].inputs[0].kind = Input::Kind::imagePlaces;
       plan.images = {.channels = 3, .patchSize = 2, .rows = 1, .columns = 2, .firstFeature = 2};
     },
     "images.firstFeature: found 2, expected 0 to 1"},
    {"EncoderOfNobody", [](Plan &plan) { plan.encoderLength = 4; },
     "encoderLength: found 4, expected 0, for no stage reads an encoder's sequence"},
    {"EncoderLengthMissing",
     [](Plan &plan) { plan.stages[0].inputs[0].kind = Input::Kind::tokens, plan.stages[0].inputs[0].ofEncoder = true; },
     "encoderLength: found 0, expected a positive number, for a stage reads the encoder's sequence"},
    {"StartTokenOfNoEncoder", [](Plan &plan) { plan.startToken = 0; },
     "startToken: found 0, expected -1 without an encoder"},
    {"PaddingTokenOfNoVocabulary", [](Plan &plan) { plan.paddingToken = -2; },
     "paddingToken: found -2, expected a token of the vocabulary"},
    {"TokenTypesOfNobody", [](Plan &plan) { plan.tokenTypes = 2; },
     "tokenTypes: found 2, expected 0, for no stage reads token types"},
    {"TokenTypesMissing", [](Plan &plan) { plan.stages[0].inputs[1].kind = Input::Kind::tokenTypes; },
     "tokenTypes: found 0, expected a positive number, for a stage reads token types"},
    {"VirtualStages", [](Plan &plan) { plan.virtualStages = 0; }, "virtualStages: found 0"},
    {"Placement", [](Plan &plan) { plan.placement = ChunkPlacement::v; },
     "placement: v, with 2 stages of 1 chunks; expected 2 or more of both, or loop"},
    {"StepTokens", [](Plan &plan) { plan.sequenceLength = kMax; },
     "globalBatchSize: 4 samples of 9223372036854775807 tokens"},
    {"Zero", [](Plan &plan) { plan.zero = 4; }, "zero: found 4, expected 0 to 3"},
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
    {"LibraryMissing", [](Plan &plan) { plan.kernels.clear(); }, "kernels: is empty, but programs run row kernels"},
};

INSTANTIATE_TEST_SUITE_P(Numbers, Verify, testing::ValuesIn(kNumbers), ruleName);

} // namespace
} // namespace mgc::plan
