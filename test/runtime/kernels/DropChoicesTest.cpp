#include "runtime/kernels/DropChoices.h"

#include "test/runtime/kernels/KernelData.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

using namespace mgc;
using plan::DropChoices;
using Numbers = std::vector<int32_t>;

namespace {

struct Choices {
  Numbers experts, positions;
  std::vector<float> weights;
};

// Memory behind the workspace and the result is looked at too.
Result<Numbers> run(const DropChoices &what, const Choices &choices) {
  constexpr int32_t untouched = -77;
  const size_t room = size_t(*what.workspaceBytes()) / sizeof(int32_t);
  Numbers kept(choices.experts.size() + 1, untouched), workspace(room + 1, untouched);
  const Status status = dropChoices(what, choices.experts.data(), choices.weights.data(), choices.positions.data(),
                                    kept.data(), workspace.data());
  EXPECT_EQ(kept.back(), untouched);
  EXPECT_EQ(workspace.back(), untouched);
  if (!status.isOk()) {
    EXPECT_EQ(std::ranges::count(kept, untouched), std::ssize(kept)) << "writes before it fails";
    return status;
  }
  kept.pop_back();
  return kept;
}

// How many of the same expert and group come before, one comparison after another.
Numbers slowly(const DropChoices &what, const Choices &choices) {
  Numbers kept = choices.experts;
  const auto tokenOf = [&](size_t i) { return int64_t(i) / what.chosen; };
  const auto groupOf = [&](size_t i) { return tokenOf(i) % what.sequences / what.together; };
  const auto isBefore = [&](size_t a, size_t b) {
    const float wa = choices.weights[a], wb = choices.weights[b];
    const int32_t pa = choices.positions[tokenOf(a)], pb = choices.positions[tokenOf(b)];
    if (!what.byPosition && std::isnan(wa) != std::isnan(wb))
      return std::isnan(wa);
    if (!what.byPosition && !std::isnan(wa) && wa != wb)
      return wa > wb;
    return pa != pb ? pa < pb : tokenOf(a) % what.sequences < tokenOf(b) % what.sequences;
  };
  for (size_t i = 0; i < kept.size(); ++i) {
    int64_t before = 0;
    for (size_t j = 0; j < kept.size(); ++j)
      before += j != i && choices.experts[j] == choices.experts[i] && groupOf(j) == groupOf(i) && isBefore(j, i);
    if (before >= what.capacity)
      kept[i] = int32_t(what.experts);
  }
  return kept;
}

// Experts are distinct for each token, weights have ties, positions are of another order than tokens.
Choices draw(const DropChoices &what, uint64_t seed) {
  const int64_t tokens = what.tokens * what.sequences;
  Choices choices;
  const std::vector<float> draws = test::randomFloats(tokens * (what.experts + what.chosen), seed);
  const float *next = draws.data();
  for (int64_t token = 0; token < tokens; ++token) {
    Numbers all(size_t(what.experts));
    std::iota(all.begin(), all.end(), 0);
    std::ranges::sort(all, {}, [&](int32_t expert) { return next[expert] - 0.3f * float(expert); });
    next += what.experts;
    choices.experts.insert(choices.experts.end(), all.begin(), all.begin() + what.chosen);
    for (int64_t choice = 0; choice < what.chosen; ++choice)
      choices.weights.push_back(std::round(*next++ * 4) / 4);
    const int64_t place = token / what.sequences;
    choices.positions.push_back(int32_t(place * 7 % what.tokens)); // each once
  }
  return choices;
}

} // namespace

TEST(DropChoices, byHand) {
  const DropChoices what{.tokens = 4, .sequences = 1, .chosen = 1, .experts = 2, .capacity = 2};
  const Choices choices{{0, 0, 1, 0}, {0, 1, 2, 3}, {0.5f, 0.7f, 0.9f, 0.6f}};
  EXPECT_EQ(*run(what, choices), (Numbers{2, 0, 1, 0}));
  DropChoices byPosition = what;
  byPosition.byPosition = true;
  EXPECT_EQ(*run(byPosition, choices), (Numbers{0, 0, 1, 2}));
  EXPECT_EQ(*run(byPosition, {{0, 0, 1, 0}, {3, 2, 1, 0}, choices.weights}), (Numbers{2, 0, 1, 0}));
}

// Two sequences that share the room, and two that do not.
TEST(DropChoices, groupsOfSequencesHaveRoomOfTheirOwn) {
  DropChoices what{.tokens = 2, .sequences = 2, .chosen = 1, .experts = 1, .capacity = 1, .together = 2};
  const Choices choices{{0, 0, 0, 0}, {0, 0, 1, 1}, {1, 2, 4, 3}};
  EXPECT_EQ(*run(what, choices), (Numbers{1, 1, 0, 1}));
  what.together = 1;
  EXPECT_EQ(*run(what, choices), (Numbers{1, 1, 0, 0}));
}

TEST(DropChoices, equalWeightsAreOrderedByPositionAndThenBySequence) {
  const DropChoices what{.tokens = 2, .sequences = 2, .chosen = 1, .experts = 1, .capacity = 3, .together = 2};
  EXPECT_EQ(*run(what, {{0, 0, 0, 0}, {5, 5, 4, 4}, {1, 1, 1, 1}}), (Numbers{0, 1, 0, 0}));
}

TEST(DropChoices, NanIsLargerThanAnyNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const DropChoices what{.tokens = 4, .sequences = 1, .chosen = 1, .experts = 1, .capacity = 2};
  EXPECT_EQ(*run(what, {{0, 0, 0, 0}, {0, 1, 2, 3}, {infinity, nan, 1, -nan}}), (Numbers{1, 0, 1, 0}));
}

TEST(DropChoices, isWhatComparingAllGives) {
  uint64_t seed = 0;
  for (const bool byPosition : {false, true})
    for (const int64_t capacity : {1, 3, 17, 1000})
      for (const int64_t together : {1, 2, 6})
        for (const auto &[experts, chosen] : {std::pair<int64_t, int64_t>{1, 1}, {4, 2}, {8, 8}, {32, 3}}) {
          const DropChoices what{19, 6, chosen, experts, capacity, together, byPosition};
          const Choices choices = draw(what, ++seed);
          const Numbers kept = *run(what, choices);
          ASSERT_EQ(kept, slowly(what, choices)) << what.sizes();
          if (capacity == 1000)
            ASSERT_EQ(kept, choices.experts) << "drops where there is room";
        }
}

TEST(DropChoices, refusesNumbersThatAreNoExpertAndWritesNothing) {
  const DropChoices what{.tokens = 4, .sequences = 1, .chosen = 1, .experts = 2, .capacity = 1};
  for (const int32_t wrong : {-1, 2, INT32_MAX, INT32_MIN})
    EXPECT_EQ(run(what, {{0, 1, wrong, 0}, {0, 1, 2, 3}, {1, 1, 1, 1}}).status().message(),
              fmt::format("choice 2 of 4 is expert {}; expected one from 0 to 1", wrong));
}
