// Loading and initialising: every element of every rank against the definition.
#include "runtime/checkpoint/Weights.h"

#include "plan/Expand.h"
#include "runtime/random/Philox.h"
#include "test/runtime/TempDir.h"
#include "test/runtime/checkpoint/TestPlan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

using namespace mgc;
using namespace mgc::test;
using plan::Bucket;
using plan::Parameter;
using plan::Plan;

namespace {

uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

// The value every element of a file tensor has in these tests.
float fileValue(const std::string &tensor, int64_t index) { return float(hashName(tensor) % 97) + float(index) / 8; }

std::map<std::string, std::vector<int64_t>> tensorShapes(const Plan &plan) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const Parameter &parameter : plan.parameters)
    shapes[parameter.tensor] = parameter.shapeOfTensor();
  return shapes;
}

// The tensors of the file: of a stack one for each number.
std::vector<TensorSpec> specsOf(const std::string &name, std::vector<int64_t> shape) {
  if (name.find(plan::kStackHole) == std::string::npos)
    return {{name, ElementType::F32, shape}};
  std::vector<TensorSpec> specs;
  const std::vector<int64_t> each(shape.begin() + 1, shape.end());
  for (int64_t number = 0; number < shape[0]; ++number)
    specs.push_back({plan::nameInStack(name, number), ElementType::F32, each});
  return specs;
}

// Writes a checkpoint of fileValue, with `prefix` before each name; a tensor in `copyOf` has another one's values, element 2 of
// `broken` is no number.
void writeCheckpoint(const std::string &path, const std::map<std::string, std::vector<int64_t>> &shapes,
                     const std::string &prefix = "", const std::map<std::string, std::string> &copyOf = {},
                     const std::string &broken = "") {
  std::vector<TensorSpec> specs;
  std::vector<float> values;
  for (const auto &[name, shape] : shapes) {
    for (const TensorSpec &spec : specsOf(prefix + name, shape))
      specs.push_back(spec);
    for (int64_t i = 0; i < product(shape); ++i)
      values.push_back(name == broken && i == 2 ? NAN : fileValue(copyOf.contains(name) ? copyOf.at(name) : name, i));
  }
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, specs);
  ASSERT_TRUE(isOk(writer));
  ASSERT_TRUE(isOk(writer->write(std::as_bytes(std::span(values)))));
  ASSERT_TRUE(isOk(writer->commit()));
}

// Each value of each rank is that of bucketContents. Moments are zero.
void expectAll(const Plan &plan, const Memory &memory, const ExpectedValue &expected) {
  for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank) {
    int64_t stage = plan::stageOf(plan.mesh, rank);
    for (size_t b = 0; b < plan.stages[stage].buckets.size(); ++b) {
      const Bucket &bucket = plan.stages[stage].buckets[b];
      const std::vector<float> values = bucketContents(plan, rank, int64_t(b), expected);
      std::span<float> found = memory.floats(plan, rank, bucket.valueOffset, bucket.elements);
      for (int64_t i = 0; i < bucket.elements; ++i)
        ASSERT_EQ(bits(found[i]), bits(values[i])) << "rank " << rank << " bucket " << b << " element " << i;
      int64_t slice = bucket.elements / (bucket.sharded ? plan::groupSize(plan.mesh, bucket.dataAxes) : 1);
      for (int64_t offset : {bucket.firstMomentOffset, bucket.secondMomentOffset})
        for (float moment : memory.floats(plan, rank, offset, slice))
          ASSERT_EQ(bits(moment), 0u);
    }
  }
}

const std::vector<MeshSizes> kMeshes = {{1, 1, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}, {1, 1, 2, 2},
                                        {2, 1, 1, 1}, {1, 3, 1, 1}, {3, 2, 2, 2}, {2, 2, 4, 1}};

Result<Checkpoint> fullCheckpoint(const TempDir &dir, const Plan &plan) {
  writeCheckpoint(dir.path("model.safetensors"), tensorShapes(plan));
  return Checkpoint::open(dir.path());
}

} // namespace

TEST(LoadWeights, slicesAsDefinedOnEveryMesh) {
  for (bool zero : {false, true})
    for (const MeshSizes &sizes : kMeshes) {
      TempDir dir;
      Plan plan = makePlan(sizes, zero, /*joined=*/zero);
      Result<Checkpoint> checkpoint = fullCheckpoint(dir, plan);
      ASSERT_TRUE(isOk(checkpoint));
      Memory memory(plan);
      ASSERT_TRUE(isOk(loadWeights(plan, *checkpoint, memory.arenas())));
      expectAll(plan, memory, [](const Parameter &p, int64_t i) { return fileValue(p.tensor, i); });
    }
}

// Calls check(folder, plan, checkpoint, memory) with random plans whose weights are loaded into the memory.
template <typename Check> void forRandomPlans(uint32_t count, Check &&check) {
  for (uint32_t seed = 0; seed < count && !testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    TempDir dir;
    Plan plan = makeRandomPlan(seed);
    Result<Checkpoint> checkpoint = fullCheckpoint(dir, plan);
    ASSERT_TRUE(isOk(checkpoint));
    Memory memory(plan);
    ASSERT_TRUE(isOk(loadWeights(plan, *checkpoint, memory.arenas())));
    check(dir, plan, *checkpoint, memory);
  }
}

TEST(LoadWeights, slicesRandomParametersAsDefined) {
  int64_t elements = 0, merged = 0;
  forRandomPlans(300, [&](const TempDir &, const Plan &plan, const Checkpoint &, const Memory &memory) {
    expectAll(plan, memory, [&](const Parameter &p, int64_t i) { return ++elements, fileValue(p.tensor, i); });
    merged += std::ranges::count_if(plan.parameters, [](const Parameter &p) { return !p.tensorShape.empty(); });
  });
  EXPECT_GT(elements, 10'000);
  EXPECT_GT(merged, 50);
}

// A saved checkpoint has the tensors of the one that was loaded, and each element of each rank comes back.
TEST(LoadWeights, stacksAreSavedAsTheyWereLoaded) {
  int64_t stacks = 0;
  forRandomPlans(200, [&](const TempDir &dir, const Plan &plan, const Checkpoint &checkpoint, const Memory &memory) {
    ASSERT_TRUE(isOk(saveWeights(plan, memory.arenas(), dir.path("saved"))));
    const Result<Checkpoint> saved = Checkpoint::open(dir.path("saved"));
    ASSERT_TRUE(isOk(saved));
    ASSERT_EQ(saved->names(), checkpoint.names());
    Memory again(plan);
    ASSERT_TRUE(isOk(loadWeights(plan, *saved, again.arenas())));
    expectAll(plan, again, [](const Parameter &p, int64_t i) { return fileValue(p.tensor, i); });
    stacks += std::ranges::count_if(plan.parameters, [](const Parameter &p) { return p.stacked > 1; });
  });
  EXPECT_GT(stacks, 20);
}

// Each of two groups has its q, k and v together: rows of one tensor [2 * 6, 3], in which k is [2, 2, 3].
Plan makeGroupedPlan() {
  Plan plan = makePlan({1, 2, 2, 1}, true, false, plan::DType::bf16);
  Parameter one = plan.parameters.back(); // the parameter [f, h] that the three replace
  plan.parameters.pop_back();
  int64_t &elements = plan.stages[0].buckets[0].elements;
  for (int64_t part = 0; part < 3; ++part) {
    one.name = fmt::format("qkv[{}]", part), one.tensor = "qkv";
    one.fileShape = {2, 6, 3}, one.tensorShape = {12, 3};
    one.grouping = {1, 1, 1}, one.offset = {0, 2 * part, 0};
    one.dims = {{"g", 2, 2, {"tpg"}}, {"d", 2, 2, {}}, {"h", 3, 3, {}}};
    one.places[0].elementOffset += part == 0 ? 0 : 6;
    EXPECT_LE(one.places[0].elementOffset + 6, elements);
    plan.parameters.push_back(one);
  }
  return plan;
}

// The file has the tensor in its own shape, and messages say that one.
TEST(LoadWeights, partsOfGroupsAreOneTensor) {
  TempDir dir;
  const Plan plan = makeGroupedPlan();
  Result<Checkpoint> checkpoint = fullCheckpoint(dir, plan);
  ASSERT_TRUE(isOk(checkpoint));
  Memory memory(plan);
  ASSERT_TRUE(isOk(loadWeights(plan, *checkpoint, memory.arenas())));
  ASSERT_TRUE(isOk(saveWeights(plan, memory.arenas(), dir.path("saved"), {.type = plan::DType::f32})));
  const Result<Checkpoint> saved = Checkpoint::open(dir.path("saved"));
  ASSERT_TRUE(isOk(saved));
  const TensorView *tensor = saved->find("qkv");
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->shape, std::vector<int64_t>({12, 3}));
  std::vector<float> values(36), expected(36);
  convertToF32(*tensor, 0, 36, values.data());
  for (int64_t i = 0; i < 36; ++i)
    expected[i] = fileValue("qkv", i);
  EXPECT_EQ(values, expected);
  auto shapes = tensorShapes(plan);
  shapes["qkv"] = {2, 6, 3};
  writeCheckpoint(dir.path("model.safetensors"), shapes);
  EXPECT_TRUE(fails(loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas()),
                    {"qkv: found shape [2, 6, 3], expected [12, 3]"}));
}

TEST(LoadWeights, aMissingTensorOfAStackIsNamed) {
  uint32_t seed = 0;
  const auto isStack = [](const Parameter &p) { return p.stacked > 1; };
  while (std::ranges::none_of(makeRandomPlan(seed).parameters, isStack))
    ++seed;
  TempDir dir;
  Plan plan = makeRandomPlan(seed);
  const Parameter &stack = *std::ranges::find_if(plan.parameters, isStack);
  auto shapes = tensorShapes(plan);
  --shapes[stack.tensor][0];
  writeCheckpoint(dir.path("model.safetensors"), shapes);
  Memory memory(plan);
  EXPECT_TRUE(fails(loadWeights(plan, Checkpoint::open(dir.path()).take(), memory.arenas()),
                    {"1 tensors do not fit", plan::nameInStack(stack.tensor, stack.stacked - 1) + ": missing"}));
}

TEST(LoadWeights, takesTensorsByTheirAliases) {
  TempDir dir;
  Plan plan = makePlan({1, 1, 2, 1});
  writeCheckpoint(dir.path("model.safetensors"), tensorShapes(plan), "base.");
  Memory memory(plan);
  const Checkpoint checkpoint = Checkpoint::open(dir.path()).take();
  EXPECT_TRUE(fails(loadWeights(plan, checkpoint, memory.arenas()), {"wte.weight: missing"}));
  for (Parameter &parameter : plan.parameters)
    parameter.aliases = {"other." + parameter.tensor, "base." + parameter.tensor};
  ASSERT_TRUE(isOk(loadWeights(plan, checkpoint, memory.arenas())));
  expectAll(plan, memory, [](const Parameter &p, int64_t i) { return fileValue(p.tensor, i); });
  EXPECT_TRUE(isOk(verifyFinite(plan, checkpoint)));
}

TEST(LoadWeights, prefersATensorsOwnName) {
  TempDir dir;
  Plan plan = makePlan({});
  plan.parameters[0].aliases = {"head.weight"};
  auto shapes = tensorShapes(plan);
  shapes["head.weight"] = plan.parameters[0].fileShape;
  writeCheckpoint(dir.path("model.safetensors"), shapes);
  Memory memory(plan);
  const Checkpoint checkpoint = Checkpoint::open(dir.path()).take();
  EXPECT_TRUE(fails(loadWeights(plan, checkpoint, memory.arenas()), // other values: no copy
                    {"1 tensors do not fit", "head.weight: not in the model"}));
  ASSERT_TRUE(isOk(loadWeights(plan, checkpoint, memory.arenas(), {.ignoreExtra = true})));
  EXPECT_EQ(memory.value(plan, 0, plan.parameters[0])[3], fileValue("wte.weight", 3));
}

TEST(LoadWeights, takesCopiesUnderAnAlias) {
  TempDir dir;
  Plan plan = makePlan({});
  plan.parameters[0].aliases = {"head.weight"};
  auto shapes = tensorShapes(plan);
  shapes["head.weight"] = plan.parameters[0].fileShape;
  writeCheckpoint(dir.path("model.safetensors"), shapes, "", {{"head.weight", "wte.weight"}});
  Memory memory(plan);
  EXPECT_TRUE(isOk(loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas())));
}

// Layers or biases that the model has not make another model of the checkpoint.
TEST(LoadWeights, refusesTensorsThatTheModelDoesNotHave) {
  TempDir dir;
  Plan plan = makePlan({});
  std::map<std::string, std::vector<int64_t>> shapes = tensorShapes(plan);
  plan.ignoredTensors = {"h.{}.attn.bias", "frequencies", "e{}.{}", "tower.*"};
  shapes["h.0.attn.bias"] = shapes["h.12.attn.bias"] = {1, 1, 4, 4};
  shapes["frequencies"] = shapes["e1.23"] = shapes["tower.x.1"] = {2};
  writeCheckpoint(dir.path("buffers.safetensors"), shapes);
  for (const char *name :
       {"h.7.mlp.c_fc.bias", "h..attn.bias", "h.x.attn.bias", "h.0.attn.bias2", "g.0.attn.bias", "e1.", "towers"})
    shapes[name] = {3};
  writeCheckpoint(dir.path("more.safetensors"), shapes);
  Result<Checkpoint> buffers = Checkpoint::open(dir.path("buffers.safetensors")),
                     more = Checkpoint::open(dir.path("more.safetensors"));
  Memory memory(plan);
  EXPECT_TRUE(isOk(loadWeights(plan, *buffers, memory.arenas())));
  EXPECT_TRUE(
      fails(loadWeights(plan, *more, memory.arenas()),
            {"7 tensors do not fit", "towers: not", "e1.: not in the model", "g.0.attn.bias: not", "h..attn.bias: not",
             "h.0.attn.bias2: not", "h.7.mlp.c_fc.bias: not", "h.x.attn.bias: not", "--ignore-extra-weights"}));
  EXPECT_TRUE(isOk(loadWeights(plan, *more, memory.arenas(), {.ignoreExtra = true})));
}

TEST(LoadWeights, namesTensorsThatAreQuantized) {
  TempDir dir;
  Plan plan = makePlan({});
  auto shapes = tensorShapes(plan);
  shapes.erase("wte.weight");
  shapes["wte.weight_blocks"] = shapes["wte.weight_scales"] = {2};
  writeCheckpoint(dir.path("model.safetensors"), shapes);
  Memory memory(plan);
  EXPECT_TRUE(fails(loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas()),
                    {"wte.weight: quantized to MXFP4 (.._blocks and .._scales), expected F32, BF16, F16 or F64",
                     "the model's files of bf16 have it"}));
  shapes.erase("wte.weight_scales");
  writeCheckpoint(dir.path("model.safetensors"), shapes);
  EXPECT_TRUE(fails(loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas()),
                    {"wte.weight: missing, expected shape"}));
}

// A router's bias orders experts, so that no loss shows it; others are left to the first step's loss.
TEST(LoadWeights, aBiasThatLoadMovesIsFinite) {
  TempDir dir;
  Plan plan = makePlan({});
  const Parameter &bias = plan.parameters.back();
  writeCheckpoint(dir.path("model.safetensors"), tensorShapes(plan), "", {}, bias.tensor);
  const Memory memory(plan);
  EXPECT_TRUE(isOk(loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas())));
  const Parameter::Place &place = bias.places[0];
  plan.stages[place.stage].buckets[place.bucket].meanLoad = 4;
  EXPECT_TRUE(fails(loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas()),
                    {bias.tensor + ": element 2 is nan, expected finite numbers: experts are chosen by this bias"}));
}

TEST(LoadWeights, skipsRanksOfOtherProcesses) {
  TempDir dir;
  Plan plan = makePlan({1, 2, 1, 1});
  Result<Checkpoint> checkpoint = fullCheckpoint(dir, plan);
  Memory memory(plan);
  std::vector<std::byte *> arenas = {nullptr, memory.arenas()[1]};
  ASSERT_TRUE(isOk(loadWeights(plan, *checkpoint, arenas)));
  EXPECT_EQ(memory.value(plan, 1, plan.parameters[0])[5], fileValue("wte.weight", 5));
  EXPECT_TRUE(fails(saveWeights(plan, arenas, dir.path()), {"rank 0 is not in this process"}));
}

TEST(LoadWeights, reportsAllProblemsAtOnceAndWritesNothing) {
  TempDir dir;
  Plan plan = makePlan({});
  auto shapes = tensorShapes(plan);
  shapes.erase("h.0.mlp.c_fc.weight");
  shapes["h.1.mlp.c_fc.weight"] = {20, 16};
  writeCheckpoint(dir.path("model.safetensors"), shapes);
  Memory memory(plan);
  EXPECT_TRUE(fails(loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas()),
                    {dir.path(), "2 tensors do not fit", "h.0.mlp.c_fc.weight: missing, expected shape [16, 20]",
                     "h.1.mlp.c_fc.weight: found shape [20, 16], expected [16, 20]"}));
  EXPECT_EQ(bits(memory.value(plan, 0, plan.parameters[0])[0]), 0x7f7f7f7fu);
}

TEST(LoadWeights, limitsTheReportAndHintsAtAnotherModel) {
  TempDir dir;
  Plan plan = makePlan({});
  for (int i = 0; i < 30; ++i) {
    Parameter extra = plan.parameters[0];
    extra.name = extra.tensor = fmt::format("extra.{}", i);
    plan.parameters.push_back(extra);
  }
  writeCheckpoint(dir.path("model.safetensors"), {{"encoder.weight", {1}}});
  Memory memory(plan);
  Status status = loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas());
  EXPECT_TRUE(fails(status, {"more", "it has tensors such as encoder.weight"}));
  EXPECT_EQ(std::ranges::count(status.message(), '\n'), 22);
}

TEST(LoadWeights, saysThatACheckpointIsEmpty) {
  TempDir dir;
  const Plan plan = makePlan({});
  writeCheckpoint(dir.path("model.safetensors"), {});
  Memory memory(plan);
  const Status status = loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas());
  EXPECT_TRUE(fails(status, {"missing, expected shape", "\n  it has no tensors at all"}));
  EXPECT_EQ(status.message().find("such as"), std::string::npos) << status.message();
}

TEST(LoadWeights, convertsHalfAndRefusesIntegers) {
  TempDir dir;
  Plan plan = makePlan({});
  auto shapes = tensorShapes(plan);
  auto load = [&](ElementType type) {
    std::vector<TensorSpec> specs;
    std::vector<uint16_t> values;
    for (const auto &[name, shape] : shapes) {
      specs.push_back({name, type, shape});
      for (int64_t i = 0; i < product(shape); ++i)
        values.push_back(uint16_t(0x3f80 + i % 2)); // BF16: 1 and 1 + 2^-7. F16: 1.875 and 1.8759765625
    }
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(dir.path("model.safetensors"), specs);
    EXPECT_TRUE(isOk(writer->write(std::as_bytes(std::span(values)))));
    EXPECT_TRUE(isOk(writer->commit()));
    Memory memory(plan);
    Status status = loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas());
    return std::pair(status, memory.value(plan, 0, plan.parameters[0])[1]);
  };
  EXPECT_EQ(load(ElementType::BF16).second, 1.0078125f);
  EXPECT_EQ(load(ElementType::F16).second, 1.8759765625f);
  EXPECT_TRUE(fails(load(ElementType::I16).first, {"wte.weight: found I16 [37, 16], expected F32, BF16, F16 or F64"}));
}

TEST(LoadWeights, refusesAnotherNumberOfRanks) {
  TempDir dir;
  Plan plan = makePlan({1, 2, 2, 1}, true);
  Result<Checkpoint> checkpoint = fullCheckpoint(dir, plan);
  Memory memory(plan);
  plan.mesh.axes[1].size = 3;
  EXPECT_TRUE(fails(loadWeights(plan, *checkpoint, memory.arenas()), {"4 allocations for a mesh of 6"}));
}

TEST(InitWeights, keysValuesBySeedTensorAndFileIndex) {
  for (bool joined : {false, true})
    for (const MeshSizes &sizes : kMeshes) {
      Plan plan = makePlan(sizes, /*zero=*/false, joined);
      Memory memory(plan);
      ASSERT_TRUE(isOk(initWeights(plan, 1234, memory.arenas())));
      expectAll(plan, memory, [](const Parameter &p, int64_t i) {
        if (p.init != plan::InitKind::normal)
          return p.init == plan::InitKind::ones ? 1.0f : 0.0f;
        float value;
        normalRange(1234, hashName(p.tensor), uint64_t(i), 1, p.initStd, &value);
        return value;
      });
    }
}

TEST(InitWeights, differsBySeed) {
  Plan plan = makePlan({});
  Memory one(plan), two(plan);
  ASSERT_TRUE(isOk(initWeights(plan, 1, one.arenas())));
  ASSERT_TRUE(isOk(initWeights(plan, 2, two.arenas())));
  EXPECT_NE(*one.value(plan, 0, plan.parameters[0]), *two.value(plan, 0, plan.parameters[0]));
}

// How the work is cut and who does it changes no bit.
TEST(InitWeights, isTheSameFromAnyThreads) {
  for (const MeshSizes &sizes : kMeshes) {
    const Plan plan = makePlan(sizes, /*zero=*/false, /*joined=*/true);
    Memory expected(plan);
    ASSERT_TRUE(isOk(initWeights(plan, 7, expected.arenas())));
    const auto ranks = int64_t(expected.arenas().size());
    const auto onRanks = [ranks](const std::function<void(int64_t)> &work) {
      for (int64_t rank = 0; rank < ranks; ++rank)
        work(rank);
    };
    Memory found(plan);
    ASSERT_TRUE(isOk(initWeights(plan, 7, found.arenas(), {.onRanks = onRanks, .threads = 3, .pieceElements = 7})));
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t bytes = plan.stages[plan::stageOf(plan.mesh, rank)].bytes;
      EXPECT_EQ(std::memcmp(found.arenas()[rank], expected.arenas()[rank], size_t(bytes)), 0) << "rank " << rank;
    }
  }
}

// Memory that is zero already is left alone: memory that is not zero shows it.
TEST(InitWeights, leavesZeroMemoryUntouched) {
  const Plan plan = makePlan({});
  Memory memory(plan);
  ASSERT_TRUE(isOk(initWeights(plan, 7, memory.arenas(), {.isZero = true})));
  const plan::Bucket &bucket = plan.stages[0].buckets[0];
  EXPECT_EQ(bits(memory.floats(plan, 0, bucket.firstMomentOffset, 1)[0]), 0x7f7f7f7fu);
  EXPECT_NE(bits(memory.value(plan, 0, plan.parameters[0])[0]), 0x7f7f7f7fu);
}
