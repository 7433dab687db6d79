#include "runtime/base/Utf8.h"

#include <cstdint>

namespace mgc {

// Length of the well-formed character that `text` begins with; 0: none. Table 3-7 of the Unicode standard.
static size_t characterLength(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t(0); };
  auto tail = [&](size_t i) { return byte(i) >= 0x80 && byte(i) <= 0xbf; };
  const uint8_t first = byte(0), second = byte(1);
  if (first < 0x80)
    return 1;
  if (first >= 0xc2 && first <= 0xdf)
    return tail(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    bool narrow = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f);
    return tail(1) && tail(2) && !narrow ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    bool narrow = (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
    return tail(1) && tail(2) && tail(3) && !narrow ? 4 : 0;
  }
  return 0;
}

std::optional<size_t> firstInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    size_t length = characterLength(text.substr(at, 4));
    if (length == 0)
      return at;
    at += length;
  }
  return std::nullopt;
}

} // namespace mgc
