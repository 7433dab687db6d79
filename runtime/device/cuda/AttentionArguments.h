// The arguments of the kernels of kernels/attention*.cu: the same struct on the host and on the device.
#pragma once

#include <cstdint>

namespace mgc::cuda {

// Rows of d elements (v, o and their gradients: of w), `stride` elements from one group (position, b, g) to the next.
// All inputs have one type, bf16 or f32, and all outputs have one.
struct AttentionTensor {
  uint64_t address;
  int64_t stride;
};

struct CudaAttentionDropout {
  uint64_t threshold; // a word below it drops; 0: no dropout
  uint32_t key[2];
  float keep; // factor of a kept probability; 1 without dropout
};

// All 0 without a bias.
struct CudaAttentionBias {
  uint64_t buckets;      // i32: of distances key - query from -maxDistance to maxDistance (plan/RelativeBuckets.h)
  AttentionTensor table; // [count, g, r]
  uint64_t sums; // f32 [blocks of attention_dq, count, kAttentionTile]: what each query adds to the table's gradient
  uint64_t gradient; // f32 [count, g, r]
  int64_t count;     // number of buckets
  int32_t maxDistance;
};

// Everything as in plan::Attention.
struct AttentionArguments {
  int64_t s, t, b, g, r, d, w, window, headOffset, groupStride;
  AttentionTensor q, k, v, o, outputGradient, dq, dk, dv;
  uint64_t lse;   // f32 [s,b,g,r]
  uint64_t delta; // f32 [s,b,g,r]: the rows' sums of output times its gradient; backward only
  uint64_t queryPositions, keyPositions, samples;
  uint64_t starts;       // 0: without documents
  uint64_t ends;         // 0: without
  uint64_t slopes;       // f32 [g,r], over ln(2); 0: without
  AttentionTensor sinks; // [g,r]; address 0: without
  CudaAttentionBias bias;
  CudaAttentionDropout dropout;
  float scale;
  // Scores are in powers of 2: products times scale / ln(2), or, with a cap of softcap / ln(2), cap tanh(x) of products x times
  // scale / softcap.
  float scoreScale, cap; // cap 0: none
  int32_t isCausal, isBf16, writesBf16;
};

// --- Between the order in which positions lie and the ascending one that cuDNN takes (plan/SequenceOrder.h).

// The positions of `ranks` ranks that follow each other, two chunks of `chunk` positions on each; 1: they ascend already.
struct AttentionOrder {
  int64_t ranks, chunk;
};

// bf16 [positions, groups, width], by order or ascending; `stride` elements from one group to the next. Addresses, strides and
// widths are multiples of kAttentionVector elements.
struct AttentionRows {
  AttentionTensor tensor;
  int64_t positions, groups, width;
};

// Dense rows of ascending positions from `first` on.
struct AttentionRange {
  uint64_t address;
  int64_t first, positions;
};

inline constexpr int kAttentionVector = 8; // elements that a thread moves at once

inline constexpr int kAttentionTile = 64;      // rows of a block, and of what it meets at once
inline constexpr int kAttentionSlice = 32;     // columns that are in shared memory at once
inline constexpr int kAttentionThreads = 256;  // threads of a block
inline constexpr int kAttentionDeltaRows = 32; // rows of a block of attention_delta

} // namespace mgc::cuda
