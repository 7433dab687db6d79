// Attention.
#include "runtime/device/cuda/Internal.h"

struct mgc_attention {};

namespace mgc::cuda {

Status makeAttention(mgc_device *device, const mgc_attention_facts *facts, mgc_attention **attention) {
  return errorf("{}: attention is not built into this plugin", device->name);
}

void dropAttention(mgc_attention *attention) { delete attention; }

Status runAttention(mgc_stream *stream, mgc_attention *attention, const mgc_attention_operands *operands) {
  return errorf("{}: attention is not built into this plugin", stream->device->name);
}

std::string cudnnVersion() { return "no cuDNN"; }

} // namespace mgc::cuda
