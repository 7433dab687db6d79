// Saving: what was loaded or initialised comes back bit for bit, whatever the layout; failures leave the old files.
#include "runtime/checkpoint/Replacement.h"
#include "runtime/random/Philox.h"
#include "test/runtime/checkpoint/TestWeights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mgc;
using namespace mgc::test;
using plan::Bucket;
using plan::Parameter;
using plan::Plan;

namespace {

using SaveWeights = InTempDir;
using SaveReplacement = InTempDir;

void initAndSave(const Plan &plan, uint64_t seed, const std::string &directory, const SaveOptions &options = {}) {
  ASSERT_TRUE(isOk(saveWeights(plan, initialised(plan, seed).arenas(), directory, options)));
}

// The value of one element of the checkpoint in a directory: differs between seeds.
float sample(const std::string &directory) {
  Result<Checkpoint> checkpoint = Checkpoint::open(directory);
  EXPECT_TRUE(isOk(checkpoint));
  float value = 0;
  if (checkpoint.isOk() && checkpoint->find("wte.weight"))
    convertToF32(*checkpoint->find("wte.weight"), 100, 1, &value);
  return value;
}
float sampleOf(uint64_t seed) {
  float value;
  normalRange(seed, hashName("wte.weight"), 100, 1, 0.02, &value);
  return value;
}

} // namespace

TEST_F(SaveWeights, loadedWeightsComeBackBitForBitFromEveryLayout) {
  TempDir first;
  Plan one = makePlan({});
  initAndSave(one, 5, first.path());
  for (auto [zero, joined] : {std::pair(false, false), {true, false}, {false, true}})
    for (const MeshSizes &sizes : kMeshes) {
      TempDir second;
      Plan plan = makePlan(sizes, zero, joined);
      Memory memory(plan);
      ASSERT_TRUE(isOk(loadWeights(plan, *Checkpoint::open(first.path()), memory.arenas())));
      ASSERT_TRUE(isOk(saveWeights(plan, memory.arenas(), second.path())));
      EXPECT_EQ(first.read("model.safetensors"), second.read("model.safetensors"));
      EXPECT_EQ(second.read("config.json"), plan.modelConfig);
      EXPECT_EQ(second.list(), (std::set<std::string>{"config.json", "model.safetensors"}));
    }
}

TEST_F(SaveWeights, initialisedWeightsAreTheSameFileFromEveryLayout) {
  TempDir first;
  initAndSave(makePlan({}), 99, first.path());
  for (bool joined : {false, true})
    for (const MeshSizes &sizes : kMeshes) {
      TempDir second;
      initAndSave(makePlan(sizes, /*zero=*/false, joined), 99, second.path());
      EXPECT_EQ(first.read("model.safetensors"), second.read("model.safetensors"));
    }
}

TEST_F(SaveWeights, makesDirectoriesAndPyTorchMetadata) {
  initAndSave(makePlan({2, 1, 1, 1}), 1, dir.path("a/b"));
  Result<Safetensors> file = Safetensors::open(dir.path("a/b/model.safetensors"));
  ASSERT_TRUE(isOk(file));
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(file->tensors().size(), 11u); // the tied embedding once
  EXPECT_EQ(file->find("wte.weight")->shape, (std::vector<int64_t>{37, 16}));
  dir.write("file", "");
  const Plan plan = makePlan({});
  EXPECT_TRUE(
      fails(saveWeights(plan, initialised(plan, 1).arenas(), dir.path("file")), {"cannot make this directory"}));
}

TEST_F(SaveWeights, splitsIntoShardsWithAnIndex) {
  TempDir whole, split;
  Plan plan = makePlan({1, 1, 2, 1});
  initAndSave(plan, 3, whole.path());
  initAndSave(plan, 3, split.path(), {.maxShardBytes = 4000});
  std::set<std::string> expected = {"config.json", "model.safetensors.index.json"};
  for (int i = 1; i <= 5; ++i)
    expected.insert(fmt::format("model-{:05}-of-00005.safetensors", i));
  EXPECT_EQ(split.list(), expected);
  Result<Checkpoint> one = Checkpoint::open(whole.path()), many = Checkpoint::open(split.path());
  ASSERT_TRUE(isOk(one));
  ASSERT_TRUE(isOk(many));
  EXPECT_EQ(one->names(), many->names());
  for (const std::string &name : one->names()) {
    std::span<const std::byte> a = one->find(name)->data, b = many->find(name)->data;
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0) << name;
  }
}

TEST_F(SaveWeights, replacesOneFormByTheOther) {
  dir.write("tokenizer.json", "kept");
  dir.write("model-of-mine.safetensors", "kept");
  SaveOptions shards{.maxShardBytes = 4000};
  Plan plan = makePlan({});
  uint64_t seed = 1;
  for (const SaveOptions &options : {SaveOptions{}, shards, shards, shards, SaveOptions{}, SaveOptions{}, shards}) {
    initAndSave(plan, ++seed, dir.path(), options);
    EXPECT_EQ(sample(dir.path()), sampleOf(seed));
    EXPECT_EQ(dir.list().size(), options.maxShardBytes == 4000 ? 9u : 4u);
  }
  EXPECT_EQ(dir.read("tokenizer.json"), "kept");
  EXPECT_EQ(dir.read("model-of-mine.safetensors"), "kept");
}

// Until the new index is in place, readers need the old shards: new ones never take their names.
TEST_F(SaveWeights, newShardsHaveOtherNamesThanOldOnes) {
  Plan plan = makePlan({});
  initAndSave(plan, 1, dir.path(), {.maxShardBytes = 4000});
  std::set<std::string> before = dir.list();
  initAndSave(plan, 2, dir.path(), {.maxShardBytes = 4000});
  std::vector<std::string> kept;
  std::set<std::string> after = dir.list();
  std::ranges::set_intersection(before, after, std::back_inserter(kept));
  EXPECT_EQ(kept, (std::vector<std::string>{"config.json", "model.safetensors.index.json"}));
}

TEST_F(SaveWeights, deletesNothingButWeightsThatAnOldIndexNames) {
  dir.write("tokenizer.json", "kept");
  dir.write("model.safetensors.index.json", R"({"weight_map": {"a": "tokenizer.json", "b": "old.safetensors"}})");
  dir.write("old.safetensors", "");
  initAndSave(makePlan({}), 1, dir.path());
  EXPECT_EQ(dir.list(), (std::set<std::string>{"config.json", "model.safetensors", "tokenizer.json"}));
}

TEST_F(SaveWeights, aFullDiskLeavesTheOldCheckpoint) {
  Plan plan = makePlan({1, 1, 2, 1});
  for (int64_t before : {int64_t(4000), int64_t(1) << 30})
    for (int64_t after : {int64_t(4000), int64_t(1) << 30}) {
      TempDir dir;
      initAndSave(plan, 1, dir.path(), {.maxShardBytes = before});
      std::set<std::string> files = dir.list();
      const Memory memory = initialised(plan, 2);
      {
        FileSizeLimit limit(3500); // some shards fit, one does not
        EXPECT_TRUE(fails(saveWeights(plan, memory.arenas(), dir.path(), {.maxShardBytes = after}), {"cannot write"}));
      }
      EXPECT_EQ(dir.list(), files);
      EXPECT_EQ(sample(dir.path()), sampleOf(1));
    }
}

TEST_F(SaveWeights, aDirectoryInTheWayIsRefusedBeforeAnythingIsReplaced) {
  Plan plan = makePlan({});
  initAndSave(plan, 1, dir.path());
  std::filesystem::create_directories(dir.path("model.safetensors.index.json/in-the-way"));
  std::set<std::string> files = dir.list();
  const Memory memory = initialised(plan, 2);
  EXPECT_TRUE(fails(saveWeights(plan, memory.arenas(), dir.path(), {.maxShardBytes = 4000}), {"is a directory"}));
  EXPECT_EQ(dir.list(), files);
  EXPECT_EQ(sample(dir.path()), sampleOf(1));
}

TEST_F(SaveWeights, refusesValuesThatAreNotFinite) {
  Plan plan = makePlan({2, 2, 2, 1});
  for (float value : {INFINITY, -INFINITY, NAN}) {
    TempDir dir;
    initAndSave(plan, 1, dir.path());
    const Memory memory = initialised(plan, 2);
    for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank)
      if (plan::stageOf(plan.mesh, rank) == 0)
        memory.value(plan, rank, plan.parameters[7])[4] = value;
    EXPECT_TRUE(
        fails(saveWeights(plan, memory.arenas(), dir.path()), {"parameter h.0.ln.weight: element 4 on rank 0 is"}));
    EXPECT_EQ(sample(dir.path()), sampleOf(1));
  }
}

TEST_F(SaveReplacement, aRenameThatFailsTakesTheNewFilesAway) {
  dir.write("model.safetensors", "old");
  dir.write("config.json", "old");
  {
    Replacement replacement(dir.path());
    ASSERT_TRUE(isOk(replacement.addText("config.json", "new")));
    ASSERT_TRUE(isOk(replacement.addText("model-00001-of-00001.safetensors", "new")));
    ASSERT_TRUE(isOk(replacement.addText("model.safetensors.index.json", "{}")));
    // Only now, after the names were found free.
    std::filesystem::create_directories(dir.path("model.safetensors.index.json/in-the-way"));
    EXPECT_TRUE(fails(replacement.commit(), {"model.safetensors.index.json", "cannot rename"}));
  }
  EXPECT_EQ(dir.list(), (std::set<std::string>{"config.json", "model.safetensors", "model.safetensors.index.json"}));
  EXPECT_EQ(dir.read("model.safetensors"), "old");
  EXPECT_EQ(dir.read("config.json"), "old");
}

// Readers prefer model.safetensors: while it stays, the shards next to it are not the checkpoint.
TEST_F(SaveReplacement, anOldFileThatCannotBeRemovedIsAnError) {
  dir.write("model.safetensors", "old");
  Replacement replacement(dir.path());
  ASSERT_TRUE(isOk(replacement.addText("model.safetensors.index.json", "{}")));
  std::filesystem::remove(dir.path("model.safetensors"));
  std::filesystem::create_directories(dir.path("model.safetensors/in-the-way"));
  EXPECT_TRUE(fails(replacement.commit(), {"model.safetensors: cannot be removed"}));
}

TEST_F(SaveWeights, refusesReplicasThatDiffer) {
  Plan plan = makePlan({2, 2, 2, 1});
  const Memory memory = initialised(plan, 1);
  const Parameter &norm = plan.parameters[7], &embedding = plan.parameters[0];
  ASSERT_EQ(norm.name, "h.0.ln.weight");
  memory.value(plan, 3, norm)[4] = 1.5f; // stage 0 holds it on ranks 0 to 3
  EXPECT_TRUE(
      fails(saveWeights(plan, memory.arenas(), dir.path()),
            {"parameter h.0.ln.weight: ranks 3 differ from rank 0: element 4 is 1 on rank 0 and 1.5 on rank 3"}));
  memory.value(plan, 3, norm)[4] = 1.0f;
  EXPECT_TRUE(isOk(saveWeights(plan, memory.arenas(), dir.path("good"))));
  float &tied = memory.value(plan, 7, embedding, 1)[2]; // the other stage's copy of what rank 1 holds
  tied = std::nextafter(tied, 1.0f);
  EXPECT_TRUE(fails(saveWeights(plan, memory.arenas(), dir.path()), {"parameter wte: ranks 7 differ from rank 1"}));
  EXPECT_EQ(dir.list(), (std::set<std::string>{"good"}));
}

// Elements are numbered in the parameter, wherever its rows lie, and the other parts of the matrix are not its.
TEST_F(SaveWeights, refusesReplicasOfAPartThatDiffer) {
  Plan plan = makePlan({1, 2, 2, 1}, /*zero=*/false, /*joined=*/true);
  const Memory memory = initialised(plan, 1);
  const Parameter &k = plan.parameters[2];
  ASSERT_EQ(k.name, "h.0.attn.c_attn.weight[k]"); // local [16, 2, 3] in [16, 2, 12]
  memory.value(plan, 3, k)[12 * 5 + 1] = 1.5f;
  EXPECT_TRUE(fails(saveWeights(plan, memory.arenas(), dir.path()),
                    {"parameter h.0.attn.c_attn.weight[k]: ranks 3 differ from rank 1: element 16 is"}));
  memory.value(plan, 1, k)[12 * 5 + 1] = memory.value(plan, 3, k)[12 * 5 + 1] = NAN;
  Status status = saveWeights(plan, memory.arenas(), dir.path());
  EXPECT_TRUE(fails(status, {"parameter h.0.attn.c_attn.weight[k]: element 16 on rank 1 is nan"}));
  EXPECT_EQ(status.message().find("[q]"), std::string::npos);
  EXPECT_EQ(status.message().find("[v]"), std::string::npos);
}

// --- Gradients ---------------------------------------------------------------------------------------------

// Writes gradient values derived from the file index as the chunk "reduce" leaves them.
static void writeGradients(const Plan &plan, const Memory &memory) {
  for (const Parameter &parameter : plan.parameters)
    for (const Parameter::Place &place : parameter.places)
      for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank) {
        if (plan::stageOf(plan.mesh, rank) != place.stage)
          continue;
        const Bucket &bucket = plan.stages[place.stage].buckets[place.bucket];
        std::vector<int64_t> indices = naiveFileIndices(plan.mesh, parameter, rank);
        int64_t slice = bucket.elements / plan::groupSize(plan.mesh, bucket.dataAxes);
        int64_t mine = plan::coordinate(plan.mesh, rank, bucket.dataAxes);
        for (size_t i = 0; i < indices.size(); ++i) {
          int64_t element = place.elementOffset + positionInBucket(plan.mesh, parameter, int64_t(i));
          float value = float(indices[i]);
          if (!bucket.isSharded())
            memory.floats(plan, rank, bucket.offsetOf(plan::StateRole::gradient), bucket.elements)[element] = value;
          else if (element / slice == mine)
            memory.floats(plan, rank, bucket.completeGradient()->offset, slice)[element % slice] = value;
        }
      }
}

TEST(SaveGradients, writesScaledTensorsFromEveryLayout) {
  for (auto [zero, joined] : {std::pair(false, false), {true, false}, {false, true}, {true, true}})
    for (const MeshSizes &sizes : kMeshes) {
      TempDir dir;
      Plan plan = makePlan(sizes, zero, joined);
      Memory memory(plan);
      writeGradients(plan, memory);
      ASSERT_TRUE(isOk(saveGradients(plan, memory.arenas(), 0.25f, dir.path("g.safetensors"))));
      Result<Safetensors> file = Safetensors::open(dir.path("g.safetensors"));
      ASSERT_TRUE(isOk(file));
      EXPECT_EQ(file->tensors().size(), 11u);
      for (const auto &[name, tensor] : file->tensors()) {
        const std::vector<float> values = floatsOf(tensor);
        for (size_t i = 0; i < values.size(); ++i)
          ASSERT_EQ(values[i], float(i) * 0.25f) << name << " zero " << zero;
      }
    }
}
