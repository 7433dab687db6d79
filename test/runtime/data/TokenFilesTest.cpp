// The type of a .bin: from Megatron-LM's own index files, from the user, or from the tokens where only one type fits.
#include "runtime/data/TokenFiles.h"

#include "runtime/data/Data.h"
#include "test/Places.h"
#include "test/runtime/TempDir.h"

#include <numeric>

using namespace mgc;
using namespace mgc::test;

namespace {

const std::string kIndexed = testFile("golden/indexed/");

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}
template <typename T> std::string counting(int64_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T(1));
  return bytesOf(values);
}

std::string indexOf(uint8_t type, std::vector<int32_t> lengths, uint64_t documents = 0) {
  const uint64_t version = 1, sequences = lengths.size();
  std::string bytes("MMIDIDX\0\0", 9);
  bytes += bytesOf(std::vector{version}) + char(type) + bytesOf(std::vector{sequences, documents});
  std::vector<int64_t> offsets;
  for (int64_t i = 0, offset = 0; i < std::ssize(lengths); offset += 2 * lengths[i++])
    offsets.push_back(offset);
  return bytes + bytesOf(lengths) + bytesOf(offsets) + std::string(8 * documents, '\0');
}

} // namespace

TEST(TokenFiles, theIndexSaysTheType) {
  const auto typeOf = [](const char *name) { return elementTypeOf({kIndexed + name, "", 150'000}); };
  EXPECT_EQ(*typeOf("docs_u16.bin"), ElementType::U16);
  EXPECT_EQ(*typeOf("docs_i32.bin"), ElementType::I32);
  EXPECT_EQ(*typeOf("dtype_int64.bin"), ElementType::I64);
  EXPECT_TRUE(fails(typeOf("dtype_float32.bin"), {"dtype_float32.idx", "F32, expected integers"}));
  EXPECT_EQ(*elementTypeOf({kIndexed + "docs_i32.bin", "i32", 150'000}), ElementType::I32);
  EXPECT_TRUE(fails(elementTypeOf({kIndexed + "docs_i32.bin", "u16", 150'000}),
                    {"--bin-type u16", "docs_i32.idx", "I32", "leave the flag out"}));
}

TEST(TokenFiles, refusesAnIndexOfAnotherFile) {
  const TempDir dir;
  const auto typeOf = [&](std::vector<int32_t> lengths) {
    dir.write("b.idx", indexOf(8, std::move(lengths)));
    return elementTypeOf({dir.write("b.bin", counting<uint16_t>(6)), "", 100});
  };
  EXPECT_EQ(*typeOf({2, 4}), ElementType::U16);
  EXPECT_TRUE(fails(typeOf({3, 2}), {"5 tokens of 2 bytes", "has 12 bytes"}));
  EXPECT_TRUE(fails(typeOf({3, 7}), {"7 tokens of 2 bytes", "12 bytes", "cut off"}));
}

// An int32 file read as uint16 would be a stream of twice the tokens, every second one 0.
TEST(TokenFiles, refusesWhatCanBeReadInSeveralWays) {
  const TempDir dir;
  const auto typeOf = [&](const std::string &bytes, int64_t vocabulary, const char *type = "") {
    return elementTypeOf({dir.write("a.bin", bytes), type, vocabulary});
  };
  EXPECT_TRUE(fails(typeOf(counting<int32_t>(1000), 50257), {"any of u16, i32", "--bin-type", "a.idx"}));
  EXPECT_TRUE(fails(typeOf(counting<int64_t>(1000), 50257), {"any of u16, i32, i64"}));
  EXPECT_TRUE(fails(typeOf(counting<uint16_t>(200), 256), {"any of u8, u16"}));
  EXPECT_EQ(*typeOf(counting<int32_t>(1000), 50257, "i32"), ElementType::I32);
  EXPECT_EQ(*typeOf(counting<uint16_t>(1000), 50257), ElementType::U16);
  EXPECT_EQ(*typeOf(counting<int32_t>(1000), 100'000), ElementType::I32); // uint16 cannot hold such tokens
  EXPECT_TRUE(
      fails(typeOf(std::string(9, 'a'), 50257), {"tokens of u16, but 9 bytes", "is it cut off?", "--bin-type u16"}));
}

TEST(TokenFiles, aTextIsForModelsOfBytes) {
  const TempDir dir;
  const std::string text = dir.write("a.txt", "to be or not to be"), lines = dir.write("a.jsonl", "{\"text\": \"a\"}");
  const auto open = [](const std::string &path, int64_t vocabulary, const DataOptions &options = {}) {
    plan::Plan plan;
    plan.globalBatchSize = 1, plan.sequenceLength = 4, plan.vocabulary = vocabulary;
    return openData(path, plan, 1, options);
  };
  EXPECT_TRUE(isOk(open(text, 256)));
  EXPECT_TRUE(isOk(open(text, 384)));
  EXPECT_TRUE(fails(open(text, 50257), {"a.txt", "50257 tokens", "--text-bytes", "docs/data.md"}));
  EXPECT_TRUE(isOk(open(text, 50257, {.textBytes = true})));
  EXPECT_TRUE(fails(open(text, 256, {.tokenizer = "w/tokenizer.json"}), {"--load", "w/tokenizer.json"}));
  EXPECT_TRUE(isOk(open(text, 256, {.textBytes = true, .tokenizer = "w/tokenizer.json"})));
  EXPECT_TRUE(fails(open(lines, 256), {"is JSON", "docs/data.md"}));
  EXPECT_TRUE(fails(open(dir.write("a.JSON", "[]"), 256), {"is JSON"}));
  EXPECT_TRUE(fails(open(dir.write("a.idx", indexOf(8, {3})), 256), {"index of a data set", "a.bin"}));
  EXPECT_TRUE(fails(open(dir.write("a.bin", "abcdef"), 256, {.textBytes = true}), {"--text-bytes is for text"}));
}

TEST(TokenFiles, findsTheTokenizerOfWeights) {
  const TempDir dir;
  EXPECT_EQ(tokenizerIn(dir.path()), "");
  dir.write("tokenizer.json", "{}");
  EXPECT_EQ(tokenizerIn(dir.path()), dir.path("tokenizer.json"));
  EXPECT_EQ(tokenizerIn(dir.write("model.safetensors", "")), "");
  EXPECT_EQ(tokenizerIn(dir.path("none")), "");
}

TEST(TokenFiles, countsEpochs) {
  const TempDir dir;
  plan::Plan plan;
  plan.globalBatchSize = 4, plan.sequenceLength = 8, plan.vocabulary = 256;
  const auto data = openData(dir.write("a.txt", std::string(81, 'a')), plan, 1); // 10 samples
  ASSERT_TRUE(isOk(data));
  EXPECT_DOUBLE_EQ(*(*data)->epochsOf(20), 2);
  EXPECT_DOUBLE_EQ(*(*data)->epochsOf(4), 0.4);
  EXPECT_FALSE(makeMockData(plan, 1).take()->epochsOf(1));
}
