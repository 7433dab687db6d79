// Masked language modelling: which tokens are predicted, and what the model sees in their place.
#include "test/runtime/data/DataPlans.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mgc;
using namespace mgc::test;

namespace {

using Masking = InTempDir;
using Numbers = std::vector<int32_t>;
constexpr int32_t kMaskToken = 3, kCls = 1, kSep = 2;

plan::Plan maskedPlan(int64_t samples, int64_t length, int64_t vocabulary = 1000) {
  plan::Plan plan;
  plan.modelType = "bert", plan.objective = plan::Objective::masked;
  plan.globalBatchSize = samples, plan.sequenceLength = length, plan.vocabulary = vocabulary;
  return plan;
}

MaskingOptions masking() { return {.maskToken = kMaskToken}; }
MaskingOptions framed() { return {.maskToken = kMaskToken, .clsToken = kCls, .sepToken = kSep}; }

// 10, 11, 12 ..
std::string counting(int64_t tokens) {
  Numbers values(static_cast<size_t>(tokens));
  std::iota(values.begin(), values.end(), 10);
  return bytesOf(values);
}

GlobalBatch maskedBatch(const std::string &path, const plan::Plan &plan, const MaskingOptions &options,
                        int64_t step = 0, uint64_t seed = 1) {
  return batchOf(openData(path, plan, seed, {.binType = "i32", .masking = options}), plan, step);
}

// The tokens before any was masked, where those that stay are their own.
Numbers originals(const GlobalBatch &batch) {
  Numbers tokens = batch.tokens;
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = batch.labels[i] == kIgnoredLabel ? tokens[i] : batch.labels[i];
  return tokens;
}

std::string maskingError(const MaskingOptions &options, const plan::Plan &plan) {
  const Result<std::unique_ptr<DataSource>> data = makeMockData(plan, 1, {.masking = options});
  return data.isOk() ? "" : data.status().message();
}

double chiSquare(const std::vector<double> &expected, const std::vector<int64_t> &found) {
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    sum += (double(found[i]) - expected[i]) * (double(found[i]) - expected[i]) / expected[i];
  return sum;
}

} // namespace

// For a token 7 in a vocabulary of V: a random token may be the mask, or 7 again.
TEST_F(Masking, hasTheDistributionOfBert) {
  constexpr int64_t kSamples = 500, kLength = 400, kVocabulary = 50;
  for (const double probability : {0.15, 0.4}) {
    MaskingOptions options = masking();
    options.probability = probability;
    const TokenMasker masker(options, std::nullopt, kVocabulary, 11);
    std::vector<int64_t> fates(4), random(kVocabulary);
    for (int64_t sample = 0; sample < kSamples; ++sample) {
      Numbers tokens(kLength, 7), labels = tokens;
      masker.mask(uint64_t(sample), tokens, labels);
      for (size_t i = 0; i < tokens.size(); ++i) {
        ASSERT_TRUE(labels[i] == 7 || labels[i] == kIgnoredLabel);
        const bool isChosen = labels[i] == 7;
        ASSERT_TRUE(isChosen || tokens[i] == 7);
        ++fates[!isChosen ? 0 : tokens[i] == kMaskToken ? 1 : tokens[i] == 7 ? 2 : 3];
        random[size_t(tokens[i])] += isChosen && tokens[i] != 7 && tokens[i] != kMaskToken;
      }
    }
    const double all = kSamples * kLength, chosen = probability * all, each = 0.1 * chosen / kVocabulary;
    EXPECT_LT(chiSquare({all - chosen, 0.8 * chosen + each, 0.1 * chosen + each, 0.1 * chosen - 2 * each}, fates),
              16.3); // 3 degrees of freedom, one in a thousand
    random.erase(random.begin() + 7);
    random.erase(random.begin() + kMaskToken);
    EXPECT_LT(chiSquare(std::vector<double>(kVocabulary - 2, each), random), 83); // 47 degrees
  }
}

TEST_F(Masking, ofOneSampleSaysNothingAboutAnother) {
  const TokenMasker masker(masking(), std::nullopt, 1000, 11), other(masking(), std::nullopt, 1000, 12);
  const auto chosenBy = [](const TokenMasker &one, uint64_t sample) {
    Numbers tokens(256, 7), labels = tokens;
    one.mask(sample, tokens, labels);
    return labels;
  };
  EXPECT_EQ(chosenBy(masker, 5), chosenBy(masker, 5));
  EXPECT_NE(chosenBy(masker, 5), chosenBy(masker, 6));
  EXPECT_NE(chosenBy(masker, 5), chosenBy(masker, 5 + (uint64_t(1) << 32)));
  EXPECT_NE(chosenBy(masker, 5), chosenBy(other, 5));
}

TEST_F(Masking, leavesSpecialTokensAndPaddingAlone) {
  MaskingOptions options = framed();
  options.probability = 1, options.specialTokens = {20, 21};
  const TokenMasker masker(options, 22, 1000, 1);
  const Numbers before = {1, 2, 3, 20, 21, 22, 9, 9};
  Numbers tokens = before, labels = before;
  labels.back() = kIgnoredLabel; // padding
  masker.mask(0, tokens, labels);
  EXPECT_EQ(labels, (Numbers{-100, -100, -100, -100, -100, -100, 9, -100}));
  tokens[6] = 9;
  EXPECT_EQ(tokens, before);
}

TEST_F(Masking, cutsAStreamWithoutATokenToPredict) {
  const std::string path = dir.write("a.bin", counting(12));
  const plan::Plan plan = maskedPlan(3, 4);
  Numbers tokens = originals(maskedBatch(path, plan, masking())), expected(12);
  std::ranges::sort(tokens);
  std::iota(expected.begin(), expected.end(), 10);
  EXPECT_EQ(tokens, expected);
  EXPECT_TRUE(fails(openData(path, maskedPlan(1, 13), 1, {.binType = "i32", .masking = masking()}),
                    {"has 12 tokens, expected at least 13: sequence length 13"}));
}

TEST_F(Masking, putsClsAndSepAroundASample) {
  const std::string path = dir.write("a.bin", counting(6));
  MaskingOptions options = framed();
  options.probability = 1;
  const GlobalBatch batch = maskedBatch(path, maskedPlan(3, 4), options);
  for (size_t sample = 0; sample < 3; ++sample) {
    const size_t at = 4 * sample;
    EXPECT_EQ(batch.tokens[at], kCls);
    EXPECT_EQ(batch.tokens[at + 3], kSep);
    EXPECT_EQ(batch.labels[at], kIgnoredLabel);
    EXPECT_EQ(batch.labels[at + 3], kIgnoredLabel);
    EXPECT_EQ(batch.labels[at + 2], batch.labels[at + 1] + 1);
    EXPECT_EQ(batch.labels[at + 1] % 2, 0); // each sample begins two behind another
  }
  EXPECT_TRUE(fails(openData(path, maskedPlan(1, 9), 1, {.binType = "i32", .masking = framed()}),
                    {"has 6 tokens, expected at least 7: sequence length 9 less [CLS] and [SEP]"}));
}

TEST_F(Masking, differsFromEpochToEpochAndNotWithTheLayout) {
  const std::string path = dir.write("a.bin", counting(64));
  const plan::Plan plan = maskedPlan(1, 64);
  const GlobalBatch first = maskedBatch(path, plan, masking(), 0), second = maskedBatch(path, plan, masking(), 1);
  EXPECT_EQ(originals(first), originals(second)); // one sample: an epoch each
  EXPECT_NE(first.labels, second.labels);
  plan::Plan split = plan;
  split.mesh.axes = {{"dp", 2, plan::AxisRole::data}, {"cp", 2}}, split.microbatches = 4;
  EXPECT_EQ(maskedBatch(path, split, masking(), 1).tokens, second.tokens);
  EXPECT_EQ(maskedBatch(path, split, masking(), 1).labels, second.labels);
  EXPECT_NE(maskedBatch(path, plan, masking(), 0, 2).labels, first.labels);
}

TEST_F(Masking, ofMadeUpData) {
  const plan::Plan plan = maskedPlan(4, 64);
  const auto data = makeMockData(plan, 5, {.masking = framed()}).take();
  GlobalBatch batch = GlobalBatch::create(plan).take();
  ASSERT_TRUE(isOk(data->batch(2 * 4, batch)));
  const Numbers tokens = originals(batch);
  int64_t followers = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t place = i % 64;
    EXPECT_EQ(place == 0, tokens[i] == kCls && place == 0);
    followers += place > 1 && place < 63 && tokens[i] == (5 * tokens[i - 1] + 7) % 128;
  }
  EXPECT_NEAR(double(followers) / (4 * 61), 0.88, 0.08);
  EXPECT_EQ(data->describe(), "made-up data over 128 tokens, 15 % of the tokens are masked");
}

TEST_F(Masking, endsOfDocumentsAreFoundBeforeTheyAreMasked) {
  plan::Plan plan = maskedPlan(8, 64);
  plan.stages.resize(1);
  plan.stages[0].inputs = {{.kind = plan::Input::Kind::documentStarts}, {.kind = plan::Input::Kind::documentEnds}};
  MaskingOptions options = masking();
  options.probability = 1;
  const GlobalBatch batch = batchOf(makeMockData(plan, 5, {.documents = {.endToken = 12}, .masking = options}), plan);
  EXPECT_TRUE(isOk(verifyEnds(batch.ends, batch.starts, 64)));
  int64_t documents = 0;
  for (size_t i = 0; i + 1 < batch.tokens.size(); ++i)
    if ((i + 1) % 64 != 0) {
      const auto place = static_cast<int32_t>(i % 64) + 1;
      EXPECT_EQ(batch.ends[i] == place, batch.starts[i + 1] == place);
      EXPECT_EQ(batch.ends[i] == place, batch.labels[i] == kIgnoredLabel && batch.tokens[i] == 12);
      documents += batch.ends[i] == place;
    }
  EXPECT_GT(documents, 0);
}

TEST_F(Masking, optionsThatAreNone) {
  const plan::Plan plan = maskedPlan(2, 8);
  plan::Plan causal = plan, packed = plan;
  causal.objective = plan::Objective::causal;
  packed.stages.resize(1);
  packed.stages[0].inputs = {{.kind = plan::Input::Kind::documentStarts}};
  EXPECT_EQ(maskingError({}, causal), "");
  EXPECT_EQ(maskingError({.probability = 0.1, .specialTokens = {4, 5}}, causal),
            "--mlm-probability, --special-token-ids: the plan of the bert model predicts the next token and "
            "masks none; expected the plan of a model that predicts masked tokens, or no such flag");
  EXPECT_EQ(maskingError({}, plan), "") << "made-up tokens are masked by the last";
  EXPECT_EQ(maskingError({.probability = 0, .maskToken = 3}, plan),
            "--mlm-probability 0: expected more than 0, at most 1");
  EXPECT_EQ(maskingError({.probability = NAN, .maskToken = 3}, plan),
            "--mlm-probability nan: expected more than 0, at most 1");
  EXPECT_EQ(maskingError({.maskToken = 1000}, plan),
            "--mask-token-id 1000: expected 0 to 999, a token of the model's vocabulary");
  EXPECT_EQ(maskingError({.maskToken = 3, .specialTokens = {4, -1}}, plan),
            "--special-token-ids -1: expected 0 to 999, a token of the model's vocabulary");
  EXPECT_EQ(maskingError({.maskToken = 3, .sepToken = 3}, plan),
            "--sep-token-id 3: is --mask-token-id too; expected two tokens of the tokenizer");
  EXPECT_EQ(maskingError({.maskToken = 3, .sepToken = 2}, plan),
            "--sep-token-id without --cls-token-id: a sample has both around it or none; tokens that are "
            "never chosen are --special-token-ids");
  EXPECT_EQ(maskingError(framed(), maskedPlan(2, 2)),
            "--cls-token-id: a sequence of 2 has no token besides [CLS] and [SEP]; expected at least 3");
  EXPECT_EQ(maskingError(framed(), packed),
            "--cls-token-id: the plan is of packed documents, and a sample may have several; expected "
            "documents that have these tokens in the data, and --special-token-ids 1,2");
  EXPECT_EQ(makeMockData(plan, 1, {.documents = {.endToken = 3, .masksEnds = true}}).status().message(),
            "--eod-mask-loss: the plan of the bert model predicts masked tokens from both sides, and none "
            "from the document before; leave it out");
  EXPECT_EQ(makeMockData(plan, 1, {.documents = {.endToken = 3}}).status().message(),
            "--eod-token-id 3 changes nothing: the plan's sequences are one document each; expected "
            "--special-token-ids for a token that is never masked, or a plan of mgc compile "
            "--reset-position-ids --reset-attention-mask");
}
