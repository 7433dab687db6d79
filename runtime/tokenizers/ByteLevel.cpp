// See ByteLevel.h.
#include "runtime/tokenizers/ByteLevel.h"

#include "runtime/tokenizers/Unicode.h"

#include <array>

namespace mgc {

static constexpr bool isPrintable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

static constexpr std::array<int, 0x144> makeBytes() {
  std::array<int, 0x144> bytes{};
  bytes.fill(-1);
  for (int byte = 0, others = 0; byte < 0x100; ++byte)
    bytes[static_cast<size_t>(isPrintable(byte) ? byte : 0x100 + others++)] = byte;
  return bytes;
}

std::optional<std::string> bytesOfToken(std::string_view token) {
  static constexpr std::array kBytes = makeBytes();
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const char32_t c = unicode::next(token, at);
    if (c >= kBytes.size() || kBytes[c] < 0)
      return std::nullopt;
    bytes += static_cast<char>(kBytes[c]);
  }
  return bytes;
}

} // namespace mgc
