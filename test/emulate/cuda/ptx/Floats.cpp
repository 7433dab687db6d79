// Floating-point instructions. Rounding modes other than to nearest, and flushing to zero, are modes of the host's unit (Op::mode).
// Approximations are as exact as the host's library: results within the error that PTX allows, not those of any device. ex2 and
// rcp, which compiled kernels use, go to the bounds of what is allowed.
#include "test/emulate/cuda/ptx/Forms.h"
#include "test/emulate/cuda/ptx/Numbers.h"

#include <bit>
#include <type_traits>

namespace mgc::ptx {
namespace {

template <typename T> using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T> struct Arithmetic {
  using F = Computed<T>;
  static constexpr auto add = [](F a, F b) { return canonical(a + b); };
  static constexpr auto sub = [](F a, F b) { return canonical(a - b); };
  static constexpr auto mul = [](F a, F b) { return canonical(a * b); };
  static constexpr auto div = [](F a, F b) { return canonical(a / b); };
  static constexpr auto fma = [](F a, F b, F c) {
    if constexpr (sizeof(T) == 2)
      return fusedToOdd(a, b, c);
    else
      return canonical(std::fma(a, b, c));
  };
  // A NaN counts as missing.
  static constexpr auto min = [](F a, F b) {
    F lesser = a < b || (a == b && std::signbit(a)) ? a : b;
    F known = a != a ? b : lesser;
    return b != b ? canonical(a) : known;
  };
  static constexpr auto max = [](F a, F b) {
    F greater = a > b || (a == b && std::signbit(b)) ? a : b;
    F known = a != a ? b : greater;
    return b != b ? canonical(a) : known;
  };
  // A NaN wins.
  static constexpr auto minNaN = [](F a, F b) { return a != a || b != b ? canonical(a + b) : min(a, b); };
  static constexpr auto maxNaN = [](F a, F b) { return a != a || b != b ? canonical(a + b) : max(a, b); };
  static constexpr auto negate = [](F a) { return -a; };
  static constexpr auto absolute = [](F a) { return std::fabs(a); };
  static constexpr auto saturate = [](F a) { return a > 0 ? (a < 1 ? a : F(1)) : F(0); };
};

template <typename T, unsigned per> void addArithmetic(Forms &forms, const std::string &type) {
  using A = Arithmetic<T>;
  forms["add." + type] = binary<A::add, T, T, T, per>();
  forms["sub." + type] = binary<A::sub, T, T, T, per>();
  forms["mul." + type] = binary<A::mul, T, T, T, per>();
  forms["fma." + type] = ternary<A::fma, T, T, T, T, per>();
  forms["min." + type] = binary<A::min, T, T, T, per>();
  forms["max." + type] = binary<A::max, T, T, T, per>();
  forms["min.NaN." + type] = binary<A::minNaN, T, T, T, per>();
  forms["max.NaN." + type] = binary<A::maxNaN, T, T, T, per>();
  forms["neg." + type] = unary<A::negate, T, T, per>();
  forms["abs." + type] = unary<A::absolute, T, T, per>();
  forms["saturate." + type] = unary<A::saturate, T, T, per>();
}

template <typename T> void addComparisons(Forms &forms, const std::string &type) {
  using F = Computed<T>;
  forms["setp.eq." + type] = comparison<[](F a, F b) { return a == b; }, T>();
  forms["setp.ne." + type] = comparison<[](F a, F b) { return (a < b) || (b < a); }, T>();
  forms["setp.lt." + type] = comparison<[](F a, F b) { return a < b; }, T>();
  forms["setp.le." + type] = comparison<[](F a, F b) { return a <= b; }, T>();
  forms["setp.gt." + type] = comparison<[](F a, F b) { return b < a; }, T>();
  forms["setp.ge." + type] = comparison<[](F a, F b) { return a >= b; }, T>();
  forms["setp.equ." + type] = comparison<[](F a, F b) { return !((a < b) || (b < a)); }, T>();
  forms["setp.neu." + type] = comparison<[](F a, F b) { return a != b; }, T>();
  forms["setp.ltu." + type] = comparison<[](F a, F b) { return !(a >= b); }, T>();
  forms["setp.leu." + type] = comparison<[](F a, F b) { return !(b < a); }, T>();
  forms["setp.gtu." + type] = comparison<[](F a, F b) { return !(a <= b); }, T>();
  forms["setp.geu." + type] = comparison<[](F a, F b) { return !(a < b); }, T>();
  forms["setp.num." + type] = comparison<[](F a, F b) { return a == a && b == b; }, T>();
  forms["setp.nan." + type] = comparison<[](F a, F b) { return a != a || b != b; }, T>();
}

// A predicate from one value.
template <auto f, typename T> Form test() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    const T *a = warp.at<T>(op.a);
    uint32_t result = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      result |= static_cast<uint32_t>(f(a[lane])) << lane;
    uint32_t &d = warp.predicate(op.d);
    d = (d & ~mask) | (result & mask);
  };
  return {run, 1, {kBits<T>}};
}

template <typename T> void addScalar(Forms &forms, const std::string &type) {
  forms["div." + type] = binary<Arithmetic<T>::div, T>();
  forms["rcp." + type] = unary<[](T a) { return canonical(T(1) / a); }, T>();
  forms["sqrt." + type] = unary<[](T a) { return canonical(std::sqrt(a)); }, T>();
  forms["rsqrt." + type] = unary<[](T a) { return canonical(T(1) / std::sqrt(a)); }, T>();
  forms["copysign." + type] = binary<[](T sign, T value) { return std::copysign(value, sign); }, T>();
  forms["testp.finite." + type] = test<[](T a) { return std::isfinite(a); }, T>();
  forms["testp.infinite." + type] = test<[](T a) { return std::isinf(a); }, T>();
  forms["testp.number." + type] = test<[](T a) { return a == a; }, T>();
  forms["testp.notanumber." + type] = test<[](T a) { return a != a; }, T>();
  forms["testp.normal." + type] = test<[](T a) { return std::isnormal(a); }, T>();
  forms["testp.subnormal." + type] = test<[](T a) { return std::fpclassify(a) == FP_SUBNORMAL; }, T>();
}

// A result that PTX allows for `exact`, to the bounds: one of the `count` floats around `exact` that are less than
// count / 2 units of the last place off. The choice is as good as random, but always the same for one argument. Zeros,
// subnormals, infinities and NaN are as exact as they can be.
float approximated(double exact, float argument, int32_t count) {
  const float nearest = float(exact);
  if (!std::isnormal(nearest))
    return canonical(nearest);
  const int32_t bits = std::bit_cast<int32_t>(nearest);
  const int32_t below = std::fabs(double(nearest)) <= std::fabs(exact) ? bits : bits - 1;
  const uint64_t mixed = std::bit_cast<uint32_t>(argument) * 0x9E3779B9u;
  const float result = std::bit_cast<float>(below + 1 - count / 2 + int32_t(mixed * uint32_t(count) >> 32));
  const bool isAllowed = std::fabs(double(result) - exact) < std::ldexp(count / 2, std::ilogb(exact) - 23);
  return std::isnormal(result) && isAllowed ? result : nearest;
}

float approximateExp2(float a) { return a != 0 ? approximated(std::exp2(double(a)), a, 4) : 1; }
float approximateReciprocal(float a) { return approximated(1 / double(a), a, 2); }

} // namespace

void addFloats(Forms &forms) {
  addArithmetic<float, 1>(forms, "f32");
  addArithmetic<float, 2>(forms, "f32x2");
  addArithmetic<double, 1>(forms, "f64");
  addArithmetic<Half, 1>(forms, "f16");
  addArithmetic<Half, 2>(forms, "f16x2");
  addArithmetic<BFloat, 1>(forms, "bf16");
  addArithmetic<BFloat, 2>(forms, "bf16x2");
  addComparisons<float>(forms, "f32");
  addComparisons<double>(forms, "f64");
  addComparisons<Half>(forms, "f16");
  addComparisons<BFloat>(forms, "bf16");
  addScalar<float>(forms, "f32");
  addScalar<double>(forms, "f64");
  forms["ex2.f32"] = unary<approximateExp2, float>();
  forms["rcp.approx.f32"] = unary<approximateReciprocal, float>();
  forms["lg2.f32"] = unary<[](float a) { return canonical(std::log2(a)); }, float>();
  forms["sin.f32"] = unary<[](float a) { return canonical(std::sin(a)); }, float>();
  forms["cos.f32"] = unary<[](float a) { return canonical(std::cos(a)); }, float>();
  forms["tanh.f32"] = unary<[](float a) { return canonical(std::tanh(a)); }, float>();
}

} // namespace mgc::ptx
