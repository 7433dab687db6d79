// How attention cuts its queries into blocks, and what memory the work on them takes.
//   in:  sizes and direction
//   out: blocks, lanes, and where the parts of the workspace lie
#pragma once

#include "plan/instructions/AttentionInstruction.h"
#include "runtime/base/Rounding.h"

#include <atomic>

namespace mgc {

inline constexpr int64_t kAttentionRows = 192;   // queries of a block at most: pairs (s, r) of one (b, g)
inline constexpr int64_t kAttentionKeys = 48;    // keys of a block: whole tiles of 6 and of 8
inline constexpr int64_t kAttentionPadding = 16; // rows of queries are padded with zeros to a multiple
inline constexpr int64_t kAttentionWidest = 32;  // queries of a panel: at most these
inline constexpr int64_t kAttentionPanels = 24;  // panels of a block, at most

// At most this many blocks are worked on at once, whatever the thread count: the workspace has a slice for each.
inline constexpr int64_t kAttentionLanes = 8;

constexpr int64_t attentionPadded(int64_t d) { return roundUp(d, kAttentionPadding); }

// Working memory of one lane, which works on one block of `rows` queries at a time. All parts start on 64 bytes.
struct AttentionLane {
  float *q, *o, *outputGradient,
      *dq;                           // columns [d, rows], of o and its gradient [w, rows]: see AttentionPanels.h
  float *qRows, *outputGradientRows; // [rows, padded d], [rows, padded w]
  float *k, *v;                      // [kAttentionKeys, d], [kAttentionKeys, w]
  float *scores, *gradients;         // [kAttentionKeys, rows]; forward one panel
  float *converted;                  // [rows, the larger of d and w], for bf16: rows being read or written
  float *biasSums;                   // [rows, n], with a bias backward: what each row adds to its gradient
};

// With a bias of n buckets, for all lanes.
struct AttentionBias {
  int32_t *buckets = nullptr; // bucket of each distance (RelativeBuckets.h); null: there is no bias
  float *values = nullptr;    // [g, r, n] in f32, over ln(2)
  float *sums = nullptr;      // [heads, blocks, r, n], backward: what each task adds to its gradient
};

// How far a task of backward is: the block of keys that it works on next.
using AttentionTurn = std::atomic<int32_t>;

// d, b and g are positive.
class AttentionWorkspace {
public:
  explicit AttentionWorkspace(const plan::Attention &attention);
  __int128 heads() const { return static_cast<__int128>(a_.b) * a_.g; } // (b, g)
  int64_t rows() const { return rows_; }      // rows of a block, a multiple of kAttentionWidest
  __int128 blocks() const { return blocks_; } // blocks of rows per (b, g), at least one
  int64_t lanes() const;                      // at most kAttentionLanes, and no more than there are tasks
  __int128 bytes() const;
  AttentionLane lane(void *workspace, int64_t index) const;
  AttentionTurn *turns(void *workspace) const; // [heads, blocks], backward only
  // For results of bf16, in backward only: the sums of dk [heads, t, d] and, behind them, of dv [heads, t, w].
  float *keySums(void *workspace) const;
  AttentionBias bias(void *workspace) const;

private:
  const plan::Attention &a_;
  int64_t rows_;
  __int128 blocks_;

  __int128 tasks(int64_t most) const;
  __int128 turnBytes() const;
  __int128 sumBytes() const;
  __int128 layOutBias(char *base, AttentionBias &bias) const;
  __int128 layOut(char *base, AttentionLane &lane) const;
};

// Bytes of workspace: a function of the sizes and the direction only. Where w is d, at most kAttentionLanes * (1920 d + 6200)
// forward, kAttentionLanes * (4224 d + 97000) + b g (s r / 8 + 4) + 64 backward. With bf16 a lane needs 768 d + 64 more,
// and backward the keys' gradients are summed up in f32: 8 t b g d. A bias of n buckets up to a distance of m needs 8 m + 4 g r n more, and backward
// n times 4 for each query of the lanes and for each query head of each block of them. Sizes beyond 64 bits give the largest int64_t.
int64_t attentionWorkspaceBytes(const plan::Attention &attention);

} // namespace mgc
