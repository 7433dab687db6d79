// Integer, bit and predicate instructions.
#include "test/emulate/cuda/ptx/Forms.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

namespace mgc::ptx {
namespace {

template <typename T>
using Wide =
    std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>>;

constexpr auto kAdd = [](auto a, auto b) { return a + b; };
constexpr auto kSub = [](auto a, auto b) { return a - b; };
constexpr auto kMul = [](auto a, auto b) { return decltype(a)(Wide<decltype(a)>(a) * b); };
constexpr auto kMulHigh = [](auto a, auto b) { return Wide<decltype(a)>(a) * b >> kBits<decltype(a)>; };
constexpr auto kMulWide = [](auto a, auto b) { return Wide<decltype(a)>(a) * b; };
// The hardware's results for a division by zero: all bits set, and the dividend as the remainder.
constexpr auto kDiv = [](auto a, auto b) {
  using T = decltype(a);
  if (b == 0)
    return T(~T(0));
  if constexpr (std::is_signed_v<T>)
    return b == T(-1) ? T(Wide<T>(0) - a) : T(a / b);
  else
    return T(a / b);
};
constexpr auto kRem = [](auto a, auto b) {
  using T = decltype(a);
  if (b == 0)
    return a;
  if constexpr (std::is_signed_v<T>)
    return b == T(-1) ? T(0) : T(a % b);
  else
    return T(a % b);
};
constexpr auto kMin = [](auto a, auto b) { return a < b ? a : b; };
constexpr auto kMax = [](auto a, auto b) { return a > b ? a : b; };
constexpr auto kAnd = [](auto a, auto b) { return a & b; };
constexpr auto kOr = [](auto a, auto b) { return a | b; };
constexpr auto kXor = [](auto a, auto b) { return a ^ b; };
constexpr auto kNot = [](auto a) { return ~a; };
constexpr auto kLogicalNot = [](auto a) { return a == 0; };
constexpr auto kNegate = [](auto a) { return decltype(a)(0) - a; };
constexpr auto kAbsolute = [](auto a) { return a < 0 ? decltype(a)(0 - std::make_unsigned_t<decltype(a)>(a)) : a; };
// Shifts by the width or more give what shifting bit by bit would.
constexpr auto kShiftLeft = [](auto a, uint32_t by) { return by < kBits<decltype(a)> ? a << by : 0; };
constexpr auto kShiftRight = [](auto a, uint32_t by) {
  return a >> std::min<uint32_t>(by, kBits<decltype(a)> - 1) >> (by >= kBits<decltype(a)> ? 1 : 0);
};
constexpr auto kFunnelLeft = [](uint32_t low, uint32_t high, uint32_t by) {
  return (uint64_t(high) << 32 | low) << by >> 32;
};
constexpr auto kFunnelRight = [](uint32_t low, uint32_t high, uint32_t by) {
  return (uint64_t(high) << 32 | low) >> by;
};
constexpr auto kFunnelLeftClamp = [](uint32_t low, uint32_t high, uint32_t by) {
  return kFunnelLeft(low, high, std::min(by, 32u));
};
constexpr auto kFunnelLeftWrap = [](uint32_t low, uint32_t high, uint32_t by) {
  return kFunnelLeft(low, high, by & 31);
};
constexpr auto kFunnelRightClamp = [](uint32_t low, uint32_t high, uint32_t by) {
  return kFunnelRight(low, high, std::min(by, 32u));
};
constexpr auto kFunnelRightWrap = [](uint32_t low, uint32_t high, uint32_t by) {
  return kFunnelRight(low, high, by & 31);
};

// Bits [from, from + count) of a; those beyond the width are copies of the sign bit, and so are those beyond the field.
constexpr auto kExtract = [](auto a, uint32_t from, uint32_t count) {
  using T = decltype(a);
  using U = std::make_unsigned_t<T>;
  uint32_t position = from & 0xFF, bits = count & 0xFF, width = kBits<T>;
  if (bits == 0)
    return T(0);
  U field = kShiftRight(U(a), position);
  if (bits < width)
    field &= (U(1) << bits) - 1;
  uint32_t signAt = std::min(position + bits - 1, width - 1);
  bool sign = std::is_signed_v<T> && (U(a) >> signAt & 1);
  uint32_t taken = std::min(bits, width - std::min(position, width));
  if (sign && taken < width)
    field |= ~U(0) << taken;
  return T(field);
};

constexpr auto kPopulation = [](auto a) { return std::popcount(a); };
constexpr auto kLeadingZeros = [](auto a) { return std::countl_zero(a); };
constexpr auto kReverse = [](auto a) {
  decltype(a) reversed = 0;
  for (unsigned bit = 0; bit < kBits<decltype(a)>; ++bit)
    reversed |= (a >> bit & 1) << (kBits<decltype(a)> - 1 - bit);
  return reversed;
};
// The highest bit that differs from the sign.
constexpr auto kFind = [](auto a) {
  using U = std::make_unsigned_t<decltype(a)>;
  U bits = a < 0 ? ~U(a) : U(a);
  return bits == 0 ? ~0u : uint32_t(kBits<U> - 1 - std::countl_zero(bits));
};
constexpr auto kFindShift = [](auto a) {
  uint32_t found = kFind(a);
  return found == ~0u ? found : kBits<decltype(a)> - 1 - found;
};
constexpr auto kDistance = [](auto a, auto b, auto c) { return c + (a < b ? b - a : a - b); };

constexpr auto kPermute = [](uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    uint32_t pick = selector >> 4 * i;
    uint32_t byte = bytes >> 8 * (pick & 7) & 0xFF;
    result |= (pick & 8 ? (byte & 0x80 ? 0xFF : 0) : byte) << 8 * i;
  }
  return result;
};

// bfi: the lowest `count` bits of a go into b at `from`.
template <typename T> Form insertion() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    T *d = warp.at<T>(op.d);
    const T *a = warp.at<T>(op.a), *b = warp.at<T>(op.b);
    const uint32_t *from = warp.at<uint32_t>(op.c), *count = warp.at<uint32_t>(op.aux);
    eachLane(mask, [=](unsigned lane) {
      T field = kShiftLeft(T(kShiftLeft(T(1), count[lane] & 0xFF) - 1), from[lane] & 0xFF);
      d[lane] = (b[lane] & ~field) | (T(kShiftLeft(a[lane], from[lane] & 0xFF)) & field);
    });
  };
  return {run, kBits<T>, {kBits<T>, kBits<T>, 32, 32}};
}

// lop3: bit i of the result is bit (a_i b_i c_i) of the table in aux.
Form logicOfThree() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    uint32_t *d = warp.at<uint32_t>(op.d);
    const uint32_t *a = warp.at<uint32_t>(op.a), *b = warp.at<uint32_t>(op.b), *c = warp.at<uint32_t>(op.c);
    const uint32_t *table = warp.at<uint32_t>(op.aux);
    eachLane(mask, [=](unsigned lane) {
      uint32_t result = 0;
      for (unsigned row = 0; row < 8; ++row)
        if (table[lane] >> row & 1)
          result |= (row & 4 ? a[lane] : ~a[lane]) & (row & 2 ? b[lane] : ~b[lane]) & (row & 1 ? c[lane] : ~c[lane]);
      d[lane] = result;
    });
  };
  return {run, 32, {32, 32, 32, 32}};
}

// add, sub, addc, subc and their .cc forms. The carry is a predicate, in aux; a borrow is a carry too.
template <typename T, bool subtracts, bool takes, bool gives> Form withCarry() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    T *d = warp.at<T>(op.d);
    const T *a = warp.at<T>(op.a), *b = warp.at<T>(op.b);
    uint32_t &carry = warp.predicate(op.aux);
    const uint32_t in = takes ? carry : 0;
    uint32_t out = 0;
    eachLane(mask, [&](unsigned lane) {
      const Wide<T> first = a[lane], second = Wide<T>(b[lane]) + (in >> lane & 1);
      out |= uint32_t(subtracts ? first < second : (first + second) >> kBits<T> != 0) << lane;
      d[lane] = static_cast<T>(subtracts ? first - second : first + second);
    });
    if (gives)
      carry = (carry & ~mask) | (out & mask);
  };
  return {run, kBits<T>, {kBits<T>, kBits<T>}};
}

template <typename T> void addCarries(Forms &forms, const std::string &width) {
  for (const char *sign : {".u", ".s"}) {
    forms["add.cc" + (sign + width)] = withCarry<T, false, false, true>();
    forms["addc" + (sign + width)] = withCarry<T, false, true, false>();
    forms["addc.cc" + (sign + width)] = withCarry<T, false, true, true>();
    forms["sub.cc" + (sign + width)] = withCarry<T, true, false, true>();
    forms["subc" + (sign + width)] = withCarry<T, true, true, false>();
    forms["subc.cc" + (sign + width)] = withCarry<T, true, true, true>();
  }
}

// Part number aux of a register, the lowest first.
template <typename Whole, typename Part> void addParts(Forms &forms) {
  constexpr unsigned count = sizeof(Whole) / sizeof(Part);
  const std::string bits = fmt::format("{}.{}", kBits<Whole>, kBits<Part>);
  Handler pack = [](Warp &warp, const Op &op, uint32_t mask) {
    Part *d = warp.at<Part>(op.d) + op.aux;
    const Part *a = warp.at<Part>(op.a);
    eachLane(mask, [=](unsigned lane) { d[lane * count] = a[lane]; });
  };
  Handler unpack = [](Warp &warp, const Op &op, uint32_t mask) {
    Part *d = warp.at<Part>(op.d);
    const Part *a = warp.at<Part>(op.a) + op.aux;
    eachLane(mask, [=](unsigned lane) { d[lane] = a[lane * count]; });
  };
  forms["pack." + bits] = {pack, kBits<Whole>, {kBits<Part>}};
  forms["unpack." + bits] = {unpack, kBits<Part>, {kBits<Whole>}};
}

template <auto f> Form predicates() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    uint32_t result = f(warp.predicate(op.a), warp.predicate(op.b));
    uint32_t &d = warp.predicate(op.d);
    d = (d & ~mask) | (result & mask);
  };
  return {run, 1, {1, 1}};
}

Form predicate(Handler run) { return {run, 1, {1}}; }

template <typename T> void addComparisons(Forms &forms, const std::string &type) {
  forms["setp.eq." + type] = comparison<[](T a, T b) { return a == b; }, T>();
  forms["setp.ne." + type] = comparison<[](T a, T b) { return a != b; }, T>();
  for (const char *name : {"lt", "lo"})
    forms[fmt::format("setp.{}.{}", name, type)] = comparison<[](T a, T b) { return a < b; }, T>();
  for (const char *name : {"le", "ls"})
    forms[fmt::format("setp.{}.{}", name, type)] = comparison<[](T a, T b) { return a <= b; }, T>();
  for (const char *name : {"gt", "hi"})
    forms[fmt::format("setp.{}.{}", name, type)] = comparison<[](T a, T b) { return b < a; }, T>();
  for (const char *name : {"ge", "hs"})
    forms[fmt::format("setp.{}.{}", name, type)] = comparison<[](T a, T b) { return a >= b; }, T>();
}

// The instructions that u and s types have.
template <typename T> void addArithmetic(Forms &forms, const std::string &type) {
  forms["add." + type] = binary<kAdd, T>();
  forms["sub." + type] = binary<kSub, T>();
  forms["mul." + type] = binary<kMul, T>();
  forms["mul.hi." + type] = binary<kMulHigh, T>();
  if constexpr (sizeof(T) < 8)
    forms["mul.wide." + type] = binary<kMulWide, Wide<T>, T>();
  forms["div." + type] = binary<kDiv, T>();
  forms["rem." + type] = binary<kRem, T>();
  forms["min." + type] = binary<kMin, T>();
  forms["max." + type] = binary<kMax, T>();
  forms["shr." + type] = binary<kShiftRight, T, T, uint32_t>();
  forms["sad." + type] = ternary<kDistance, T>();
  if constexpr (sizeof(T) > 2) {
    forms["bfe." + type] = ternary<kExtract, T, T, uint32_t, uint32_t>();
    forms["bfind." + type] = unary<kFind, uint32_t, T>();
    forms["bfind.shiftamt." + type] = unary<kFindShift, uint32_t, T>();
  }
  if constexpr (std::is_signed_v<T>) {
    forms["neg." + type] = unary<kNegate, T>();
    forms["abs." + type] = unary<kAbsolute, T>();
  }
  addComparisons<T>(forms, type);
}

template <typename T> void addBits(Forms &forms, const std::string &width) {
  using S = std::make_signed_t<T>;
  const std::string b = "b" + width;
  addArithmetic<T>(forms, "u" + width);
  addArithmetic<S>(forms, "s" + width);
  forms["setp.eq." + b] = forms["setp.eq.u" + width];
  forms["setp.ne." + b] = forms["setp.ne.u" + width];
  forms["and." + b] = binary<kAnd, T>();
  forms["or." + b] = binary<kOr, T>();
  forms["xor." + b] = binary<kXor, T>();
  forms["not." + b] = unary<kNot, T>();
  forms["cnot." + b] = unary<kLogicalNot, T>();
  forms["shl." + b] = binary<kShiftLeft, T, T, uint32_t>();
  forms["shr." + b] = binary<kShiftRight, T, T, uint32_t>();
  for (const char *kind : {"b", "u", "s", "f"}) {
    forms["selp." + (kind + width)] = selection<T>();
    forms["mov." + (kind + width)] = unary<[](T a) { return a; }, T>();
  }
  if constexpr (sizeof(T) > 2) {
    forms["popc." + b] = unary<kPopulation, uint32_t, T>();
    forms["clz." + b] = unary<kLeadingZeros, uint32_t, T>();
    forms["brev." + b] = unary<kReverse, T>();
    forms["bfi." + b] = insertion<T>();
  }
}

} // namespace

void addIntegers(Forms &forms) {
  addBits<uint16_t>(forms, "16");
  addBits<uint32_t>(forms, "32");
  addBits<uint64_t>(forms, "64");
  addCarries<uint32_t>(forms, "32");
  addCarries<uint64_t>(forms, "64");
  addParts<uint32_t, uint16_t>(forms);
  addParts<uint64_t, uint32_t>(forms);
  addParts<uint64_t, uint16_t>(forms);
  forms["prmt.b32"] = ternary<kPermute, uint32_t>();
  forms["lop3.b32"] = logicOfThree();
  forms["shf.l.clamp.b32"] = ternary<kFunnelLeftClamp, uint32_t>();
  forms["shf.l.wrap.b32"] = ternary<kFunnelLeftWrap, uint32_t>();
  forms["shf.r.clamp.b32"] = ternary<kFunnelRightClamp, uint32_t>();
  forms["shf.r.wrap.b32"] = ternary<kFunnelRightWrap, uint32_t>();
  forms["and.pred"] = predicates<[](uint32_t a, uint32_t b) { return a & b; }>();
  forms["or.pred"] = predicates<[](uint32_t a, uint32_t b) { return a | b; }>();
  forms["xor.pred"] = predicates<[](uint32_t a, uint32_t b) { return a ^ b; }>();
  forms["mov.pred"] = predicate([](Warp &warp, const Op &op, uint32_t mask) {
    uint32_t &d = warp.predicate(op.d);
    d = (d & ~mask) | (warp.predicate(op.a) & mask);
  });
  forms["not.pred"] = predicate([](Warp &warp, const Op &op, uint32_t mask) {
    uint32_t &d = warp.predicate(op.d);
    d = (d & ~mask) | (~warp.predicate(op.a) & mask);
  });
}

} // namespace mgc::ptx
