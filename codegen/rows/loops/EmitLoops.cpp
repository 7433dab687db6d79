// Building blocks of KernelEmitter: integers, loops, vectors.
#include "codegen/rows/loops/Emitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>

namespace mgc::rowgen {

using namespace mlir;

KernelEmitter::KernelEmitter(MLIRContext *context, const LoopLayout &layout)
    : layout_(layout), graph_(layout.graph()), b_(context), loc_(b_.getUnknownLoc()),
      coordinates_(layout.loops().size()) {}

Value KernelEmitter::i64(int64_t value) { return arith::ConstantOp::create(b_, loc_, b_.getI64IntegerAttr(value)); }

Value KernelEmitter::addI64(Value a, Value b) { return arith::AddIOp::create(b_, loc_, a, b); }

Value KernelEmitter::mulI64(Value a, int64_t factor) {
  return factor == 1 ? a : arith::MulIOp::create(b_, loc_, a, i64(factor)).getResult();
}

KernelEmitter::Values KernelEmitter::loop(Value begin, Value end, int64_t step, ValueRange carried,
                                          const LoopBody &body) {
  auto forOp = scf::ForOp::create(b_, loc_, begin, end, i64(step), carried);
  OpBuilder::InsertionGuard guard(b_);
  if (carried.empty()) // The builder then made the terminator already.
    b_.setInsertionPoint(forOp.getBody()->getTerminator());
  else
    b_.setInsertionPointToEnd(forOp.getBody());
  Values next = body(forOp.getInductionVar(), forOp.getRegionIterArgs());
  if (!carried.empty())
    scf::YieldOp::create(b_, loc_, next);
  return Values(forOp.getResults());
}

void KernelEmitter::onlyIf(Value condition, const std::function<void()> &body) {
  auto ifOp = scf::IfOp::create(b_, loc_, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPoint(ifOp.thenBlock()->getTerminator());
  body();
}

Type KernelEmitter::elementType(Element element) {
  switch (element) {
  case Element::f32:
    return b_.getF32Type();
  case Element::i32:
    return b_.getI32Type();
  case Element::i64:
    return b_.getI64Type();
  case Element::i1:
    return b_.getI1Type();
  case Element::bf16:
    break;
  }
  llvm_unreachable("bf16 is for operands");
}

// bf16 is the upper half of an f32.
Type KernelEmitter::memoryType(Element element) {
  return element == Element::bf16 ? b_.getI16Type() : elementType(element);
}

Value KernelEmitter::fromMemory(Element element, Value value) {
  if (element != Element::bf16)
    return value;
  auto shaped = [&](Type type) { return shapedLike(value, type); };
  Value bits = arith::ExtUIOp::create(b_, loc_, shaped(b_.getI32Type()), value);
  bits = arith::ShLIOp::create(b_, loc_, bits, constantOf(bits.getType(), 16));
  return arith::BitcastOp::create(b_, loc_, shaped(b_.getF32Type()), bits);
}

// To the nearest, ties to even: half of what is cut off, less one where the last bit kept is 0. A NaN could become an
// infinity so; it keeps its upper bits and is made quiet.
Value KernelEmitter::toMemory(Element element, Value value) {
  if (element != Element::bf16)
    return value;
  Type word = shapedLike(value, b_.getI32Type());
  auto constant = [&](int64_t number) { return constantOf(word, double(number)); };
  Value bits = arith::BitcastOp::create(b_, loc_, word, value);
  Value last = arith::ShRUIOp::create(b_, loc_, bits, constant(16));
  last = arith::AndIOp::create(b_, loc_, last, constant(1));
  Value rounded = arith::AddIOp::create(b_, loc_, bits, constant(0x7fff));
  rounded = arith::AddIOp::create(b_, loc_, rounded, last);
  Value quiet = arith::OrIOp::create(b_, loc_, bits, constant(0x400000));
  Value isNan = arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::UNO, value, value);
  bits = arith::SelectOp::create(b_, loc_, isNan, quiet, rounded);
  bits = arith::ShRUIOp::create(b_, loc_, bits, constant(16));
  return arith::TruncIOp::create(b_, loc_, shapedLike(value, b_.getI16Type()), bits);
}

Type KernelEmitter::shapedLike(Value value, Type type) {
  auto shaped = dyn_cast<ShapedType>(value.getType());
  return shaped ? Type(shaped.clone(type)) : type;
}

Type KernelEmitter::vectorType(Element element, int64_t width) {
  return VectorType::get({width}, elementType(element));
}

Value KernelEmitter::splat(Value scalar, int64_t width) {
  return vector::BroadcastOp::create(b_, loc_, VectorType::get({width}, scalar.getType()), scalar);
}

// f32 or an integer, scalar or vector.
Value KernelEmitter::constantOf(Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attribute = element.isF32() ? TypedAttr(b_.getF32FloatAttr(float(value)))
                                        : TypedAttr(b_.getIntegerAttr(element, int64_t(value)));
  if (auto shaped = dyn_cast<ShapedType>(type))
    attribute = DenseElementsAttr::get(shaped, Attribute(attribute));
  return arith::ConstantOp::create(b_, loc_, attribute);
}

Value KernelEmitter::combine(RowReduction reduction, Value a, Value b) {
  if (!isa<FloatType>(getElementTypeOrSelf(a.getType())))
    return reduction == RowReduction::sum ? arith::AddIOp::create(b_, loc_, a, b).getResult()
                                          : arith::MaxSIOp::create(b_, loc_, a, b).getResult();
  if (reduction == RowReduction::sum)
    return arith::AddFOp::create(b_, loc_, a, b);
  // One maxps; a NaN in b is passed over.
  Value greater = arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::OGT, b, a);
  return arith::SelectOp::create(b_, loc_, greater, b, a);
}

Value KernelEmitter::identityOf(RowReduction reduction, Type type) {
  if (reduction == RowReduction::sum)
    return constantOf(type, 0);
  auto integer = dyn_cast<IntegerType>(getElementTypeOrSelf(type));
  return constantOf(type,
                    integer ? -std::ldexp(1.0, int(integer.getWidth()) - 1) : -std::numeric_limits<double>::infinity());
}

// Halves fold onto each other: 16, 8, 4, 2, 1.
Value KernelEmitter::combineLanes(RowReduction reduction, Value vector) {
  for (int64_t width = cast<VectorType>(vector.getType()).getDimSize(0); width > 1; width /= 2) {
    SmallVector<int64_t> low(width / 2), high(width / 2);
    for (int64_t lane = 0; lane < width / 2; ++lane) {
      low[lane] = lane;
      high[lane] = lane + width / 2;
    }
    Value lower = vector::ShuffleOp::create(b_, loc_, vector, vector, low);
    Value upper = vector::ShuffleOp::create(b_, loc_, vector, vector, high);
    vector = combine(reduction, lower, upper);
  }
  return vector::ExtractOp::create(b_, loc_, vector, ArrayRef<int64_t>{0});
}

} // namespace mgc::rowgen
