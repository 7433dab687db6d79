// See Checksum.h. Every CPU with AVX2, which the runtime needs, has the instruction (SSE4.2).
//
// One takes 3 cycles and one can begin in each, so three stretches of kStretch bytes are summed at once. The state before them
// goes through the first alone; as the state is linear in the bytes and in itself (over bits that are added modulo 2), those of
// the first two are moved past the bytes behind them as if these were zero, and the three are added.
#include "runtime/base/Checksum.h"

#include <array>
#include <cstring>
#include <fmt/format.h>
#include <nmmintrin.h>

namespace mgc {

namespace {

constexpr size_t kStretch = 4096;

// A state after kStretch more zero bytes, from tables of what each byte of it becomes.
class PastZeros {
public:
  PastZeros() {
    std::array<uint32_t, 32> ofBit;
    for (int bit = 0; bit < 32; ++bit) {
      uint32_t state = uint32_t(1) << bit;
      for (size_t i = 0; i < 8 * kStretch; ++i)
        state = state >> 1 ^ (state & 1 ? kPolynomial : 0);
      ofBit[bit] = state;
    }
    for (int byte = 0; byte < 4; ++byte)
      for (int value = 0; value < 256; ++value)
        for (int bit = 0; bit < 8; ++bit)
          if (value >> bit & 1)
            table_[byte][value] ^= ofBit[8 * byte + bit];
  }
  uint32_t operator()(uint64_t state) const {
    return table_[0][state & 255] ^ table_[1][state >> 8 & 255] ^ table_[2][state >> 16 & 255] ^
           table_[3][state >> 24 & 255];
  }

private:
  static constexpr uint32_t kPolynomial = 0x82f63b78; // the lowest bit is that of the highest power
  std::array<std::array<uint32_t, 256>, 4> table_{};
};

uint64_t wordAt(const std::byte *data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) uint32_t addThree(uint32_t state, const std::byte *data) {
  static const PastZeros pastZeros;
  uint64_t first = state, second = 0, third = 0;
  for (size_t i = 0; i < kStretch; i += sizeof(uint64_t)) {
    first = _mm_crc32_u64(first, wordAt(data + i));
    second = _mm_crc32_u64(second, wordAt(data + kStretch + i));
    third = _mm_crc32_u64(third, wordAt(data + 2 * kStretch + i));
  }
  return pastZeros(pastZeros(first) ^ second) ^ static_cast<uint32_t>(third);
}

} // namespace

__attribute__((target("sse4.2"))) void Checksum::add(std::span<const std::byte> bytes) {
  const std::byte *next = bytes.data();
  size_t left = bytes.size();
  for (; left >= 3 * kStretch; left -= 3 * kStretch, next += 3 * kStretch)
    state_ = addThree(state_, next);
  uint64_t state = state_;
  for (; left >= sizeof(uint64_t); left -= sizeof(uint64_t), next += sizeof(uint64_t))
    state = _mm_crc32_u64(state, wordAt(next));
  for (; left > 0; --left, ++next)
    state = _mm_crc32_u8(static_cast<uint32_t>(state), static_cast<uint8_t>(*next));
  state_ = static_cast<uint32_t>(state);
}

std::string Checksum::text() const { return fmt::format("{:08x}", value()); }

} // namespace mgc
