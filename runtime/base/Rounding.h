// Quotients and multiples, rounded up: values are not negative, value + unit fits the type. Units are positive.
#pragma once

namespace mgc {

template <typename Value, typename Unit> constexpr Value divideUp(Value value, Unit unit) {
  return static_cast<Value>((value + unit - 1) / unit);
}

// Rounded down, of any value.
template <typename Value> constexpr Value floorDivide(Value value, Value unit) {
  return value / unit - (value % unit < 0);
}
template <typename Value> constexpr Value floorRemainder(Value value, Value unit) {
  return value - floorDivide(value, unit) * unit;
}

// The least multiple of `unit` that is at least `value`.
template <typename Value, typename Unit> constexpr Value roundUp(Value value, Unit unit) {
  return static_cast<Value>(divideUp(value, unit) * unit);
}

} // namespace mgc
