// Attention: who does it, cuDNN or this plugin's kernels.
#include "runtime/device/cuda/AttentionCalls.h"

#include "runtime/device/CallFacts.h"

namespace mgc::cuda {

namespace {

// Counts a choice, for people. Each reason has one line: own kernels are many times slower where tensor cores would do.
void note(mgc_device &device, const std::string &choice) {
  std::lock_guard lock(device.mutex);
  ++device.attentionChoices[choice];
}

} // namespace

Status makeAttention(mgc_device *device, const mgc_attention_facts *facts, mgc_attention **attention) {
  MGC_TRY(device->enter());
  const plan::Attention call = planOf(*facts);
  auto byLibrary = makeCudnnAttention(*device, call, facts->part);
  if (byLibrary.isOk()) {
    note(*device, "by cuDNN");
    *attention = byLibrary.take().release();
    return Status::ok();
  }
  MGC_ASSIGN(own, makeOwnAttention(*device, call));
  note(*device, fmt::format("by own kernels ({})", byLibrary.status().message()));
  *attention = own.release();
  return Status::ok();
}

void dropAttention(mgc_attention *attention) { delete attention; }

Status runAttention(mgc_stream *stream, mgc_attention *attention, const mgc_attention_operands *operands) {
  MGC_TRY(stream->device->enter());
  return attention->run(*stream, *operands);
}

std::string attentionChoices(mgc_device &device) {
  std::lock_guard lock(device.mutex);
  std::string text;
  for (const auto &[choice, count] : device.attentionChoices)
    text += fmt::format("; {} attentions {}", count, choice);
  return text;
}

} // namespace mgc::cuda
