// Forms rows and blocks of GpuEmitter.
//
//   rows     per-row values, by each thread of the row
//            pass: each thread its vectors -> partial results -> over the lanes of a warp -> over the warps of the block
//            ..
//            the last pass stores what has columns; the row's first thread stores the per-row values
//   blocks   each thread its vectors
#include "codegen/rows/gpu/EmitGpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "runtime/base/Rounding.h"

namespace mgc::rowgen {

using namespace mlir;
using Kind = RowGraph::NodeKind;

// --- Form blocks -------------------------------------------------------------------------------------------

void GpuEmitter::emitBlocks() {
  std::vector<size_t> stores;
  std::vector<Node> nodes;
  for (size_t effect = 0; effect < graph_.effects().size(); ++effect) {
    stores.push_back(effect);
    nodes.push_back(graph_.effects()[effect].node);
  }
  const int64_t total = layout_.rows() * shape_.vectors, step = shape_.threads;
  Value first = plus(times(block_, step * shape_.unroll), thread_);
  std::vector<Piece> pieces;
  for (int64_t number = 0; number < shape_.unroll; ++number) {
    Value index = number == 0 ? first : plus(first, position(number * step));
    Value isInside;
    if (there_ || total % (step * shape_.unroll)) {
      isInside = isThere(index, total);
      index = boundedThere(index, total);
    }
    bool isFlat = layout_.rows() == 1;
    pieces.push_back({isFlat ? position(0) : quotient(index, shape_.vectors),
                      isFlat ? index : remainder(index, shape_.vectors), isInside});
  }
  if (!layout_.hasColumns())
    return storeRows(pieces);
  loadFirst(nodes, pieces);
  storePieces(pieces, stores);
}

// A row is one element.
void GpuEmitter::storeRows(std::vector<Piece> &pieces) {
  for (Piece &piece : pieces) {
    enter(piece);
    storeUniforms(piece.isInside);
  }
}

// Effects without columns. All values first: a store may be in place.
void GpuEmitter::storeUniforms(Value condition) {
  std::vector<size_t> effects;
  for (size_t effect = 0; effect < graph_.effects().size(); ++effect)
    if (!layout_.storesColumns(graph_.effects()[effect])) {
      uniform(graph_.effects()[effect].node);
      effects.push_back(effect);
    }
  if (effects.empty())
    return;
  waitForReaders();
  whereTrue(condition, [&] {
    for (size_t effect : effects)
      storeUniform(effect);
  });
}

// --- Form rows ---------------------------------------------------------------------------------------------

void GpuEmitter::emitRows() {
  Value row = block_;
  lane_ = thread_;
  if (shape_.rowsAtOnce() > 1) {
    row = plus(times(block_, shape_.rowsAtOnce()), quotient(thread_, shape_.lanes));
    lane_ = remainder(thread_, shape_.lanes);
  }
  if ((there_ && shape_.rowsAtOnce() > 1) || layout_.rows() % shape_.rowsAtOnce()) {
    rowIsInside_ = isThere(row, layout_.rows());
    row = boundedThere(row, layout_.rows());
  }
  setRow(wide(row));
  loadUniforms();
  if (layout_.hasColumns() && shape_.keeps)
    kept_ = piecesOfRow(position(0), shape_.vectors);
  for (int pass = 0; pass < layout_.passes(); ++pass)
    emitPass(pass);
  storeUniforms(both(rowIsInside_, shape_.lanes > 1 ? isBelow(lane_, 1) : Value()));
}

// A row's per-row values, and elements at a place that is the same for all columns, are read by all of its threads: none
// may overwrite them before.
void GpuEmitter::waitForReaders() {
  auto isShared = [&](int id) {
    const RowGraph::NodeInfo &node = graph_[Node{id}];
    return layout_.isUsed({id}) && node.kind == Kind::load && !layout_.varies({id}) &&
           (layout_.rows() == 1 || !node.at.empty() || layout_.changesWithRow(node.operand, node.at));
  };
  bool anyShared = false;
  for (int id = 0; id < int(graph_.nodes().size()); ++id)
    anyShared |= isShared(id);
  if (waited_ || !anyShared || layout_.form() != LoopLayout::Form::rows || shape_.lanes == 1)
    return;
  waited_ = true;
  if (shape_.lanes > kWarp)
    waitForBlock();
  else
    NVVM::SyncWarpOp::create(b_, loc_, arith::ConstantOp::create(b_, loc_, b_.getI32IntegerAttr(-1)));
}

// The thread's next `unroll` vectors from `first` on, of which the row has `left` more. Beyond its end is at most the
// last of them.
std::vector<GpuEmitter::Piece> GpuEmitter::piecesOfRow(Value first, int64_t left) {
  std::vector<Piece> pieces;
  for (int64_t number = 0; number < shape_.unroll && number * shape_.lanes < left; ++number) {
    Value vector = plus(plus(first, lane_), position(number * shape_.lanes));
    Value isInside;
    if ((number + 1) * shape_.lanes > left) {
      isInside = isBelow(vector, shape_.vectors);
      vector = bounded(vector, shape_.vectors);
    }
    pieces.push_back({Value(), vector, isInside});
  }
  return pieces;
}

// Whole steps in a loop, where no vector is beyond the end; then what is left.
GpuEmitter::Values GpuEmitter::visitVectors(const std::vector<Node> &reductions, Values totals,
                                            const std::vector<size_t> &stores) {
  const int64_t step = shape_.lanes * shape_.unroll, whole = shape_.vectors / step * step;
  auto visitFrom = [&](Value first, int64_t left, ValueRange sums) {
    std::vector<Piece> pieces = piecesOfRow(first, left);
    return visit(pieces, reductions, sums, stores);
  };
  if (whole > step)
    totals = loop(i64(0), i64(whole), step, totals,
                  [&](Value first, ValueRange sums) { return visitFrom(fit(first), step, sums); });
  else if (whole)
    totals = visitFrom(position(0), step, totals);
  if (whole < shape_.vectors)
    totals = visitFrom(position(whole), shape_.vectors - whole, totals);
  return totals;
}

void GpuEmitter::emitPass(int pass) {
  const std::vector<Node> reductions = layout_.reductionsOf(pass);
  std::vector<size_t> stores;
  for (size_t effect = 0; pass + 1 == layout_.passes() && effect < graph_.effects().size(); ++effect)
    if (layout_.storesColumns(graph_.effects()[effect]))
      stores.push_back(effect);
  for (Node node : layout_.wantedBy(pass))
    prepare(node);
  if (!layout_.hasColumns()) { // All column dims have size 1: a sum is its only summand.
    for (Node reduction : reductions)
      uniforms_[reduction.id] = uniform(graph_[reduction].arguments[0]);
    return;
  }
  Values totals;
  for (Node reduction : reductions)
    totals.push_back(identityOf(graph_[reduction].reduction, vectorType(graph_[reduction].element, shape_.width)));
  if (!stores.empty())
    waitForReaders();
  totals = shape_.keeps ? visit(kept_, reductions, totals, stores) : visitVectors(reductions, totals, stores);
  finishReductions(reductions, totals);
}

GpuEmitter::Values GpuEmitter::visit(std::vector<Piece> &pieces, const std::vector<Node> &reductions, ValueRange totals,
                                     const std::vector<size_t> &stores) {
  std::vector<Node> nodes;
  for (Node reduction : reductions)
    nodes.push_back(graph_[reduction].arguments[0]);
  for (size_t effect : stores)
    nodes.push_back(graph_.effects()[effect].node);
  loadFirst(nodes, pieces);
  Values sums(totals);
  for (Piece &piece : pieces) {
    enter(piece);
    for (size_t number = 0; number < reductions.size(); ++number) {
      const RowGraph::NodeInfo &info = graph_[reductions[number]];
      Value value = vectorOf(info.arguments[0], piece.lanes);
      if (piece.isInside)
        value = arith::SelectOp::create(b_, loc_, piece.isInside, value, identityOf(info.reduction, value.getType()));
      sums[number] = combine(info.reduction, sums[number], value);
    }
  }
  storePieces(pieces, stores);
  return sums;
}

// Over the elements of a vector, the lanes of a warp, the warps of the block: each in one order.
void GpuEmitter::finishReductions(const std::vector<Node> &reductions, ValueRange totals) {
  Values results;
  for (size_t number = 0; number < reductions.size(); ++number) {
    const RowReduction kind = graph_[reductions[number]].reduction;
    results.push_back(acrossLanes(kind, combineLanes(kind, totals[number]), 1, std::min(shape_.lanes, kWarp)));
  }
  if (shape_.lanes > kWarp && !reductions.empty())
    acrossWarps(reductions, results);
  for (size_t number = 0; number < reductions.size(); ++number)
    uniforms_[reductions[number].id] = results[number];
}

// Each reduction has its own part of the block's memory, one element a warp: no warp waits until all have read.
void GpuEmitter::acrossWarps(const std::vector<Node> &reductions, Values &results) {
  const int64_t warps = shape_.lanes / kWarp;
  auto bytesAt = [&](size_t number) { return bytesOf(graph_[reductions[number]].element); };
  std::vector<int64_t> first;
  for (size_t number = 0; number < reductions.size(); ++number) {
    first.push_back(roundUp(reducedFloats_, bytesAt(number) / 4));
    reducedFloats_ = first.back() + warps * bytesAt(number) / 4;
  }
  auto partialOf = [&](size_t number, Value warp) {
    const int64_t floats = bytesAt(number) / 4;
    return shared(first[number], warps * floats, times(warp, floats));
  };
  onlyIf(isBelow(remainder(thread_, kWarp), 1), [&] {
    for (size_t number = 0; number < reductions.size(); ++number)
      LLVM::StoreOp::create(b_, loc_, results[number], partialOf(number, quotient(thread_, kWarp)),
                            unsigned(bytesAt(number)));
  });
  waitForBlock();
  for (size_t number = 0; number < reductions.size(); ++number) {
    Value partial = LLVM::LoadOp::create(b_, loc_, results[number].getType(),
                                         partialOf(number, remainder(thread_, warps)), unsigned(bytesAt(number)));
    results[number] = acrossLanes(graph_[reductions[number]].reduction, partial, 1, warps);
  }
}

} // namespace mgc::rowgen
