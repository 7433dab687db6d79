// Blocked attention, the library call behind plan::Attention: the scores never exist as a whole.
//   in:  q[s,b,g,r,d], k[t,b,g,d], v[t,b,g,w], positions; backward: also o, lse and do
//   out: o[s,b,g,r,w], lse[s,b,g,r]; backward: dq, dk, dv like q, k, v, and dbias like the bias
// All row-major; q, k, v and their gradients contiguous or in strides (plan::Attention), all others contiguous. A query
// that sees no key has o = 0, lse = -infinity, or its head's sink, and no gradient. Operands of bf16 become f32 when
// read; outputs are rounded once, when written, if at all: plan::Attention::resultsInF32.
#pragma once

#include "plan/instructions/AttentionInstruction.h"

namespace mgc {

// Addresses in the order of mgc_attention_operands. lse is f32, what is `void` of attention.type, or f32:
// plan::Attention::resultsInF32.
struct AttentionOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  const int32_t *queryPositions = nullptr; // [s,b]
  const int32_t *keyPositions = nullptr;   // [t,b]
  const int32_t *starts = nullptr;         // [s,b], read with documents only
  const int32_t *ends = nullptr;           // [s,b], read with ends only
  const int32_t *samples = nullptr;        // [b], read with dropout only
  const void *sinks = nullptr;             // [g,r], read with sinks only
  const void *bias = nullptr;              // [n,g,r], read with a bias only
  void *o = nullptr;                       // written forward, read backward
  float *lse = nullptr;                    // written forward, read backward
  const void *outputGradient = nullptr;    // do; this and below backward only
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  float *dbias = nullptr;    // [n,g,r], written with a bias only
  void *workspace = nullptr; // attentionWorkspaceBytes, 64-byte aligned
};

// Forward or backward, as attention.backward says; its scalars are values, without terms. Equal bits for every thread
// count.
void attention(const plan::Attention &attention, const AttentionOperands &operands, int threads);
// With kernels of one's choice (AttentionPanels.h) instead of the best that the processor can run.
struct AttentionKernels;
void attention(const plan::Attention &attention, const AttentionOperands &operands, int threads,
               const AttentionKernels &kernels);

} // namespace mgc
