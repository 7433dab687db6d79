// Documents packed in sequences: where they begin, and what is not to be learned at their ends. They are Megatron-LM's
// --reset-position-ids, --reset-attention-mask and --eod-mask-loss (get_ltor_masks_and_position_ids), as data.
//
//   tokens  5 8 0 7 0 3      a document ends at token 0, which is its last
//   starts  0 0 0 3 3 5      place where the document of each begins
//   ends    3 3 3 5 5 6      place behind its last token
//   ids     0 1 2 0 1 0      positions in the documents
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <span>

namespace mgc {

struct DocumentOptions {
  std::optional<int64_t> endToken = {}; // the last of each document
  bool masksEnds = false;               // predicting the first token of the next document has no loss
};

// Whether the options fit the plan, for data that say where documents begin or do not.
Status verifyDocuments(const DocumentOptions &documents, const plan::Plan &plan, bool saysWhereTheyBegin);

// Sequences of `length` tokens, one after another; `starts` as many.
void findDocuments(std::span<const int32_t> tokens, int64_t length, int64_t endToken, std::span<int32_t> starts);

struct PositionRule {
  bool mayRestart = true;
  int64_t longest = 0; // document; 0: any length
};
// The position ids of one sequence -> `starts`. An error where they do not count up by one from 0 or restart with 0.
Status startsOfPositions(std::span<const int64_t> positions, const PositionRule &rule, std::span<int32_t> starts);

// Sets the label at the end of each document to `ignored`: where the token is the end token and where the next one of the
// sequence begins a document. `starts` may be empty.
void maskEnds(std::span<const int32_t> tokens, int64_t length, std::optional<int64_t> endToken,
              std::span<const int32_t> starts, int32_t ignored, std::span<int32_t> labels);

// Where each token's document ends. On entry `ends` is, for each token, where the padding of its sequence begins: a document
// with padding at its end ends there.
void findEnds(std::span<const int32_t> starts, int64_t length, std::span<int32_t> ends);

// The tokens of one sequence before its padding, by its mask of ones and then zeros. An error where the mask is no such one.
Result<int64_t> lengthOfMask(std::span<const int64_t> mask);

// Whether each place is that behind a document: the same for all its tokens, or for its padding too, and behind its start,
// where there are `starts`.
Status verifyEnds(std::span<const int32_t> ends, std::span<const int32_t> starts, int64_t length);

// Whether the places are those of documents none of which is longer than `longest`, if that is not 0.
Status verifyStarts(std::span<const int32_t> starts, int64_t length, int64_t longest);

} // namespace mgc
