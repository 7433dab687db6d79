// Documents in sequences, from tokens and from position ids.
#include "test/runtime/TensorFiles.h"
#include "test/runtime/data/DataPlans.h"

using namespace mgc;
using namespace mgc::test;

namespace {

using Numbers = std::vector<int32_t>;

// Two samples of 6 tokens; it reads documents.
plan::Plan packedPlan(int64_t longest = 0) {
  plan::Plan plan;
  plan.globalBatchSize = 2, plan.sequenceLength = 6, plan.vocabulary = 10, plan.longestDocument = longest;
  plan.stages.resize(1);
  plan.stages[0].inputs.push_back({.kind = plan::Input::Kind::documentStarts});
  return plan;
}

Status startsOf(const std::vector<int64_t> &positions, const PositionRule &rule, Numbers &starts) {
  starts.resize(positions.size());
  return startsOfPositions(positions, rule, starts);
}

std::string errorOfPositions(const std::vector<int64_t> &positions, const PositionRule &rule = {}) {
  Numbers starts;
  return startsOf(positions, rule, starts).message();
}

class Documents : public InTempDir {
protected:
  // input_ids count up from 0 modulo 10, labels from 1.
  std::string writeBatch(const std::vector<int64_t> &positions, const std::vector<int64_t> &shape) const {
    std::vector<int64_t> ids(12), labels(12);
    for (size_t i = 0; i < ids.size(); ++i)
      ids[i] = int64_t(i % 10), labels[i] = int64_t((i + 1) % 10);
    return TensorWriter()
        .add("input_ids", {1, 2, 6}, ids)
        .add("labels", {1, 2, 6}, labels)
        .add("position_ids", shape, positions)
        .write(dir.path("batch.safetensors"));
  }
};

std::string errorOfOpening(const std::string &path, const plan::Plan &plan, const DocumentOptions &documents = {}) {
  return openingError(path, plan, {.documents = documents});
}

} // namespace

TEST_F(Documents, endWithTheirToken) {
  const Numbers tokens = {5, 8, 0, 7, 0, 3, /**/ 0, 0, 4, 4, 4, 0};
  Numbers starts(tokens.size());
  findDocuments(tokens, 6, 0, starts);
  EXPECT_EQ(starts, Numbers({0, 0, 0, 3, 3, 5, /**/ 0, 1, 2, 2, 2, 2}));
  Numbers labels = {8, 0, 7, 0, 3, 1, /**/ 0, 4, 4, 4, 0, 9}, byStarts = labels;
  maskEnds(tokens, 6, 0, {}, -100, labels);
  EXPECT_EQ(labels, Numbers({8, 0, -100, 0, -100, 1, /**/ -100, -100, 4, 4, 0, -100}));
  maskEnds(tokens, 6, std::nullopt, starts, -100, byStarts); // the token after a sequence is not known
  EXPECT_EQ(byStarts, Numbers({8, 0, -100, 0, -100, 1, /**/ -100, -100, 4, 4, 0, 9}));
}

TEST_F(Documents, endWhereTheNextBeginsOrTheirPadding) {
  const Numbers starts = {0, 0, 0, 3, 3, 5, /**/ 0, 1, 2, 2, 2, 2, /**/ 0, 0, 2, 2, 2, 2};
  Numbers ends(18, 6);
  std::fill(ends.begin() + 12, ends.end(), 4); // two tokens of padding
  findEnds(starts, 6, ends);
  EXPECT_EQ(ends, Numbers({3, 3, 3, 5, 5, 6, /**/ 1, 2, 6, 6, 6, 6, /**/ 2, 2, 4, 4, 4, 4}));
  EXPECT_TRUE(isOk(verifyEnds(ends, starts, 6)));
  EXPECT_TRUE(isOk(verifyEnds(ends, {}, 6)));
}

TEST_F(Documents, endsThatNoSequenceHas) {
  const auto errorOfEnds = [](const Numbers &ends, const Numbers &starts = {}) {
    return verifyEnds(ends, starts, 4).message();
  };
  const std::string where = "sample 0 of the batch, position ";
  EXPECT_EQ(errorOfEnds({0, 4, 4, 4}), where + "0: its document ends at 0, expected 1 to 4");
  EXPECT_EQ(errorOfEnds({5, 5, 5, 5}), where + "0: its document ends at 5, expected 1 to 4");
  EXPECT_EQ(errorOfEnds({3, 4, 4, 4}), where + "1: its document ends at 4, expected 3, as of the token before");
  EXPECT_EQ(errorOfEnds({2, 2, 1, 1}), where + "2: its document ends at 1, expected 3 to 4");
  EXPECT_EQ(errorOfEnds({2, 2, 2, 2}, {0, 0, 2, 2}), where + "2: its document ends at 2, expected 3 to 4");
  EXPECT_EQ(errorOfEnds({2, 2, 2, 2}, {0, 0, 0, 0}), "");
}

TEST_F(Documents, positionsSayWhereTheyBegin) {
  Numbers starts;
  ASSERT_TRUE(isOk(startsOf({0, 1, 2, 0, 0, 1}, {}, starts)));
  EXPECT_EQ(starts, Numbers({0, 0, 0, 3, 4, 4}));
  ASSERT_TRUE(isOk(startsOf({0, 1, 2, 3}, {.mayRestart = false, .longest = 4}, starts)));
  EXPECT_EQ(starts, Numbers({0, 0, 0, 0}));
}

TEST_F(Documents, positionsThatAreNone) {
  EXPECT_EQ(errorOfPositions({1, 2}), "position 0: found 1, expected 0: a document begins");
  EXPECT_EQ(errorOfPositions({0, 1, 3}), "position 2: found 3, expected 2, or 0 where a document begins");
  EXPECT_EQ(errorOfPositions({0, 1, -1}), "position 2: found -1, expected 2, or 0 where a document begins");
  EXPECT_EQ(errorOfPositions({0, 1, 2}, {.longest = 2}),
            "position 2: the document has more than 2 tokens, for which the model has learned positions; expected "
            "shorter documents");
  EXPECT_EQ(errorOfPositions({0, 0}, {.mayRestart = false}), "position 1: a document begins, but the plan reads a "
                                                             "sequence as one document; expected a plan compiled "
                                                             "with --reset-position-ids --reset-attention-mask");
}

TEST_F(Documents, ofAFileOfBatches) {
  const std::string path = writeBatch({0, 1, 2, 3, 0, 1, 0, 0, 1, 2, 3, 4}, {1, 2, 6});
  const plan::Plan plan = packedPlan();
  const GlobalBatch batch = batchOf(openData(path, plan, 1, {.documents = {.masksEnds = true}}), plan, 3);
  EXPECT_EQ(batch.starts, Numbers({0, 0, 0, 0, 4, 4, /**/ 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(batch.labels, Numbers({1, 2, 3, -100, 5, 6, /**/ -100, 8, 9, 0, 1, 2}));
  plan::Plan plain = plan;
  plain.stages.clear();
  EXPECT_EQ(errorOfOpening(path, plain),
            path + ": position_ids: step 0, sample 0: position 4: a document begins, but the plan reads a sequence "
                   "as one document; expected a plan compiled with --reset-position-ids --reset-attention-mask");
  EXPECT_EQ(errorOfOpening(path, plan, {.endToken = 3}),
            path + ": position_ids say where documents begin; expected no --eod-token-id");
  EXPECT_EQ(errorOfOpening(path, packedPlan(3)),
            path + ": position_ids: step 0, sample 0: position 3: the document has more than 3 tokens, for which the "
                   "model has learned positions; expected shorter documents");
}

TEST_F(Documents, positionsOfAnotherShape) {
  const std::string path = writeBatch(std::vector<int64_t>(12), {2, 1, 6});
  EXPECT_EQ(errorOfOpening(path, packedPlan()),
            path + ": position_ids: found I64 [2, 1, 6], expected integers [steps, 2, 6]: global batch size and "
                   "sequence length of the plan");
  const std::string longer = writeBatch(std::vector<int64_t>(24), {2, 2, 6});
  EXPECT_EQ(errorOfOpening(longer, packedPlan()), longer + ": position_ids has 2 steps, input_ids 1, expected equal");
}

TEST_F(Documents, nothingSaysWhereTheyEnd) {
  const std::string path = dir.write("text.txt", "\1\2\3\4\5\6\7\1\2\3");
  EXPECT_EQ(
      errorOfOpening(path, packedPlan()),
      "the plan is of packed documents (--reset-position-ids, --reset-attention-mask), but nothing says where a "
      "document ends; expected --eod-token-id, with --data-path --dataloader-inter-document-masking, position_ids "
      "in a .safetensors file, or for a .jsonl a tokenizer whose tokenizer_config.json has eos_token");
  plan::Plan plain = packedPlan();
  plain.stages.clear();
  EXPECT_EQ(errorOfOpening(path, plain, {.masksEnds = true}),
            "--eod-mask-loss: nothing says where a document ends; expected --eod-token-id");
  EXPECT_EQ(errorOfOpening(path, plain, {.endToken = 10}),
            "--eod-token-id 10: expected 0 to 9, a token of the model's vocabulary");
  EXPECT_EQ(errorOfOpening(path, plain, {.endToken = 3}),
            "--eod-token-id 3 changes nothing: the plan's sequences are one document each; expected --eod-mask-loss "
            "beside it, or a plan of mgc compile --reset-position-ids --reset-attention-mask");
  EXPECT_EQ(errorOfOpening(path, plain, {.endToken = 3, .masksEnds = true}), "");
  EXPECT_EQ(errorOfOpening(path, packedPlan(), {.endToken = 3}), "");
}

// 13 tokens are samples of 0 to 5 and 6 to 11.
TEST_F(Documents, tooLongOnesShowBeforeTraining) {
  const auto errorOfText = [&](const char *text) {
    const std::string error = errorOfOpening(dir.write("text.txt", text), packedPlan(4), {.endToken = 3});
    return error.empty() ? error : error.substr(error.find(": token ") + 2);
  };
  const std::string rest = ": the document has more than 4 tokens, for which the model has learned positions; "
                           "expected shorter documents, each with token 3 at its end";
  EXPECT_EQ(errorOfText("\1\1\1\1\1\3\1\1\1\3\1\1\1"), "token 4" + rest);
  EXPECT_EQ(errorOfText("\1\1\1\3\1\1\1\1\3\1\1\1\1"), ""); // the boundary of samples cuts one of 5
  EXPECT_EQ(errorOfText("\1\1\1\3\1\1\1\1\1\1\3\1\1"), "token 10" + rest);
  EXPECT_EQ(errorOfText("\1\1\1\3\1\3\1\1\1\3\1\1\1\1\1\1\1"), ""); // in no sample
  EXPECT_EQ(makeMockData(packedPlan(4), 1, {.documents = {.endToken = 3}}).status().message(),
            "--eod-token-id 3: made-up documents that end at a token may be longer than the 4 tokens for which the "
            "model has learned positions; expected none, so that their lengths are drawn");
}

TEST_F(Documents, thatNobodyReadsEndWhereATokenSays) {
  plan::Plan plain = packedPlan();
  plain.stages.clear();
  EXPECT_EQ(makeMockData(plain, 1, {.documents = {.masksEnds = true}}).status().message(),
            "--eod-mask-loss: nothing says where a document ends; expected --eod-token-id");
  EXPECT_TRUE(isOk(makeMockData(plain, 1, {.documents = {.endToken = 3, .masksEnds = true}})));
  EXPECT_TRUE(isOk(makeMockData(packedPlan(), 1, {.documents = {.masksEnds = true}})));
}

TEST_F(Documents, ofMadeUpDataAreSoundAndDiffer) {
  for (int64_t longest : {0, 4}) {
    plan::Plan plan = packedPlan(longest);
    plan.sequenceLength = 64;
    const GlobalBatch batch = batchOf(makeMockData(plan, 5, {}), plan);
    EXPECT_TRUE(isOk(verifyStarts(batch.starts, 64, longest)));
    EXPECT_NE(Numbers(batch.starts.begin(), batch.starts.begin() + 64),
              Numbers(batch.starts.begin() + 64, batch.starts.end()));
    EXPECT_GT(batch.starts[63], 0);
  }
}
