// Loading and initialising: every element of every rank against the definition.
#include "plan/Expand.h"
#include "runtime/random/Philox.h"
#include "test/runtime/checkpoint/TestWeights.h"

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
float valueInFile(const Parameter &parameter, int64_t index) { return fileValue(parameter.tensor, index); }

using Shapes = std::map<std::string, std::vector<int64_t>>; // by tensor

Shapes tensorShapes(const Plan &plan) {
  Shapes shapes;
  for (const Parameter &parameter : plan.parameters)
    shapes[parameter.tensor] = parameter.shapeOfTensor();
  return shapes;
}

// Adds a tensor, or of a stack one for each number.
void addTensors(TensorWriter &file, const std::string &name, const std::vector<int64_t> &shape,
                const std::vector<float> &values) {
  if (name.find(plan::kStackHole) == std::string::npos) {
    file.add(name, shape, values);
    return;
  }
  const std::vector<int64_t> each(shape.begin() + 1, shape.end());
  const int64_t elements = product(each);
  for (int64_t number = 0; number < shape[0]; ++number) {
    const auto begin = values.begin() + number * elements;
    file.add(plan::nameInStack(name, number), each, std::vector(begin, begin + elements));
  }
}

// Writes a checkpoint of fileValue, with `prefix` before each name; a tensor in `copyOf` has another one's values, element 2 of
// `broken` is no number.
void writeCheckpoint(const std::string &path, const Shapes &shapes, const std::string &prefix = "",
                     const std::map<std::string, std::string> &copyOf = {}, const std::string &broken = "") {
  TensorWriter file;
  for (const auto &[name, shape] : shapes) {
    std::vector<float> values;
    for (int64_t i = 0; i < product(shape); ++i)
      values.push_back(name == broken && i == 2 ? NAN : fileValue(copyOf.contains(name) ? copyOf.at(name) : name, i));
    addTensors(file, prefix + name, shape, values);
  }
  file.write(path);
}

class LoadWeights : public InTempDir {
protected:
  // The plan of the test, with memory for its ranks.
  void use(Plan other) {
    plan = std::move(other);
    shapes = tensorShapes(plan);
    memory = Memory(plan);
  }
  // The checkpoint has `shapes`.
  void write(const std::map<std::string, std::string> &copyOf = {}, const std::string &broken = "") const {
    writeCheckpoint(dir.path("model.safetensors"), shapes, "", copyOf, broken);
  }
  Status load(const LoadOptions &options = {}) const {
    return loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas(), options);
  }
  // Calls check() with random plans whose weights are loaded into the memory.
  template <typename Check> void forRandomPlans(uint32_t count, Check &&check) {
    for (uint32_t seed = 0; seed < count && !HasFatalFailure(); ++seed) {
      SCOPED_TRACE(seed);
      use(makeRandomPlan(seed));
      write();
      ASSERT_TRUE(isOk(load()));
      check();
    }
  }

  Plan plan = makePlan({});
  Shapes shapes = tensorShapes(plan);
  Memory memory{plan};
};

} // namespace

TEST_F(LoadWeights, slicesAsDefinedOnEveryMesh) {
  for (bool zero : {false, true})
    for (const MeshSizes &sizes : kMeshes) {
      use(makePlan(sizes, zero, /*joined=*/zero));
      write();
      ASSERT_TRUE(isOk(load()));
      expectWeights(plan, memory, valueInFile);
    }
}

TEST_F(LoadWeights, slicesRandomParametersAsDefined) {
  int64_t elements = 0, merged = 0;
  forRandomPlans(300, [&] {
    expectWeights(plan, memory, [&](const Parameter &p, int64_t i) { return ++elements, valueInFile(p, i); });
    merged += std::ranges::count_if(plan.parameters, [](const Parameter &p) { return !p.tensorShape.empty(); });
  });
  EXPECT_GT(elements, 10'000);
  EXPECT_GT(merged, 50);
}

// A saved checkpoint has the tensors of the one that was loaded, and each element of each rank comes back.
TEST_F(LoadWeights, stacksAreSavedAsTheyWereLoaded) {
  int64_t stacks = 0;
  forRandomPlans(200, [&] {
    ASSERT_TRUE(isOk(saveWeights(plan, memory.arenas(), dir.path("saved"))));
    const Result<Checkpoint> saved = Checkpoint::open(dir.path("saved"));
    ASSERT_TRUE(isOk(saved));
    ASSERT_EQ(saved->names(), Checkpoint::open(dir.path())->names());
    Memory again(plan);
    ASSERT_TRUE(isOk(loadWeights(plan, *saved, again.arenas())));
    expectWeights(plan, again, valueInFile);
    stacks += std::ranges::count_if(plan.parameters, [](const Parameter &p) { return p.stacked > 1; });
    std::filesystem::remove_all(dir.path("saved"));
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
TEST_F(LoadWeights, partsOfGroupsAreOneTensor) {
  use(makeGroupedPlan());
  write();
  ASSERT_TRUE(isOk(load()));
  ASSERT_TRUE(isOk(saveWeights(plan, memory.arenas(), dir.path("saved"), {.type = plan::DType::f32})));
  const Result<Checkpoint> saved = Checkpoint::open(dir.path("saved"));
  ASSERT_TRUE(isOk(saved));
  const TensorView *tensor = saved->find("qkv");
  ASSERT_TRUE(tensor);
  EXPECT_EQ(tensor->shape, std::vector<int64_t>({12, 3}));
  std::vector<float> expected(36);
  for (int64_t i = 0; i < 36; ++i)
    expected[i] = fileValue("qkv", i);
  EXPECT_EQ(floatsOf(*tensor), expected);
  shapes["qkv"] = {2, 6, 3};
  write();
  EXPECT_TRUE(fails(load(), {"qkv: found shape [2, 6, 3], expected [12, 3]"}));
}

TEST_F(LoadWeights, aMissingTensorOfAStackIsNamed) {
  uint32_t seed = 0;
  const auto isStack = [](const Parameter &p) { return p.stacked > 1; };
  while (std::ranges::none_of(makeRandomPlan(seed).parameters, isStack))
    ++seed;
  use(makeRandomPlan(seed));
  const Parameter &stack = *std::ranges::find_if(plan.parameters, isStack);
  --shapes[stack.tensor][0];
  write();
  EXPECT_TRUE(
      fails(load(), {"1 tensors do not fit", plan::nameInStack(stack.tensor, stack.stacked - 1) + ": missing"}));
}

TEST_F(LoadWeights, takesTensorsByTheirAliases) {
  use(makePlan({1, 1, 2, 1}));
  writeCheckpoint(dir.path("model.safetensors"), shapes, "base.");
  EXPECT_TRUE(fails(load(), {"wte.weight: missing"}));
  for (Parameter &parameter : plan.parameters)
    parameter.aliases = {"other." + parameter.tensor, "base." + parameter.tensor};
  ASSERT_TRUE(isOk(load()));
  expectWeights(plan, memory, valueInFile);
  EXPECT_TRUE(isOk(verifyFinite(plan, *Checkpoint::open(dir.path()))));
}

TEST_F(LoadWeights, prefersATensorsOwnName) {
  plan.parameters[0].aliases = {"head.weight"};
  shapes["head.weight"] = plan.parameters[0].fileShape;
  write();
  EXPECT_TRUE(fails(load(), {"1 tensors do not fit", "head.weight: not in the model"})); // other values: no copy
  ASSERT_TRUE(isOk(load({.ignoreExtra = true})));
  EXPECT_EQ(memory.value(plan, 0, plan.parameters[0])[3], fileValue("wte.weight", 3));
}

TEST_F(LoadWeights, takesCopiesUnderAnAlias) {
  plan.parameters[0].aliases = {"head.weight"};
  shapes["head.weight"] = plan.parameters[0].fileShape;
  write({{"head.weight", "wte.weight"}});
  EXPECT_TRUE(isOk(load()));
}

// Layers or biases that the model has not make another model of the checkpoint.
TEST_F(LoadWeights, refusesTensorsThatTheModelDoesNotHave) {
  plan.ignoredTensors = {"h.{}.attn.bias", "frequencies", "e{}.{}", "tower.*"};
  shapes["h.0.attn.bias"] = shapes["h.12.attn.bias"] = {1, 1, 4, 4};
  shapes["frequencies"] = shapes["e1.23"] = shapes["tower.x.1"] = {2};
  write();
  EXPECT_TRUE(isOk(load()));
  for (const char *name :
       {"h.7.mlp.c_fc.bias", "h..attn.bias", "h.x.attn.bias", "h.0.attn.bias2", "g.0.attn.bias", "e1.", "towers"})
    shapes[name] = {3};
  write();
  EXPECT_TRUE(fails(load(), {"7 tensors do not fit", "towers: not", "e1.: not in the model", "g.0.attn.bias: not",
                             "h..attn.bias: not", "h.0.attn.bias2: not", "h.7.mlp.c_fc.bias: not", "h.x.attn.bias: not",
                             "--ignore-extra-weights"}));
  EXPECT_TRUE(isOk(load({.ignoreExtra = true})));
}

TEST_F(LoadWeights, namesTensorsThatAreQuantized) {
  shapes.erase("wte.weight");
  shapes["wte.weight_blocks"] = shapes["wte.weight_scales"] = {2};
  write();
  EXPECT_TRUE(fails(load(), {"wte.weight: quantized to MXFP4 (.._blocks and .._scales), expected F32, BF16, F16 or F64",
                             "the model's files of bf16 have it"}));
  shapes.erase("wte.weight_scales");
  write();
  EXPECT_TRUE(fails(load(), {"wte.weight: missing, expected shape"}));
}

// A router's bias orders experts, so that no loss shows it; others are left to the first step's loss.
TEST_F(LoadWeights, aBiasThatLoadMovesIsFinite) {
  const Parameter &bias = plan.parameters.back();
  write({}, bias.tensor);
  EXPECT_TRUE(isOk(load()));
  const Parameter::Place &place = bias.places[0];
  plan.stages[place.stage].buckets[place.bucket].meanLoad = 4;
  EXPECT_TRUE(
      fails(load(), {bias.tensor + ": element 2 is nan, expected finite numbers: experts are chosen by this bias"}));
}

TEST_F(LoadWeights, skipsRanksOfOtherProcesses) {
  use(makePlan({1, 2, 1, 1}));
  write();
  std::vector<std::byte *> arenas = {nullptr, memory.arenas()[1]};
  ASSERT_TRUE(isOk(loadWeights(plan, *Checkpoint::open(dir.path()), arenas)));
  EXPECT_EQ(memory.value(plan, 1, plan.parameters[0])[5], fileValue("wte.weight", 5));
  EXPECT_TRUE(fails(saveWeights(plan, arenas, dir.path()), {"rank 0 is not in this process"}));
}

TEST_F(LoadWeights, reportsAllProblemsAtOnceAndWritesNothing) {
  shapes.erase("h.0.mlp.c_fc.weight");
  shapes["h.1.mlp.c_fc.weight"] = {20, 16};
  write();
  EXPECT_TRUE(
      fails(load(), {dir.path(), "2 tensors do not fit", "h.0.mlp.c_fc.weight: missing, expected shape [16, 20]",
                     "h.1.mlp.c_fc.weight: found shape [20, 16], expected [16, 20]"}));
  EXPECT_EQ(bits(memory.value(plan, 0, plan.parameters[0])[0]), 0x7f7f7f7fu);
}

TEST_F(LoadWeights, limitsTheReportAndHintsAtAnotherModel) {
  for (int i = 0; i < 30; ++i) {
    Parameter extra = plan.parameters[0];
    extra.name = extra.tensor = fmt::format("extra.{}", i);
    plan.parameters.push_back(extra);
  }
  shapes = {{"encoder.weight", {1}}};
  write();
  const Status status = load();
  EXPECT_TRUE(fails(status, {"more", "it has tensors such as encoder.weight"}));
  EXPECT_EQ(std::ranges::count(status.message(), '\n'), 22);
}

TEST_F(LoadWeights, saysThatACheckpointIsEmpty) {
  shapes = {};
  write();
  const Status status = load();
  EXPECT_TRUE(fails(status, {"missing, expected shape", "\n  it has no tensors at all"}));
  EXPECT_EQ(status.message().find("such as"), std::string::npos) << status.message();
}

TEST_F(LoadWeights, convertsHalfAndRefusesIntegers) {
  const auto loadOf = [&](ElementType type) {
    TensorWriter file;
    for (const auto &[name, shape] : shapes) {
      std::vector<uint16_t> values;
      for (int64_t i = 0; i < product(shape); ++i)
        values.push_back(uint16_t(0x3f80 + i % 2)); // BF16: 1 and 1 + 2^-7. F16: 1.875 and 1.8759765625
      file.add(name, shape, values, type);
    }
    file.write(dir.path("model.safetensors"));
    memory = Memory(plan);
    const Status status = load();
    return std::pair(status, memory.value(plan, 0, plan.parameters[0])[1]);
  };
  EXPECT_EQ(loadOf(ElementType::BF16).second, 1.0078125f);
  EXPECT_EQ(loadOf(ElementType::F16).second, 1.8759765625f);
  EXPECT_TRUE(
      fails(loadOf(ElementType::I16).first, {"wte.weight: found I16 [37, 16], expected F32, BF16, F16 or F64"}));
}

TEST_F(LoadWeights, refusesAnotherNumberOfRanks) {
  use(makePlan({1, 2, 2, 1}, true));
  write();
  plan.mesh.axes[1].size = 3;
  EXPECT_TRUE(fails(load(), {"4 allocations for a mesh of 6"}));
}

TEST(InitWeights, keysValuesBySeedTensorAndFileIndex) {
  for (bool joined : {false, true})
    for (const MeshSizes &sizes : kMeshes) {
      Plan plan = makePlan(sizes, /*zero=*/false, joined);
      expectWeights(plan, initialised(plan, 1234), initialValue(1234));
    }
}

TEST(InitWeights, differsBySeed) {
  Plan plan = makePlan({});
  const Memory one = initialised(plan, 1), two = initialised(plan, 2);
  EXPECT_NE(*one.value(plan, 0, plan.parameters[0]), *two.value(plan, 0, plan.parameters[0]));
}

// How the work is cut and who does it changes no bit.
TEST(InitWeights, isTheSameFromAnyThreads) {
  for (const MeshSizes &sizes : kMeshes) {
    const Plan plan = makePlan(sizes, /*zero=*/false, /*joined=*/true);
    const Memory expected = initialised(plan, 7);
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
  EXPECT_EQ(bits(memory.floats(plan, 0, bucket.offsetOf(plan::StateRole::optimizer), 1)[0]), 0x7f7f7f7fu);
  EXPECT_NE(bits(memory.value(plan, 0, plan.parameters[0])[0]), 0x7f7f7f7fu);
}
