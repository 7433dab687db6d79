// See PrecompiledMap.h.
#include "runtime/tokenizers/PrecompiledMap.h"

#include <cstring>

namespace mgc {

static std::optional<std::string> decodedBase64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t word = 0, bits = 0;
  while (text.ends_with('='))
    text.remove_suffix(1);
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos)
      return std::nullopt;
    word = word << 6 | static_cast<uint32_t>(digit);
    if ((bits += 6) >= 8)
      bytes += static_cast<char>(word >> (bits -= 8) & 0xFF);
  }
  return bytes;
}

Result<PrecompiledMap> PrecompiledMap::parse(std::string_view base64) {
  const std::optional<std::string> bytes = decodedBase64(base64);
  uint32_t size = 0;
  if (bytes && bytes->size() >= sizeof size)
    std::memcpy(&size, bytes->data(), sizeof size);
  if (!bytes || bytes->size() < sizeof size || size > bytes->size() - sizeof size || size % sizeof(uint32_t) != 0)
    return errorf("is no map of characters: expected base64 of a trie and of texts");
  PrecompiledMap map;
  map.units_.resize(size / sizeof(uint32_t));
  std::memcpy(map.units_.data(), bytes->data() + sizeof size, size);
  map.texts_ = bytes->substr(sizeof size + size) + '\0';
  return map;
}

// A unit of a double-array trie: the label of the step that leads to it, whether a text ends there, the place of its children;
// of a child that ends a text, the value.
std::optional<std::string_view> PrecompiledMap::find(std::string_view text) const {
  const auto offsetOf = [](uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
  if (units_.empty())
    return std::nullopt;
  size_t place = offsetOf(units_[0]);
  for (const char c : text) {
    const auto label = static_cast<unsigned char>(c);
    place ^= label;
    if (place >= units_.size() || (units_[place] & ((1u << 31) | 0xFFu)) != label)
      return std::nullopt;
    const uint32_t unit = units_[place];
    place ^= offsetOf(unit);
    if ((unit >> 8 & 1) == 1) {
      const size_t value = place < units_.size() ? units_[place] & ((1u << 31) - 1) : texts_.size();
      if (value >= texts_.size())
        return std::nullopt;
      return std::string_view(texts_.data() + value);
    }
  }
  return std::nullopt;
}

} // namespace mgc
