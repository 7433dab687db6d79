// See Checksum.h. Every CPU with AVX2, which the runtime needs, has the instruction (SSE4.2).
#include "runtime/base/Checksum.h"

#include <cstring>
#include <fmt/format.h>
#include <nmmintrin.h>

namespace mgc {

__attribute__((target("sse4.2"))) void Checksum::add(std::span<const std::byte> bytes) {
  uint64_t state = state_;
  const std::byte *next = bytes.data();
  size_t left = bytes.size();
  for (; left >= sizeof(uint64_t); left -= sizeof(uint64_t), next += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, next, sizeof(word));
    state = _mm_crc32_u64(state, word);
  }
  for (; left > 0; --left, ++next)
    state = _mm_crc32_u8(static_cast<uint32_t>(state), static_cast<uint8_t>(*next));
  state_ = static_cast<uint32_t>(state);
}

std::string Checksum::text() const { return fmt::format("{:08x}", value()); }

} // namespace mgc
