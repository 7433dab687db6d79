// Attention of one block of queries and one block of keys, compiled once per generation of processors.
//   in:  a block of at most kAttentionRows queries in columns (below), a block of at most kAttentionKeys keys
//        and values in rows of d
//   out: forward: the block's running softmax and output; backward: its dq, and the keys' dk and dv
// Vectors run across queries: columns are panels [d, width], one element per query and d, panels one after the other;
// those of o and its gradient are [w, width]. Scores have the same layout, [keys, width], so that maxima, sums and
// masks need no work across a vector, and keys and values are read as they are. Every part starts on 64 bytes.
#pragma once

#include "plan/targets/AttentionWorkspace.h"
#include "runtime/random/Philox.h"

#include <cstdint>
#include <span>

namespace mgc {

struct AttentionDropout {
  uint32_t key[2];
  uint32_t sample;
  uint64_t threshold;
  float keep; // factor of a kept probability
};

// Lanes past `count` see no key: their first is greater than their last.
struct AttentionQueries {
  int64_t count = 0, d = 0, w = 0;
  // Visible keys have positions in [first, last].
  alignas(64) int32_t first[kAttentionRows], last[kAttentionRows];
  alignas(64) int32_t positions[kAttentionRows]; // its own, read with dropout, slopes or a bias only
  alignas(64) uint32_t heads[kAttentionRows];    // read with dropout only
  // A score decreases by the slope for each position between key and query; over ln(2).
  alignas(64) float slopes[kAttentionRows];
  bool hasSlopes = false;
  const AttentionDropout *dropout = nullptr; // null without
  // Scores are in powers of 2, for which q comes multiplied by scale / ln(2). With a cap, softcap / ln(2), they are cap tanh(x) of
  // products x, for which q comes multiplied by scale / softcap. 0: none.
  float cap = 0;
  // Forward: the maximum so far and the sum of 2^(score - maximum).
  // Backward: lse, infinity if nothing is seen, and delta.
  alignas(64) float shift[kAttentionRows], sum[kAttentionRows];
  const float *q = nullptr; // columns, as are the next three
  float *o = nullptr;       // forward only; all below backward only
  const float *outputGradient = nullptr;
  float *dq = nullptr;
  const float *qRows = nullptr, *outputGradientRows = nullptr; // rows of padded d, padded w; q times scale
  // The bias of query i, added to scores, over ln(2): biases[bucket + biasRows[i]], with the bucket of key - query, up
  // to biasReach.
  const int32_t *buckets = nullptr; // bucket per distance from -biasReach to biasReach; null: no bias
  uint32_t biasReach = 0;
  const float *biases = nullptr;
  alignas(64) int32_t biasRows[kAttentionRows];
  float *biasSums = nullptr; // backward: [rows, biasBuckets], to which the gradients of biases are added
  int64_t biasBuckets = 0;
};

struct AttentionKeys {
  int64_t count = 0;
  const float *k = nullptr, *v = nullptr; // [count, d], [count, w]
  const int32_t *positions = nullptr;
  int32_t least = 0, greatest = 0; // range of the positions
  float *scores = nullptr;         // scratch: [kAttentionKeys, width], forward one panel, backward all
  // Backward only:
  float *gradients = nullptr; // scratch, like scores
  struct Rows {               // rows of d elements, of dv w, `stride` elements apart
    float *first = nullptr;
    int64_t stride = 0;
  } dk, dv;
};

// The keys of a block that each panel sees: keys outside [first, last) are hidden, keys inside may be.
struct AttentionRanges {
  int64_t first[kAttentionPanels], last[kAttentionPanels];
};

struct AttentionKernels {
  const char *name;
  // columns <- the rows, times scale; missing rows are 0.
  void (*pack)(const float *const *rows, int64_t count, int64_t d, float scale, float *columns);
  // rows <- columns, those of query i times factors[i] (kAttentionRows of them).
  void (*unpack)(const float *columns, const float *factors, int64_t count, int64_t d, float *const *rows);
  // Adds the keys to the running softmax and output of the queries.
  void (*forward)(AttentionQueries &queries, const AttentionKeys &keys);
  // Makes probabilities (into scores) and score gradients, and adds to dq.
  void (*backward)(const AttentionQueries &queries, const AttentionKeys &keys, AttentionRanges &ranges);
  // Adds to dk and dv what backward has made.
  void (*addKeyGradients)(const AttentionQueries &queries, const AttentionKeys &keys, const AttentionRanges &ranges);
};

// The kernels that this processor can run, best first. Their results are equal up to rounding.
std::span<const AttentionKernels *const> attentionKernels();

} // namespace mgc
