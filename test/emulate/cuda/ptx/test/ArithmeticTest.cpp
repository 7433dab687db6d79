#include "test/emulate/cuda/ptx/test/Harness.h"

#include <cmath>
#include <limits>

namespace mgc::ptx {
namespace {

using Limits = std::numeric_limits<float>;
constexpr float kInfinity = Limits::infinity();
const float kNaN = real(0xFFC12345);
constexpr uint32_t kCanonicalNaN = 0x7FFFFFFF;

TEST(Integers, WrapAndWiden) {
  EXPECT_EQ(evaluate<uint32_t>("add.s32 $0, $1, $2", 0x7FFFFFFFu, 1u), 0x80000000u);
  EXPECT_EQ(evaluate<uint16_t>("sub.u16 $0, $1, $2", uint16_t(1), uint16_t(2)), 0xFFFF);
  EXPECT_EQ(evaluate<uint64_t>("mul.wide.s32 $0, $1, $2", -3, 5), uint64_t(-15));
  EXPECT_EQ(evaluate<uint64_t>("mul.wide.u32 $0, $1, $2", 0xFFFFFFFFu, 2u), 0x1FFFFFFFEu);
  EXPECT_EQ(evaluate<uint32_t>("mul.hi.u32 $0, $1, $2", 0x80000000u, 6u), 3u);
  EXPECT_EQ(evaluate<uint64_t>("mul.hi.s64 $0, $1, $2", int64_t(-1), int64_t(1)), ~uint64_t(0));
  EXPECT_EQ(evaluate<uint64_t>("mad.wide.u32 $0, $1, $2, $3", 7u, 9u, uint64_t(1) << 40), (uint64_t(1) << 40) + 63);
  EXPECT_EQ(evaluate<uint32_t>("mad.lo.s32 $0, $1, $2, $3", 7, -9, 1), uint32_t(-62));
}

TEST(Integers, DivideAsTheHardware) {
  EXPECT_EQ(evaluate<int32_t>("div.s32 $0, $1, $2", -7, 2), -3);
  EXPECT_EQ(evaluate<int32_t>("rem.s32 $0, $1, $2", -7, 2), -1);
  EXPECT_EQ(evaluate<uint32_t>("div.u32 $0, $1, $2", 7u, 0u), ~0u);
  EXPECT_EQ(evaluate<int64_t>("div.s64 $0, $1, $2", std::numeric_limits<int64_t>::min(), int64_t(-1)),
            std::numeric_limits<int64_t>::min());
}

TEST(Integers, ShiftsByTheWidthOrMore) {
  EXPECT_EQ(evaluate<uint32_t>("shl.b32 $0, $1, $2", 5u, 32u), 0u);
  EXPECT_EQ(evaluate<uint32_t>("shr.u32 $0, $1, $2", 0x80000000u, 40u), 0u);
  EXPECT_EQ(evaluate<int32_t>("shr.s32 $0, $1, $2", -8, 1000u), -1);
  EXPECT_EQ(evaluate<uint32_t>("shf.l.wrap.b32 $0, $1, $2, $3", 0x80000000u, 1u, 33u), 3u);
  EXPECT_EQ(evaluate<uint32_t>("shf.r.clamp.b32 $0, $1, $2, $3", 0x80000000u, 7u, 40u), 7u);
}

TEST(Integers, Fields) {
  EXPECT_EQ(evaluate<uint32_t>("bfe.u32 $0, $1, $2, $3", 0xABCD1234u, 8u, 8u), 0x12u);
  EXPECT_EQ(evaluate<int32_t>("bfe.s32 $0, $1, $2, $3", 0xABCD1234u, 12u, 4u), 1);
  EXPECT_EQ(evaluate<int32_t>("bfe.s32 $0, $1, $2, $3", 0xABCD1234u, 28u, 20u), int32_t(0xFFFFFFFA));
  EXPECT_EQ(evaluate<uint32_t>("bfi.b32 $0, $1, $2, $3, $4", 0xFFu, 0x11111111u, 8u, 4u), 0x11111F11u);
  EXPECT_EQ(evaluate<uint64_t>("bfi.b64 $0, $1, $2, $3, $4", uint64_t(7), uint64_t(1), 32u, 32u), 0x700000001u);
  EXPECT_EQ(evaluate<uint32_t>("prmt.b32 $0, $1, $2, 0x5410", 0x33221100u, 0x77665544u), 0x55441100u);
  EXPECT_EQ(evaluate<uint32_t>("prmt.b32 $0, $1, $2, 0x000b", 0x80000000u, 0u), 0x000000FFu);
  EXPECT_EQ(evaluate<uint32_t>("lop3.b32 $0, $1, $2, $3, 0x96", 0xF0u, 0xCCu, 0xAAu), 0xF0u ^ 0xCCu ^ 0xAAu);
  EXPECT_EQ(evaluate<uint32_t>("bfind.s32 $0, $1", -5), 2u);
  EXPECT_EQ(evaluate<uint32_t>("bfind.shiftamt.u32 $0, $1", 0x10u), 27u);
  EXPECT_EQ(evaluate<uint32_t>("brev.b32 $0, $1", 1u), 0x80000000u);
  EXPECT_EQ(evaluate<uint32_t>("popc.b64 $0, $1", uint64_t(0xF00000000000000F)), 8u);
}

TEST(Integers, CarriesGoOn) {
  EXPECT_EQ(evaluate<uint32_t>("add.cc.u32 $0, $1, $2;\naddc.u32 $0, $1, 0", 0xFFFFFFFFu, 1u), 0u);
  EXPECT_EQ(evaluate<uint32_t>("sub.cc.u32 $0, $1, $2;\nsubc.u32 $0, $1, 0", 1u, 2u), 0u);
}

TEST(Floats, FusedProductsRoundOnce) {
  float a = 1.1f, square = a * a;
  EXPECT_NE(std::fma(a, a, -square), 0);
  EXPECT_EQ(evaluate<float>("fma.rn.f32 $0, $1, $2, $3", a, a, -square), std::fma(a, a, -square));
  EXPECT_EQ(evaluate<float>("fma.rm.f32 $0, $1, $2, $3", 1.0f, 1.0f, -1e-20f), std::nextafter(1.0f, 0.0f));
}

TEST(Floats, RoundingModes) {
  EXPECT_EQ(evaluate<float>("add.rp.f32 $0, $1, $2", 1.0f, 1e-20f), std::nextafter(1.0f, 2.0f));
  EXPECT_EQ(evaluate<float>("add.rz.f32 $0, $1, $2", -1.0f, 1e-20f), -std::nextafter(1.0f, 0.0f));
  EXPECT_EQ(evaluate<float>("add.rn.f32 $0, $1, $2", 1.0f, 1e-20f), 1.0f);
  EXPECT_EQ(evaluate<float>("div.rn.f32 $0, $1, $2", 1.0f, 3.0f), 1.0f / 3.0f);
}

TEST(Floats, FlushOnlyWhereAsked) {
  float tiny = Limits::denorm_min();
  EXPECT_EQ(evaluate<float>("add.f32 $0, $1, $2", tiny, tiny), 2 * tiny);
  EXPECT_EQ(bits(evaluate<float>("add.ftz.f32 $0, $1, $2", -tiny, -tiny)), bits(-0.0f));
  EXPECT_EQ(evaluate<float>("mul.ftz.f32 $0, $1, $2", Limits::min(), 0.5f), 0.0f);
  EXPECT_EQ(evaluate<float>("max.ftz.f32 $0, $1, $2", tiny, tiny), 0.0f);
  EXPECT_EQ(evaluate<float>("add.sat.f32 $0, $1, $2", 0.7f, 0.7f), 1.0f);
  EXPECT_EQ(evaluate<float>("add.sat.f32 $0, $1, $2", kNaN, 0.7f), 0.0f);
}

TEST(Floats, NaNIsCanonicalOrMissing) {
  EXPECT_EQ(bits(evaluate<float>("add.f32 $0, $1, $2", kNaN, 1.0f)), kCanonicalNaN);
  EXPECT_EQ(bits(evaluate<float>("sqrt.rn.f32 $0, $1", -1.0f)), kCanonicalNaN);
  EXPECT_EQ(evaluate<float>("min.f32 $0, $1, $2", kNaN, 1.0f), 1.0f);
  EXPECT_EQ(evaluate<float>("max.f32 $0, $1, $2", 1.0f, kNaN), 1.0f);
  EXPECT_EQ(bits(evaluate<float>("max.f32 $0, $1, $2", kNaN, kNaN)), kCanonicalNaN);
  EXPECT_EQ(bits(evaluate<float>("max.NaN.f32 $0, $1, $2", 1.0f, kNaN)), kCanonicalNaN);
  EXPECT_EQ(bits(evaluate<float>("min.f32 $0, $1, $2", 0.0f, -0.0f)), bits(-0.0f));
  EXPECT_EQ(bits(evaluate<float>("max.f32 $0, $1, $2", -0.0f, 0.0f)), bits(0.0f));
}

// 1 where the comparison holds.
uint32_t holds(const std::string &comparison, float a, float b) {
  return evaluate<uint32_t>(fmt::format("setp.{}.f32 %q0, $1, $2;\nselp.u32 $0, 1, 0, %q0", comparison), a, b);
}

TEST(Floats, ComparisonsWithNaN) {
  for (const char *ordered : {"eq", "ne", "lt", "le", "gt", "ge", "num"})
    EXPECT_EQ(holds(ordered, kNaN, 1), 0u) << ordered;
  for (const char *unordered : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"})
    EXPECT_EQ(holds(unordered, 1, kNaN), 1u) << unordered;
  EXPECT_EQ(holds("ltu", 1, 2), 1u);
  EXPECT_EQ(holds("geu", 1, 2), 0u);
  EXPECT_EQ(holds("ne", 1, 2), 1u);
  EXPECT_EQ(holds("eq", 0.0f, -0.0f), 1u);
}

TEST(Floats, PredicatesJoin) {
  auto both = [](uint32_t a, uint32_t b) {
    return evaluate<uint32_t>("setp.ne.u32 %q2, $2, 0;\nsetp.eq.and.u32 %q0|%q1, $1, 1, !%q2;\n"
                              "selp.u32 $0, 1, 0, %q0;\n@%q1 add.u32 $0, $0, 2",
                              a, b);
  };
  EXPECT_EQ(both(1, 0), 1u);
  EXPECT_EQ(both(2, 0), 2u);
  EXPECT_EQ(both(1, 7), 0u);
}

TEST(Floats, SmallOnes) {
  EXPECT_EQ(evaluate<float>("copysign.f32 $0, $1, $2", -1.0f, 3.0f), -3.0f);
  EXPECT_EQ(bits(evaluate<float>("neg.f32 $0, $1", 0.0f)), bits(-0.0f));
  EXPECT_EQ(evaluate<float>("slct.f32.s32 $0, $1, $2, $3", 1.0f, 2.0f, -1), 2.0f);
  EXPECT_EQ(evaluate<uint32_t>("set.lt.u32.f32 $0, $1, $2", 1.0f, 2.0f), ~0u);
  EXPECT_EQ(evaluate<uint32_t>("testp.subnormal.f32 %q0, $1;\nselp.u32 $0, 1, 0, %q0", Limits::denorm_min()), 1u);
  EXPECT_EQ(evaluate<uint64_t>("add.rn.f32x2 $0, $1, $2", uint64_t(bits(1.0f)) << 32 | bits(2.0f),
                               uint64_t(bits(10.0f)) << 32 | bits(20.0f)),
            uint64_t(bits(11.0f)) << 32 | bits(22.0f));
}

uint16_t toBFloat(float value) { return evaluate<uint16_t>("cvt.rn.bf16.f32 $0, $1", value); }

TEST(Conversions, BFloatRoundsToNearestEven) {
  EXPECT_EQ(toBFloat(real(0x3F808000)), 0x3F80); // a tie, down to even
  EXPECT_EQ(toBFloat(real(0x3F818000)), 0x3F82); // a tie, up to even
  EXPECT_EQ(toBFloat(real(0x3F808001)), 0x3F81);
  EXPECT_EQ(toBFloat(Limits::max()), 0x7F80);
  EXPECT_EQ(toBFloat(-kInfinity), 0xFF80);
  EXPECT_EQ(toBFloat(kNaN), 0x7FFF);
  EXPECT_EQ(toBFloat(real(0x00018000)), 0x0002);
  EXPECT_EQ(evaluate<uint32_t>("cvt.rn.bf16x2.f32 $0, $1, $2", 1.0f, 2.0f),
            0x3F804000u); // the first one is the upper half
  EXPECT_EQ(evaluate<float>("cvt.f32.bf16 $0, $1", uint16_t(0xC040)), -3.0f);
}

TEST(Conversions, BFloatArithmeticRoundsOnce) {
  // 1.0078125^2 = 1.01568603515625 lies between 1.015625 and 1.0234375; 2^-20 below a tie must not be lost.
  EXPECT_EQ(evaluate<uint16_t>("fma.rn.bf16 $0, $1, $2, $3", uint16_t(0x3F81), uint16_t(0x3F81), uint16_t(0)), 0x3F82);
  EXPECT_EQ(evaluate<uint16_t>("fma.rn.bf16 $0, $1, $2, $3", uint16_t(0x3B80), uint16_t(0x3F80), uint16_t(0x3F80)),
            0x3F80);
  EXPECT_EQ(evaluate<uint16_t>("fma.rn.bf16 $0, $1, $2, $3", uint16_t(0x3B80), uint16_t(0x3F81), uint16_t(0x3F80)),
            0x3F81);
  EXPECT_EQ(evaluate<uint32_t>("add.rn.bf16x2 $0, $1, $2", 0x3F804000u, 0x3F803F80u), 0x40004040u);
}

TEST(Conversions, Halves) {
  EXPECT_EQ(evaluate<uint16_t>("cvt.rn.f16.f32 $0, $1", 1.5f), 0x3E00);
  EXPECT_EQ(evaluate<uint16_t>("cvt.rn.f16.f32 $0, $1", 1e6f), 0x7C00);
  EXPECT_EQ(evaluate<float>("cvt.f32.f16 $0, $1", uint16_t(0x0001)), std::ldexp(1.0f, -24));
}

TEST(Conversions, FloatsToIntegersSaturate) {
  EXPECT_EQ(evaluate<int32_t>("cvt.rzi.s32.f32 $0, $1", -2.7f), -2);
  EXPECT_EQ(evaluate<int32_t>("cvt.rni.s32.f32 $0, $1", 2.5f), 2);
  EXPECT_EQ(evaluate<int32_t>("cvt.rpi.s32.f32 $0, $1", 2.1f), 3);
  EXPECT_EQ(evaluate<int32_t>("cvt.rzi.s32.f32 $0, $1", 3e9f), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(evaluate<uint32_t>("cvt.rzi.u32.f32 $0, $1", -1.0f), 0u);
  EXPECT_EQ(evaluate<int32_t>("cvt.rzi.s32.f32 $0, $1", kNaN), 0);
  EXPECT_EQ(evaluate<int64_t>("cvt.rzi.s64.f32 $0, $1", kNaN), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(evaluate<float>("cvt.rmi.f32.f32 $0, $1", -1.5f), -2.0f);
  EXPECT_EQ(evaluate<float>("cvt.rni.f32.f32 $0, $1", 0.5f), 0.0f);
}

// As far off as PTX allows, in units of the last place: what needs better must not pass. Equal arguments give equal results.
void expectApproximate(const std::string &instruction, double (*exact)(double), double bound) {
  double worst = 0;
  int inexact = 0;
  for (int i = 0; i < 200; ++i) {
    const float a = (float(i) - 99.5f) * 0.173f, result = evaluate<float>(instruction, a);
    EXPECT_EQ(evaluate<float>(instruction, a), result);
    const double expected = exact(double(a));
    worst = std::max(worst, std::abs(result - expected) / std::ldexp(1, std::ilogb(expected) - 23));
    inexact += result != float(expected);
  }
  EXPECT_LE(worst, bound);
  EXPECT_GE(worst, 0.75 * bound);
  EXPECT_GE(inexact, 50);
}

TEST(Floats, Approximations) {
  const std::string power = "ex2.approx.ftz.f32 $0, $1", reciprocal = "rcp.approx.ftz.f32 $0, $1";
  expectApproximate(power, [](double a) { return std::exp2(a); }, 2);
  expectApproximate(reciprocal, [](double a) { return 1 / a; }, 1);
  EXPECT_EQ(evaluate<float>(power, 0.0f), 1.0f);
  EXPECT_EQ(evaluate<float>(power, -Limits::denorm_min()), 1.0f);
  EXPECT_EQ(evaluate<float>(power, kInfinity), kInfinity);
  EXPECT_EQ(evaluate<float>(power, -kInfinity), 0.0f);
  EXPECT_EQ(evaluate<float>(power, -127.5f), 0.0f);
  EXPECT_EQ(evaluate<uint32_t>(power, kNaN), kCanonicalNaN);
  EXPECT_EQ(evaluate<float>(reciprocal, kInfinity), 0.0f);
  EXPECT_EQ(evaluate<float>(reciprocal, 0.0f), kInfinity);
  EXPECT_EQ(evaluate<float>("rcp.rn.f32 $0, $1", 3.0f), 1.0f / 3.0f);
}

TEST(Conversions, IntegersOfAllWidths) {
  EXPECT_EQ(evaluate<uint64_t>("cvt.s64.s32 $0, $1", -1), ~uint64_t(0));
  EXPECT_EQ(evaluate<uint64_t>("cvt.u64.u32 $0, $1", ~0u), 0xFFFFFFFFu);
  EXPECT_EQ(evaluate<int32_t>("cvt.s32.s8 $0, $1", 0x1FFu), -1);
  EXPECT_EQ(evaluate<uint32_t>("cvt.s8.s32 $0, $1", 0x180u), 0xFFFFFF80u);
  EXPECT_EQ(evaluate<uint16_t>("cvt.sat.u16.s32 $0, $1", -5), 0);
  EXPECT_EQ(evaluate<float>("cvt.rn.f32.u64 $0, $1", ~uint64_t(0)), std::ldexp(1.0f, 64));
  EXPECT_EQ(evaluate<float>("cvt.rz.f32.s32 $0, $1", 0x7FFFFFFF), 2147483520.0f);
  EXPECT_EQ(evaluate<uint32_t>("mov.b32 {%h7, %h8}, $1;\nmov.b32 $0, {%h8, %h7}", 0x12345678u), 0x56781234u);
}

} // namespace
} // namespace mgc::ptx
