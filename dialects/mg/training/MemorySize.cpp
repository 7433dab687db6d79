// See MemorySize.h.
#include "dialects/mg/training/MemorySize.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace mgc {

static constexpr std::string_view kPossible =
    "possible: bytes (80GB, 22GiB, 512MiB), or a part of what the machine has (90%)";

Result<MemorySize> parseMemorySize(std::string_view text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  static constexpr auto kUnits = std::to_array<Unit>({{"", 1},
                                                      {"B", 1},
                                                      {"KB", 1e3},
                                                      {"MB", 1e6},
                                                      {"GB", 1e9},
                                                      {"TB", 1e12},
                                                      {"KiB", 1024.0},
                                                      {"MiB", 1024.0 * 1024},
                                                      {"GiB", 1024.0 * 1024 * 1024},
                                                      {"TiB", 1024.0 * 1024 * 1024 * 1024}});
  constexpr double kMost = 0x1p62;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number))
    return errorf("'{}' is no size\n  {}", text, kPossible);
  std::string_view name(end, size_t(text.data() + text.size() - end));
  name.remove_prefix(std::min(name.size(), name.find_first_not_of(' ')));
  if (name == "%") {
    if (number > 0 && number <= 100)
      return MemorySize{0, number / 100};
    return errorf("{} is not above 0 and at most 100 %\n  {}", text, kPossible);
  }
  const auto unit = std::ranges::find(kUnits, name, &Unit::name);
  if (unit == kUnits.end())
    return errorf("'{}' has no unit that is known\n  {}", text, kPossible);
  const double bytes = std::floor(number * unit->bytes);
  if (bytes >= 1 && bytes <= kMost)
    return MemorySize{int64_t(bytes), 0};
  return errorf("{} is not from 1 byte to 4 EiB\n  {}", text, kPossible);
}

} // namespace mgc
