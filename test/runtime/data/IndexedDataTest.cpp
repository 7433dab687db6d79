// --data-path: the batches of Megatron-LM's GPTDataset, with its masks, positions and documents.
#include "test/runtime/data/DataPlans.h"
#include "test/runtime/data/indexed/GoldenFiles.h"

#include <regex>

using namespace mgc;
using namespace mgc::test;

namespace {

// A sample a step; `packed`: it reads documents.
struct CaseRun {
  const nlohmann::json &row;
  const Safetensors &arrays;
  bool option(const char *name, bool otherwise = false) const { return row["options"].value(name, otherwise); }
  bool isPacked() const {
    return option("inter_document_masking") || option("reset_position_ids") || option("reset_attention_mask");
  }
  std::vector<int64_t> integers(const std::string &name) const { return integersOf(arrays, name); }
};

CorpusOptions corpusOf(const CaseRun &run) {
  CorpusOptions corpus;
  corpus.files.blend = parseBlend("--data-path", inGolden(run.row["data"])).take();
  corpus.files.split = parseSplit(run.row["split"]).take();
  corpus.separatesSequences = run.option("inter_document_masking");
  // A pad token that ends documents is none, unless the case says so.
  const nlohmann::json &tokenizer = run.row["tokenizer"];
  if (const int64_t pad = tokenizer["pad"];
      pad >= 0 && (pad != tokenizer["eod"] || run.option("allow_ambiguous_pad_tokens")))
    corpus.padToken = pad;
  return corpus;
}

void expectBatch(const CaseRun &run, const std::string &at, size_t place, const GlobalBatch &batch) {
  const int64_t length = run.row["sequence_length"];
  const auto row = [&](const char *name) {
    const auto all = run.integers(at + name);
    return std::vector(all.begin() + place * length, all.begin() + (place + 1) * length);
  };
  const auto tokens = row(".tokens"), labels = row(".labels"), positions = row(".position_ids");
  const TensorView &weights = *run.arrays.find(at + ".loss_mask");
  for (int64_t i = 0; i < length; ++i) {
    float weight = 0;
    convertToF32(weights, static_cast<int64_t>(place) * length + i, 1, &weight);
    EXPECT_EQ(batch.tokens[i], tokens[i]) << i;
    EXPECT_EQ(batch.labels[i], weight == 0 ? kIgnoredLabel : labels[i]) << i;
    if (run.option("inter_document_masking") || run.option("reset_position_ids"))
      EXPECT_EQ(i - batch.starts[i], positions[i]) << i;
  }
  if (!run.option("reset_attention_mask") || !run.arrays.find(at + ".attention_mask"))
    return;
  const auto mask = run.integers(at + ".attention_mask");
  for (int64_t query = 0; query < length; ++query)
    for (int64_t key = 0; key < length; ++key)
      EXPECT_EQ(mask[(place * length + query) * length + key], key > query || key < batch.starts[query]);
}

void expectSplit(const CaseRun &run, Split split) {
  const std::string at(toString(split));
  const int64_t length = run.row["sequence_length"], vocabulary = run.row["tokenizer"]["vocab_size"];
  SplitRequest request{split};
  request.keepsPartial = split == Split::valid && !run.option("drop_last_partial_validation_sequence", true);
  if (const nlohmann::json &size = run.row["sizes"][static_cast<size_t>(split)]; !size.is_null())
    request.samples = size.get<int64_t>();
  DataOptions options;
  options.documents.masksEnds = run.option("eod_mask_loss");
  if (!run.option("inter_document_masking") && (run.isPacked() || options.documents.masksEnds))
    options.documents.endToken = run.row["tokenizer"]["eod"];
  const plan::Plan plan = planOfData(length, vocabulary, run.isPacked());
  const auto data = openCorpus(corpusOf(run), request, plan, run.row["random_seed"], options);
  ASSERT_TRUE(isOk(data));
  GlobalBatch batch = GlobalBatch::create(plan).take();
  const auto ids = run.integers(at + ".sample_ids");
  for (size_t place = 0; place < ids.size(); ++place) {
    SCOPED_TRACE(fmt::format("{} {}", at, ids[place]));
    ASSERT_TRUE(isOk((*data)->batch(ids[place], batch)));
    expectBatch(run, at, place, batch);
  }
}

CorpusOptions docsAlone() {
  CorpusOptions corpus;
  corpus.files.blend.prefixes = {kGolden + "indexed/docs_u16"};
  corpus.files.split = parseSplit("969,30,1").take();
  return corpus;
}

} // namespace

TEST(IndexedData, isThatOfMegatron) {
  int64_t compared = 0;
  const nlohmann::json file = goldenJson("gpt/cases.json");
  for (const auto &[name, row] : file["cases"].items()) {
    SCOPED_TRACE(name);
    const Safetensors arrays = goldenTensors("gpt/" + name + ".safetensors");
    const CaseRun run{row, arrays};
    if (row["data"].is_null() || !run.option("add_extra_token_to_sequence", true))
      continue;
    for (const Split split : kSplits)
      if (arrays.find(fmt::format("{}.sample_ids", toString(split))))
        expectSplit(run, split), ++compared;
  }
  EXPECT_EQ(compared, 38);
}

// Behind the last sample the first comes again; the same batches whatever was read before.
TEST(IndexedData, stepsAreIndependent) {
  plan::Plan plan = planOfData(64, 4096, false);
  plan.globalBatchSize = 4;
  const auto open = [&] { return openCorpus(docsAlone(), {Split::valid}, plan, 1).take(); };
  const auto data = open(), other = open();
  GlobalBatch a = GlobalBatch::create(plan).take(), b = GlobalBatch::create(plan).take();
  for (const int64_t step : {3, 0, 19, 7}) { // 19 samples
    ASSERT_TRUE(isOk(data->batch(step * 4, a)));
    ASSERT_TRUE(isOk(other->batch(step % 19 * 4, b)));
    EXPECT_EQ(a.tokens, b.tokens);
  }
}

// The tokens that it names are those of the batch, and one more that is a label.
TEST(IndexedData, saysWhereABatchIs) {
  plan::Plan plan = planOfData(64, 4096, false);
  plan.globalBatchSize = 3;
  const auto data = openCorpus(docsAlone(), {Split::train}, plan, 1).take();
  const auto files = IndexedTokens::open(kGolden + "indexed/docs_u16").take();
  GlobalBatch batch = GlobalBatch::create(plan).take();
  for (const int64_t first : {0, 15, 32}) {
    ASSERT_TRUE(isOk(data->batch(first, batch)));
    std::string text = data->describeBatch(first);
    std::vector<int32_t> found;
    static const std::regex part("sequence ([0-9]+), tokens ([0-9]+) to ([0-9]+)");
    for (std::sregex_iterator it(text.begin(), text.end(), part), end; it != end; ++it) {
      const int64_t begin = std::stoll((*it)[2]), last = std::stoll((*it)[3]);
      std::vector<int32_t> tokens(static_cast<size_t>(last - begin + 1));
      ASSERT_TRUE(isOk(files.read(std::stoll((*it)[1]), begin, 4096, tokens)));
      found.insert(found.end(), tokens.begin(), tokens.end());
    }
    std::vector<int32_t> expected;
    for (size_t i = 0; i < 3; ++i) {
      expected.insert(expected.end(), batch.tokens.begin() + 64 * i, batch.tokens.begin() + 64 * (i + 1));
      expected.push_back(batch.labels[64 * i + 63]);
    }
    EXPECT_EQ(found, expected) << text;
  }
}

TEST(IndexedData, cyclicFollowsTheRanks) {
  plan::Plan plan = planOfData(64, 4096, false);
  plan.globalBatchSize = 8, plan.microBatchSize = 2, plan.microbatches = 2; // 2 ranks
  CorpusOptions corpus = docsAlone();
  const auto single = openCorpus(corpus, {Split::train}, planOfData(64, 4096, false), 1).take();
  corpus.schedule = SampleOrderKind::cyclic;
  const auto cyclic = openCorpus(corpus, {Split::train}, plan, 1).take();
  GlobalBatch batch = GlobalBatch::create(plan).take(), one = GlobalBatch::create(planOfData(64, 4096, false)).take();
  ASSERT_TRUE(isOk(cyclic->batch(8, batch)));
  std::vector<int64_t> numbers(8);
  CyclicOrder(346, {2, 2}, true).fill(8, numbers);
  for (size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_TRUE(isOk(single->batch(numbers[i], one)));
    EXPECT_TRUE(std::equal(one.tokens.begin(), one.tokens.end(), batch.tokens.begin() + i * 64));
  }
}

TEST(IndexedData, refusesWhatDoesNotFit) {
  const plan::Plan plan = planOfData(64, 4096, false);
  EXPECT_TRUE(fails(openCorpus(docsAlone(), {}, plan, uint64_t(1) << 32), {"--seed 4294967296", "4294967295"}));
  EXPECT_TRUE(fails(openCorpus(docsAlone(), {}, planOfData(64, 4096, true), 1), {"--eod-token-id"}));
  CorpusOptions corpus = docsAlone();
  corpus.separatesSequences = true;
  EXPECT_TRUE(isOk(openCorpus(corpus, {}, planOfData(64, 4096, true), 1)));
  corpus.files.split = parseSplit("0,1").take();
  EXPECT_FALSE(*openCorpus(corpus, {Split::train}, plan, 1));
}
