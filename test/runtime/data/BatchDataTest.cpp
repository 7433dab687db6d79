// Files of whole batches with padding, types of tokens, and without labels.
#include "test/runtime/TensorFiles.h"
#include "test/runtime/data/DataPlans.h"

#include <map>

using namespace mgc;
using namespace mgc::test;

namespace {

using Numbers = std::vector<int32_t>;
using Kind = plan::Input::Kind;
using Tensors = std::map<std::string, std::vector<int64_t>>;

// Two samples of 4 tokens below 10.
plan::Plan planOf(plan::Objective objective, const std::vector<Kind> &kinds, int64_t tokenTypes = 0) {
  plan::Plan plan;
  plan.modelType = "bert", plan.objective = objective, plan.tokenTypes = tokenTypes;
  plan.globalBatchSize = 2, plan.sequenceLength = 4, plan.vocabulary = 10;
  plan.stages.resize(1);
  for (const Kind kind : kinds)
    plan.stages[0].inputs.push_back({.kind = kind});
  return plan;
}
plan::Plan encoder() { return planOf(plan::Objective::masked, {Kind::tokenTypes, Kind::documentEnds}, 2); }
plan::Plan decoder() { return planOf(plan::Objective::causal, {}); }

const std::vector<int64_t> kTokens = {1, 2, 3, 4, /**/ 5, 6, 0, 0},
                           kLabels = {-100, 2, -100, -100, /**/ 5, -100, -100, -100},
                           kMask = {1, 1, 1, 1, /**/ 1, 1, 0, 0}, kTypes = {0, 0, 1, 1, /**/ 0, 1, 0, 0};

Tensors tensors(const Tensors &more) {
  Tensors all = {{"input_ids", kTokens}, {"labels", kLabels}};
  for (const auto &[name, values] : more)
    all[name] = values;
  return all;
}

class BatchData : public InTempDir {
protected:
  // One step.
  std::string write(const Tensors &tensors) const {
    TensorWriter file;
    for (const auto &[name, values] : tensors)
      file.add(name, {1, 2, 4}, values);
    return file.write(dir.path("batch.safetensors"));
  }
  // One step of tokens, labels and more, or others in their place.
  std::string writeWith(const Tensors &more) const { return write(tensors(more)); }
};

} // namespace

TEST_F(BatchData, paddingEndsADocument) {
  const GlobalBatch batch = batchOf(writeWith({{"attention_mask", kMask}, {"token_type_ids", kTypes}}), encoder());
  EXPECT_EQ(batch.ends, (Numbers{4, 4, 4, 4, /**/ 2, 2, 2, 2}));
  EXPECT_EQ(batch.types, (Numbers{0, 0, 1, 1, /**/ 0, 1, 0, 0}));
  EXPECT_EQ(batch.labels, (Numbers{-100, 2, -100, -100, /**/ 5, -100, -100, -100}));
}

TEST_F(BatchData, thatSayNothingHaveNoPaddingAndOneType) {
  GlobalBatch batch = batchOf(writeWith({{"attention_mask", kMask}, {"token_type_ids", kTypes}}), encoder());
  const auto data = openData(writeWith({}), encoder(), 1).take();
  ASSERT_TRUE(isOk(data->batch(0, batch))); // in the place of one with padding
  EXPECT_EQ(batch.ends, Numbers(8, 4));
  EXPECT_EQ(batch.types, Numbers(8, 0));
}

TEST_F(BatchData, documentsEndWhereTheNextBeginsOrTheirPadding) {
  const std::string path =
      writeWith({{"attention_mask", {1, 1, 1, 0, 1, 1, 0, 0}}, {"position_ids", {0, 0, 1, 2, 0, 1, 0, 1}}});
  const plan::Plan plan =
      planOf(plan::Objective::masked, {Kind::positionIds, Kind::documentStarts, Kind::documentEnds});
  const GlobalBatch batch = batchOf(path, plan);
  EXPECT_EQ(batch.starts, (Numbers{0, 1, 1, 1, /**/ 0, 0, 2, 2}));
  EXPECT_EQ(batch.ends, (Numbers{1, 3, 3, 3, /**/ 2, 2, 4, 4})); // padding may be a document
  EXPECT_TRUE(isOk(verifyEnds(batch.ends, batch.starts, 4)));
  // Attention that does not keep documents apart ends with the sequence.
  EXPECT_EQ(batchOf(path, planOf(plan::Objective::masked, {Kind::positionIds, Kind::documentEnds})).ends,
            (Numbers{3, 3, 3, 3, /**/ 2, 2, 2, 2}));
}

TEST_F(BatchData, masksThatAreNone) {
  const std::string rest = "; expected ones, and zeros behind them where the sample has padding",
                    where = "attention_mask: step 0, sample ";
  for (const auto &[mask, message] : std::initializer_list<std::pair<std::vector<int64_t>, std::string>>{
           {{1, 1, 1, 1, 1, 0, 1, 0}, "1: position 2: found 1 behind the 0 at position 1" + rest},
           {{0, 1, 1, 1, 1, 1, 1, 1}, "0: position 1: found 1 behind the 0 at position 0" + rest},
           {{1, 1, 1, 1, 0, 0, 0, 0}, "1: position 0: found zeros alone, a sample without tokens" + rest},
           {{1, 2, 1, 1, 1, 1, 1, 1}, "0: position 1: found 2, expected 0 or 1"},
           {{1, 1, 1, -1, 1, 1, 1, 1}, "0: position 3: found -1, expected 0 or 1"}})
    for (const plan::Plan &plan : {encoder(), decoder()})
      EXPECT_EQ(errorOf(writeWith({{"attention_mask", mask}}), plan), where + message);
}

TEST_F(BatchData, labelsOfPaddingAreIgnored) {
  std::vector<int64_t> labels = kLabels;
  labels[7] = 3;
  const std::string path = writeWith({{"attention_mask", kMask}, {"labels", labels}});
  for (const plan::Plan &plan : {encoder(), decoder()})
    EXPECT_EQ(errorOf(path, plan), "labels: step 0, sample 1: position 3: found 3 where attention_mask has "
                                   "padding, expected -100 (ignored)");
}

// Causal attention does not see what is behind a token.
TEST_F(BatchData, paddingMayBeWhereItChangesNothing) {
  const std::string path = writeWith({{"attention_mask", kMask}});
  EXPECT_EQ(batchOf(path, decoder()).ends, Numbers());
  EXPECT_EQ(errorOf(path, planOf(plan::Objective::masked, {})),
            "attention_mask: step 0, sample 1: padding from position 2 on, but attention of the plan does not "
            "end where padding begins, so tokens would see it; expected ones alone");
  plan::Plan experts = decoder();
  experts.stages[0].buckets.resize(1);
  experts.stages[0].buckets[0].meanLoad = 2;
  EXPECT_EQ(errorOf(path, experts),
            "attention_mask: step 0, sample 1: padding from position 2 on, but routers of experts count all "
            "tokens for balance, load or capacity; expected ones alone");
  const std::string full = writeWith({{"attention_mask", std::vector<int64_t>(8, 1)}});
  EXPECT_EQ(errorOf(full, planOf(plan::Objective::masked, {})), "");
  EXPECT_EQ(errorOf(full, experts), "");
}

TEST_F(BatchData, typesOfTokensThatThePlanDoesNotHave) {
  const std::string path = writeWith({{"token_type_ids", kTypes}});
  EXPECT_EQ(errorOf(path, decoder()), "token_type_ids: 1 at position 2, expected 0: the plan reads no types of tokens");
  EXPECT_EQ(errorOf(path, planOf(plan::Objective::masked, {Kind::tokenTypes}, 1)),
            "token_type_ids: 1 at position 2, expected 0: the model has 1 type of tokens");
  std::vector<int64_t> types = kTypes;
  types[5] = 2;
  EXPECT_EQ(errorOf(writeWith({{"token_type_ids", types}}), encoder()),
            "token_type_ids: 2 at position 5, expected 0 to 1: the model has 2 types of tokens");
  EXPECT_EQ(errorOf(writeWith({{"token_type_ids", std::vector<int64_t>(8, 0)}}), decoder()), "");
}

TEST_F(BatchData, withoutLabelsIsMasked) {
  Tensors unlabelled = tensors({{"attention_mask", kMask}});
  unlabelled.erase("labels");
  const std::string path = write(unlabelled);
  const MaskingOptions masking = {.probability = 1, .maskToken = 9, .clsToken = 1, .specialTokens = {4}};
  const GlobalBatch batch = batchOf(path, encoder(), {.masking = masking});
  EXPECT_EQ(batch.labels, (Numbers{-100, 2, 3, -100, /**/ 5, 6, -100, -100}));
  EXPECT_EQ(batch.tokens[0], 1);
  EXPECT_EQ(batch.tokens[3], 4);
  EXPECT_EQ(batch.tokens[6], 0); // padding
  EXPECT_EQ(errorOf(path, encoder()),
            "labels: missing, expected the labels of masked tokens, or --mlm-probability and --mask-token-id, "
            "which mask input_ids");
  EXPECT_TRUE(openingError(path, encoder(), {.masking = {.probability = 1}})
                  .starts_with("the plan of the bert model predicts masked tokens, but nothing says which"));
  EXPECT_EQ(errorOf(path, decoder()), "labels: missing, expected integers [steps, 2, 4]");
}

TEST_F(BatchData, withLabelsIsNotMasked) {
  const std::string path = writeWith({});
  EXPECT_EQ(errorOf(path, encoder(), {.masking = {.probability = 0.2, .maskToken = 3}}),
            "labels: --mlm-probability, --mask-token-id: the labels of the data say which tokens are "
            "predicted; expected no such flag, or data without labels");
  EXPECT_EQ(errorOf(path, decoder(), {.masking = {.maskToken = 3}}),
            "labels: --mask-token-id: the plan of the bert model predicts the next token and masks none; "
            "expected the plan of a model that predicts masked tokens, or no such flag");
}
