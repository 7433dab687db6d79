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

} // namespace mgc
