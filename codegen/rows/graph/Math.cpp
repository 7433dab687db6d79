// See Math.h. Polynomials are minimax fits (relative error below 2e-8 in exact arithmetic) on the reduced ranges named
// next to them; reductions use fused multiply-adds, so that their products are exact. NaN passes through every path: no
// conversion to integers (undefined for NaN) but the 1.5 * 2^23 trick, no comparison that would select NaN away.
#include "codegen/rows/graph/Math.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include <cmath>

namespace mgc::rowgen {

using namespace mlir;

namespace {
constexpr double kRoundMagic = 12582912.0; // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
constexpr double kLn2High = 0x1.62e43p-1, kLn2Low = -0x1.05c61p-29;

// Short spelling of arith ops on f32 and i32 values of one shape.
struct Ops {
  OpBuilder &b;
  Location loc;
  Type type; // f32 or vector of f32

  Ops(OpBuilder &b, Location loc, Value like) : b(b), loc(loc), type(like.getType()) {}
  Type integer() const {
    auto shaped = dyn_cast<ShapedType>(type);
    return shaped ? Type(shaped.clone(b.getI32Type())) : b.getI32Type();
  }
  Value f(double value) const { return emitF32(b, loc, value, type); }
  Value i(int64_t value) const { return emitI32(b, loc, value, type); }
  Value add(Value x, Value y) const { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) const { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) const { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) const { return arith::DivFOp::create(b, loc, x, y); }
  Value fma(Value x, Value y, Value z) const { return math::FmaOp::create(b, loc, x, y, z); }
  Value abs(Value x) const { return math::AbsFOp::create(b, loc, x); }
  Value less(Value x, Value y) const { return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, y); }
  Value select(Value c, Value x, Value y) const { return arith::SelectOp::create(b, loc, c, x, y); }
  // NaN stays NaN.
  Value atMost(Value x, double bound) const { return select(less(f(bound), x), f(bound), x); }
  Value atLeast(Value x, double bound) const { return select(less(x, f(bound)), f(bound), x); }
  Value bits(Value x) const { return arith::BitcastOp::create(b, loc, integer(), x); }
  Value fromBits(Value x) const { return arith::BitcastOp::create(b, loc, type, x); }
  Value addI(Value x, Value y) const { return arith::AddIOp::create(b, loc, x, y); }
  Value subI(Value x, Value y) const { return arith::SubIOp::create(b, loc, x, y); }
  Value andI(Value x, Value y) const { return arith::AndIOp::create(b, loc, x, y); }
  Value xorI(Value x, Value y) const { return arith::XOrIOp::create(b, loc, x, y); }
  Value shiftLeft(Value x, int64_t n) const { return arith::ShLIOp::create(b, loc, x, i(n)); }
  Value shiftRight(Value x, int64_t n) const { return arith::ShRSIOp::create(b, loc, x, i(n)); }
  // coefficients[0] + x * (coefficients[1] + ...)
  Value polynomial(Value x, ArrayRef<double> coefficients) const {
    Value sum = f(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back()))
      sum = fma(sum, x, f(coefficient));
    return sum;
  }
};
} // namespace

Value emitF32(OpBuilder &b, Location loc, double value, Type like) {
  auto shaped = dyn_cast<ShapedType>(like);
  FloatAttr attribute = b.getF32FloatAttr(float(value));
  if (!shaped)
    return arith::ConstantOp::create(b, loc, attribute);
  auto type = cast<ShapedType>(shaped.clone(b.getF32Type()));
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, Attribute(attribute)));
}

Value emitI32(OpBuilder &b, Location loc, int64_t value, Type like) {
  auto shaped = dyn_cast<ShapedType>(like);
  IntegerAttr attribute = b.getI32IntegerAttr(int32_t(value));
  if (!shaped)
    return arith::ConstantOp::create(b, loc, attribute);
  auto type = cast<ShapedType>(shaped.clone(b.getI32Type()));
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, Attribute(attribute)));
}

// x = 2 h ln 2 + r, |r| <= ln 2; exp(x) = 2^h 2^h exp(r). The scale comes in two halves, so that results down
// to the smallest subnormal and up to infinity round correctly; that both are 2^h makes it two operations.
static Value emitExpByPolynomial(OpBuilder &b, Location loc, Value x) {
  Ops o(b, loc, x);
  Value bounded = o.atLeast(o.atMost(x, 89), -104);
  Value magic = o.f(kRoundMagic + 127); // leaves the biased exponent of 2^h in the low bits
  Value shifted = o.fma(bounded, o.f(0x1.715476p-1), magic);
  Value h = o.sub(shifted, magic);
  Value r = o.fma(h, o.f(-2 * kLn2Low), o.fma(h, o.f(-2 * kLn2High), bounded));
  Value square = o.mul(r, r); // pairs of terms: the chain of dependent operations is what exp costs
  Value low = o.fma(r, o.f(1.666661431e-01), o.f(5.000003455e-01));
  Value middle = o.fma(r, o.f(8.336097522e-03), o.f(4.166127845e-02));
  Value high = o.fma(r, o.f(1.961185553e-04), o.f(1.410426535e-03));
  Value tail = o.fma(square, o.fma(square, high, middle), low);
  Value half = o.fromBits(o.shiftLeft(o.bits(shifted), 23));
  return o.mul(o.fma(o.fma(square, tail, r), half, half), half);
}

static bool isForGpu(const OpBuilder &b) {
  Operation *parent = b.getInsertionBlock()->getParentOp();
  return isa<gpu::GPUModuleOp>(parent) || parent->getParentOfType<gpu::GPUModuleOp>();
}

// An instruction of GPUs, which takes and gives scalars, for each element.
static Value emitIntrinsic(const Ops &o, const char *name, ValueRange x) {
  StringAttr attribute = o.b.getStringAttr(name);
  auto type = dyn_cast<VectorType>(o.type);
  auto call = [&](ValueRange arguments) {
    return LLVM::CallIntrinsicOp::create(o.b, o.loc, o.b.getF32Type(), attribute, arguments).getResults();
  };
  if (!type)
    return call(x);
  Value result = o.f(0);
  for (int64_t lane = 0; lane < type.getNumElements(); ++lane) {
    SmallVector<Value> arguments;
    for (Value argument : x)
      arguments.push_back(vector::ExtractOp::create(o.b, o.loc, argument, lane));
    result = vector::InsertOp::create(o.b, o.loc, call(arguments), result, lane);
  }
  return result;
}

// x log2(e) = n + r with n from -126 to 127, |r| <= 1/2 between them; exp(x) = 2^n 2^r. The saturated value is
// (n + 126) / 253: that bounds n in the instruction that multiplies, and takes NaN to -126, while r stays NaN. Beyond
// the bounds r grows instead, so that the last product rounds to subnormals, 0 and infinity. ex2 is at most 2 ulp off
// what is correctly rounded, 2.5 off 2^r; r has the error of two roundings, 2^-25, which is 0.4 ulp of the result.
static Value emitExpByUnit(OpBuilder &b, Location loc, Value x) {
  Ops o(b, loc, x);
  constexpr double kLeast = -126, kSteps = 253; // to 127
  Value share = emitIntrinsic(o, "llvm.nvvm.fma.rn.sat.f", {x, o.f(M_LOG2E / kSteps), o.f(-kLeast / kSteps)});
  Value magic = o.f(kRoundMagic + 127); // leaves the biased exponent of 2^n in the low bits
  Value shifted = o.fma(share, o.f(kSteps), o.f(kRoundMagic + 127 + kLeast));
  Value n = o.sub(shifted, magic);
  Value r = o.fma(x, o.f(M_LOG2E), arith::NegFOp::create(b, loc, n));
  r = o.fma(x, o.f(M_LOG2E - float(M_LOG2E)), r); // both parts are positive: an infinity stays one
  Value power = emitIntrinsic(o, "llvm.nvvm.ex2.approx.ftz", r);
  return o.mul(power, o.fromBits(o.shiftLeft(o.bits(shifted), 23)));
}

Value emitExp(OpBuilder &b, Location loc, Value x) {
  return isForGpu(b) ? emitExpByUnit(b, loc, x) : emitExpByPolynomial(b, loc, x);
}

// x = 2^e m, m in [sqrt(1/2), sqrt(2)); log(x) = e ln 2 + log(1 + (m - 1)).
Value emitLog(OpBuilder &b, Location loc, Value x) {
  Ops o(b, loc, x);
  Value isSmall = o.less(x, o.f(0x1p-126));
  Value normal = o.select(isSmall, o.mul(x, o.f(0x1p23)), x);
  Value exponent = o.shiftRight(o.subI(o.bits(normal), o.i(0x3f3504f3)), 23);
  Value m = o.fromBits(o.subI(o.bits(normal), o.shiftLeft(exponent, 23)));
  Value e = arith::SIToFPOp::create(b, loc, o.type, exponent);
  e = o.add(e, o.select(isSmall, o.f(-23), o.f(0)));
  Value f = o.sub(m, o.f(1)), square = o.mul(f, f);
  Value tail = o.polynomial(f, {3.333333118e-01, -2.499999696e-01, 2.000071575e-01, -1.666780232e-01, 1.424905765e-01,
                                -1.242568734e-01, 1.168541992e-01, -1.147973381e-01, 6.971611443e-02});
  Value y = o.mul(o.mul(f, square), tail);
  y = o.fma(square, o.f(-0.5), o.fma(e, o.f(kLn2Low), y));
  Value result = o.fma(e, o.f(kLn2High), o.add(f, y));
  Value infinity = o.f(std::numeric_limits<double>::infinity());
  result = o.select(o.less(x, infinity), result, x); // +inf and NaN
  result = o.select(o.less(x, o.f(0)), o.f(std::numeric_limits<double>::quiet_NaN()), result);
  Value isZero = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, o.f(0));
  return o.select(isZero, o.f(-std::numeric_limits<double>::infinity()), result);
}

Value emitSigmoid(OpBuilder &b, Location loc, Value x) {
  Ops o(b, loc, x);
  Value negative = arith::NegFOp::create(b, loc, x);
  Value sum = o.add(o.f(1), emitExp(b, loc, negative));
  return isForGpu(b) ? emitIntrinsic(o, "llvm.nvvm.rcp.approx.ftz.f", sum) : o.div(o.f(1), sum);
}

// max(x, 0) + log(1 + u), u = exp(-|x|). With w the rounded 1 + u, log(1 + u) is u log(w) / (w - 1), however much of u the
// sum has lost (Goldberg, What every computer scientist should know about floating-point arithmetic, theorem 4).
Value emitSoftplus(OpBuilder &b, Location loc, Value x) {
  Ops o(b, loc, x);
  Value u = emitExp(b, loc, arith::NegFOp::create(b, loc, o.abs(x)));
  Value w = o.add(o.f(1), u), rest = o.sub(w, o.f(1));
  Value log = o.mul(u, o.div(emitLog(b, loc, w), rest));
  return o.add(o.atLeast(x, 0), o.select(o.less(o.f(0), rest), log, u));
}

// tanh of u = |x| is u + u^3 P(u^2) below 0.625, else 1 - 2 / (1 + exp(2 u)). Neither is negative: the sign of x is added as
// a bit.
Value emitTanh(OpBuilder &b, Location loc, Value x) {
  Ops o(b, loc, x);
  Value u = o.abs(x), square = o.mul(u, u);
  Value tail =
      o.polynomial(square, {-3.333328194e-01, 1.333144218e-01, -5.373971405e-02, 2.063908424e-02, -5.704983964e-03});
  Value small = o.fma(o.mul(u, square), tail, u);
  Value power = emitExp(b, loc, o.add(u, u));
  Value large = o.sub(o.f(1), o.div(o.f(2), o.add(o.f(1), power)));
  Value result = o.select(o.less(u, o.f(0.625)), small, large);
  return o.fromBits(o.xorI(o.bits(result), o.andI(o.bits(x), o.i(int64_t(1) << 31))));
}

// erf for |x| < 1.
static Value emitSmallErf(const Ops &o, Value x) {
  return o.mul(x, o.polynomial(o.mul(x, x), {1.128379166e+00, -3.761262667e-01, 1.128359472e-01, -2.685421201e-02,
                                             5.189087423e-03, -8.016864283e-04, 7.875875050e-05}));
}

// erfc for x >= 1: exp(-x^2) / (1 + 2x) * P((x - 3) / (x + 3)), after Shepherd and Laframboise (1981). The
// rounding error of x^2 would be magnified by exp, so its low part is carried along.
static Value emitLargeErfc(const Ops &o, Value x) {
  x = o.atMost(x, 10.1); // erfc(10.1) rounds to zero
  Value square = o.mul(x, x);
  Value negative = arith::NegFOp::create(o.b, o.loc, square);
  Value low = o.fma(x, x, negative);
  Value power = emitExp(o.b, o.loc, negative);
  power = o.fma(power, arith::NegFOp::create(o.b, o.loc, low), power);
  Value t = o.div(o.sub(x, o.f(3)), o.add(x, o.f(3)));
  Value p = o.polynomial(t, {1.253008056e+00, -1.356209719e-01, -4.756188753e-02, 1.296385846e-01, -1.192830939e-01,
                             6.839591873e-02, -2.369993577e-02, 2.086729712e-03, 1.704516254e-03});
  return o.mul(power, o.div(p, o.fma(x, o.f(2), o.f(1))));
}

Value emitErfc(OpBuilder &b, Location loc, Value x) {
  Ops o(b, loc, x);
  Value magnitude = o.abs(x);
  Value large = emitLargeErfc(o, magnitude);
  large = o.select(o.less(x, o.f(0)), o.sub(o.f(2), large), large);
  return o.select(o.less(magnitude, o.f(1)), o.sub(o.f(1), emitSmallErf(o, x)), large);
}

Value emitSqrt(OpBuilder &b, Location loc, Value x) { return math::SqrtOp::create(b, loc, x); }

Value emitRsqrt(OpBuilder &b, Location loc, Value x) {
  Ops o(b, loc, x);
  return o.div(o.f(1), emitSqrt(b, loc, x));
}

// x = n pi/2 + r, |r| <= 1 (the rounding of n may be off for large x; the fits reach that far). pi/2 in three
// parts: the first product is exact in a fused multiply-add, the error of the last is below n 2^-75.
std::pair<Value, Value> emitSinCos(OpBuilder &b, Location loc, Value x) {
  Ops o(b, loc, x);
  Value inRange = o.less(o.abs(x), o.f(4194304));
  x = o.select(inRange, x, o.f(std::numeric_limits<double>::quiet_NaN()));
  Value shifted = o.fma(x, o.f(0x1.45f306p-1), o.f(kRoundMagic));
  Value n = o.sub(shifted, o.f(kRoundMagic)), quadrant = o.bits(shifted);
  Value r = o.fma(n, o.f(-0x1.921fb6p+0), x);
  r = o.fma(n, o.f(0x1.777a5cp-25), r);
  r = o.fma(n, o.f(0x1.ee59dap-50), r);
  Value square = o.mul(r, r);
  Value sinTail = o.polynomial(square, {-1.666666665e-01, 8.333327149e-03, -1.983817424e-04, 2.706066859e-06});
  Value cosTail = o.polynomial(square, {4.166666665e-02, -1.388888373e-03, 2.479900337e-05, -2.714292275e-07});
  Value sine = o.fma(o.mul(r, square), sinTail, r);
  Value cosine = o.fma(o.mul(square, square), cosTail, o.fma(square, o.f(-0.5), o.f(1)));
  Value zero = o.i(0);
  Value isOdd = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, o.andI(quadrant, o.i(1)), zero);
  auto withSign = [&](Value value, Value turned) { // bit 1 of `turned` becomes the sign
    return o.fromBits(o.xorI(o.bits(value), o.shiftLeft(o.andI(turned, o.i(2)), 30)));
  };
  return {withSign(o.select(isOdd, cosine, sine), quadrant),
          withSign(o.select(isOdd, sine, cosine), o.addI(quadrant, o.i(1)))};
}

Value emitSin(OpBuilder &b, Location loc, Value x) { return emitSinCos(b, loc, x).first; }
Value emitCos(OpBuilder &b, Location loc, Value x) { return emitSinCos(b, loc, x).second; }

std::array<Value, 4> emitPhilox4x32(OpBuilder &b, Location loc, std::array<Value, 4> c, std::array<Value, 2> key) {
  Ops o(b, loc, c[0]);
  Value multiplier0 = o.i(0xD2511F53), multiplier1 = o.i(0xCD9E8D57);
  Value bump0 = o.i(0x9E3779B9), bump1 = o.i(0xBB67AE85);
  for (int round = 0; round < 10; ++round) {
    auto product0 = arith::MulUIExtendedOp::create(b, loc, c[0], multiplier0);
    auto product1 = arith::MulUIExtendedOp::create(b, loc, c[2], multiplier1);
    c = {o.xorI(o.xorI(product1.getHigh(), c[1]), key[0]), product1.getLow(),
         o.xorI(o.xorI(product0.getHigh(), c[3]), key[1]), product0.getLow()};
    key = {o.addI(key[0], bump0), o.addI(key[1], bump1)};
  }
  return c;
}

} // namespace mgc::rowgen
