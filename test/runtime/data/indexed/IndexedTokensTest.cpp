// .bin and .idx: what Megatron-LM's own reader says of its files, and files that are none.
#include "runtime/data/indexed/IndexedTokens.h"

#include "runtime/data/indexed/IndexedWriter.h"
#include "test/runtime/data/indexed/GoldenFiles.h"
#include "test/runtime/data/indexed/IndexParts.h"

#include <chrono>

using namespace mgc;
using namespace mgc::test;

namespace {

const std::string kIndexed = kGolden + "indexed/";

// The sum over i of (i + 1) * token i of each sequence.
std::vector<int64_t> checksumsOf(const IndexedTokens &files) {
  std::vector<int64_t> sums;
  for (int64_t i = 0; i < files.sequences(); ++i) {
    const int64_t length = files.lengths()[i];
    std::vector<std::byte> bytes(static_cast<size_t>(length * sizeInBytes(files.type())));
    EXPECT_TRUE(isOk(files.readRaw(i, 0, bytes)));
    const TensorView view{files.type(), {length}, bytes};
    std::vector<int64_t> values;
    if (isFloat(files.type()))
      values = asIntegers(floatsOf(view));
    else
      values = integersOf(view);
    int64_t sum = 0;
    for (int64_t token = 0; token < length; ++token)
      sum += (token + 1) * values[static_cast<size_t>(token)];
    sums.push_back(sum);
  }
  return sums;
}

// Both files have the bytes of Megatron's.
void expectGolden(const TempDir &dir, const std::string &name, const std::string &golden) {
  for (const char *ending : {".bin", ".idx"}) {
    std::ifstream expected(kIndexed + golden + ending, std::ios::binary);
    EXPECT_EQ(dir.read(name + ending), std::string(std::istreambuf_iterator<char>(expected), {})) << golden << ending;
  }
}

} // namespace

TEST(IndexedTokens, readsWhatMegatronReads) {
  const nlohmann::json expected = goldenJson("indexed/expect.json")["datasets"];
  const Safetensors arrays = goldenTensors("indexed/expect.safetensors");
  ASSERT_EQ(expected.size(), 13u);
  for (const auto &[name, facts] : expected.items()) {
    SCOPED_TRACE(name);
    const Result<IndexedTokens> files = IndexedTokens::open(kIndexed + name);
    ASSERT_TRUE(isOk(files));
    EXPECT_EQ(files->sequences(), facts["sequences"]);
    EXPECT_EQ(files->documents(), facts["documents"]);
    EXPECT_EQ(files->tokens(), facts["tokens"]);
    EXPECT_EQ(indexCodeOf(files->type()), facts["dtype_code"].get<uint8_t>());
    EXPECT_EQ(files->hasModes(), facts["multimodal"]);
    EXPECT_EQ(asIntegers(files->lengths()), integersOf(arrays, name + ".sequence_lengths"));
    EXPECT_EQ(asIntegers(files->offsets()), integersOf(arrays, name + ".sequence_pointers"));
    EXPECT_EQ(asIntegers(files->documentIndices()), integersOf(arrays, name + ".document_indices"));
    EXPECT_EQ(checksumsOf(*files), integersOf(arrays, name + ".sequence_checksum"));
    if (files->hasModes())
      EXPECT_EQ(asIntegers(files->modes()), integersOf(arrays, name + ".sequence_modes"));
  }
}

TEST(IndexedTokens, readsPartsOfSequences) {
  const IndexedTokens files = IndexedTokens::open(kIndexed + "docs_u16").take();
  std::vector<int32_t> whole(static_cast<size_t>(files.lengths()[0])), part(5);
  ASSERT_TRUE(isOk(files.read(0, 0, 4096, whole)));
  ASSERT_TRUE(isOk(files.read(0, 2, 4096, part)));
  EXPECT_EQ(part, std::vector<int32_t>(whole.begin() + 2, whole.begin() + 7));
  EXPECT_TRUE(fails(files.read(0, 0, 3771, whole), {"docs_u16.bin", "sequence 0", "token 0 is 3771", "0 to 3770"}));
}

TEST(IndexedTokens, refusesFilesThatContradictThemselves) {
  const TempDir dir;
  const auto open = [&](const std::string &index, const std::string &bin = std::string(14, 'a')) {
    dir.write("a.bin", bin);
    dir.write("a.idx", index);
    return IndexedTokens::open(dir.path("a"));
  };
  const std::string good = IndexParts().bytes();
  EXPECT_TRUE(isOk(open(good)));
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(open(good.substr(0, size)).isOk()) << size << " bytes";
  EXPECT_TRUE(fails(open("TNTIDX" + good.substr(6)), {"does not begin with MMIDIDX"}));
  EXPECT_TRUE(fails(open(IndexParts{.type = 9}.bytes()), {"names type 9, expected 1 to 8"}));
  EXPECT_TRUE(fails(open(IndexParts{.lengths = {3, -1}}.bytes()), {"sequence 1 has -1 tokens"}));
  EXPECT_TRUE(fails(open(IndexParts{.lengths = {3, 5}}.bytes()), {"sequence 1 has 5 tokens of 2 bytes", "14 bytes"}));
  EXPECT_TRUE(fails(open(IndexParts{.offsets = {0, INT64_MAX}}.bytes()), {"sequence 1"}));
  EXPECT_TRUE(fails(open(IndexParts{.offsets = {-2, 6}}.bytes()), {"sequence 0"}));
  EXPECT_TRUE(fails(open(IndexParts{.documents = {0, 2, 1}}.bytes()), {"document index 2 is 1, expected 2 to 2"}));
  EXPECT_TRUE(fails(open(IndexParts{.documents = {0, 1}}.bytes()), {"last document index is 1, expected 2"}));
  EXPECT_TRUE(fails(open(IndexParts{.rest = "abc"}.bytes()), {"has 3 bytes behind its 3 document indices"}));
  EXPECT_TRUE(open(IndexParts{.rest = "ab"}.bytes())->hasModes());
  EXPECT_TRUE(fails(open(good, std::string(13, 'a')), {"cut off"}));
  std::string huge = good;
  huge.replace(18, 8, std::string(8, '\xff'));
  EXPECT_TRUE(fails(open(huge), {"which do not fit its"}));
}

TEST(IndexedTokens, writesTheBytesOfMegatron) {
  const TempDir dir;
  for (const char *name : {"docs_u16", "docs_i32", "sentences_u16"}) {
    const IndexedTokens files = IndexedTokens::open(kIndexed + name).take();
    IndexedWriter writer = IndexedWriter::create(dir.path(name), files.type()).take();
    for (int64_t document = 0; document < files.documents(); ++document) {
      for (int64_t i = files.documentIndices()[document]; i < files.documentIndices()[document + 1]; ++i) {
        std::vector<int32_t> tokens(static_cast<size_t>(files.lengths()[i]));
        ASSERT_TRUE(isOk(files.read(i, 0, INT32_MAX, tokens)));
        ASSERT_TRUE(isOk(writer.addSequence(tokens)));
      }
      ASSERT_TRUE(isOk(writer.endDocument()));
    }
    EXPECT_FALSE(std::filesystem::exists(dir.path(std::string(name) + ".bin")));
    ASSERT_TRUE(isOk(writer.commit()));
    expectGolden(dir, name, name);
  }
}

TEST(IndexedTokens, mergesAsMegatronDoes) {
  const TempDir dir;
  const auto merge = [&](const std::vector<std::string> &names, const char *out) {
    IndexedWriter writer =
        IndexedWriter::create(dir.path(out), IndexedTokens::open(kIndexed + names[0])->type()).take();
    for (const std::string &name : names)
      if (Status added = writer.append(*IndexedTokens::open(kIndexed + name)); !added.isOk())
        return added;
    return writer.commit();
  };
  ASSERT_TRUE(isOk(merge({"part0_u16", "part1_u16"}, "both")));
  expectGolden(dir, "both", "merged_u16");
  ASSERT_TRUE(isOk(merge({"modes_i32"}, "modes")));
  expectGolden(dir, "modes", "modes_i32");
  EXPECT_TRUE(fails(merge({"part0_u16", "docs_i32"}, "x"), {"docs_i32.idx", "type I32", "type U16"}));
  EXPECT_TRUE(fails(merge({"docs_i32", "modes_i32"}, "x"), {"modes_i32.idx: has modes"}));
}

TEST(IndexedTokens, theTypeFollowsFromTheVocabulary) {
  EXPECT_EQ(indexTypeFor(65'499), ElementType::U16);
  EXPECT_EQ(indexTypeFor(65'500), ElementType::I32);
  const TempDir dir;
  IndexedWriter writer = IndexedWriter::create(dir.path("a"), ElementType::U16).take();
  EXPECT_TRUE(fails(writer.addSequence(std::vector{65'536}), {"token 65536", "U16"}));
}

TEST(IndexedTokens, opensTenMillionDocumentsInASecond) {
  const TempDir dir;
  constexpr int64_t kMany = 10'000'000;
  std::vector<int64_t> offsets(kMany), documents(kMany + 1);
  for (int64_t i = 0; i < kMany; ++i)
    offsets[i] = 2 * i, documents[i + 1] = i + 1;
  dir.write("a.idx",
            IndexParts{.lengths = std::vector<int32_t>(kMany, 1), .offsets = offsets, .documents = documents}.bytes());
  dir.write("a.bin", "");
  std::filesystem::resize_file(dir.path("a.bin"), 2 * kMany);
  const auto begin = std::chrono::steady_clock::now();
  const Result<IndexedTokens> files = IndexedTokens::open(dir.path("a"));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(isOk(files));
  EXPECT_EQ(files->tokens(), kMany);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(seconds.count(), 1);
#endif
  RecordProperty("seconds", std::to_string(seconds.count()));
}
