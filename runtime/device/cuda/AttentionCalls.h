// Attention on a device: a call of a plan, by cuDNN (CudnnAttention.cpp) or by this plugin's kernels
// (OwnAttention.cpp). The definition: runtime/kernels/CpuAttention.h.
#pragma once

#include "plan/instructions/AttentionInstruction.h"
#include "runtime/device/cuda/Internal.h"

struct mgc_attention {
  virtual ~mgc_attention() = default;
  virtual mgc::Status run(mgc_stream &stream, const mgc_attention_operands &operands) = 0;
};

namespace mgc::cuda {

using Attention = std::unique_ptr<mgc_attention>;

// Takes everything that a plan can ask.
Result<Attention> makeOwnAttention(mgc_device &device, const plan::Attention &attention);

// `part`: see mgc_attention_facts. An error says why cuDNN cannot do it.
Result<Attention> makeCudnnAttention(mgc_device &device, const plan::Attention &attention, int64_t part);

} // namespace mgc::cuda
