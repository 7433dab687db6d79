#include "runtime/exec/RandomOperands.h"

#include <algorithm>
#include <bit>
#include <random>

namespace mgc {

namespace {

constexpr int64_t kPatternBytes = int64_t(1) << 20; // the same again and again

// bf16 of a uniform number, rounded down. Two of them are an f32 of the second one's sign and size.
uint16_t numberOf(std::mt19937 &random) {
  const float value = std::uniform_real_distribution<float>(-1, 1)(random);
  return uint16_t(std::bit_cast<uint32_t>(value) >> 16);
}

} // namespace

Status fillWithNumbers(const plugin::PluginDevice &device, const plugin::Stream &stream, mgc_address to,
                       int64_t bytes) {
  if (bytes == 0)
    return Status::ok();
  MGC_ASSIGN(pattern, device.allocateHost(std::min(bytes, kPatternBytes)));
  std::mt19937 random(1);
  auto *numbers = reinterpret_cast<uint16_t *>(pattern.data());
  std::generate_n(numbers, pattern.bytes() / int64_t(sizeof *numbers), [&] { return numberOf(random); });
  MGC_TRY(stream.copyIn(to, pattern.data(), pattern.bytes()));
  for (int64_t filled = pattern.bytes(); filled < bytes; filled *= 2)
    MGC_TRY(stream.copy(to + static_cast<uint64_t>(filled), to, std::min(filled, bytes - filled)));
  return stream.synchronize();
}

} // namespace mgc
