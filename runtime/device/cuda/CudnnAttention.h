// The graphs that cuDNN knows as attention, apart from a device's memory: what can be made, and asked for its workspace, without
// a device too.
#pragma once

#include "runtime/device/cuda/Cudnn.h"

namespace mgc::cuda {

// Operands, by their ids in a graph.
enum class CudnnOperand : int64_t { q = 1, k, v, o, statistics, outputGradient, dq, dk, dv, delta, dqSum };

// A graph with its plan. `deterministic`: ds [b,g,r,s,t] is kept whole, in bf16, and dq made of it at the end. Otherwise dq is
// summed up in f32 [b,g,r,s,d] by additions whose order varies.
Result<CudnnGraph> makeCudnnGraph(std::shared_ptr<Cudnn> cudnn, const mgc_attention_facts &facts,
                                  bool deterministic);

} // namespace mgc::cuda
