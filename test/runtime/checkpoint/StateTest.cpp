// Training state from the memory of ranks to a checkpoint and to the memory of other ranks, element by element.
#include "runtime/base/Bf16.h"
#include "runtime/base/Checksum.h"
#include "runtime/checkpoint/LoadState.h"
#include "runtime/random/Philox.h"
#include "test/runtime/checkpoint/TestWeights.h"

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace mgc::test {
namespace {

using plan::Bucket;
using plan::DType;
using plan::Parameter;
using plan::Plan;

// The values of an element of a tensor in these tests: its master, and its two moments.
ExpectedValue stateValue(int part) {
  return [part](const Parameter &parameter, int64_t index) {
    return float(hashName(parameter.tensor) % 97) + float(index) / 8 + float(part) / 1024;
  };
}

// Calls each(rank, type, offset, element, expected) for all values, masters and moments.
void forEachElement(const Plan &plan, const std::function<void(int64_t, DType, int64_t, int64_t, float)> &each) {
  const auto visit = [&](int64_t rank, DType type, int64_t offset, std::span<const float> expected) {
    for (size_t i = 0; i < expected.size(); ++i)
      each(rank, type, offset, int64_t(i), expected[i]);
  };
  forEachBucket(plan, stateValue(0), [&](int64_t rank, const RankBucket &of) {
    for (const plan::State &state : of.bucket.states)
      if (state.role == plan::StateRole::value || state.role == plan::StateRole::master)
        visit(rank, state.type, state.offset, state.role == plan::StateRole::value ? of.whole : of.own());
  });
  for (int part : {1, 2})
    forEachBucket(plan, stateValue(part), [&](int64_t rank, const RankBucket &of) {
      for (const plan::State &state : of.bucket.states)
        if (state.name == (part == 1 ? "exp_avg" : "exp_avg_sq"))
          visit(rank, state.type, state.offset, of.own());
    });
}

void fillAll(const Plan &plan, const Memory &memory) {
  forEachElement(plan, [&](int64_t rank, DType type, int64_t offset, int64_t element, float value) {
    memory.set(rank, type, offset, element, value);
  });
}

void expectAll(const Plan &plan, const Memory &memory) {
  int64_t wrong = 0;
  forEachElement(plan, [&](int64_t rank, DType type, int64_t offset, int64_t element, float value) {
    wrong += !memory.holds(rank, type, offset, element, value);
  });
  EXPECT_EQ(wrong, 0);
}

CheckpointRecord writeAll(const Plan &plan, const Memory &memory, const TempDir &dir) {
  CheckpointRecord record;
  for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank) {
    StateFiles files(plan, rank, memory.arenas());
    EXPECT_EQ(files.bytes(), stateBytes(plan, rank));
    Result<std::vector<CheckpointFile>> written = files.write(dir.path(), StateFiles::Source::memory);
    EXPECT_TRUE(isOk(written));
    for (const CheckpointFile &file : *written)
      record.files.push_back(file);
  }
  return record;
}

// The state of a plan, filled and saved.
struct SavedState {
  explicit SavedState(Plan of) : plan(std::move(of)) {
    fillAll(plan, memory);
    record = writeAll(plan, memory, dir);
  }
  const Plan plan;
  const Memory memory{plan};
  const TempDir dir;
  CheckpointRecord record;
};

void loadAll(const Plan &plan, const Memory &memory, const TempDir &dir, const CheckpointRecord &record) {
  const Result<StateReader> reader = StateReader::open(dir.path(), record);
  ASSERT_TRUE(isOk(reader));
  for (size_t i = 0; i < reader->fileCount(); ++i)
    EXPECT_TRUE(isOk(reader->verifyFile(i)));
  ASSERT_TRUE(isOk(verifyStateFits(plan, *reader, StatePart::all)));
  ASSERT_TRUE(isOk(loadState(plan, *reader, memory.arenas(), StatePart::all)));
}

// Calls visit(index in the tensor, what the rank's bucket should have) for each element of the chunk.
void forEachElementOf(const Plan &plan, int64_t rank, const FileTensor &tensor, const StateChunk &chunk,
                      const std::function<void(int64_t, float)> &visit) {
  std::vector<int64_t> indices; // indices in the box, row-major
  for (int64_t index = 0; index < tensor.elements(); ++index) {
    int64_t left = index;
    bool isInside = true;
    for (size_t dim = tensor.shape.size(); dim-- > 0; left /= tensor.shape[dim]) {
      const int64_t at = left % tensor.shape[dim] - chunk.box.offsets[dim];
      isInside &= at >= 0 && at < chunk.box.sizes[dim];
    }
    if (isInside)
      indices.push_back(index);
  }
  size_t next = 0;
  for (const StateRun &run : chunk.runs) {
    const std::vector<float> bucket = bucketContents(plan, rank, run.bucket, stateValue(0));
    ASSERT_LE(next + size_t(run.count), indices.size());
    for (int64_t i = 0; i < run.count; ++i)
      visit(indices[next++], bucket[run.element + i]);
  }
  EXPECT_EQ(next, indices.size());
}

// Each layout, ZeRO level and dtype writes what each other one reads.
TEST(State, goesFromEveryLayoutToEveryOther) {
  std::vector<Plan> plans;
  for (const MeshSizes &sizes :
       {MeshSizes{1, 1, 1, 1}, {1, 1, 2, 2}, {2, 1, 1, 1}, {1, 3, 1, 1}, {3, 2, 2, 2}, {2, 2, 4, 1}})
    for (bool zero : {false, true})
      for (DType type : {DType::f32, DType::bf16})
        plans.push_back(makePlan(sizes, zero, /*joined=*/zero, type));
  for (const Plan &from : plans) {
    const SavedState saved(from);
    for (const Plan &to : plans) {
      const Memory other(to);
      loadAll(to, other, saved.dir, saved.record);
      expectAll(to, other);
    }
  }
}

// The ranks write each element of random parameters once, from where it lies. Buckets are whole: ranks that share
// slices hold the same, and these parameters may be split over data ranks. Where two dimensions are split over one
// axis, no rank has the rest.
TEST(State, chunksOfRandomParametersAreTheirElements) {
  int64_t several = 0, stacks = 0;
  for (uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Plan plan = makeRandomPlan(seed);
    for (plan::StagePlan &stage : plan.stages)
      for (Bucket &bucket : stage.buckets)
        bucket.shardAxes.clear();
    std::map<std::string, std::set<int64_t>> seen; // by tensor or stack
    int64_t elements = 0, expected = 0;
    for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank)
      for (const TensorChunks &tensor : chunksOf(plan, rank)) {
        const Parameter &parameter = *tensor.tensor.parameters[0];
        const int64_t first = std::max<int64_t>(tensor.tensor.index, 0) * tensor.tensor.elements();
        several += tensor.chunks.size() > 1;
        stacks += tensor.tensor.index > 0;
        for (const StateChunk &chunk : tensor.chunks)
          forEachElementOf(plan, rank, tensor.tensor, chunk, [&](int64_t index, float found) {
            ASSERT_EQ(found, stateValue(0)(parameter, first + index)) << parameter.tensor << " " << index;
            EXPECT_TRUE(seen[parameter.tensor].insert(first + index).second) << parameter.tensor << " " << index;
            ++elements;
          });
      }
    for (const Parameter &parameter : plan.parameters) {
      std::set<int64_t> held; // by some rank
      for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank)
        for (int64_t index : naiveFileIndices(plan.mesh, parameter, rank))
          if (index >= 0)
            held.insert(index);
      expected += std::ssize(held);
    }
    EXPECT_EQ(elements, expected);
  }
  EXPECT_GT(several, 20);
  EXPECT_GT(stacks, 20);
}

TEST(State, aCopyIsWhatTheMemoryWas) {
  const SavedState saved(makePlan({2, 2, 2, 1}, true));
  const auto &[plan, memory, now, record] = saved;
  const TempDir copied;
  std::vector<StateFiles> files;
  for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank)
    EXPECT_TRUE(isOk(files.emplace_back(plan, rank, memory.arenas()).copy(2)));
  for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank)
    std::memset(memory.arenas()[rank], 0x55, size_t(plan.stages[plan::stageOf(plan.mesh, rank)].bytes));
  CheckpointRecord other;
  for (const StateFiles &one : files) {
    const Result<std::vector<CheckpointFile>> written = one.write(copied.path(), StateFiles::Source::copy);
    ASSERT_TRUE(isOk(written));
    std::ranges::copy(*written, std::back_inserter(other.files));
  }
  EXPECT_EQ(record, other);
}

TEST(State, weightsAloneLeaveMomentsZero) {
  const SavedState saved(makePlan({1, 2, 2, 1}, true));
  const Plan &plan = saved.plan;
  const Memory other(plan);
  const Result<StateReader> reader = StateReader::open(saved.dir.path(), saved.record);
  ASSERT_TRUE(isOk(reader));
  ASSERT_TRUE(isOk(loadState(plan, *reader, other.arenas(), StatePart::weights)));
  const Bucket &bucket = plan.stages[0].buckets[0];
  for (const char *name : {"exp_avg", "exp_avg_sq"})
    for (float moment : other.floats(plan, 0, bucket.stateNamed(name)->offset, bucket.elements / 2))
      ASSERT_EQ(std::bit_cast<uint32_t>(moment), 0u);
}

// The whole headers are what PyTorch's reader looks at.
TEST(State, headersSayWhereChunksLie) {
  const SavedState saved(makePlan({1, 2, 1, 1}, true));
  for (const CheckpointFile &listed : saved.record.files) {
    const Result<Safetensors> file = Safetensors::open(saved.dir.path(listed.name));
    ASSERT_TRUE(isOk(file));
    EXPECT_EQ(file->metadata().at("format"), "pt");
    const auto info = nlohmann::json::parse(file->metadata().at("DCP_SHARDING_INFO"));
    EXPECT_EQ(info.size(), file->tensors().size());
    for (const auto &[name, view] : file->tensors())
      EXPECT_EQ(info.at(name).at("saved_offsets").size(), view.shape.size()) << name;
  }
}

// --- Damage --------------------------------------------------------------------------------------------------

class DamagedState : public testing::Test, protected SavedState {
protected:
  DamagedState() : SavedState(makePlan({1, 2, 1, 1}, true)) {}
  Result<StateReader> open() { return StateReader::open(dir.path(), record); }
  std::string first() { return record.files[0].name; }
};

TEST_F(DamagedState, aMissingFileIsNamed) {
  std::filesystem::remove(dir.path(first()));
  EXPECT_TRUE(fails(open(), {first(), "No such file", "expected another checkpoint"}));
}

TEST_F(DamagedState, aFileThatIsCutOffIsNamed) {
  std::filesystem::resize_file(dir.path(first()), 100);
  EXPECT_TRUE(fails(open(), {first(), "has 100 bytes, expected " + std::to_string(record.files[0].bytes)}));
}

TEST_F(DamagedState, anEditedNumberIsFoundByTheChecksum) {
  std::string text = dir.read(first());
  text.back() ^= 1;
  dir.write(first(), text);
  const Result<StateReader> reader = open();
  ASSERT_TRUE(isOk(reader));
  EXPECT_TRUE(fails(reader->verifyFile(0), {first(), "has the checksum ", record.files[0].checksum}));
  EXPECT_TRUE(isOk(reader->verifyFile(1)));
}

TEST_F(DamagedState, chunksThatAreLeftOutAreFound) {
  record.files.erase(record.files.begin());
  const Result<StateReader> reader = open();
  if (reader.isOk())
    EXPECT_TRUE(fails(verifyStateFits(plan, *reader, StatePart::all), {"missing"}));
  else
    EXPECT_TRUE(fails(reader, {"overlap or leave elements"}));
}

// A file with one tensor "x" of zeros, whose chunk begins at 0.
std::string fileOfOneTensor(const std::vector<int64_t> &shape) {
  int64_t bytes = 4;
  for (const int64_t size : shape)
    bytes *= size;
  const nlohmann::json info = {{"x", {{"saved_offsets", std::vector<int64_t>(shape.size(), 0)}}}};
  const std::string header = nlohmann::json{{"__metadata__", {{"format", "pt"}, {kShardingInfo, info.dump()}}},
                                            {"x", {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {0, bytes}}}}}
                                 .dump();
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), sizeof length) + header +
         std::string(static_cast<size_t>(bytes), '\0');
}

// Fewer dimensions in the first file than in the second, and the reverse.
TEST(State, filesThatDisagreeAboutDimensionsAreRefused) {
  const std::vector<std::vector<int64_t>> shapes = {{}, {4}, {2, 2}};
  for (const auto &one : shapes)
    for (const auto &other : shapes) {
      if (one == other)
        continue;
      TempDir dir;
      CheckpointRecord record;
      for (const auto &[name, shape] : {std::pair("shard-00001-model-00001-of-00002.safetensors", one),
                                        std::pair("shard-00001-model-00002-of-00002.safetensors", other)}) {
        const std::string text = fileOfOneTensor(shape);
        Checksum checksum;
        checksum.add(text);
        dir.write(name, text);
        record.files.push_back({name, std::ssize(text), checksum.text()});
      }
      EXPECT_TRUE(fails(StateReader::open(dir.path(), record),
                        {fmt::format("tensor \"x\" has {} dimensions, in another file {}", other.size(), one.size())}));
    }
}

TEST_F(DamagedState, anotherModelIsToldByItsTensors) {
  Plan other = plan;
  const std::string last = other.parameters.back().tensor;
  for (Parameter &parameter : other.parameters)
    if (parameter.tensor == last)
      parameter.tensor += ".other";
  const Result<StateReader> reader = open();
  ASSERT_TRUE(isOk(reader));
  EXPECT_TRUE(
      fails(verifyStateFits(other, *reader, StatePart::all),
            {"6 tensors do not fit the plan", last + ".other: missing, expected F32", last + ".other.exp_avg: missing",
             last + ": not in the plan", last + ".exp_avg_sq: not in the plan"}));
  EXPECT_TRUE(fails(verifyStateFits(other, *reader, StatePart::weights), {"2 tensors do not fit the plan"}));
}

// The largest numbers are finite; infinities and NaN, whose exponents alone have all bits, are not.
TEST(StateFiles, haveFiniteNumbersAlone) {
  const Plan plan = makePlan({});
  const Parameter &parameter = plan.parameters.front();
  const TempDir dir;
  const Memory memory(plan);
  fillAll(plan, memory);
  StateFiles files(plan, 0, memory.arenas());
  float &value = memory.value(plan, 0, parameter)[1];
  for (const float finite : {FLT_MAX, -FLT_MAX, FLT_MIN / 2, -0.0f}) {
    value = finite;
    EXPECT_TRUE(isOk(files.write(dir.path(), StateFiles::Source::memory).status()));
  }
  for (const float other : {INFINITY, -INFINITY, NAN, -NAN}) {
    value = other;
    ASSERT_TRUE(isOk(files.copy(1)));
    for (const auto source : {StateFiles::Source::memory, StateFiles::Source::copy})
      EXPECT_TRUE(fails(files.write(dir.path(), source), {parameter.tensor + " has values that are not finite"}));
  }
}

TEST(StateFiles, haveFiniteNumbersOfBf16Alone) {
  Plan plan = makePlan({}, false, false, DType::bf16);
  freezeAll(plan);
  const TempDir dir;
  const Memory memory(plan);
  StateFiles files(plan, 0, memory.arenas());
  const auto written = [&](uint16_t value) {
    std::memcpy(memory.arenas()[0] + plan.stages[0].buckets[0].offsetOf(plan::StateRole::value), &value, sizeof value);
    return files.write(dir.path(), StateFiles::Source::memory).status();
  };
  for (const uint16_t finite : {0x7f7f, 0xff7f, 0x0001, 0x8000})
    EXPECT_TRUE(isOk(written(finite))) << finite;
  for (const uint16_t other : {0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffff})
    EXPECT_TRUE(fails(written(other), {"has values that are not finite"})) << other;
}

// --- checkpoint.json -----------------------------------------------------------------------------------------

TEST(CheckpointRecord, comesBackAsItWasWritten) {
  const CheckpointRecord record = {20,
                                   320,
                                   "llama",
                                   "tp=2 \"x\"",
                                   16,
                                   64,
                                   {{"--seed", "1234"}},
                                   {{"--lr", "0.001"}, {"--lr-list", "none"}},
                                   {{"shard-00001-model-00001-of-00002.safetensors", 1234, "0123abcd"}}};
  const std::string text = printRecord(record);
  const Result<CheckpointRecord> read = parseRecord(text);
  ASSERT_TRUE(isOk(read));
  EXPECT_EQ(*read, record);
  EXPECT_TRUE(isOk(parseRecord(printRecord({}))));
}

TEST(CheckpointRecord, everyEditIsFound) {
  const std::string text = printRecord({20, 320, "llama", "", 16, 64, {{"--seed", "1"}}, {}, {}});
  for (size_t i = 0; i < text.size(); ++i) {
    std::string edited = text;
    edited[i] ^= 1;
    EXPECT_FALSE(parseRecord(edited).isOk()) << i;
    EXPECT_FALSE(parseRecord(text.substr(0, i)).isOk()) << i;
  }
  std::string newer = text;
  newer.replace(newer.find(": 1,"), 4, ": 2,");
  EXPECT_TRUE(fails(parseRecord(newer), {"is of version 2, this program reads version 1"}));
}

TEST(CheckpointRecord, stepsThatWereSkippedAreAmongThoseDone) {
  CheckpointRecord record;
  record.step = 20, record.skipped = 3;
  const Result<CheckpointRecord> read = parseRecord(printRecord(record));
  ASSERT_TRUE(isOk(read));
  EXPECT_EQ(read->skipped, 3);
  record.skipped = 21;
  EXPECT_TRUE(fails(parseRecord(printRecord(record)), {"\"skipped\" is 21", "at most", "20"}));
}

TEST(CheckpointRecord, keepsWhatChecksRemember) {
  CheckpointRecord record;
  record.step = 20;
  record.losses = ValueHistory{20, 10.123456789012345};
  const Result<CheckpointRecord> read = parseRecord(printRecord(record));
  ASSERT_TRUE(isOk(read));
  EXPECT_EQ(*read, record);
  record.norms = ValueHistory{-1, 1};
  EXPECT_TRUE(fails(parseRecord(printRecord(record)), {"\"gradientNorms\" is [-1,1.0]", "number of values"}));
}

TEST(CheckpointRecord, keepsHowFarEvaluationsCame) {
  CheckpointRecord record;
  record.step = 20;
  record.owed = {"validation", "test"};
  record.best = BestEvaluation{16, 4.123456789012345, 2};
  const Result<CheckpointRecord> read = parseRecord(printRecord(record));
  ASSERT_TRUE(isOk(read));
  EXPECT_EQ(*read, record);
  record.best->step = 21;
  EXPECT_TRUE(fails(parseRecord(printRecord(record)), {"\"best\" is after 21 steps", "at most", "20"}));
  record.owed = {"train"};
  EXPECT_TRUE(fails(parseRecord(printRecord(record)), {"\"owed\" is [\"train\"]", "\"validation\" and \"test\""}));
}

// Names of files reach nothing outside of the folder.
TEST(CheckpointRecord, filesAreInItsFolder) {
  EXPECT_TRUE(fails(parseRecord(printRecord(
                        {0, 0, "", "", 0, 0, {}, {}, {{"../shard-00001-model-00001-of-00001.safetensors", 1, ""}}})),
                    {"\"files\" is", "expected a list of [\"shard-..safetensors\", bytes, checksum]"}));
}

} // namespace
} // namespace mgc::test
