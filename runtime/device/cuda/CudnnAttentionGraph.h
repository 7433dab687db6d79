// The graphs that cuDNN knows as attention, apart from a device's memory: what can be made, and asked for its workspace, without
// a device too.
#pragma once

#include "plan/targets/CudaAttention.h"
#include "runtime/device/cuda/AttentionCalls.h"
#include "runtime/device/cuda/Cudnn.h"

namespace mgc::cuda {

// Operands, by their ids in a graph.
enum class CudnnOperand : int64_t { q = 1, k, v, o, statistics, outputGradient, dq, dk, dv, delta, dqSum };
constexpr int64_t idOf(CudnnOperand operand) { return static_cast<int64_t>(operand); }

// Where operands lie: the plan's, or copies by ascending positions.
struct CudnnAttentionLayout {
  plan::AttentionStrides strides;
  CudaAttentionWorkspace parts;
  CudnnAttentionLayout(const plan::Attention &attention, bool deterministic);
};

// The graph of one run, with its plan. `deterministic`: ds [b,g,r,s,t] is kept whole, in bf16, and dq made of it at the end.
// Otherwise dq is summed up in f32 [b,g,r,s,d] by additions whose order varies.
Result<CudnnGraph> makeCudnnGraph(std::shared_ptr<Cudnn> cudnn, const plan::Attention &attention,
                                  const CudaAttentionRun &run, bool deterministic);

} // namespace mgc::cuda
