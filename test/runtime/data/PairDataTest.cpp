// Files of whole batches for a model with an encoder.
#include "runtime/data/Data.h"

#include "runtime/io/Safetensors.h"
#include "test/runtime/TempDir.h"

#include <gtest/gtest.h>
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

std::string write(const TempDir &folder, const Tensors &more) {
  const std::string path = folder.path("batch.safetensors");
  Tensors tensors = kTensors;
  for (const auto &[name, tensor] : more)
    tensors[name] = tensor;
  std::vector<TensorSpec> specs;
  for (const auto &[name, tensor] : tensors)
    specs.push_back({name, ElementType::I64, {1, 2, tensor.length}});
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, specs);
  EXPECT_TRUE(isOk(writer));
  for (const auto &[name, tensor] : tensors)
    EXPECT_TRUE(isOk(writer->write(std::as_bytes(std::span(tensor.values)))));
  EXPECT_TRUE(isOk(writer->commit()));
  return path;
}

GlobalBatch read(const std::string &path, const plan::Plan &plan) {
  Result<std::unique_ptr<DataSource>> data = openData(path, plan, 1);
  EXPECT_TRUE(isOk(data));
  GlobalBatch batch = GlobalBatch::create(plan).take();
  if (data.isOk())
    EXPECT_TRUE(isOk((*data)->batch(0, batch)));
  return batch;
}

// Without the path.
std::string errorOf(const std::string &path, const plan::Plan &plan, const DataOptions &options = {}) {
  const std::string message = openData(path, plan, 1, options).status().message();
  return message.substr(message.find(": ") + 2);
}

TEST(PairData, labelsAreWhatTheDecoderReadsNext) {
  const TempDir folder;
  const GlobalBatch batch = read(write(folder, {}), planOf());
  EXPECT_EQ(batch.encoderTokens, (Numbers{1, 2, 3, 4, 5, 1}));
  EXPECT_EQ(batch.encoderEnds, (Numbers{3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(batch.labels, (Numbers{6, 7, -100, 8}));
  EXPECT_EQ(batch.tokens, (Numbers{9, 6, 9, 1}));
}

TEST(PairData, theDecodersTokensAndTheMaskMayBeGiven) {
  const TempDir folder;
  const GlobalBatch batch =
      read(write(folder, {{"decoder_input_ids", {2, {0, 6, 0, 3}}}, {"attention_mask", {3, {1, 1, 1, 1, 1, 0}}}}),
           planOf(-1, -1));
  EXPECT_EQ(batch.tokens, (Numbers{0, 6, 0, 3}));
  EXPECT_EQ(batch.encoderEnds, (Numbers{3, 3, 3, 2, 2, 2}));
}

TEST(PairData, whatIsMissingOrWrongIsSaid) {
  const TempDir folder;
  EXPECT_EQ(errorOf(write(folder, {}), planOf(-1)),
            "decoder_input_ids: missing, and the plan does not say what they would be: its config.json has no "
            "decoder_start_token_id; expected decoder_input_ids, or a plan of a config.json with "
            "decoder_start_token_id and pad_token_id");
  EXPECT_EQ(errorOf(write(folder, {{"input_ids", {2, {1, 2, 3, 4}}}}), planOf()),
            "input_ids: found I64 [1, 2, 2], expected integers [steps, 2, 3]: global batch size and the encoder's "
            "sequence length of the plan");
  EXPECT_EQ(errorOf(write(folder, {{"labels", {3, {1, 2, 3, 4, 5, 6}}}}), planOf()),
            "labels: found I64 [1, 2, 3], expected integers [steps, 2, 2]: global batch size and the decoder's "
            "sequence length of the plan");
  EXPECT_EQ(errorOf(write(folder, {{"position_ids", {2, {0, 1, 0, 1}}}}), planOf()),
            "position_ids: found, expected none: positions of both sequences count from 0");
  EXPECT_EQ(openData(write(folder, {}), planOf(), 1, {.documents = {.endToken = 3}}).status().message(),
            "--eod-token-id: the model has an encoder, whose samples are no packed documents; expected it "
            "left out");
}

TEST(PairData, streamsAreRefused) {
  EXPECT_EQ(errorOf("corpus.bin", planOf()).find("holds one stream of tokens, but the model reads two sequences"), 0u);
}

TEST(PairData, madeUpPairsFollowFromTheEncodersTokens) {
  const plan::Plan plan = planOf();
  Result<std::unique_ptr<DataSource>> data = makeMockData(plan, 1);
  ASSERT_TRUE(isOk(data));
  GlobalBatch batch = GlobalBatch::create(plan).take();
  ASSERT_TRUE(isOk((*data)->batch(3 * plan.globalBatchSize, batch)));
  for (int64_t sample = 0; sample < 2; ++sample)
    for (int64_t i = 0; i < 2; ++i) {
      EXPECT_EQ(batch.labels[sample * 2 + i], (5 * batch.encoderTokens[sample * 3 + i] + 7) % 10);
      EXPECT_EQ(batch.tokens[sample * 2 + i], i == 0 ? 0 : batch.labels[sample * 2]);
    }
}

} // namespace
