// What attention does to one block of scores between two matrix products, row by row.
//   in:  rows of kAttentionKeys scores, of which the first `keys` are meant; positions that say which
//        of them are visible
//   out: the rows, changed in place
// A row is 64-byte aligned and is worked on in whole vectors: elements past `keys` up to the next multiple of
// kAttentionVector are read and written, and mean nothing.
#pragma once

#include "runtime/base/Philox.h"

#include <cstdint>

namespace mgc {

inline constexpr int64_t kAttentionRows = 64;   // of a block: pairs (s, r) of one (b, g)
inline constexpr int64_t kAttentionKeys = 128;  // of a block
inline constexpr int64_t kAttentionVector = 16; // floats

// Sets the scores of hidden keys, and the elements past `keys`, to -infinity: visible positions are those in
// [first, last]. Without positions all keys are visible.
void hideKeys(float *row, int64_t keys, const int32_t *keyPositions, int32_t first, int32_t last);

// The running state of a softmax over a row that comes in blocks.
struct SoftmaxState {
  float maximum;
  float sum;
};
// row <- exp(row - new maximum), added to the state. Returns the factor for all that was summed up before.
float softmaxStep(float *row, int64_t keys, SoftmaxState &state);

// For one row of scores s and of probability gradients dp, with the factors f of dropout (null: all 1):
//   p = exp(s - shift);  s <- p f;  dp <- p (dp f - delta)
void softmaxGradient(float *scores, float *gradients, int64_t keys, float shift, float delta,
                     const float *factors);

// Dropout's draw for one row: factors[j] = word(sample, head, query, keyPositions[j]) >= threshold ? keep :
// 0.
struct DropoutRow {
  PhiloxKey key;
  uint32_t sample, head, query;
  uint64_t threshold;
  float keep;
};
void dropoutFactors(const DropoutRow &dropout, const int32_t *keyPositions, int64_t keys, float *factors);
void multiplyRow(float *row, const float *factors, int64_t keys);

// result[j] = row[j] * factor; may be in place, needs no alignment.
void scaleRow(const float *row, float factor, float *result, int64_t count);

} // namespace mgc
