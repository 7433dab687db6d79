// The plugin's answers where the build had no cudnn.h.
#include "runtime/device/cuda/AttentionCalls.h"

namespace mgc::cuda {

Result<Attention> makeCudnnAttention(mgc_device &, const plan::Attention &, int64_t) {
  return errorf("this plugin was built without cuDNN's headers");
}

std::string cudnnVersion() { return "built without cuDNN"; }

} // namespace mgc::cuda
