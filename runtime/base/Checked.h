// Overflow-checked 64-bit arithmetic, for sizes that come from files.
// In: operands of any value. Out: the exact result, or nothing when it does not fit (nothing in, nothing out).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace mgc {

using Checked = std::optional<int64_t>;

inline Checked checkedAdd(Checked left, Checked right) {
  int64_t sum = 0;
  return left && right && !__builtin_add_overflow(*left, *right, &sum) ? Checked(sum) : std::nullopt;
}

inline Checked checkedMultiply(Checked left, Checked right) {
  int64_t product = 0;
  return left && right && !__builtin_mul_overflow(*left, *right, &product) ? Checked(product) : std::nullopt;
}

// The product of all factors; 1 for none. A zero does not excuse an overflow before it.
Checked checkedProduct(std::initializer_list<Checked> factors);

// Whether [offset, offset + bytes) is a range inside [0, limit). Negative offsets and sizes are not.
bool fitsInside(int64_t offset, Checked bytes, int64_t limit);

} // namespace mgc
