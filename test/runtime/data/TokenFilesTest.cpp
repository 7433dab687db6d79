// The type of a .bin: from Megatron-LM's own index files, from the user, or from the tokens where only one type fits.
#include "runtime/data/TokenFiles.h"

#include "test/Places.h"
#include "test/runtime/data/DataPlans.h"
#include "test/runtime/data/indexed/IndexParts.h"

#include <numeric>

using namespace mgc;
using namespace mgc::test;

namespace {

using TokenFiles = InTempDir;

const std::string kIndexed = testFile("golden/indexed/");

template <typename T> std::string counting(int64_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T(1));
  return bytesOf(values);
}

// An index of sequences of tokens of 2 bytes.
std::string indexOf(const std::vector<int32_t> &lengths) {
  std::vector<int64_t> offsets;
  for (int64_t i = 0, offset = 0; i < std::ssize(lengths); offset += 2 * lengths[i++])
    offsets.push_back(offset);
  return IndexParts{.lengths = lengths, .offsets = offsets, .documents = {}}.bytes();
}

} // namespace

TEST_F(TokenFiles, theIndexSaysTheType) {
  const auto typeOf = [](const char *name) { return elementTypeOf({kIndexed + name, "", 150'000}); };
  EXPECT_EQ(*typeOf("docs_u16.bin"), ElementType::U16);
  EXPECT_EQ(*typeOf("docs_i32.bin"), ElementType::I32);
  EXPECT_EQ(*typeOf("dtype_int64.bin"), ElementType::I64);
  EXPECT_TRUE(fails(typeOf("dtype_float32.bin"), {"dtype_float32.idx", "F32, expected integers"}));
  EXPECT_EQ(*elementTypeOf({kIndexed + "docs_i32.bin", "i32", 150'000}), ElementType::I32);
  EXPECT_TRUE(fails(elementTypeOf({kIndexed + "docs_i32.bin", "u16", 150'000}),
                    {"--bin-type u16", "docs_i32.idx", "I32", "leave the flag out"}));
}

TEST_F(TokenFiles, refusesAnIndexOfAnotherFile) {
  const auto typeOf = [&](std::vector<int32_t> lengths) {
    dir.write("b.idx", indexOf(lengths));
    return elementTypeOf({dir.write("b.bin", counting<uint16_t>(6)), "", 100});
  };
  EXPECT_EQ(*typeOf({2, 4}), ElementType::U16);
  EXPECT_TRUE(fails(typeOf({3, 2}), {"5 tokens of 2 bytes", "has 12 bytes"}));
  EXPECT_TRUE(fails(typeOf({3, 7}), {"7 tokens of 2 bytes", "12 bytes", "cut off"}));
}

// An int32 file read as uint16 would be a stream of twice the tokens, every second one 0.
TEST_F(TokenFiles, refusesWhatCanBeReadInSeveralWays) {
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

TEST_F(TokenFiles, aTextIsForModelsOfBytes) {
  const std::string text = dir.write("a.txt", "to be or not to be"), lines = dir.write("a.jsonl", "{\"text\": \"a\"}");
  const auto open = [](const std::string &path, int64_t vocabulary, const DataOptions &options = {}) {
    return openData(path, planOfData(4, vocabulary, false), 1, options);
  };
  EXPECT_TRUE(isOk(open(text, 256)));
  EXPECT_TRUE(isOk(open(text, 384)));
  EXPECT_TRUE(fails(open(text, 50257), {"a.txt", "50257 tokens", "--text-bytes", "docs/data.md"}));
  EXPECT_TRUE(isOk(open(text, 50257, {.textBytes = true})));
  EXPECT_TRUE(fails(open(text, 256, {.tokenizer = "w/tokenizer.json"}), {"--load", "w/tokenizer.json"}));
  EXPECT_TRUE(isOk(open(text, 256, {.textBytes = true, .tokenizer = "w/tokenizer.json"})));
  EXPECT_TRUE(fails(open(lines, 256), {"is JSON", "docs/data.md"}));
  EXPECT_TRUE(fails(open(dir.write("a.JSON", "[]"), 256), {"is JSON"}));
  EXPECT_TRUE(fails(open(dir.write("a.idx", indexOf({3})), 256), {"index of a data set", "a.bin"}));
  EXPECT_TRUE(fails(open(dir.write("a.bin", "abcdef"), 256, {.textBytes = true}), {"--text-bytes is for text"}));
}

TEST_F(TokenFiles, findsTheTokenizerOfWeights) {
  EXPECT_EQ(tokenizerIn(dir.path()), "");
  dir.write("tokenizer.json", "{}");
  EXPECT_EQ(tokenizerIn(dir.path()), dir.path("tokenizer.json"));
  EXPECT_EQ(tokenizerIn(dir.write("model.safetensors", "")), "");
  EXPECT_EQ(tokenizerIn(dir.path("none")), "");
}

TEST_F(TokenFiles, countsEpochs) {
  plan::Plan plan = planOfData(8, 256, false);
  plan.globalBatchSize = 4;
  const auto data = openData(dir.write("a.txt", std::string(81, 'a')), plan, 1); // 10 samples
  ASSERT_TRUE(isOk(data));
  EXPECT_DOUBLE_EQ(*(*data)->epochsOf(20), 2);
  EXPECT_DOUBLE_EQ(*(*data)->epochsOf(4), 0.4);
  EXPECT_FALSE(makeMockData(plan, 1).take()->epochsOf(1));
}
