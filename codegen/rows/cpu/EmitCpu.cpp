// The frame of a CPU's kernel, and its accesses to memory: vectors with masks that are known when it is compiled.
#include "codegen/rows/cpu/EmitCpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mgc::rowgen {

using namespace mlir;

// Alignment in bytes of a row's start.
static unsigned alignmentOf(Element element) { return unsigned(bytesOf(element)); }

Status emitKernel(ModuleOp module, const std::string &symbol, const LoopLayout &layout) {
  return CpuEmitter(module, layout).emit(symbol);
}

Status CpuEmitter::emit(const std::string &symbol) {
  auto pointerType = LLVM::LLVMPointerType::get(b_.getContext());
  Type i64Type = b_.getI64Type();
  b_.setInsertionPointToEnd(module_.getBody());
  auto type = b_.getFunctionType({pointerType, pointerType, i64Type, i64Type}, {});
  auto function = func::FuncOp::create(b_, loc_, symbol, type);
  b_.setInsertionPointToStart(function.addEntryBlock());
  for (size_t number = 0; number < graph_.operands().size(); ++number) {
    Value place = LLVM::GEPOp::create(b_, loc_, pointerType, pointerType, function.getArgument(0),
                                      ArrayRef<LLVM::GEPArg>{int32_t(number)});
    operands_.push_back(LLVM::LoadOp::create(b_, loc_, pointerType, place, 8));
  }
  scalars_ = function.getArgument(1);
  begin_ = function.getArgument(2);
  end_ = function.getArgument(3);
  emitKernelValues();
  if (graph_.count())
    shareCountedRange();
  if (layout_.form() == LoopLayout::Form::rows)
    emitRows();
  else if (layout_.form() == LoopLayout::Form::blocks)
    emitBlocks();
  else
    emitColumns();
  func::ReturnOp::create(b_, loc_);
  return error_.empty() ? Status::ok() : errorf("kernel {}: {}", symbol, error_);
}

// The part [begin, end) of the range becomes the same part of what there is of it, so that all threads have their share of
// that. The product fits 64 bits.
void CpuEmitter::shareCountedRange() {
  const int64_t range = layout_.range();
  int64_t shift = 0;
  while ((range >> shift) > INT64_MAX / range)
    ++shift;
  Value there = countedRange(layout_.unitsOfPosition(), layout_.unitSize());
  const auto share = [&](Value bound) {
    bound = arith::ShRUIOp::create(b_, loc_, bound, i64(shift));
    bound = arith::MulIOp::create(b_, loc_, bound, there);
    return arith::DivUIOp::create(b_, loc_, bound, i64(range >> shift));
  };
  begin_ = share(begin_);
  end_ = share(end_);
}

Value CpuEmitter::scalarArgument(int number) {
  Value place = LLVM::GEPOp::create(b_, loc_, scalars_.getType(), b_.getI64Type(), scalars_,
                                    ArrayRef<LLVM::GEPArg>{int32_t(number)});
  return LLVM::LoadOp::create(b_, loc_, b_.getI64Type(), place, 8);
}

CpuEmitter::Values CpuEmitter::chunkedLoop(int64_t size, int64_t step, int64_t chunk, ValueRange totals,
                                           ValueRange identities,
                                           const std::function<Value(size_t, Value, Value)> &combine,
                                           const LoopBody &body) {
  if (size <= chunk || totals.empty())
    return loop(i64(0), i64(size), step, totals, body);
  return loop(i64(0), i64(size), chunk, totals, [&](Value begin, ValueRange carried) {
    Value end = arith::MinSIOp::create(b_, loc_, addI64(begin, i64(chunk)), i64(size));
    Values partial = loop(begin, end, step, identities, body);
    for (size_t number = 0; number < partial.size(); ++number)
      partial[number] = combine(number, carried[number], partial[number]);
    return partial;
  });
}

Value CpuEmitter::laneMask(const Lanes &lanes) {
  SmallVector<bool> bits(lanes.width);
  for (int64_t lane = 0; lane < lanes.width; ++lane)
    bits[lane] = lane < lanes.valid;
  auto type = VectorType::get({lanes.width}, b_.getI1Type());
  return arith::ConstantOp::create(b_, loc_, DenseElementsAttr::get(type, bits));
}

// A vector of pointers base + lane * stride.
Value CpuEmitter::pointers(Value base, int64_t stride, int64_t width, Element element) {
  SmallVector<int64_t> steps(width);
  for (int64_t lane = 0; lane < width; ++lane)
    steps[lane] = lane * stride;
  auto type = VectorType::get({width}, b_.getI64Type());
  Value offsets = arith::ConstantOp::create(b_, loc_, DenseElementsAttr::get(type, ArrayRef<int64_t>(steps)));
  auto pointerType = LLVM::LLVMPointerType::get(b_.getContext());
  return LLVM::GEPOp::create(b_, loc_, VectorType::get({width}, pointerType), memoryType(element), base,
                             ValueRange{offsets});
}

Value CpuEmitter::loadVector(Value base, RowOperand operand, const std::vector<At> &at, const Lanes &lanes) {
  const Element element = graph_[operand].element;
  const int64_t stride = layout_.innerStride(operand, at);
  if (stride == 0)
    return splat(loadElement(base, element), lanes.width);
  unsigned alignment = alignmentOf(element);
  Type type = VectorType::get({lanes.width}, memoryType(element));
  if (stride == 1 && !lanes.isMasked())
    return fromMemory(element, LLVM::LoadOp::create(b_, loc_, type, base, alignment));
  Value mask = laneMask(lanes), nothing = constantOf(type, 0);
  IntegerAttr aligned = b_.getI32IntegerAttr(alignment);
  if (stride == 1)
    return fromMemory(element, LLVM::MaskedLoadOp::create(b_, loc_, type, base, mask, nothing, aligned,
                                                          /*nontemporal=*/UnitAttr()));
  Value places = pointers(base, stride, lanes.width, element);
  return fromMemory(element, LLVM::masked_gather::create(b_, loc_, type, places, mask, ValueRange{nothing}, aligned));
}

void CpuEmitter::storeVectorTo(Value base, RowOperand operand, const std::vector<At> &at, Value value,
                               const Lanes &lanes) {
  const Element element = graph_[operand].element;
  const int64_t stride = layout_.innerStride(operand, at);
  value = toMemory(element, value);
  unsigned alignment = alignmentOf(element);
  if (stride == 1 && !lanes.isMasked()) {
    LLVM::StoreOp::create(b_, loc_, value, base, alignment);
    return;
  }
  Value mask = laneMask(lanes);
  IntegerAttr aligned = b_.getI32IntegerAttr(alignment);
  if (stride == 1)
    LLVM::MaskedStoreOp::create(b_, loc_, value, base, mask, aligned);
  else
    LLVM::masked_scatter::create(b_, loc_, value, pointers(base, stride, lanes.width, element), mask, aligned);
}

} // namespace mgc::rowgen
