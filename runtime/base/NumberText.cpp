// See NumberText.h.
#include "runtime/base/NumberText.h"

#include <fmt/format.h>

namespace mgc {

std::string bytesText(double bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 5; ++unit)
    bytes /= 1024;
  return unit ? fmt::format("{:.2f} {}", bytes, units[unit]) : fmt::format("{:.0f} B", bytes);
}

std::string countText(double count) {
  static constexpr const char *units[] = {"", " k", " M", " G", " T", " P", " E"};
  int unit = 0;
  for (; count >= 1000 && unit < 6; ++unit)
    count /= 1000;
  return unit ? fmt::format("{:.2f}{}", count, units[unit]) : fmt::format("{:.0f}", count);
}

std::string secondsText(double seconds) {
  if (seconds >= 1)
    return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", 1e3 * seconds) : fmt::format("{:.2f} us", 1e6 * seconds);
}

std::string plainNumber(std::string_view text) {
  const auto isDigit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool isBetweenDigits = text[i] == '_' && i > 0 && isDigit(i - 1) && isDigit(i + 1);
    if (!isBetweenDigits && !isDigit(i) && std::string_view("+-.eE").find(text[i]) == text.npos)
      return std::string(text);
    if (!isBetweenDigits)
      plain += text[i];
  }
  return plain;
}

} // namespace mgc
