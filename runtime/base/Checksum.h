// Checksum: CRC-32C (Castagnoli; RFC 3720, B.4) of bytes that come piece by piece. It finds damage; it is no signature.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mgc {

class Checksum {
public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  uint32_t value() const { return ~state_; }
  std::string text() const; // 8 hexadecimal digits

private:
  uint32_t state_ = ~uint32_t(0);
};

} // namespace mgc
