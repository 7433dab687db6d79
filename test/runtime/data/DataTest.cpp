#include "runtime/data/SampleOrder.h"
#include "test/runtime/TensorFiles.h"
#include "test/runtime/data/DataPlans.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace mgc;
using namespace mgc::test;
using plan::Plan;

namespace {

using Data = InTempDir;

Plan planFor(int64_t samples, int64_t length, int64_t vocabulary) {
  Plan plan;
  plan.globalBatchSize = samples, plan.sequenceLength = length, plan.vocabulary = vocabulary;
  return plan;
}

// The numbers 0 to count - 1.
template <typename T> std::vector<T> counting(int64_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T(0));
  return values;
}

std::string npy(const char *descr, const std::string &shape, const std::string &data) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}\n", descr, shape);
  std::string bytes("\x93NUMPY\x01\x00", 8);
  return bytes + char(header.size()) + '\0' + header + data;
}

std::vector<GlobalBatch> batches(DataSource &source, const Plan &plan, int64_t steps) {
  std::vector<GlobalBatch> all;
  for (int64_t step = 0; step < steps; ++step) {
    all.push_back(GlobalBatch::create(plan).take());
    EXPECT_TRUE(isOk(source.batch(step * plan.globalBatchSize, all.back())));
  }
  return all;
}

std::unique_ptr<DataSource> openOk(const std::string &path, const Plan &plan, uint64_t seed = 1,
                                   const DataOptions &options = {}) {
  Result<std::unique_ptr<DataSource>> source = openData(path, plan, seed, options);
  EXPECT_TRUE(isOk(source));
  return source.isOk() ? source.take() : makeMockData(plan, 0).take();
}

// First tokens of all samples of the given steps, in order; checks that samples are runs of counting numbers.
std::vector<int32_t> firstTokens(DataSource &source, const Plan &plan, int64_t steps) {
  std::vector<int32_t> first;
  for (const GlobalBatch &batch : batches(source, plan, steps))
    for (size_t i = 0; i < batch.tokens.size(); ++i) {
      EXPECT_EQ(batch.labels[i], batch.tokens[i] + 1);
      if (i % size_t(plan.sequenceLength) == 0)
        first.push_back(batch.tokens[i]);
      else
        EXPECT_EQ(batch.tokens[i], batch.tokens[i - 1] + 1);
    }
  return first;
}

// Writes tensors of int64 to a safetensors file.
void writeBatches(const std::string &path,
                  const std::map<std::string, std::pair<std::vector<int64_t>, std::vector<int64_t>>> &tensors,
                  ElementType type = ElementType::I64) {
  TensorWriter file;
  for (const auto &[name, tensor] : tensors)
    file.add(name, tensor.first, tensor.second, type);
  file.write(path);
}

} // namespace

TEST(SampleOrder, isAPermutationThatDiffersByEpochAndSeed) {
  for (int64_t samples : {1, 2, 3, 4, 5, 16, 17, 100, 1000}) {
    std::map<std::vector<int64_t>, int> orders;
    for (auto [seed, epoch] : {std::pair(1, 0), std::pair(1, 1), std::pair(2, 0)}) {
      std::vector<int64_t> order;
      for (int64_t i = 0; i < samples; ++i)
        order.push_back(shuffledSample(uint64_t(seed), epoch, i, samples));
      ++orders[order];
      std::ranges::sort(order);
      EXPECT_EQ(order, counting<int64_t>(samples));
    }
    if (samples >= 16)
      EXPECT_EQ(orders.size(), 3u) << samples;
  }
}

TEST(SampleOrder, spreadsEachPositionOverAllSamples) {
  std::vector<int> counts(6 * 6);
  for (uint64_t seed = 0; seed < 6000; ++seed)
    for (int64_t i = 0; i < 6; ++i)
      ++counts[size_t(i * 6 + shuffledSample(seed, 3, i, 6))];
  for (int count : counts)
    EXPECT_NEAR(count, 1000, 150); // 5 standard deviations
}

TEST_F(Data, aStreamIsCutAndShuffledByEpoch) {
  const auto tokens = counting<uint16_t>(4 * 10 + 1 + 3); // 10 samples, 3 tokens too few for another
  Plan plan = planFor(5, 4, 100);
  std::unique_ptr<DataSource> source = openOk(dir.write("t.bin", bytesOf(tokens)), plan, 1, {"u16"});
  std::vector<int32_t> first = firstTokens(*source, plan, 4), expected;
  for (int32_t i = 0; i < 10; ++i)
    expected.push_back(4 * i);
  std::vector<int32_t> one(first.begin(), first.begin() + 10), two(first.begin() + 10, first.end());
  EXPECT_NE(one, expected);
  EXPECT_NE(one, two);
  std::ranges::sort(one);
  std::ranges::sort(two);
  EXPECT_EQ(one, expected);
  EXPECT_EQ(two, expected);
  EXPECT_EQ(source->describe(), dir.path("t.bin") + " (U16): 10 samples of 4 tokens");
}

// Each token is its own place in the file.
TEST_F(Data, aStreamSaysWhereABatchIs) {
  const Plan plan = planFor(5, 4, 100);
  const auto source = openOk(dir.write("t.bin", bytesOf(counting<uint16_t>(41))), plan, 1, {"u16"});
  GlobalBatch batch = GlobalBatch::create(plan).take();
  for (int64_t first : {0, 5, 8, 15}) {
    ASSERT_TRUE(isOk(source->batch(first, batch)));
    std::string expected = dir.path("t.bin") + " (U16): ";
    for (size_t i = 0; i < 5; ++i)
      expected += fmt::format("{}sample {}, tokens {} to {}", i ? "; " : "", batch.tokens[4 * i] / 4,
                              batch.tokens[4 * i], batch.labels[4 * i + 3]);
    EXPECT_EQ(source->describeBatch(first), expected);
  }
}

TEST_F(Data, everySourceOfTheSameTokensGivesTheSameBatches) {
  Plan plan = planFor(3, 5, 128);
  const auto wide = counting<int32_t>(100);
  std::vector<uint8_t> u8(wide.begin(), wide.end());
  std::vector<uint16_t> u16(wide.begin(), wide.end());
  std::vector<int64_t> i64(wide.begin(), wide.end());
  std::vector<int32_t> expected = firstTokens(*openOk(dir.write("a.txt", bytesOf(u8)), plan, 7), plan, 9);
  auto same = [&](const std::string &path, const DataOptions &options = {}) {
    EXPECT_EQ(firstTokens(*openOk(path, plan, 7, options), plan, 9), expected) << path;
  };
  same(dir.write("u16.bin", bytesOf(u16)), {"u16"});
  same(dir.write("u8.bin", bytesOf(u8)), {"u8"});
  same(dir.write("i32.bin", bytesOf(wide)), {"i32"});
  same(dir.write("u32.bin", bytesOf(wide)), {"u32"});
  same(dir.write("i64.bin", bytesOf(i64)), {"i64"});
  same(dir.write("i4.npy", npy("<i4", "(100,)", bytesOf(wide))));
  same(dir.write("u2.npy", npy("<u2", "(100,)", bytesOf(u16))));
  same(dir.write("i8.npy", npy("<i8", "(1, 100)", bytesOf(i64))));
  EXPECT_NE(firstTokens(*openOk(dir.path("a.txt"), plan, 8), plan, 9), expected);
}

TEST_F(Data, aLargeVocabularyReadsBinAsI32) {
  std::vector<int32_t> tokens = {70000, 70001, 70002};
  Plan plan = planFor(1, 2, 100000);
  EXPECT_EQ(firstTokens(*openOk(dir.write("a.bin", bytesOf(tokens)), plan), plan, 1), (std::vector<int32_t>{70000}));
}

TEST_F(Data, rowsOfAnArrayAreSeparateStreams) {
  std::vector<int32_t> tokens;
  for (int32_t row = 0; row < 3; ++row)
    for (int32_t i = 0; i < 6; ++i)
      tokens.push_back(100 * row + i);
  Plan plan = planFor(6, 2, 1000);
  std::vector<int32_t> first =
      firstTokens(*openOk(dir.write("a.npy", npy("<i4", "(3, 6)", bytesOf(tokens))), plan), plan, 1);
  std::ranges::sort(first);
  EXPECT_EQ(first, (std::vector<int32_t>{0, 2, 100, 102, 200, 202}));
}

TEST_F(Data, aStepIsTheSameHoweverItIsReached) {
  Plan plan = planFor(4, 7, 1000);
  std::unique_ptr<DataSource> source = openOk(dir.write("t.bin", bytesOf(counting<uint16_t>(1000))), plan);
  std::vector<GlobalBatch> all = batches(*source, plan, 120);
  for (int64_t step : {119, 3, 60}) {
    EXPECT_EQ(batchOf(openOk(dir.path("t.bin"), plan), plan, step).tokens, all[step].tokens);
  }
  GlobalBatch batch = GlobalBatch::create(plan).take();
  EXPECT_TRUE(fails(source->batch(-1, batch), {"sample -1"}));
  EXPECT_TRUE(fails(source->batch(INT64_MAX - 3, batch), {"63 bits"}));
}

TEST_F(Data, refusesTokensOutsideTheVocabulary) {
  std::vector<int32_t> tokens(5000, 1);
  Plan plan = planFor(1, 4, 100);
  for (auto [value, text] : {std::pair(100, ": 100 at position 4321, expected 0 to 99"), std::pair(-1, ": -1 at"),
                             std::pair(-100, ": -100 at")}) {
    tokens[4321] = value;
    EXPECT_TRUE(fails(openData(dir.write("a.npy", npy("<i4", "(5000,)", bytesOf(tokens))), plan, 1),
                      {dir.path("a.npy"), text, "vocabulary has 100"}));
  }
  EXPECT_TRUE(fails(openData(dir.write("a.txt", "abcdefgh\xc3\xa9"), plan, 1), {"a.txt: 100 at position 3"}));
}

TEST_F(Data, refusesFilesThatAreNotWhatTheySay) {
  Plan plan = planFor(2, 4, 256);
  auto open = [&](const std::string &path, const DataOptions &options = {}) {
    return openData(path, plan, 1, options);
  };
  EXPECT_TRUE(fails(open(dir.path("none.txt")), {"none.txt", "cannot open"}));
  EXPECT_TRUE(fails(open(dir.path()), {"is a directory"}));
  EXPECT_TRUE(fails(open(dir.write("a.txt", "abcd")), {"has 4 tokens, expected at least 5"}));
  EXPECT_TRUE(fails(open(dir.write("a.txt", "")), {"has 0 tokens"}));
  EXPECT_TRUE(fails(open(dir.write("a.txt", "abc\xff")), {"byte 0xff at position 3 is not UTF-8"}));
  EXPECT_TRUE(fails(open(dir.write("a.bin", "abc"), {"u16"}), {"has 3 bytes, expected a multiple of 2", "U16"}));
  EXPECT_TRUE(fails(open(dir.write("a.bin", "abcd"), {"f32"}), {"\"f32\" is unknown, expected u8"}));
  EXPECT_TRUE(fails(open(dir.write("a.npy", npy("<i4", "(0, 4)", ""))), {"has 0 tokens"}));
  EXPECT_TRUE(fails(open(dir.write("a.npy", npy("|u1", "(2, 4)", "abcdefgh"))), {"has 4 tokens in a row"}));
  EXPECT_TRUE(fails(openData(dir.write("a.txt", "abcdefgh"), planFor(0, 4, 256), 1), {"global batch size 0"}));
}

TEST_F(Data, wholeBatchesComeInOrderAndWrapAround) {
  const auto ids = counting<int64_t>(2 * 2 * 3);
  std::vector<int64_t> labels;
  for (int64_t id : ids)
    labels.push_back(id % 3 == 2 ? -100 : id + 1);
  writeBatches(dir.path("d.safetensors"), {{"input_ids", {{2, 2, 3}, ids}}, {"labels", {{2, 2, 3}, labels}}});
  Plan plan = planFor(2, 3, 20);
  std::vector<GlobalBatch> found = batches(*openOk(dir.path("d.safetensors"), plan), plan, 3);
  EXPECT_EQ(found[0].tokens, (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(found[0].labels, (std::vector<int32_t>{1, 2, -100, 4, 5, -100}));
  EXPECT_EQ(found[1].tokens, (std::vector<int32_t>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(found[2].tokens, found[0].tokens);
  EXPECT_EQ(found[2].labels, found[0].labels);
}

TEST_F(Data, wholeBatchesMustFitThePlan) {
  std::string path = dir.path("d.safetensors");
  std::vector<int64_t> ones(12, 1), bad = ones;
  bad[7] = 20;
  auto open = [&](const Plan &plan) { return openData(path, plan, 1); };
  using Tensor = std::pair<std::vector<int64_t>, std::vector<int64_t>>;
  const auto openBoth = [&](const Tensor &ids, const Tensor &labels, ElementType type = ElementType::I64) {
    writeBatches(path, {{"input_ids", ids}, {"labels", labels}}, type);
    return open(planFor(2, 3, 20));
  };
  const std::vector<int64_t> shape = {2, 2, 3};
  EXPECT_TRUE(isOk(openBoth({shape, ones}, {shape, ones})));
  EXPECT_TRUE(fails(open(planFor(4, 3, 20)), {"input_ids: found I64 [2, 2, 3], expected integers [steps, 4, 3]"}));
  EXPECT_TRUE(fails(open(planFor(2, 6, 20)), {"expected integers [steps, 2, 6]"}));
  EXPECT_TRUE(fails(openBoth({shape, ones}, {{1, 2, 3}, {1, 1, 1, 1, 1, 1}}), {"labels has 1 steps, input_ids 2"}));
  EXPECT_TRUE(fails(openBoth({shape, bad}, {shape, ones}), {"input_ids: 20 at position 7, expected 0 to 19"}));
  EXPECT_TRUE(
      fails(openBoth({shape, ones}, {shape, bad}), {"labels: 20 at position 7, expected -100 (ignored) or 0 to 19"}));
  bad[7] = -100;
  EXPECT_TRUE(fails(openBoth({shape, bad}, {shape, ones}), {"input_ids: -100 at position 7"}));
  EXPECT_TRUE(fails(openBoth({shape, ones}, {shape, ones}, ElementType::F64), {"found F64"}));
  EXPECT_TRUE(fails(openBoth({{0, 2, 3}, {}}, {{0, 2, 3}, {}}), {"found I64 [0, 2, 3]"}));
  writeBatches(path, {{"input_ids", {shape, ones}}});
  EXPECT_TRUE(fails(open(planFor(2, 3, 20)), {"labels: missing"}));
}

TEST(MockData, isDeterministicAndMostlyAFunctionOfTheTokenBefore) {
  Plan plan = planFor(16, 128, 50257);
  auto one = batches(*makeMockData(plan, 1).take(), plan, 2), same = batches(*makeMockData(plan, 1).take(), plan, 2),
       other = batches(*makeMockData(plan, 2).take(), plan, 2);
  EXPECT_EQ(one[1].tokens, same[1].tokens);
  EXPECT_NE(one[0].tokens, one[1].tokens);
  EXPECT_NE(one[0].tokens, other[0].tokens);
  std::map<int32_t, std::map<int32_t, int>> followers;
  int total = 0, best = 0;
  for (const GlobalBatch &batch : one)
    for (size_t i = 0; i < batch.tokens.size(); ++i, ++total) {
      ASSERT_TRUE(batch.tokens[i] >= 0 && batch.tokens[i] < 128);
      ++followers[batch.tokens[i]][batch.labels[i]];
      if ((i + 1) % 128 != 0)
        EXPECT_EQ(batch.labels[i], batch.tokens[i + 1]);
    }
  for (const auto &[token, next] : followers)
    best += std::ranges::max_element(next, {}, [](const auto &entry) { return entry.second; })->second;
  EXPECT_NEAR(double(best) / total, 0.88, 0.04);
  EXPECT_EQ(followers.size(), 128u);
  Plan tiny = planFor(1, 4, 1);
  EXPECT_EQ(batches(*makeMockData(tiny, 1).take(), tiny, 1)[0].tokens, (std::vector<int32_t>{0, 0, 0, 0}));
}

// Somebody empties the file while it is read: an error of the batch, not a signal of the process.
TEST_F(Data, aFileTruncatedMeanwhileIsAnError) {
  const Plan plan = planFor(2, 4, 100);
  const std::string bytes = bytesOf(counting<int32_t>(40));
  dir.write("a.bin", bytes);
  dir.write("a.npy", npy("<i4", "(40,)", bytes));
  dir.write("a.txt", std::string(40, 'a'));
  const std::vector<int64_t> tokens(16, 1);
  writeBatches(dir.path("a.safetensors"), {{"input_ids", {{2, 2, 4}, tokens}}, {"labels", {{2, 2, 4}, tokens}}});
  for (const char *name : {"a.bin", "a.npy", "a.txt", "a.safetensors"}) {
    const std::string path = dir.path(name);
    const auto size = std::filesystem::file_size(path);
    const std::unique_ptr<DataSource> source = openOk(path, plan, 1, {.binType = path.ends_with(".bin") ? "i32" : ""});
    GlobalBatch batch = GlobalBatch::create(plan).take();
    ASSERT_TRUE(isOk(source->batch(0, batch)));
    std::filesystem::resize_file(path, 0);
    EXPECT_TRUE(fails(source->batch(plan.globalBatchSize, batch),
                      {path + ": ends before byte ", fmt::format("expected {} bytes as when it was opened", size)}));
  }
}
