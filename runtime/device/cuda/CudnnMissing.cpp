// The plugin's answers where the build had no cudnn.h.
#include "runtime/device/cuda/AttentionCalls.h"

namespace mgc::cuda {

Result<Attention> makeCudnnAttention(mgc_device &device, const mgc_attention_facts &facts) {
  return errorf("this plugin was built without cuDNN's headers");
}

std::string cudnnVersion() { return "built without cuDNN"; }

} // namespace mgc::cuda
