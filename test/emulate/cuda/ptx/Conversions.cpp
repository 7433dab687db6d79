// cvt between all types. The table's names are "cvt.D.S", on registers as wide as the types; "widen.T.n" and "narrow.T.n" move
// a value between a register of n bits and one as wide as T. Op::aux says how floats become whole numbers.
#include "test/emulate/cuda/ptx/Conversions.h"

#include "test/emulate/cuda/ptx/Forms.h"
#include "test/emulate/cuda/ptx/Numbers.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace mgc::ptx {
namespace {

template <typename T> constexpr bool kIsFloat = !std::is_integral_v<T>;
template <typename T> constexpr bool kIsSmallFloat = kIsFloat<T> && sizeof(T) == 2;
template <typename T> using Value = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename F> F wholeNumber(F value, uint32_t how) {
  switch (how & kWholeMask) {
  case kNearest:
    return std::nearbyint(value);
  case kToZero:
    return std::trunc(value);
  case kDown:
    return std::floor(value);
  case kUp:
    return std::ceil(value);
  }
  return value;
}

// Saturates; what NaN becomes depends on the types (PTX ISA, cvt).
template <typename D, typename S> D toInteger(S from, uint32_t how) {
  double value = wholeNumber(double(Value<S>(from)), how);
  using Limits = std::numeric_limits<D>;
  if (value != value) {
    constexpr bool isZero = !std::is_same_v<S, double> && sizeof(D) < 8;
    return isZero ? D(0) : D(uint64_t(1) << (8 * sizeof(D) - 1));
  }
  if (value >= std::ldexp(1.0, Limits::digits))
    return Limits::max();
  return value <= double(Limits::min()) ? Limits::min() : static_cast<D>(value);
}

template <typename D, typename S> D saturated(S value) {
  __int128 wide = value;
  return static_cast<D>(std::clamp<__int128>(wide, std::numeric_limits<D>::min(), std::numeric_limits<D>::max()));
}

template <typename D, typename S> D toFloat(S from, uint32_t how) {
  if constexpr (!kIsFloat<S> && kIsSmallFloat<D>)
    return D(double(from));
  else if constexpr (!kIsFloat<S>)
    return D(from);
  else if constexpr (sizeof(D) == sizeof(S))
    return D(Value<D>(wholeNumber(Value<S>(from), how)));
  else if constexpr (kIsSmallFloat<D>)
    return D(Value<S>(from));
  else if constexpr (sizeof(D) == 4)
    return canonical(static_cast<float>(Value<S>(from)));
  else
    return static_cast<D>(Value<S>(from));
}

template <typename D, typename S> D convert(S from, uint32_t how) {
  if constexpr (kIsFloat<D>)
    return toFloat<D>(from, how);
  else if constexpr (kIsFloat<S>)
    return toInteger<D>(from, how);
  else
    return how & kSaturate ? saturated<D>(from) : static_cast<D>(from);
}

template <typename D, typename S> Form conversion() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    D *d = warp.at<D>(op.d);
    const S *a = warp.at<S>(op.a);
    uint32_t how = op.aux;
    if (how == 0)
      eachLane(mask, [=](unsigned lane) { d[lane] = convert<D>(a[lane], 0); });
    else
      eachLane(mask, [=](unsigned lane) { d[lane] = convert<D>(a[lane], how); });
  };
  return {run, kBits<D>, {kBits<S>}};
}

template <typename D, typename... Sources>
void addFrom(Forms &forms, const std::string &name, std::initializer_list<const char *> sources) {
  const char *const *source = sources.begin();
  ((forms["cvt." + name + "." + *source++] = conversion<D, Sources>()), ...);
}

template <typename D> void addTo(Forms &forms, const std::string &name) {
  addFrom<D, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, Half, BFloat, float, double>(
      forms, name, {"s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64"});
}

template <typename T, typename Register> void addWidths(Forms &forms, const std::string &name) {
  if constexpr (sizeof(T) < sizeof(Register)) {
    const std::string of = fmt::format("{}.{}", name, kBits<Register>);
    forms["widen." + of] = unary<[](T a) { return a; }, Register, T>();
    forms["narrow." + of] = unary<[](Register a) { return a; }, T, Register>();
  }
}

template <typename T> void addInteger(Forms &forms, const std::string &name) {
  addTo<T>(forms, name);
  addWidths<T, uint16_t>(forms, name);
  addWidths<T, uint32_t>(forms, name);
  addWidths<T, uint64_t>(forms, name);
}

// cvt.rn.T.f32 d, upper, lower: two values into one register.
template <typename T> Form pack() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    T *d = warp.at<T>(op.d);
    const float *upper = warp.at<float>(op.a), *lower = warp.at<float>(op.b);
    eachLane(mask, [=](unsigned lane) {
      T low(lower[lane]), high(upper[lane]);
      d[2 * lane] = low;
      d[2 * lane + 1] = high;
    });
  };
  return {run, 32, {32, 32}};
}

} // namespace

void addConversions(Forms &forms) {
  addInteger<int8_t>(forms, "s8");
  addInteger<uint8_t>(forms, "u8");
  addInteger<int16_t>(forms, "s16");
  addInteger<uint16_t>(forms, "u16");
  addInteger<int32_t>(forms, "s32");
  addInteger<uint32_t>(forms, "u32");
  addInteger<int64_t>(forms, "s64");
  addInteger<uint64_t>(forms, "u64");
  addTo<Half>(forms, "f16");
  addTo<BFloat>(forms, "bf16");
  addTo<float>(forms, "f32");
  addTo<double>(forms, "f64");
  forms["cvt.f16x2.f32"] = pack<Half>();
  forms["cvt.bf16x2.f32"] = pack<BFloat>();
}

} // namespace mgc::ptx
