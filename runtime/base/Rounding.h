// Quotients and multiples, rounded up. Values are not negative, units positive; value + unit fits the type.
#pragma once

namespace mgc {

template <typename Value, typename Unit> constexpr Value divideUp(Value value, Unit unit) {
  return static_cast<Value>((value + unit - 1) / unit);
}

// The least multiple of `unit` that is at least `value`.
template <typename Value, typename Unit> constexpr Value roundUp(Value value, Unit unit) {
  return static_cast<Value>(divideUp(value, unit) * unit);
}

} // namespace mgc
