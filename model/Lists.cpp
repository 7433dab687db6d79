#include "model/Lists.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc::frontend {

std::string listOf(const std::vector<int64_t> &values) {
  constexpr size_t kShown = 16;
  if (values.empty())
    return "none";
  if (values.size() <= kShown)
    return fmt::format("{}", fmt::join(values, ", "));
  return fmt::format("{}, ..., {}", fmt::join(values.begin(), values.begin() + kShown, ", "), values.back());
}

std::string listOf(const std::vector<std::string> &values) {
  return values.empty() ? "none" : fmt::format("{}", fmt::join(values, ", "));
}

std::vector<int64_t> divisorsOf(int64_t n, int64_t limit) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= std::min(n, limit); ++d)
    if (n % d == 0)
      divisors.push_back(d);
  return divisors;
}

} // namespace mgc::frontend
