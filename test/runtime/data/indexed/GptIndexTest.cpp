// Documents, boundaries and order of samples: element for element those of Megatron-LM.
#include "runtime/data/indexed/GptIndex.h"

#include "test/runtime/data/indexed/GoldenFiles.h"

#include <sys/resource.h>

using namespace mgc;
using namespace mgc::test;

namespace {

std::vector<std::vector<int64_t>> pairsOf(const UnalignedArray<SampleBoundary> &boundaries) {
  std::vector<std::vector<int64_t>> pairs;
  for (int64_t i = 0; i < boundaries.size(); ++i)
    pairs.push_back({boundaries[i].document, boundaries[i].offset});
  return pairs;
}

} // namespace

TEST(GptIndex, isThatOfMegatronForManySmallDataSets) {
  const nlohmann::json file = goldenJson("gpt/sweep.json");
  ASSERT_EQ(file["rows"].size(), 120u);
  for (const nlohmann::json &row : file["rows"]) {
    SCOPED_TRACE(row.dump().substr(0, 300));
    const auto lengths = row["lengths"].get<std::vector<int32_t>>();
    SampleCut cut{.length = row["sequence_length"],
                  .readsNext = row["add_extra_token_to_sequence"],
                  .keepsPartial = row["split"] == "valid" && !row["drop_last_partial_validation_sequence"],
                  .seed = row["random_seed"]};
    if (!row["num_samples"].is_null())
      cut.samples = row["num_samples"].get<int64_t>();
    const Result<GptIndex> index =
        buildGptIndex(UnalignedArray(std::span(lengths)), {row["sequences"][0], row["sequences"][1]}, cut, "sweep");
    if (row["shuffle_index"].empty()) { // here an error says so
      EXPECT_TRUE(fails(index, {"sweep", "expected at least"}));
      continue;
    }
    ASSERT_TRUE(isOk(index));
    EXPECT_EQ(index->counts.epochs, row["epochs"]);
    EXPECT_EQ(index->counts.beforeLast.has_value(), row["separate_final_epoch"]);
    EXPECT_EQ(asIntegers(index->documents), row["document_index"].get<std::vector<int64_t>>());
    EXPECT_EQ(pairsOf(index->boundaries), row["sample_index"].get<std::vector<std::vector<int64_t>>>());
    EXPECT_EQ(asIntegers(index->order), row["shuffle_index"].get<std::vector<int64_t>>());
  }
}

// Where Megatron counts in float32.
TEST(GptIndex, countsPartialSamplesAsMegatron) {
  const nlohmann::json file = goldenJson("gpt/large.json");
  for (const nlohmann::json &row : file["rows"]) {
    const std::vector<int32_t> lengths = {row["tokens"]};
    const Result<GptIndex> index = buildGptIndex(UnalignedArray(std::span(lengths)), {0, 1},
                                                 {.length = row["sequence_length"], .keepsPartial = true}, "large");
    ASSERT_TRUE(isOk(index));
    EXPECT_EQ(index->counts.samples, row["samples"]);
    auto pairs = pairsOf(index->boundaries);
    pairs.erase(pairs.begin(), pairs.end() - 3);
    EXPECT_EQ(pairs, row["last"].get<std::vector<std::vector<int64_t>>>());
  }
}

TEST(GptIndex, refusesTooLittleAndTooMuch) {
  const std::vector<int32_t> lengths = {0, 3, 0};
  const auto build = [&](SequenceRange range, SampleCut cut) {
    return buildGptIndex(UnalignedArray(std::span(lengths)), range, cut, "corpus");
  };
  EXPECT_TRUE(fails(build({0, 1}, {.length = 2}), {"corpus: there are no tokens"}));
  EXPECT_TRUE(fails(build({0, 3}, {.length = 3}), {"there are 3 tokens, expected at least 4"}));
  EXPECT_TRUE(isOk(build({0, 3}, {.length = 3, .samples = 1}))); // two epochs have 6
  EXPECT_TRUE(fails(build({0, 3}, {.length = 2, .samples = int64_t(1) << 62}), {"too many"}));
  EXPECT_TRUE(fails(build({0, 3}, {.length = 2, .samples = int64_t(1) << 40}), {"more than 2147483647"}));
}

// 10^9 samples of 12 bytes, where this process may have 4 GB.
TEST(GptIndex, refusesWhatTheMemoryCannotHold) {
  if (MGC_TEST_SANITIZED)
    GTEST_SKIP() << "what sanitizers map counts, too";
  const std::vector<int32_t> lengths = {1'000'000'001};
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
  const rlimit small{4'000'000'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &small), 0);
  const auto built = buildGptIndex(UnalignedArray(std::span(lengths)), {0, 1}, {.length = 1}, "large");
  ::setrlimit(RLIMIT_DATA, &before);
  EXPECT_TRUE(fails(built, {"large: the order of 1000000000 samples takes 12000000012 bytes", "of memory, but ",
                            " has ", "expected fewer steps"}));
}

TEST(GptIndex, keepsWhatItBuilt) {
  const TempDir dir;
  const std::vector<int32_t> lengths = {5, 9, 4, 7}, other = {5, 9, 4, 8};
  const SampleCut cut{.length = 4, .samples = 20};
  const auto open = [&](const std::vector<int32_t> &values, uint64_t digest, const SampleCut &ofCut) {
    return cachedGptIndex(UnalignedArray(std::span(values)), digest, {0, 4}, ofCut, "corpus", dir.path("cache"));
  };
  const auto files = [&] {
    const std::filesystem::directory_iterator all(dir.path("cache"));
    return std::distance(begin(all), end(all));
  };
  const GptIndex built = buildGptIndex(UnalignedArray(std::span(lengths)), {0, 4}, cut, "corpus").take();
  for (int time = 0; time < 2; ++time) {
    const Result<GptIndex> kept = open(lengths, 1, cut);
    ASSERT_TRUE(isOk(kept));
    EXPECT_EQ(asIntegers(kept->documents), asIntegers(built.documents));
    EXPECT_EQ(pairsOf(kept->boundaries), pairsOf(built.boundaries));
    EXPECT_EQ(asIntegers(kept->order), asIntegers(built.order));
    EXPECT_EQ(files(), 1);
  }
  EXPECT_TRUE(isOk(open(other, 2, cut)));
  EXPECT_TRUE(isOk(open(lengths, 1, {.length = 4, .seed = 7, .samples = 20})));
  EXPECT_TRUE(isOk(open(lengths, 1, {.length = 4, .readsNext = false, .samples = 20})));
  EXPECT_TRUE(isOk(open(lengths, 1, {.length = 4, .keepsPartial = true, .samples = 20})));
  EXPECT_EQ(files(), 5);
  for (const auto &file : std::filesystem::directory_iterator(dir.path("cache")))
    std::filesystem::resize_file(file.path(), 60);
  EXPECT_FALSE(open(lengths, 1, cut).isOk());
}
