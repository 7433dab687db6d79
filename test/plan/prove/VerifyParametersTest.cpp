// Rules of parameters and of the buckets that hold them, in f32 and in bf16.
#include "plan/Optimizers.h"
#include "test/plan/States.h"
#include "test/plan/prove/BrokenPlans.h"

#include <utility>

namespace mgc::plan {
namespace {

// k and v, whose rows become tensors.
void makeStack(Plan &plan, const std::string &tensor) {
  for (Parameter *parameter : {&plan.parameters[1], &plan.parameters[2]})
    parameter->tensor = tensor, parameter->stacked = 4;
}

// The tensor of k and v, [4, 8] as they see it.
void mergeTensor(Plan &plan, const std::vector<int64_t> &shape) {
  plan.parameters[1].tensorShape = plan.parameters[2].tensorShape = shape;
}

const Broken kParameters[] = {
    {"None", [](Plan &plan) { plan.parameters.clear(); }, "stages[0].buckets[0]: has 32 elements and no parameter"},
    {"SplitOverStages", 3, [](Parameter &parameter) { parameter.dims[0].axes = {"pp"}; },
     ".dims: are split over stages; a stage holds whole parameters"},
    {"OtherShape", [](Plan &plan) { plan.parameters[2].fileShape = {4, 9}; },
     "parameters: tensor 'h.0.attn.c_attn.weight' is [4, 9] in 'h.0.attn.c_attn.weight[v]', but [4, 8] in"},
    {"OtherTensorShape", [](Plan &plan) { plan.parameters[2].tensorShape = {32}; },
     "parameters: tensor 'h.0.attn.c_attn.weight' has the shape [32] in 'h.0.attn.c_attn.weight[v]', but [4, 8] in"},
    {"TensorShapeOfOthers", [](Plan &plan) { mergeTensor(plan, {16}); },
     "parameters[1]: tensorShape = [16] is not fileShape = [4, 8] with neighbours multiplied; expected fewer "
     "dimensions, each the product of one or more"},
    {"TensorShapeOfAll", [](Plan &plan) { mergeTensor(plan, {4, 8}); },
     "parameters[1]: tensorShape = [4, 8] is not fileShape"},
    {"TensorShapeOfSome", [](Plan &plan) { mergeTensor(plan, {4}); },
     "parameters[1]: tensorShape = [4] is not fileShape"},
    {"TensorShapeOfNone", [](Plan &plan) { mergeTensor(plan, {0}); },
     "parameters[1]: tensorShape = [0] is not fileShape"},
    {"TensorShapeHuge", 3,
     [](Parameter &parameter) {
       parameter.fileShape = {kMax, kMax, 4};
       parameter.grouping = {0, 0, 1}, parameter.offset = {0, 0, 0};
       parameter.tensorShape = {kMax, 4};
     },
     ": tensorShape = [9223372036854775807, 4] is not fileShape"},
    {"StackInOneDimension",
     [](Plan &plan) {
       makeStack(plan, "h.0.attn.{#}.weight");
       mergeTensor(plan, {32});
     },
     "parameters[1]: a stack of 4 tensors; expected the first dimension of the file of that size"},
    {"OtherAliases", [](Plan &plan) { plan.parameters[2].aliases = {"x"}; },
     "parameters: tensor 'h.0.attn.c_attn.weight' has the aliases [x] in 'h.0.attn.c_attn.weight[v]', but [] in"},
    {"AliasOfTwo", [](Plan &plan) { plan.parameters[0].aliases = plan.parameters[3].aliases = {"x"}; },
     "parameters: alias 'x' of tensor 'wte.weight' is empty or a name of tensor 'ln_f.weight' already"},
    {"AliasIsATensor", [](Plan &plan) { plan.parameters[0].aliases = {"ln_f.weight"}; },
     "parameters: alias 'ln_f.weight' of tensor 'wte.weight' is empty or a name of tensor 'ln_f.weight' already"},
    {"AliasEmpty", [](Plan &plan) { plan.parameters[3].aliases = {""}; },
     "parameters: alias '' of tensor 'ln_f.weight'"},
    {"BothHold", [](Plan &plan) { plan.parameters[2].offset = {0, 3}; },
     "parameters: 'h.0.attn.c_attn.weight[k]' and 'h.0.attn.c_attn.weight[v]' both hold a part of"},
    {"NotAll", [](Plan &plan) { plan.parameters[1].fileShape = plan.parameters[2].fileShape = {4, 9}; },
     "parameters: of tensor 'h.0.attn.c_attn.weight' 32 elements are held, expected its 36"},
    {"Name", 1, [](Parameter &parameter) { parameter.name = "wte.weight"; },
     ": name 'wte.weight' is empty or comes twice"},
    {"StackName", [](Plan &plan) { plan.parameters[1].stacked = plan.parameters[2].stacked = 4; },
     "parameters[1]: tensor 'h.0.attn.c_attn.weight' of a stack of 4: expected {#} once in the names of a stack, and "
     "in no other"},
    {"StackNumbers", [](Plan &plan) { makeStack(plan, "h.{#}.attn.{#}.weight"); },
     "parameters[1]: tensor 'h.{#}.attn.{#}.weight' of a stack of 4"},
    {"StackAlias",
     [](Plan &plan) {
       makeStack(plan, "h.0.attn.{#}.weight");
       plan.parameters[1].aliases = plan.parameters[2].aliases = {"x"};
     },
     "parameters[1]: tensor 'x' of a stack of 4"},
    {"StackOfNone", 3, [](Parameter &parameter) { parameter.tensor = "ln_f.{#}"; },
     ": tensor 'ln_f.{#}' of a stack of 0"},
    {"StackNegative", 3, [](Parameter &parameter) { parameter.stacked = -1; }, ": a stack of -1 tensors"},
    {"StackSize",
     [](Plan &plan) {
       makeStack(plan, "h.0.attn.{#}.weight");
       plan.parameters[2].stacked = 2;
     },
     "parameters[2]: a stack of 2 tensors; expected the first dimension of the file of that size, without padding"},
    {"StackOfScalars", 3,
     [](Parameter &parameter) {
       parameter.tensor = "ln_f.{#}";
       parameter.stacked = 4;
     },
     ": a stack of 4 tensors; expected the first dimension of the file of that size"},
    {"StackOfATensor",
     [](Plan &plan) {
       makeStack(plan, "h.0.attn.{#}.weight");
       plan.parameters[3].tensor = "h.0.attn.3.weight";
     },
     "parameters: tensors 'h.0.attn.3.weight' and 'h.0.attn.{#}.weight' both have the name 'h.0.attn.3.weight' in a "
     "checkpoint"},
    {"StackOfAnAlias",
     [](Plan &plan) {
       makeStack(plan, "h.0.attn.{#}.weight");
       plan.parameters[1].aliases = plan.parameters[2].aliases = {"old.{#}"};
       plan.parameters[3].tensor = "old.2";
     },
     "parameters: alias 'old.{#}' of tensor 'h.0.attn.{#}.weight' is empty or a name of tensor 'old.2' already"},
    {"StackOfMillions",
     [](Plan &plan) {
       plan.parameters[3].tensor = "ln_f.{#}";
       plan.parameters[3].stacked = plan.parameters[3].fileShape[0] = plan.parameters[3].dims[0].size = int64_t(1)
                                                                                                        << 31;
     },
     "parameters: have more than 1048576 instances and tensors of stacks"},
    {"Tensor", 0, [](Parameter &parameter) { parameter.tensor = ""; }, ": 'wte.weight' names no tensor"},
    {"Padding",
     [](Plan &plan) {
       for (Parameter::Place &place : plan.parameters[0].places)
         place.elementOffset = 16;
     },
     "stages[0].buckets[0]: elements [0, 16) are of no parameter; expected fewer than 16"},
    {"Vocabulary", [](Plan &plan) { plan.vocabulary = 99; },
     "parameters[0]: 'wte.weight' has 7 valid rows v, the plan vocabulary = 99"},
    {"InitStd", 0, [](Parameter &parameter) { parameter.initStd = -1; }, ": initStd = -1 must be"},
    {"ActiveShareOfNothing", 0, [](Parameter &parameter) { parameter.activeShare = 0; },
     ": activeShare = 0 must be above 0 and at most 1: a share of the tokens"},
    {"ActiveShareOfMore", 0, [](Parameter &parameter) { parameter.activeShare = 1.5; },
     ": activeShare = 1.5 must be above 0 and at most 1: a share of the tokens"},
    {"OfNoEncoder", 0, [](Parameter &parameter) { parameter.ofEncoder = true; },
     ": 'wte.weight' is of an encoder, and the plan has none"},
    {"Positions", 0, [](Parameter &parameter) { parameter.positions = 3; },
     ": 'wte.weight' meets 3 positions of a sample; expected those of a sequence of the plan"},
    {"InitStdBeyondF32", 0, [](Parameter &parameter) { parameter.initStd = 1e38; },
     ": initStd = 1e+38 must be from 0 to 1e+37"},
    {"Grouping", 0, [](Parameter &parameter) { parameter.grouping = {1, 2}; }, ": fileShape, grouping and offset must"},
    {"GroupingNegative", 0, [](Parameter &parameter) { parameter.grouping = {3, -1}; }, ": fileShape, grouping and"},
    {"GroupingHuge", 0, [](Parameter &parameter) { parameter.grouping = {kMax, kMax}; }, ": fileShape, grouping and"},
    {"Offsets", 0, [](Parameter &parameter) { parameter.offset = {0}; }, ": fileShape, grouping and offset must"},
    {"FileView", 2, [](Parameter &parameter) { parameter.offset = {0, 9}; },
     ": file dimension 1: 4 elements from 9 on"},
    {"FileOffset", 2, [](Parameter &parameter) { parameter.offset = {-1, 8}; },
     ": file dimension 0: 4 elements from -1"},
    {"Divides", 0, [](Parameter &parameter) { parameter.dims[0].size = 9; }, ".dims[0]: size = 9 must be positive and"},
    {"DimZero", 0, [](Parameter &parameter) { parameter.dims[1].size = 0; }, ".dims[1]: size = 0 must be positive and"},
    {"Valid", 0, [](Parameter &parameter) { parameter.dims[0].valid = 9; },
     ".dims[0]: valid = 9 is not in [1, size = 8]"},
    {"DimAxes", 0, [](Parameter &parameter) { parameter.dims[1].axes = {"xp"}; },
     ".dims[1]: axis 'xp' is not in the mesh"},
    {"DimAxesTwice", 0, [](Parameter &parameter) { parameter.dims[1].axes = {"tpg"}; },
     ".dims: axis 'tpg' comes twice"},
    {"DimsHuge", 3,
     [](Parameter &parameter) {
       parameter.dims = {{"h", kMax, 4, {}}, {"g", 2, 1, {}}};
       parameter.grouping = {2};
     },
     ".dims: the sizes multiply to more than 64 bits hold"},
    {"NoPlace", 3, [](Parameter &parameter) { parameter.places.clear(); }, ": 'ln_f.weight' has no place"},
    {"PlaceStage", 3, [](Parameter &parameter) { parameter.places[0].stage = 2; },
     ".places[0]: stage 2 is not one of 2"},
    {"PlaceTwice", 0, [](Parameter &parameter) { parameter.places[1].stage = 0; },
     ".places[1]: 'wte.weight' has two places"},
    {"PlaceBucket", 3, [](Parameter &parameter) { parameter.places[0].bucket = -1; },
     ".places[0]: bucket -1 is not one of 2"},
    {"PlaceRange", 3, [](Parameter &parameter) { parameter.places[0].elementOffset = 13; },
     ".places[0]: 4 elements from 13"},
    {"PlaceOverlap",
     [](Plan &plan) {
       plan.parameters[2].rows = {};
       plan.parameters[2].places[0].elementOffset = 7;
     },
     "stages[0].buckets[1]: h.0.attn.c_attn.weight[k] [0, 16) and h.0.attn.c_attn.weight[v] [7, 15) overlap"},
    {"RowsDims", 1, [](Parameter &parameter) { parameter.rows.dims = 4; },
     ".rows: dims = 4 is not in [0, 3], the dimensions of 'h.0.attn.c_attn.weight[k]'"},
    {"RowsDimsNegative", 1, [](Parameter &parameter) { parameter.rows.dims = -1; },
     ".rows: dims = -1 is not in [0, 3]"},
    {"RowsOffset", 2, [](Parameter &parameter) { parameter.rows.offset = 3; },
     ".rows: a row of 'h.0.attn.c_attn.weight[v]', 2 elements from 3 on, does not lie inside the matrix's of extent = "
     "4"},
    {"RowsOffsetNegative", 2, [](Parameter &parameter) { parameter.rows.offset = -2; },
     ".rows: a row of 'h.0.attn.c_attn.weight[v]', 2 elements from -2 on"},
    {"RowsOffsetHuge", 2, [](Parameter &parameter) { parameter.rows.offset = kMax; },
     ".rows: a row of 'h.0.attn.c_attn.weight[v]', 2 elements from 9223372036854775807 on"},
    {"RowsLonger", 2, [](Parameter &parameter) { parameter.rows.dims = 0; },
     ".rows: a row of 'h.0.attn.c_attn.weight[v]', 8 elements from 2 on, does not lie inside"},
    {"RowsExtentNegative", 1, [](Parameter &parameter) { parameter.rows.extent = -4; },
     ".rows: a row of 'h.0.attn.c_attn.weight[k]', 2 elements from 0 on, does not lie inside the matrix's of extent = "
     "-4"},
    {"RowsExtentHuge", 1, [](Parameter &parameter) { parameter.rows.extent = kMax; },
     ".places[0]: more than 2^63 elements from 0 on do not lie inside the 16 of bucket 1"},
    {"RowsWithoutExtent", 2, [](Parameter &parameter) { parameter.rows.extent = 0; },
     ".rows: dims = 2 and offset = 2 without an extent"},
    {"RowsOverlap", [](Plan &plan) { plan.parameters[2].rows.offset = 1; },
     "stages[0].buckets[1]: h.0.attn.c_attn.weight[k] [0, 2) and h.0.attn.c_attn.weight[v] [1, 3) overlap"},
    {"RowsOfOtherExtent", [](Plan &plan) { plan.parameters[1].rows.extent = 3; },
     "parameters[2].places[0]: 'h.0.attn.c_attn.weight[v]' has 4 rows of a matrix of extent 4, but "
     "'h.0.attn.c_attn.weight[k]', which begins there too, 4 of 3"},
    {"RowsOfOtherCount", [](Plan &plan) { plan.parameters[1].rows = {3, 0, 2}; },
     "parameters[2].places[0]: 'h.0.attn.c_attn.weight[v]' has 4 rows of a matrix of extent 4, but "
     "'h.0.attn.c_attn.weight[k]', which begins there too, 8 of 2"},
    {"MatrixRange", 1, [](Parameter &parameter) { parameter.places[0].elementOffset = 1; },
     ".places[0]: 16 elements from 1 on do not lie inside the 16 of bucket 1"},
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
     "parameters[0].places[1]: 'wte.weight' is in stages [0, 1], but its bucket 'tied' is tied over stages []"},
    {"NoUse", [](Plan &plan) { plan.parameters[0].places[1].uses = 0; },
     "parameters[0].places[1]: uses = 0 is not in [1, 1048576]"},
    {"LoadInOneStage", [](Plan &plan) { plan.stages[1].buckets[0].meanLoad = 4; },
     "parameters[0].places[1]: the bucket of 'wte.weight' has meanLoad = 4 and use = trained, an earlier one 0 and "
     "trained; expected the same"},
    {"FrozenInOneStage", [](Plan &plan) { plan.stages[1].buckets[0].use = BucketUse::frozen; },
     "parameters[0].places[1]: the bucket of 'wte.weight' has meanLoad = 0 and use = frozen, an earlier one 0 and "
     "trained; expected the same"},
    {"CountsInOneStage", [](Plan &plan) { plan.stages[1].buckets[0].use = BucketUse::loadCounter; },
     "parameters[0].places[1]: the bucket of 'wte.weight' has meanLoad = 0 and use = loadCounter, an earlier one 0 and "
     "trained; expected the same"},
};

const Broken kBuckets[] = {
    {"TiedStage", 1, 0, [](Bucket &bucket) { bucket.tiedStages = {0, 2}; }, ".tiedStages: [0, 2] must"},
    {"TiedTwice", 1, 0, [](Bucket &bucket) { bucket.tiedStages = {0, 0}; }, ".tiedStages: [0, 0] must"},
    {"TiedSelf", 1, 0, [](Bucket &bucket) { bucket.tiedStages = {0}; }, ": tiedStages [0] does not have"},
    {"Elements", 1, 1, [](Bucket &bucket) { bucket.elements = -16; }, ": elements = -16 is negative"},
    {"Axes", 0, 0, [](Bucket &bucket) { bucket.dataAxes = {"xp"}; }, ": axis 'xp' is not in the mesh"},
    {"AxesApart", 0, 0, [](Bucket &bucket) { bucket.dataAxes = {"tpg"}; }, ": axis 'tpg' comes twice"},
    {"ShardDivides", 0, 0, [](Bucket &bucket) { bucket.elements = 31; },
     ": elements = 31 does not divide into aligned slices for 2 ranks; a multiple of 32 would"},
    {"ShardAligned", 0, 0, [](Bucket &bucket) { bucket.elements = 16; }, ": elements = 16 does not"},
    {"MastersOfF32", 0, 1,
     [](Bucket &bucket) { bucket.states.push_back({"master", StateRole::master, DType::f32, false, 0}); },
     ": has 1 states of the role master; expected 0"},
    {"CountsNothing", 0, 1, [](Bucket &bucket) { bucket.use = BucketUse::loadCounter; },
     ": use = loadCounter, but meanLoad = 0; expected a mean load of router biases and counters alone"},
    {"LoadOfGradients", 0, 1, [](Bucket &bucket) { bucket.meanLoad = 4; },
     ": use = trained, but meanLoad = 4; expected a mean load of router biases and counters alone"},
    {"MomentsOfLoad", 0, 1,
     [](Bucket &bucket) {
       bucket.meanLoad = 4;
       bucket.use = BucketUse::routerBias;
     },
     ": use = routerBias and optimizer = adamw, but the states of the role optimizer are [exp_avg, exp_avg_sq]; "
     "expected []"},
    {"MomentType", 0, 1, [](Bucket &bucket) { stateNamed(bucket, "exp_avg").type = DType::bf16; },
     ": 'exp_avg' is bf16; expected f32"},
    {"OtherOptimizer", [](Plan &plan) { plan.optimizer = Optimizer::sgd; },
     "stages[0].buckets[0]: use = trained and optimizer = sgd, but the states of the role optimizer are [exp_avg, "
     "exp_avg_sq]; expected [momentum_buffer]"},
    {"MomentsExchanged", 0, 1,
     [](Bucket &bucket) {
       stateNamed(bucket, "exp_avg").name = "m";
       stateNamed(bucket, "exp_avg_sq").name = "exp_avg";
       stateNamed(bucket, "m").name = "exp_avg_sq";
     },
     ": use = trained and optimizer = adamw, but the states of the role optimizer are [exp_avg_sq, exp_avg]; expected "
     "[exp_avg, exp_avg_sq]"},
    {"ValueOnHost", 0, 1, [](Bucket &bucket) { stateNamed(bucket, "value").hostElements = 16; },
     ": 'value' has 16 elements on the host; expected none of a state that others than the update use"},
    {"MomentsApart", 0, 1, [](Bucket &bucket) { stateNamed(bucket, "exp_avg").hostElements = 16; },
     ": 'exp_avg' has 16 elements on the host, 'exp_avg_sq' 0; expected as many"},
    {"MoreOnHostThanThereIs", 0, 1, [](Bucket &bucket) { stateNamed(bucket, "exp_avg").hostElements = 17; },
     ": 'exp_avg' has 17 elements on the host of 16"},
    {"MomentNotInHostArena", 0, 1, [](Bucket &bucket) { stateNamed(bucket, "exp_avg").hostElements = 16; },
     ": 16 elements of 'exp_avg' at 0 must be inside a region 'hostOptimizer' of the host's arena"},
    {"HostOffsetOfNothing", 0, 1, [](Bucket &bucket) { stateNamed(bucket, "exp_avg").hostOffset = 64; },
     ": 'exp_avg' has hostOffset 64 and nothing there; expected 0"},
    {"MomentInSlices", 0, 1, [](Bucket &bucket) { stateNamed(bucket, "exp_avg").sliced = true; },
     ": 'exp_avg' is f32 in slices; expected f32"},
    {"StateTwice", 0, 1, [](Bucket &bucket) { stateNamed(bucket, "exp_avg_sq").name = "exp_avg"; },
     ": has two states 'exp_avg'"},
    {"NoValues", 0, 1, [](Bucket &bucket) { removeState(bucket, "value"); },
     ": has 0 states of the role value; expected 1"},
    {"NoGradient", 0, 1, [](Bucket &bucket) { removeState(bucket, "gradient"); },
     ": has 0 states of the role gradient; expected 1"},
    {"NoSlice", 0, 0, [](Bucket &bucket) { removeState(bucket, "gradient_slice"); },
     ": has 0 states of the role gradientSlice; expected 1"},
    {"GradientType", 0, 1, [](Bucket &bucket) { stateNamed(bucket, "gradient").type = DType::bf16; },
     ": 'gradient' is bf16; expected f32"},
    {"ValueInSlices", 0, 0, [](Bucket &bucket) { stateNamed(bucket, "value").sliced = true; },
     ": 'value' is f32 in slices; expected f32"},
    {"WholeSlice", 0, 0, [](Bucket &bucket) { stateNamed(bucket, "gradient_slice").sliced = false; },
     ": 'gradient_slice' is f32; expected f32 in slices"},
    {"ShardedWithoutZero", [](Plan &plan) { plan.zero = 0; },
     "stages[0].buckets[0]: is sharded, but the plan has zero = 0"},
    {"SliceOfPlain", 0, 1,
     [](Bucket &bucket) {
       bucket.states.push_back({"gradient_slice", StateRole::gradientSlice, DType::f32, true, 512});
     },
     ": has 1 states of the role gradientSlice; expected 0"},
    {"ValueAligned", 0, 0, [](Bucket &bucket) { stateNamed(bucket, "value").offset = 4; }, ": 'value' at 4 must"},
    {"GradientInside", 0, 0, [](Bucket &bucket) { stateNamed(bucket, "gradient").offset = 3328; },
     ": 'gradient' at 3328 must be at a multiple of 64, and its 32 elements lie inside"},
    {"SliceInside", 0, 0, [](Bucket &bucket) { stateNamed(bucket, "gradient_slice").offset = 3392; },
     ": 'gradient_slice' at 3392 must be at a multiple of 64, and its 16 elements lie inside"},
    {"MomentNegative", 0, 1, [](Bucket &bucket) { stateNamed(bucket, "exp_avg").offset = -64; },
     ": 'exp_avg' at -64 must"},
    {"MomentHuge", 0, 1, [](Bucket &bucket) { bucket.elements = kMax; }, ": 'exp_avg_sq' at 768"},
    {"BuffersApart", 0, [](StagePlan &stage) { stateNamed(stage.buckets[1], "exp_avg_sq").offset = 640; },
     ".buckets: exp_avg_sq of bucket 'plain' [640, 704) and exp_avg_sq of bucket 'tied' [640, 704) overlap"},
};

// The small plan with values of bf16: a slice of `tied` has 32 of them, so its f32 buffers get larger and lie, with the
// masters, in a region of their own.
Plan makeBf16Plan() {
  Plan plan = makeSmallPlan();
  plan.dtype = DType::bf16;
  for (StagePlan &stage : plan.stages) {
    Bucket &tied = stage.buckets[0], &plain = stage.buckets[1];
    tied.elements = 64;
    int64_t end = stage.bytes;
    const auto place = [&](State &state, int64_t bytes) { state.offset = std::exchange(end, end + bytes); };
    for (Bucket *bucket : {&plain, &tied}) {
      stateNamed(*bucket, "value").type = DType::bf16;
      bucket->states.push_back({"master", StateRole::master, DType::f32, bucket == &tied});
    }
    place(stateNamed(plain, "master"), 64);
    place(stateNamed(tied, "master"), 128);
    place(stateNamed(tied, "exp_avg"), 128);
    place(stateNamed(tied, "exp_avg_sq"), 128);
    stage.regions.push_back({"optimizer", stage.bytes, end - stage.bytes});
    stage.bytes = end;
    place(stateNamed(tied, "gradient"), 256);
    place(stateNamed(tied, "gradient_slice"), 128);
    stage.regions.push_back({"gradients", stage.bytes, end - stage.bytes});
    stage.bytes = end;
  }
  return plan;
}

TEST(Verify, APlanOfBf16IsSound) {
  const Status status = verifyPlan(makeBf16Plan());
  EXPECT_TRUE(status.isOk()) << status.message();
}

class VerifyBf16 : public Verify {};
TEST_P(VerifyBf16, RefusesABrokenRule) { refuses(makeBf16Plan(), GetParam()); }

const Broken kBf16[] = {
    {"NoMasters", 0, 0, [](Bucket &bucket) { removeState(bucket, "master"); },
     ": has 0 states of the role master; expected 1"},
    {"MastersOfBf16", 0, 0, [](Bucket &bucket) { stateNamed(bucket, "master").type = DType::bf16; },
     ": 'master' is bf16 in slices; expected f32 in slices"},
    {"MasterInRegion", 0, 0,
     [](Bucket &bucket) { stateNamed(bucket, "master").offset = stateNamed(bucket, "gradient").offset; },
     ": 'master', bytes [3840, 3968), does not lie in a region 'optimizer'"},
    {"MasterAligned", 0, 0, [](Bucket &bucket) { stateNamed(bucket, "master").offset += 4; },
     ": 'master' at 3460 must be at a multiple of 64, and its 32 elements lie inside"},
    {"MasterInside", 0, [](StagePlan &stage) { stateNamed(stage.buckets[1], "master").offset = stage.bytes; },
     ".buckets[1]: 'master' at 4224 must"},
    {"MastersApart", 0, [](StagePlan &stage) { stateNamed(stage.buckets[1], "master").offset = 128; },
     ".buckets: value of bucket 'plain' [128, 160) and master of bucket 'plain' [128, 192) overlap"},
    {"ShardAligned", 0, 0, [](Bucket &bucket) { bucket.elements = 32; },
     ": elements = 32 does not divide into aligned slices for 2 ranks; a multiple of 64 would"},
    {"OperandAligned",
     [](Plan &plan) {
       body<Gemm>(plan, kGemm).inputType = DType::bf16;
       instruction(plan, kGemm).operands[0].offset = 1;
     },
     "programs[0].instructions[0].operands[0]: offset 1 or stride 0 is not a multiple of 2"},
    {"ResultAligned",
     [](Plan &plan) {
       body<Gemm>(plan, kGemm).inputType = DType::bf16;
       instruction(plan, kGemm).operands[2].offset = 2;
     },
     "programs[0].instructions[0].operands[2]: offset 2 or stride 0 is not a multiple of 4"},
    {"RowKernelAligned", kRowKernel, [](Instruction &op) { op.operands[0].offset = 3; },
     ".operands[0]: offset 3 or stride 0 is not a multiple of 2"},
    {"BindingAligned", 0, 0, [](Chunk &chunk) { chunk.calls[0].segments[1].offset = 3; },
     ".calls[0].segments[1]: offset 3 or stride 0 is not a multiple of 2"},
};

// The small plan with a counter of stage 0, behind its allocation: 4 elements.
Plan makeCountingPlan() {
  Plan plan = makeSmallPlan();
  StagePlan &stage = plan.stages[0];
  Bucket &bucket = stage.buckets.emplace_back(Bucket{.name = "counter", .elements = 16, .dataAxes = {"dp"}});
  bucket.meanLoad = 4;
  bucket.use = BucketUse::loadCounter;
  bucket.states = {{"value", StateRole::value, DType::f32, false, stage.bytes},
                   {"gradient", StateRole::gradient, DType::f32, false, stage.bytes + 64}};
  stage.regions.push_back({"parameters", stage.bytes, 64});
  stage.regions.push_back({"gradients", stage.bytes + 64, 64});
  stage.bytes += 128;
  Parameter &counter = plan.parameters.emplace_back(plan.parameters[3]);
  counter.name = counter.tensor = "gate.load";
  counter.init = InitKind::zeros;
  counter.places = {{0, 2, 0}};
  return plan;
}

TEST(VerifyParameters, ACounterHasATensorOfItsOwn) {
  Plan plan = makeCountingPlan();
  EXPECT_TRUE(verifyPlan(plan).isOk()) << verifyPlan(plan).message();
  EXPECT_TRUE(isCounter(plan, plan.parameters[4]));
  EXPECT_FALSE(isCounter(plan, plan.parameters[3]));
  refuses(plan, {"Begins", [](Plan &plan) { plan.parameters[4].init = InitKind::ones; },
                 "parameters[4].places[0]: 'gate.load' counts; expected zeros as its first values"});
  plan.parameters[3].fileShape = plan.parameters[4].fileShape = {8};
  plan.parameters[4].tensor = plan.parameters[3].tensor;
  plan.parameters[4].offset = {4};
  refuses(plan, {"HalfATensor", [](Plan &) {},
                 "parameters: one of 'ln_f.weight' and 'gate.load' counts, and is in no file; expected both "
                 "or none, as both are of tensor 'ln_f.weight'"});
}

// The small plan, in which the matrix of h.0.attn.c_attn.weight is frozen.
Plan makeFrozenPlan() {
  Plan plan = makeSmallPlan();
  Bucket &bucket = plan.stages[0].buckets[1];
  bucket.use = BucketUse::frozen;
  bucket.reduceAxes = bucket.dataAxes = {};
  for (const char *name : {"gradient", "exp_avg", "exp_avg_sq"})
    removeState(bucket, name);
  return plan;
}

TEST(VerifyParameters, AFrozenBucketHasValuesAlone) {
  const Plan plan = makeFrozenPlan();
  EXPECT_TRUE(verifyPlan(plan).isOk()) << verifyPlan(plan).message();
  EXPECT_TRUE(isFrozen(plan, plan.parameters[1]));
  EXPECT_FALSE(isFrozen(plan, plan.parameters[0]));
}

TEST(VerifyParameters, NoCallAddsToWhatIsFrozen) {
  Plan plan = makeFrozenPlan();
  plan.parameters[1].places[0].uses = 2;
  EXPECT_NE(verifyPlan(plan).message().find("uses = 2 of 'h.0.attn.c_attn.weight[k]', which is frozen; expected 1"),
            std::string::npos)
      << verifyPlan(plan).message();
}

class VerifyFrozen : public Verify {};
TEST_P(VerifyFrozen, RefusesABrokenRule) { refuses(makeFrozenPlan(), GetParam()); }

const Broken kFrozen[] = {
    {"Gradients", 0, 1,
     [](Bucket &bucket) { bucket.states.push_back({"gradient", StateRole::gradient, DType::f32, false, 512}); },
     ": has 1 states of the role gradient; expected 0, as it is frozen"},
    {"Moments", 0, 1,
     [](Bucket &bucket) { bucket.states.push_back({"exp_avg", StateRole::optimizer, DType::f32, false, 768}); },
     ": use = frozen and optimizer = adamw, but the states of the role optimizer are [exp_avg]; expected []"},
    {"Masters", 0, 1,
     [](Bucket &bucket) { bucket.states.push_back({"master", StateRole::master, DType::f32, false, 768}); },
     ": has 1 states of the role master; expected 0"},
    {"Reduced", 0, 1, [](Bucket &bucket) { bucket.reduceAxes = {"dp"}; },
     ": is frozen, but reduceAxes = [dp], dataAxes = [] and shardAxes = []; expected none"},
    {"OfData", 0, 1, [](Bucket &bucket) { bucket.dataAxes = {"dp"}; },
     ": is frozen, but reduceAxes = [], dataAxes = [dp] and shardAxes = []; expected none"},
    {"Sharded", 0, 1, [](Bucket &bucket) { bucket.dataAxes = bucket.shardAxes = {"dp"}; },
     ": is frozen, but reduceAxes = [], dataAxes = [dp] and shardAxes = [dp]; expected none of the former, as no "
     "gradient "
     "is reduced, and dataAxes where its values are in slices, with shardAxes"},
    {"Trained", 0, 1, [](Bucket &bucket) { bucket.use = BucketUse::trained; },
     ": has 0 states of the role gradient; expected 1"},
};
INSTANTIATE_TEST_SUITE_P(Frozen, VerifyFrozen, testing::ValuesIn(kFrozen), ruleName);

// The small plan with ZeRO-2: bucket `tied` has a gradient of one unit, behind the allocation, and slices in f32.
Plan makeUnitPlan() {
  Plan plan = makeSmallPlan();
  plan.zero = 2;
  for (StagePlan &stage : plan.stages) {
    stateNamed(stage.buckets[0], "gradient") = {"unit_gradient", StateRole::unitGradient, DType::f32, false,
                                                stage.bytes};
    stage.buckets[0].states.push_back({"unit_sum", StateRole::unitSum, DType::f32, true, stage.bytes + 128});
    stage.regions.push_back({"units", stage.bytes, 192});
    stage.bytes += 192;
  }
  return plan;
}

TEST(VerifyParameters, AUnitHasAGradientAtATime) {
  const Plan plan = makeUnitPlan();
  EXPECT_TRUE(verifyPlan(plan).isOk()) << verifyPlan(plan).message();
}

class VerifyUnits : public Verify {};
TEST_P(VerifyUnits, RefusesABrokenRule) { refuses(makeUnitPlan(), GetParam()); }

const Broken kUnits[] = {
    {"None", 0, 0, [](Bucket &bucket) { bucket.units = 0; },
     ": units = 0; expected 1, or of a bucket with a unitGradient"},
    {"DoNotDivide", 0, 0, [](Bucket &bucket) { bucket.units = 5; }, ": units = 5; expected 1, or of a bucket"},
    {"OfPlain", 0, 1, [](Bucket &bucket) { bucket.units = 2; }, ": units = 2; expected 1, or of a bucket"},
    {"TooSmall", 0, 0, [](Bucket &bucket) { bucket.units = 2; },
     ": elements = 32 does not divide into aligned slices for 2 ranks; a multiple of 64 would"},
    {"Level1", [](Plan &plan) { plan.zero = 1; },
     "stages[0].buckets[0]: has 1 states of the role unitGradient; expected 0"},
    {"NoGradient", 0, 0, [](Bucket &bucket) { removeState(bucket, "unit_gradient"); },
     ": has 0 states of the role unitGradient; expected 1"},
    {"NoSum", 0, 0, [](Bucket &bucket) { removeState(bucket, "unit_sum"); },
     ": has 0 states of the role unitSum; expected 1"},
    {"WholeSum", 0, 0, [](Bucket &bucket) { stateNamed(bucket, "unit_sum").sliced = false; },
     ": 'unit_sum' is f32; expected f32 in slices"},
    {"WholeGradient", 0, 0,
     [](Bucket &bucket) { bucket.states.push_back({"gradient", StateRole::gradient, DType::f32, false, 256}); },
     ": has 1 states of the role gradient; expected 0"},
    {"SliceType", 0, 0, [](Bucket &bucket) { stateNamed(bucket, "gradient_slice").type = DType::bf16; },
     ": 'gradient_slice' is bf16 in slices; expected f32 in slices"},
};
INSTANTIATE_TEST_SUITE_P(Units, VerifyUnits, testing::ValuesIn(kUnits), ruleName);

// A parameter lies in one unit.
TEST(VerifyParameters, UnitsAreOfWholeParameters) {
  Plan plan = makeUnitPlan();
  for (StagePlan &stage : plan.stages)
    stage.buckets[0].elements = 64, stage.buckets[0].units = 2;
  plan.parameters[0].places[0].elementOffset = plan.parameters[0].places[1].elementOffset = 24;
  const Status status = verifyPlan(plan);
  EXPECT_NE(status.message().find("wte.weight [24, 40) lies in several of its units of 32 elements"), std::string::npos)
      << status.message();
}

TEST(VerifyParameters, TensorsOfAStackMayBeCutIntoParameters) {
  Plan plan = makeSmallPlan();
  makeStack(plan, "h.0.attn.{#}.weight");
  plan.parameters[3].tensor = "h.0.attn.4.weight"; // behind the last of the stack
  EXPECT_TRUE(verifyPlan(plan).isOk()) << verifyPlan(plan).message();
}

INSTANTIATE_TEST_SUITE_P(Parameters, Verify, testing::ValuesIn(kParameters), ruleName);
INSTANTIATE_TEST_SUITE_P(Buckets, Verify, testing::ValuesIn(kBuckets), ruleName);
INSTANTIATE_TEST_SUITE_P(Types, VerifyBf16, testing::ValuesIn(kBf16), ruleName);

} // namespace
} // namespace mgc::plan
