// See KernelNeeds.h.
#include "runtime/device/KernelNeeds.h"

namespace mgc {

std::optional<KernelNeeds> needsIn(std::span<const int64_t> numbers) {
  if (numbers.size() < 3 || numbers[2] < 0 || static_cast<int64_t>(numbers.size()) < numbers[2] ||
      static_cast<int64_t>(numbers.size()) != needsSize(numbers[2]))
    return std::nullopt;
  KernelNeeds needs{numbers[0], numbers[1], {}};
  for (std::span<const int64_t> rest = numbers.subspan(3); !rest.empty(); rest = rest.subspan(4)) {
    const bool isCounted = rest[0] >= plan::kCountedUse;
    const int64_t use = rest[0] - (isCounted ? plan::kCountedUse : 0);
    if (use < 0 || use >= static_cast<int64_t>(plan::enumNames<plan::OperandUse>.size()))
      return std::nullopt;
    needs.operands.push_back({static_cast<plan::OperandUse>(use), rest[1], rest[2], rest[3], isCounted});
  }
  return needs;
}

} // namespace mgc
