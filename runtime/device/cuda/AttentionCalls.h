// Attention on a device: a call of a plan, by cuDNN (CudnnAttention.cpp) or by this plugin's kernels
// (OwnAttention.cpp). The definition: runtime/kernels/CpuAttention.h.
#pragma once

#include "plan/Plan.h"
#include "runtime/device/cuda/Internal.h"

struct mgc_attention {
  virtual ~mgc_attention() = default;
  virtual mgc::Status run(mgc_stream &stream, const mgc_attention_operands &operands) = 0;
};

namespace mgc::cuda {

using Attention = std::unique_ptr<mgc_attention>;

// Takes everything that a plan can ask.
Result<Attention> makeOwnAttention(mgc_device &device, const mgc_attention_facts &facts);

// An error says why cuDNN cannot do it.
Result<Attention> makeCudnnAttention(mgc_device &device, const mgc_attention_facts &facts);

// Elements of a head of v and o.
inline int64_t valueSize(const mgc_attention_facts &a) { return a.w ? a.w : a.d; }

// Elements from one group to the next, with zeros resolved.
struct AttentionStrides {
  int64_t q, k, v, dq, dk, dv;
  explicit AttentionStrides(const mgc_attention_facts &a)
      : q(a.q_stride ? a.q_stride : a.r * a.d), k(a.k_stride ? a.k_stride : a.d),
        v(a.v_stride ? a.v_stride : valueSize(a)), dq(a.dq_stride ? a.dq_stride : a.r * a.d),
        dk(a.dk_stride ? a.dk_stride : a.d), dv(a.dv_stride ? a.dv_stride : valueSize(a)) {}
};

} // namespace mgc::cuda
