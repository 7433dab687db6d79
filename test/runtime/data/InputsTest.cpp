// Tests which part of the global batch each rank sees.
#include "runtime/data/Inputs.h"
#include "test/runtime/exec/HandMadePlans.h"

#include <gtest/gtest.h>

namespace mgc::test {
namespace {

using Kind = plan::Input::Kind;
using Numbers = std::vector<int32_t>;

// Mesh dp = 2, cp = 2 (fastest); 4 positions; 2 samples per rank and microbatch, 2 microbatches: 8 samples.
plan::Plan makePlan(Kind kind, std::vector<plan::Input::Dim> dims, int64_t stride) {
  plan::Plan plan =
      emptyPlan({{"dp", 2, plan::AxisRole::data}, {"cp", 2}}, {.sequence = 4, .microBatch = 2, .microbatches = 2});
  plan.stages[0].inputs = {{.kind = kind,
                            .type = plan::typeOf(kind),
                            .dims = std::move(dims),
                            .ring = addRing(plan, 0, 8, stride, stride == 0 ? 1 : 2)}};
  return plan;
}

template <typename T = int32_t> std::vector<T> inputOf(const plan::Plan &plan, int64_t rank, int64_t step = 0) {
  GlobalBatch batch = GlobalBatch::create(plan).take();
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    batch.tokens[i] = static_cast<int32_t>(10 * (i / 4) + i % 4); // 10 * sample + position
    batch.labels[i] = i % 4 == 3 ? kIgnoredLabel : batch.tokens[i] + 1;
  }
  for (size_t i = 0; i < batch.starts.size(); ++i) // the second document of sample n begins at n % 4
    batch.starts[i] = static_cast<int32_t>(i % 4 >= i / 4 % 4 ? i / 4 % 4 : 0);
  for (size_t i = 0; i < batch.types.size(); ++i)
    batch.types[i] = static_cast<int32_t>(i % 3);
  for (size_t i = 0; i < batch.ends.size(); ++i) // sample n has n % 4 + 1 tokens, and then padding
    batch.ends[i] = static_cast<int32_t>(i / 4 % 4 + 1);
  batch.first = step * plan.globalBatchSize;
  std::vector<std::byte> arena(512, std::byte(0xEE));
  for (const InputRecord &record : resolveInputs(plan, rank))
    writeInput(record, plan, batch, arena.data());
  std::vector<T> values;
  for (size_t at = 8; at + sizeof(T) <= arena.size() && arena[at + 1] != std::byte(0xEE); at += sizeof(T))
    values.push_back(*reinterpret_cast<T *>(arena.data() + at));
  return values;
}

const plan::Input::Dim kSamples{"b", 4, {"dp"}};
const plan::Input::Dim kPositions{"s", 4, {"cp"}};

// Inputs of parts of sequences, and of whole ones, for each microbatch.
plan::Plan inParts(Kind kind) { return makePlan(kind, {kPositions, kSamples}, 16); }
plan::Plan whole(Kind kind) { return makePlan(kind, {{"t", 4, {}}, kSamples}, 32); }

TEST(Inputs, tokensAreSlicedByMicrobatchSampleAndPosition) {
  const plan::Plan plan = inParts(Kind::tokens);
  // rank = 2 * dp + cp; per microbatch [s, b]
  EXPECT_EQ(inputOf(plan, 0), (Numbers{0, 10, 1, 11, 40, 50, 41, 51}));
  EXPECT_EQ(inputOf(plan, 1), (Numbers{2, 12, 3, 13, 42, 52, 43, 53}));
  EXPECT_EQ(inputOf(plan, 2), (Numbers{20, 30, 21, 31, 60, 70, 61, 71}));
}

TEST(Inputs, theEncodersAreOfItsOwnSequence) {
  plan::Plan plan = emptyPlan({}, {.sequence = 2, .microBatch = 2, .microbatches = 1});
  plan.encoderLength = 3;
  plan.stages[0].inputs = {
      {.kind = Kind::tokens, .dims = {{"s", 3, {}}, {"b", 2, {}}}, .ring = addRing(plan, 0, 0, 24), .ofEncoder = true},
      {.kind = Kind::encoderEnds, .dims = {{"s", 2, {}}, {"b", 2, {}}}, .ring = addRing(plan, 0, 32, 16)}};
  GlobalBatch batch = GlobalBatch::create(plan).take();
  batch.encoderTokens = {1, 2, 3, /**/ 4, 5, 6};
  batch.encoderEnds = {3, 3, 3, /**/ 2, 2, 2};
  std::vector<std::byte> arena(128);
  for (const InputRecord &record : resolveInputs(plan, 0))
    writeInput(record, plan, batch, arena.data());
  const auto *values = reinterpret_cast<const int32_t *>(arena.data());
  EXPECT_EQ(std::vector(values, values + 6), (Numbers{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(std::vector(values + 8, values + 12), (Numbers{3, 2, 3, 2}));
}

TEST(Inputs, wholeSequencesWhereNothingSplitsThem) {
  const plan::Plan plan = whole(Kind::tokens);
  EXPECT_EQ(inputOf(plan, 3), (Numbers{20, 30, 21, 31, 22, 32, 23, 33, 60, 70, 61, 71, 62, 72, 63, 73}));
}

TEST(Inputs, theOrderOfTheDimsIsTheOrderInMemory) {
  const plan::Plan plan = makePlan(Kind::tokens, {kSamples, kPositions}, 16);
  EXPECT_EQ(inputOf(plan, 0), (Numbers{0, 1, 10, 11, 40, 41, 50, 51}));
}

TEST(Inputs, ignoredLabelsWeighNothing) {
  EXPECT_EQ(inputOf(inParts(Kind::labels), 1), (Numbers{3, 13, -1, -1, 43, 53, -1, -1}));
  EXPECT_EQ(inputOf<float>(inParts(Kind::lossWeights), 1), (std::vector<float>{1, 1, 0, 0, 1, 1, 0, 0}));
}

TEST(Inputs, theTokensOfTheStepAreOneNumberForAllRanksAndMicrobatches) {
  for (int64_t rank : {0, 3}) // 8 samples of 3 labels that count
    EXPECT_EQ(inputOf<float>(makePlan(Kind::stepTokens, {}, 0), rank), (std::vector<float>{24}));
}

TEST(Inputs, sharesAddUpToOneOverTheLabelsOfTheStepThatCount) {
  const float share = 1.0F / 24; // 8 samples of 3 labels
  EXPECT_EQ(inputOf<float>(inParts(Kind::lossShares), 1), (std::vector<float>{share, share, 0, 0, share, share, 0, 0}));
}

plan::Plan shifted(Kind kind, int64_t shift) {
  plan::Plan plan = inParts(kind);
  plan.stages[0].inputs[0].shift = shift;
  return plan;
}

// Rank 1 has positions 2 and 3, of which the last has no later one.
TEST(Inputs, laterTokensAreThoseOfOtherRanksAndEndWithTheSequence) {
  EXPECT_EQ(inputOf(shifted(Kind::tokens, 1), 0), (Numbers{1, 11, 2, 12, 41, 51, 42, 52}));
  EXPECT_EQ(inputOf(shifted(Kind::tokens, 1), 1), (Numbers{3, 13, 0, 0, 43, 53, 0, 0}));
  EXPECT_EQ(inputOf(shifted(Kind::labels, 1), 0), (Numbers{2, 12, 3, 13, 42, 52, 43, 53}));
  EXPECT_EQ(inputOf(shifted(Kind::labels, 1), 1), (Numbers{-1, -1, -1, -1, -1, -1, -1, -1}));
  const float share = 1.0F / 16; // position 3 is ignored, so 2 is too; 0 and 1 are left
  EXPECT_EQ(inputOf<float>(shifted(Kind::lossShares, 1), 0), std::vector<float>(8, share));
  EXPECT_EQ(inputOf<float>(shifted(Kind::lossShares, 1), 1), std::vector<float>(8, 0));
  EXPECT_EQ(inputOf<float>(shifted(Kind::lossShares, 3), 0), std::vector<float>(8, 0)); // none counts
}

TEST(Inputs, laterTokensLieInTheOrderOfThePlan) {
  plan::Plan plan = shifted(Kind::tokens, 1);
  plan.zigzag = 2; // rank 0 has positions 0 and 3
  EXPECT_EQ(inputOf(plan, 0), (Numbers{1, 11, 0, 0, 41, 51, 0, 0}));
}

// The second document of sample n begins at n % 4.
TEST(Inputs, laterTokensEndWithTheDocument) {
  plan::Plan plan = shifted(Kind::tokens, 1);
  plan::Input starts = plan.stages[0].inputs[0];
  starts.kind = Kind::documentStarts, starts.shift = 0;
  starts.ring = addRing(plan, 0, 264, 16, 2);
  plan.stages[0].inputs.push_back(starts);
  const Numbers found = inputOf(plan, 0);
  EXPECT_EQ(std::vector(found.begin(), found.begin() + 8), (Numbers{1, 0, 2, 12, 41, 0, 42, 52}));
}

TEST(Inputs, positionsAreGlobalAndSharedByMicrobatches) {
  EXPECT_EQ(inputOf(makePlan(Kind::positions, {kPositions, kSamples}, 0), 1), (Numbers{2, 2, 3, 3}));
  EXPECT_EQ(inputOf(makePlan(Kind::keyPositions, {{"t", 4, {}}, kSamples}, 0), 1), (Numbers{0, 0, 1, 1, 2, 2, 3, 3}));
}

TEST(Inputs, documentsAreTheirStartsAndThePositionsInThem) {
  EXPECT_EQ(inputOf(inParts(Kind::documentStarts), 1), (Numbers{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(inputOf(inParts(Kind::positionIds), 1), (Numbers{2, 1, 3, 2, 2, 1, 3, 2}));
  EXPECT_EQ(inputOf(whole(Kind::keyDocumentStarts), 2), (Numbers{0, 0, 0, 0, 2, 0, 2, 3, 0, 0, 0, 0, 2, 0, 2, 3}));
}

TEST(Inputs, typesAndEndsAreThoseOfTheTokens) {
  EXPECT_EQ(inputOf(inParts(Kind::tokenTypes), 1), (Numbers{2, 0, 0, 1, 0, 1, 1, 2}));
  EXPECT_EQ(inputOf(inParts(Kind::documentEnds), 1), (Numbers{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(inputOf(whole(Kind::keyDocumentEnds), 2), (Numbers{3, 4, 3, 4, 3, 4, 3, 4, 3, 4, 3, 4, 3, 4, 3, 4}));
}

TEST(Inputs, typesAndEndsThatNoPlanHas) {
  plan::Plan types = inParts(Kind::tokenTypes);
  types.tokenTypes = 2;
  GlobalBatch batch = GlobalBatch::create(types).take();
  EXPECT_TRUE(checkBatch(types, batch).isOk());
  batch.types[6] = 2;
  EXPECT_EQ(checkBatch(types, batch).message(), "sample 1 of the batch, position 2: token type 2, expected 0 to 1");
  batch.types.clear();
  EXPECT_EQ(checkBatch(types, batch).message(), "the batch has the types of 0 tokens, expected those of 32");
  plan::Plan ends = whole(Kind::keyDocumentEnds);
  batch = GlobalBatch::create(ends).take();
  EXPECT_EQ(checkBatch(ends, batch).message(),
            "sample 0 of the batch, position 0: its document ends at 0, expected 1 to 4");
  batch.ends.assign(32, 3);
  EXPECT_TRUE(checkBatch(ends, batch).isOk());
  batch.ends.pop_back();
  EXPECT_EQ(checkBatch(ends, batch).message(),
            "the batch has the ends of documents of 31 tokens, expected those of 32");
}

TEST(Inputs, documentsThatNoSequenceHas) {
  plan::Plan plan = inParts(Kind::documentStarts);
  GlobalBatch batch = GlobalBatch::create(plan).take();
  EXPECT_TRUE(checkBatch(plan, batch).isOk());
  batch.starts[6] = 1; // sample 1, position 2
  EXPECT_EQ(checkBatch(plan, batch).message(), "sample 1 of the batch, position 2: its document begins at 1");
  batch.starts[6] = 0;
  plan.longestDocument = 3;
  EXPECT_EQ(checkBatch(plan, batch).message(),
            "sample 0 of the batch: position 3: the document has more than 3 tokens, for which the model has "
            "learned positions; expected shorter documents");
  batch.starts.clear();
  EXPECT_EQ(checkBatch(plan, batch).message(), "the batch has the documents of 0 tokens, expected those of 32");
}

TEST(Inputs, samplesAreNumberedOverTheWholeTraining) {
  const plan::Plan plan = makePlan(Kind::samples, {kSamples}, 8);
  EXPECT_EQ(inputOf(plan, 0), (Numbers{0, 1, 4, 5}));
  EXPECT_EQ(inputOf(plan, 2, 3), (Numbers{26, 27, 30, 31}));
}

} // namespace
} // namespace mgc::test
