// Files of whole batches for a model with an encoder.
#include "test/runtime/TensorFiles.h"
#include "test/runtime/data/DataPlans.h"

#include <map>

using namespace mgc;
using namespace mgc::test;

namespace {

using Numbers = std::vector<int32_t>;

// Two samples of 3 tokens for the encoder and 2 for the decoder, below 10.
plan::Plan planOf(int64_t startToken = 9, int64_t paddingToken = 1) {
  plan::Plan plan;
  plan.modelType = "bart";
  plan.globalBatchSize = 2, plan.sequenceLength = 2, plan.encoderLength = 3, plan.vocabulary = 10;
  plan.startToken = startToken, plan.paddingToken = paddingToken;
  plan.stages.resize(1);
  return plan;
}

struct Tensor {
  int64_t length;
  std::vector<int64_t> values;
};
using Tensors = std::map<std::string, Tensor>;

const Tensors kTensors = {{"input_ids", {3, {1, 2, 3, /**/ 4, 5, 1}}}, {"labels", {2, {6, 7, /**/ -100, 8}}}};

class PairData : public InTempDir {
protected:
  std::string write(Tensors tensors) const {
    tensors.insert(kTensors.begin(), kTensors.end());
    TensorWriter file;
    for (const auto &[name, tensor] : tensors)
      file.add(name, {1, 2, tensor.length}, tensor.values);
    return file.write(dir.path("batch.safetensors"));
  }
};

TEST_F(PairData, labelsAreWhatTheDecoderReadsNext) {
  const GlobalBatch batch = batchOf(write({}), planOf());
  EXPECT_EQ(batch.encoderTokens, (Numbers{1, 2, 3, 4, 5, 1}));
  EXPECT_EQ(batch.encoderEnds, (Numbers{3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(batch.labels, (Numbers{6, 7, -100, 8}));
  EXPECT_EQ(batch.tokens, (Numbers{9, 6, 9, 1}));
}

TEST_F(PairData, theDecodersTokensAndTheMaskMayBeGiven) {
  const GlobalBatch batch = batchOf(
      write({{"decoder_input_ids", {2, {0, 6, 0, 3}}}, {"attention_mask", {3, {1, 1, 1, 1, 1, 0}}}}), planOf(-1, -1));
  EXPECT_EQ(batch.tokens, (Numbers{0, 6, 0, 3}));
  EXPECT_EQ(batch.encoderEnds, (Numbers{3, 3, 3, 2, 2, 2}));
}

TEST_F(PairData, whatIsMissingOrWrongIsSaid) {
  EXPECT_EQ(errorOf(write({}), planOf(-1)),
            "decoder_input_ids: missing, and the plan does not say what they would be: its config.json has no "
            "decoder_start_token_id; expected decoder_input_ids, or a plan of a config.json with "
            "decoder_start_token_id and pad_token_id");
  EXPECT_EQ(errorOf(write({{"input_ids", {2, {1, 2, 3, 4}}}}), planOf()),
            "input_ids: found I64 [1, 2, 2], expected integers [steps, 2, 3]: global batch size and the encoder's "
            "sequence length of the plan");
  EXPECT_EQ(errorOf(write({{"labels", {3, {1, 2, 3, 4, 5, 6}}}}), planOf()),
            "labels: found I64 [1, 2, 3], expected integers [steps, 2, 2]: global batch size and the decoder's "
            "sequence length of the plan");
  EXPECT_EQ(errorOf(write({{"position_ids", {2, {0, 1, 0, 1}}}}), planOf()),
            "position_ids: found, expected none: positions of both sequences count from 0");
  EXPECT_EQ(openingError(write({}), planOf(), {.documents = {.endToken = 3}}),
            "--eod-token-id: the model has an encoder, whose samples are no packed documents; expected it left out");
}

TEST_F(PairData, streamsAreRefused) {
  EXPECT_EQ(errorOf("corpus.bin", planOf()).find("holds one stream of tokens, but the model reads two sequences"), 0u);
}

TEST_F(PairData, madeUpPairsFollowFromTheEncodersTokens) {
  const plan::Plan plan = planOf();
  const GlobalBatch batch = batchOf(makeMockData(plan, 1), plan, 3);
  for (int64_t sample = 0; sample < 2; ++sample)
    for (int64_t i = 0; i < 2; ++i) {
      EXPECT_EQ(batch.labels[sample * 2 + i], (5 * batch.encoderTokens[sample * 3 + i] + 7) % 10);
      EXPECT_EQ(batch.tokens[sample * 2 + i], i == 0 ? 0 : batch.labels[sample * 2]);
    }
}

} // namespace
