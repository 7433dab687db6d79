// Attention on NVIDIA GPUs: what the compiler must know of it, and the plugin too.
//
// cuDNN's causal kernels take queries and keys whose positions follow each other, and so do those with windows. In an order of the
// sequence (plan/SequenceOrder.h) the queries of a part are one or two such runs; causal, each sees keys from some position up to
// its own last one, which is the mask that cuDNN calls causal from the bottom right. The plugin copies what lies in another order,
// runs each, and puts the results back. Where every query sees all keys, there is one run, without a mask, of what lies anyhow.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

#include <vector>

namespace mgc {

// Why cuDNN is not asked for this attention: what its kernels do not take, or do otherwise than a plan says. Ok: it is asked, and
// the plugin's own kernels, which take everything and use no tensor cores, step in where it has none.
Status cudnnTakes(const plan::Attention &attention);

// Queries whose positions follow each other, and the keys they see: one call of cuDNN. Query i is at the position of key i +
// offset().
struct CudaAttentionRun {
  int64_t query, queries; // the first, counted along the part's positions; how many
  int64_t position;       // position of the first
  int64_t firstKey, keys; // positions
  int64_t offset() const { return position - firstKey; }
};

// Runs of the queries that are part `part` of t / s, by ascending positions. `attention` is one that cuDNN supports.
std::vector<CudaAttentionRun> cudaAttentionRuns(const plan::Attention &attention, int64_t part);

// Parts of a workspace, in bytes, each a multiple of 256: the plugin's use of it. Enough for every part of the order.
struct CudaAttentionWorkspace {
  int64_t rows = 0;  // f32 [b,g,r,s]: lse in cuDNN's order
  int64_t delta = 0; // f32 [b,g,r,s]; backward
  int64_t dqSum = 0; // f32 [b,g,r,s,d]; backward, where equal bits are not asked for
  // bf16 by positions, where they lie in another order: k [t,b,g,d] and v [t,b,g,w], q [s,b,g,r,d] and o [s,b,g,r,w]; backward also
  // dq and o's gradient.
  int64_t keys = 0, values = 0, queries = 0, outputs = 0, queryGradients = 0, outputGradients = 0;
  // bf16 [all runs' keys,b,g,d], and w, of dk and dv; backward, where no run is all keys in order
  int64_t keyGradients = 0, valueGradients = 0;
  explicit CudaAttentionWorkspace(const plan::Attention &attention, bool deterministic);
  int64_t bytes() const; // total
};

inline constexpr int64_t kOwnAttentionRows = 64; // queries of a block of the own kernels

// Bytes that are enough for cuDNN, where it is asked, and for the plugin's own kernels. A function of the sizes alone:
// where cuDNN is not asked, none forward; backward delta and, with a bias of n buckets, f32 [n, b, g, s r rounded up to 64].
//   forward:   the parts above and 64 KiB
//   backward:  the parts above and 64 KiB; for the run with the most 2 b g r q k, q queries and k keys rounded up to 128, for the
//              gradients of scores in bf16, of which equal bits are made; b g r k d of bf16 for dk, and with w for dv, before they
//              are summed over r (f32 where equal bits are not asked for, and where attention is not causal in both types, those of f32
//              for k rounded up)
// cuDNN 9.19 asks for exactly these tensors and 128 to 512 bytes (test/runtime/device/cuda/CudnnAttentionTest.cpp).
// Sizes beyond 64 bits give the largest int64_t.
int64_t cudaAttentionWorkspaceBytes(const plan::Attention &attention, bool deterministic = true);

} // namespace mgc
