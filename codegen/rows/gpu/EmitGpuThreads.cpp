// Positions of threads, the vectors of each, and sums over the threads that work together.
#include "codegen/rows/gpu/EmitGpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <set>

namespace mgc::rowgen {

using namespace mlir;

// --- Positions ---------------------------------------------------------------------------------------------

Value GpuEmitter::position(int64_t value) {
  return arith::ConstantOp::create(b_, loc_, b_.getIntegerAttr(thread_.getType(), value));
}

Value GpuEmitter::fit(Value value) {
  return value.getType() == thread_.getType() ? value
                                              : arith::TruncIOp::create(b_, loc_, thread_.getType(), value).getResult();
}

Value GpuEmitter::wide(Value value) {
  Type type = b_.getI64Type();
  return value.getType() == type ? value : arith::ExtUIOp::create(b_, loc_, type, value).getResult();
}

Value GpuEmitter::plus(Value value, Value other) { return arith::AddIOp::create(b_, loc_, value, other); }

Value GpuEmitter::times(Value value, int64_t factor) {
  return factor == 1 ? value : arith::MulIOp::create(b_, loc_, value, position(factor)).getResult();
}

Value GpuEmitter::quotient(Value value, int64_t divisor) {
  return divisor == 1 ? value : arith::DivUIOp::create(b_, loc_, value, position(divisor)).getResult();
}

Value GpuEmitter::remainder(Value value, int64_t divisor) {
  return arith::RemUIOp::create(b_, loc_, value, position(divisor));
}

Value GpuEmitter::isBelow(Value value, int64_t size) {
  return arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::ult, value, position(size));
}

// The position itself or, beyond the end, the last one.
Value GpuEmitter::bounded(Value value, int64_t size) {
  return arith::MinUIOp::create(b_, loc_, value, position(size - 1));
}

Value GpuEmitter::isThere(Value value, int64_t size) {
  return there_ ? arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::ult, value, there_).getResult()
                : isBelow(value, size);
}

Value GpuEmitter::boundedThere(Value value, int64_t size) {
  return there_ ? arith::MinUIOp::create(b_, loc_, value, plus(there_, position(-1))).getResult()
                : bounded(value, size);
}

Value GpuEmitter::both(Value a, Value b) { return !a ? b : !b ? a : arith::AndIOp::create(b_, loc_, a, b).getResult(); }

void GpuEmitter::whereTrue(Value condition, const std::function<void()> &body) {
  if (condition)
    onlyIf(condition, body);
  else
    body();
}

// --- Pieces ------------------------------------------------------------------------------------------------

void GpuEmitter::enter(Piece &piece) {
  if (piece.row)
    setRow(wide(piece.row));
  piece.lanes.width = piece.lanes.valid = shape_.width;
  piece.lanes.position = i64(0);
  Value rest = piece.vector;
  for (size_t number = layout_.loops().size(); number-- > layout_.firstColumn();) {
    const bool isInner = number + 1 == layout_.loops().size();
    const int64_t size = layout_.loops()[number].size / (isInner ? shape_.width : 1);
    const bool isOutermost = number == layout_.firstColumn();
    Value at = isOutermost ? rest : remainder(rest, size);
    rest = isOutermost ? Value() : quotient(rest, size);
    if (isInner)
      piece.lanes.position = mulI64(wide(at), shape_.width);
    else
      coordinates_[number] = wide(at);
  }
}

void GpuEmitter::collectLoads(Node node, std::set<int> &found) const {
  if (!layout_.varies(node) || !found.insert(node.id).second)
    return;
  for (Node input : graph_.inputsOf(node))
    collectLoads(input, found);
}

// Emits the loads of the nodes, for all pieces, before anything is computed: the memory works on all of them at once.
void GpuEmitter::loadFirst(const std::vector<Node> &nodes, std::vector<Piece> &pieces) {
  std::set<int> found;
  for (Node node : nodes)
    collectLoads(node, found);
  for (Piece &piece : pieces) {
    enter(piece);
    for (int id : found)
      if (graph_[Node{id}].kind == RowGraph::NodeKind::load) {
        prepare({id});
        varying({id}, piece.lanes);
      }
  }
}

// The value that the effect writes; an accumulating effect adds the operand's old value.
Value GpuEmitter::written(size_t number, Lanes &lanes) {
  const RowGraph::Effect &effect = graph_.effects()[number];
  Value value = vectorOf(effect.node, lanes);
  if (graph_[effect.operand].access != Access::accumulate)
    return value;
  Value base = pointer(effect.operand, effect.at, storePlaces_.lookup(number).offset, lanes.position);
  return combine(RowReduction::sum, loadVector(base, effect.operand, effect.at, lanes), value);
}

// All values of all pieces first: a store may be in place, and a load cannot pass it.
void GpuEmitter::storePieces(std::vector<Piece> &pieces, const std::vector<size_t> &effects) {
  if (effects.empty())
    return;
  auto begin = [&](Piece &piece) {
    enter(piece);
    for (size_t effect : effects)
      prepareStore(effect);
  };
  std::vector<Values> values;
  for (Piece &piece : pieces) {
    begin(piece);
    Values &own = values.emplace_back();
    for (size_t effect : effects)
      own.push_back(written(effect, piece.lanes));
  }
  for (size_t number = 0; number < pieces.size(); ++number) {
    Piece &piece = pieces[number];
    begin(piece);
    whereTrue(both(rowIsInside_, piece.isInside), [&] {
      for (size_t effect = 0; effect < effects.size(); ++effect)
        storeVectorAt(graph_.effects()[effects[effect]], storePlaces_.lookup(effects[effect]), values[number][effect],
                      piece.lanes, /*accumulates=*/false);
    });
  }
}

// --- Threads together --------------------------------------------------------------------------------------

// One max.f32, which as on the CPU passes over a NaN.
Value GpuEmitter::combine(RowReduction reduction, Value a, Value b) {
  if (reduction == RowReduction::max && isa<FloatType>(getElementTypeOrSelf(a.getType())))
    return arith::MaxNumFOp::create(b_, loc_, a, b);
  return KernelEmitter::combine(reduction, a, b);
}

// The value of the lane whose number differs in this bit. A shuffle moves 32 bits.
Value GpuEmitter::shuffled(Value value, int64_t distance) {
  auto move = [&](Value word) {
    return gpu::ShuffleOp::create(b_, loc_, word, int32_t(distance), int32_t(kWarp), gpu::ShuffleMode::XOR)
        .getShuffleResult();
  };
  const Type wide = b_.getI64Type(), word = b_.getI32Type();
  if (value.getType() != wide)
    return move(value);
  Value low = move(arith::TruncIOp::create(b_, loc_, word, value));
  Value high = move(arith::TruncIOp::create(b_, loc_, word, arith::ShRUIOp::create(b_, loc_, value, i64(32))));
  high = arith::ShLIOp::create(b_, loc_, arith::ExtUIOp::create(b_, loc_, wide, high), i64(32));
  return arith::OrIOp::create(b_, loc_, high, arith::ExtUIOp::create(b_, loc_, wide, low));
}

// Lanes whose numbers differ in bits from..to exchange halves: all have the result, the same to the bit.
Value GpuEmitter::acrossLanes(RowReduction reduction, Value value, int64_t from, int64_t to) {
  for (int64_t distance = to / 2; distance >= from; distance /= 2)
    value = combine(reduction, value, shuffled(value, distance));
  return value;
}

// Address of a float of the block's memory, `element` of the `size` that stand from `first` on.
Value GpuEmitter::shared(int64_t first, int64_t size, Value element) {
  sharedFloats_ = std::max(sharedFloats_, first + size);
  auto type = LLVM::LLVMPointerType::get(b_.getContext(), /*addressSpace=*/3);
  Value base = LLVM::AddressOfOp::create(b_, loc_, type, sharedName_);
  return LLVM::GEPOp::create(b_, loc_, type, b_.getF32Type(), base, ValueRange{addI64(wide(element), i64(first))});
}

void GpuEmitter::waitForBlock() { gpu::BarrierOp::create(b_, loc_); }

} // namespace mgc::rowgen
