// Weights of plans of bf16: values that are the rounding of f32 masters, in slices or not, from and to checkpoints.
#include "runtime/base/Bf16.h"
#include "test/runtime/checkpoint/TestWeights.h"

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

using namespace mgc;
using namespace mgc::test;
using plan::Bucket;
using plan::DType;
using plan::Parameter;
using plan::Plan;

namespace {

// Each sharding and, with it, either layout of the parts of a matrix, on each mesh.
void forEachPlan(const std::function<void(const Plan &)> &body) {
  for (bool zero : {false, true})
    for (const MeshSizes &sizes : kMeshes)
      body(makePlan(sizes, zero, /*joined=*/zero, DType::bf16));
}

// Weights of a seed, that need more bits than bf16 has, as f32 plans save them.
void save(const std::string &directory, uint64_t seed, DType type = DType::f32) {
  const Plan plan = makePlan({});
  ASSERT_TRUE(isOk(saveWeights(plan, initialised(plan, seed).arenas(), directory, {.type = type})));
}

} // namespace

TEST(Bf16Weights, initDrawsMastersAndRoundsThem) {
  forEachPlan([](const Plan &plan) { expectWeights(plan, initialised(plan, 77), initialValue(77)); });
}

TEST(Bf16Weights, mastersTakeThePrecisionOfTheFile) {
  TempDir dir;
  save(dir.path(), 5);
  forEachPlan([&](const Plan &plan) {
    Memory memory(plan);
    ASSERT_TRUE(isOk(loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas(), {}, {.pieceElements = 7})));
    expectWeights(plan, memory, initialValue(5));
  });
}

TEST(Bf16Weights, halvesOfEitherKindAreRead) {
  const Plan plan = makePlan({1, 2, 1, 1}, /*zero=*/true, false, DType::bf16);
  // 0x3f81 is 1 + 2^-7 in BF16 and 1 + 897/1024 in F16, which bf16 rounds.
  for (auto [type, value] : {std::pair(ElementType::BF16, 1.0078125f), {ElementType::F16, 1.8759765625f}}) {
    TempDir dir;
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const Parameter &parameter : plan.parameters)
      shapes[parameter.tensor] = parameter.shapeOfTensor();
    TensorWriter file;
    for (const auto &[name, shape] : shapes)
      file.add(name, shape, std::vector<uint16_t>(size_t(product(shape)), 0x3f81), type);
    file.write(dir.path("model.safetensors"));
    Memory memory(plan);
    ASSERT_TRUE(isOk(loadWeights(plan, *Checkpoint::open(dir.path()), memory.arenas())));
    expectWeights(plan, memory, [value](const Parameter &, int64_t) { return value; });
  }
}

// f32 goes in and comes out of every layout without loss; bf16 is its rounding.
TEST(Bf16Weights, mastersComeBackBitForBitAndValuesRounded) {
  TempDir f32, bf16;
  save(f32.path(), 9);
  save(bf16.path(), 9, DType::bf16);
  forEachPlan([&](const Plan &plan) {
    Memory memory(plan);
    ASSERT_TRUE(isOk(loadWeights(plan, *Checkpoint::open(f32.path()), memory.arenas())));
    TempDir masters, values;
    ASSERT_TRUE(isOk(saveWeights(plan, memory.arenas(), masters.path(), {.type = DType::f32})));
    EXPECT_EQ(masters.read("model.safetensors"), f32.read("model.safetensors"));
    ASSERT_TRUE(isOk(saveWeights(plan, memory.arenas(), values.path())));
    EXPECT_EQ(values.read("model.safetensors"), bf16.read("model.safetensors"));
  });
  const Result<Safetensors> file = Safetensors::open(bf16.path("model.safetensors"));
  ASSERT_TRUE(isOk(file));
  const TensorView &tensor = *file->find("wte.weight");
  ASSERT_EQ(tensor.type, ElementType::BF16);
  const std::vector<float> found = floatsOf(tensor);
  const Plan plan = makePlan({});
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_EQ(found[i], toFloat(toBf16(initialValue(9)(plan.parameters[0], int64_t(i)))));
}

// A file of bf16 goes in and comes out by the values alone.
TEST(Bf16Weights, frozenValuesHaveNoMasters) {
  TempDir file;
  save(file.path(), 9, DType::bf16);
  forEachPlan([&](Plan plan) {
    freezeAll(plan);
    Memory memory(plan);
    ASSERT_TRUE(isOk(loadWeights(plan, *Checkpoint::open(file.path()), memory.arenas(), {}, {.pieceElements = 7})));
    TempDir saved;
    ASSERT_TRUE(isOk(saveWeights(plan, memory.arenas(), saved.path())));
    EXPECT_EQ(saved.read("model.safetensors"), file.read("model.safetensors"));
    EXPECT_TRUE(tensorsWithGradients(plan).empty());
  });
}

TEST(Bf16Weights, shardsOfFilesAreCountedInTheirBytes) {
  const Plan plan = makePlan({}, false, false, DType::bf16);
  TempDir f32, bf16;
  const Memory memory = initialised(plan, 1);
  ASSERT_TRUE(isOk(saveWeights(plan, memory.arenas(), f32.path(), {.maxShardBytes = 4000, .type = DType::f32})));
  ASSERT_TRUE(isOk(saveWeights(plan, memory.arenas(), bf16.path(), {.maxShardBytes = 2000})));
  EXPECT_EQ(f32.list(), bf16.list());
  const auto total = [](const TempDir &dir) {
    return nlohmann::json::parse(dir.read("model.safetensors.index.json"))["metadata"]["total_size"].get<int64_t>();
  };
  EXPECT_EQ(total(f32), 2 * total(bf16));
}

TEST(Bf16Weights, configSaysTheType) {
  const auto saved = [](std::string config, DType plans, std::optional<DType> type) {
    Plan plan = makePlan({}, false, false, plans);
    plan.modelConfig = std::move(config);
    TempDir dir;
    EXPECT_TRUE(isOk(saveWeights(plan, initialised(plan, 1).arenas(), dir.path(), {.type = type})));
    const std::string text = dir.read("config.json");
    return text.find('\n') == text.size() - 1 ? text : nlohmann::ordered_json::parse(text).dump();
  };
  EXPECT_EQ(saved(R"({"z": 1, "a": 2})", DType::bf16, {}), R"({"z":1,"a":2,"torch_dtype":"bfloat16"})");
  EXPECT_EQ(saved(R"({"torch_dtype": "float32", "a": 2})", DType::bf16, {}), R"({"torch_dtype":"bfloat16","a":2})");
  EXPECT_EQ(saved(R"({"dtype": "bfloat16"})", DType::bf16, DType::f32), R"({"dtype":"float32"})");
  EXPECT_EQ(saved(R"({"dtype": "x", "torch_dtype": "y"})", DType::f32, DType::bf16),
            R"({"dtype":"bfloat16","torch_dtype":"bfloat16"})");
  EXPECT_EQ(saved("{\"torch_dtype\": \"float16\"}\n", DType::f32, {}), "{\"torch_dtype\": \"float16\"}\n")
      << "as it was";
  Plan plan = makePlan({}, false, false, DType::bf16);
  plan.modelConfig = "[]";
  TempDir dir;
  EXPECT_TRUE(fails(saveWeights(plan, initialised(plan, 1).arenas(), dir.path()), {"is no JSON object"}));
}

TEST(Bf16Weights, whatDiffersIsNotSaved) {
  for (bool zero : {false, true}) {
    const Plan plan = makePlan({1, 2, 2, 1}, zero, false, DType::bf16);
    const Bucket &bucket = plan.stages[0].buckets[1];
    const Parameter &norm = plan.parameters[7];
    ASSERT_EQ(norm.name, "h.0.ln.weight");
    const int64_t element = norm.places[0].elementOffset + 2;
    TempDir dir;
    {
      // Ranks are [dp, tp]: rank 1 has the same slice as rank 0.
      const Memory memory = initialised(plan, 1);
      memory.floats(plan, 1, bucket.offsetOf(plan::StateRole::master), element + 1)[element] =
          std::nextafter(1.0f, 2.0f);
      EXPECT_TRUE(fails(saveWeights(plan, memory.arenas(), dir.path()),
                        {"parameter h.0.ln.weight: ranks 1 differ from rank 0: element 2 is 1 on rank 0 and 1.0000001 "
                         "on rank 1"}));
    }
    {
      const Memory memory = initialised(plan, 1);
      for (int64_t rank : {0, 1, 2, 3})
        if (rank < 2 || !zero)
          memory.floats(plan, rank, bucket.offsetOf(plan::StateRole::master), element + 1)[element] = 1.25f;
      EXPECT_TRUE(
          fails(saveWeights(plan, memory.arenas(), dir.path()),
                {"parameter h.0.ln.weight: element 2 on rank 0 is 1, expected the rounding of its master 1.25"}));
    }
    {
      const Memory memory = initialised(plan, 1);
      memory.arenas()[3][bucket.offsetOf(plan::StateRole::value) + 2 * element] ^= std::byte(1);
      EXPECT_TRUE(fails(saveWeights(plan, memory.arenas(), dir.path()),
                        {"parameter h.0.ln.weight: ranks 3 differ from rank 0: element 2 is 1 on"}));
    }
    EXPECT_TRUE(dir.list().empty());
  }
}

TEST(Bf16Weights, gradientsAreWrittenInF32) {
  for (bool zero : {false, true})
    for (DType type : {DType::f32, DType::bf16}) {
      const Plan plan = makePlan({1, 2, 1, 1}, zero, /*joined=*/true, DType::bf16, type);
      const Memory memory(plan);
      for (int64_t rank : {0, 1})
        for (const Bucket &bucket : plan.stages[0].buckets) {
          const int64_t count = zero ? bucket.elements / 2 : bucket.elements;
          const std::vector<float> twos(size_t(count), 2.0f + float(rank * zero));
          std::vector<Bf16> rounded(twos.size());
          narrow(twos.data(), count, rounded.data());
          const void *from = type == DType::f32 ? static_cast<const void *>(twos.data()) : rounded.data();
          std::memcpy(memory.arenas()[rank] + bucket.completeGradient()->offset, from,
                      size_t(count * sizeInBytes(type)));
        }
      TempDir dir;
      ASSERT_TRUE(isOk(saveGradients(plan, memory.arenas(), 0.5f, dir.path("g.safetensors"))));
      const Result<Safetensors> file = Safetensors::open(dir.path("g.safetensors"));
      ASSERT_TRUE(isOk(file));
      int64_t ofSecond = 0;
      for (const auto &[name, tensor] : file->tensors()) {
        ASSERT_EQ(tensor.type, ElementType::F32);
        for (float value : floatsOf(tensor)) {
          ASSERT_TRUE(value == 1 || (zero && value == 1.5f)) << value;
          ofSecond += value == 1.5f;
        }
      }
      EXPECT_EQ(ofSecond > 0, zero);
    }
}
