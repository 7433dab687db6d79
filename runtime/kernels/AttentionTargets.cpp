// Lists the compilations of AttentionPanels.cpp, and finds those that this processor can run.
#include "runtime/kernels/AttentionPanels.h"

#include <array>

namespace mgc {

#define MGC_DECLARE(target)                                                                                            \
  namespace target {                                                                                                   \
  extern const AttentionKernels kernels;                                                                               \
  }
MGC_DECLARE(baseline)
#if defined(__x86_64__)
MGC_DECLARE(x86_64_v3)
MGC_DECLARE(x86_64_v4)
#endif
#undef MGC_DECLARE

namespace {

struct Runnable {
  std::array<const AttentionKernels *, 3> kernels = {};
  size_t count = 0;
  Runnable() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("x86-64-v4"))
      kernels[count++] = &x86_64_v4::kernels;
    if (__builtin_cpu_supports("x86-64-v3"))
      kernels[count++] = &x86_64_v3::kernels;
#endif
    kernels[count++] = &baseline::kernels;
  }
};

} // namespace

std::span<const AttentionKernels *const> attentionKernels() {
  static const Runnable runnable;
  return {runnable.kernels.data(), runnable.count};
}

} // namespace mgc
