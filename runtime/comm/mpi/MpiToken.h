// MpiToken: which message a completion is of. For runtime/comm only.
#pragma once

#include <cstdint>

namespace mgc {

struct MpiToken {
  enum class Kind : uint8_t {
    frame,     // a frame that has arrived
    sentFrame, // number: its address
    transfer,  // number: its ticket
    part       // a part of a collective; slot, and number: the other rank
  } kind = Kind::frame;
  uint8_t slot = 0;
  uint64_t number = 0; // addresses of processes have fewer than 48 bits

  static constexpr int kNumberBits = 48, kSlotBits = 8;
  uint64_t bits() const { return (uint64_t(kind) << kSlotBits | slot) << kNumberBits | number; }
  static MpiToken of(uint64_t bits) {
    return {Kind(bits >> (kNumberBits + kSlotBits)), uint8_t(bits >> kNumberBits),
            bits & ((uint64_t(1) << kNumberBits) - 1)};
  }
};

} // namespace mgc
