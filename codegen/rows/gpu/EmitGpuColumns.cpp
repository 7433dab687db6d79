// Form columns of GpuEmitter. A launch is all there is, and no two blocks write to one place, so that every sum has one
// order.
//
//   sums     a block has some neighbouring columns, its threads different rows of them:
//              each thread: for its rows, in order: sum[vector] += node; what is stored element by element on the way
//              over the lanes of a warp that have the same columns, then over the warps in order, through the block's
//              memory
//   tables   a warp has 512 bytes of the columns and a class of indices: it looks at 32 rows at once, and does those that
//            are of its class one after another
#include "codegen/rows/gpu/EmitGpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mgc::rowgen {

using namespace mlir;
using EffectKind = RowGraph::EffectKind;

void GpuEmitter::emitColumns() {
  for (const GpuPart &part : shape_.parts) {
    Value isOurs; // block numbers are unsigned: those of earlier parts wrap
    if (shape_.parts.size() > 1)
      isOurs = isBelow(arith::SubIOp::create(b_, loc_, block_, position(part.firstBlock)), part.blocks);
    whereTrue(isOurs, [&] {
      if (part.index)
        emitTables(part);
      else
        emitSums(part);
    });
  }
}

// The thread's vector of columns.
GpuEmitter::Piece GpuEmitter::columnAt(Value vector, bool mayBeOutside) {
  Piece piece{Value(), vector, Value()};
  if (mayBeOutside) {
    piece.isInside = isBelow(vector, shape_.vectors);
    piece.vector = bounded(vector, shape_.vectors);
  }
  return piece;
}

GpuEmitter::Values GpuEmitter::zerosFor(const GpuPart &part) {
  Values zeros;
  for (size_t effect : part.effects)
    if (const RowGraph::Effect &sum = graph_.effects()[effect]; sum.kind == EffectKind::sumOverRows)
      zeros.push_back(identityOf(RowReduction::sum, vectorType(graph_[sum.node].element, shape_.width)));
  return zeros;
}

// --- Sums --------------------------------------------------------------------------------------------------

void GpuEmitter::emitSums(const GpuPart &part) {
  Value block = arith::SubIOp::create(b_, loc_, block_, position(part.firstBlock));
  Value vector = plus(times(block, shape_.lanes), remainder(thread_, shape_.lanes));
  Piece column = columnAt(vector, shape_.vectors % shape_.lanes != 0);
  const int64_t step = shape_.rowsAtOnce() * shape_.unroll;
  Values sums = loop(i64(0), i64(layout_.rows()), step, zerosFor(part), [&](Value first, ValueRange carried) {
    return addRows(part, plus(fit(first), quotient(thread_, shape_.lanes)), column, carried);
  });
  combineRows(part, block, sums);
}

// `unroll` rows of the thread's columns, each rowsAtOnce after the one before. Rows beyond the end are the last row.
std::vector<GpuEmitter::Piece> GpuEmitter::piecesOfRows(Value firstRow, const Piece &column) {
  const bool mayEnd = layout_.rows() % (shape_.rowsAtOnce() * shape_.unroll) != 0;
  std::vector<Piece> pieces;
  for (int64_t number = 0; number < shape_.unroll; ++number) {
    Value row = plus(firstRow, position(number * shape_.rowsAtOnce()));
    Value isInside = mayEnd ? both(column.isInside, isBelow(row, layout_.rows())) : column.isInside;
    pieces.push_back({mayEnd ? bounded(row, layout_.rows()) : row, column.vector, isInside});
  }
  return pieces;
}

GpuEmitter::Values GpuEmitter::addRows(const GpuPart &part, Value firstRow, const Piece &column, ValueRange carried) {
  std::vector<Node> nodes;
  std::vector<size_t> stores;
  for (size_t effect : part.effects) {
    nodes.push_back(graph_.effects()[effect].node);
    if (graph_.effects()[effect].kind == EffectKind::store)
      stores.push_back(effect);
  }
  std::vector<Piece> pieces = piecesOfRows(firstRow, column);
  loadFirst(nodes, pieces);
  Values sums(carried);
  for (Piece &piece : pieces) {
    enter(piece);
    addPiece(part, piece, sums);
  }
  storePieces(pieces, stores);
  return sums;
}

void GpuEmitter::addPiece(const GpuPart &part, Piece &piece, Values &sums) {
  size_t next = 0;
  for (size_t effect : part.effects) {
    Node node = graph_.effects()[effect].node;
    prepare(node);
    Value value = vectorOf(node, piece.lanes);
    if (graph_.effects()[effect].kind != EffectKind::sumOverRows)
      continue;
    if (piece.isInside)
      value = arith::SelectOp::create(b_, loc_, piece.isInside, value, identityOf(RowReduction::sum, value.getType()));
    sums[next] = combine(RowReduction::sum, sums[next], value);
    ++next;
  }
}

// Address in one sum's part of the block's shared memory: [warps][columns of the block].
Value GpuEmitter::sharedSum(size_t sum, Value number) {
  const int64_t size = shape_.threads / kWarp * shape_.lanes * shape_.width;
  return shared(int64_t(sum) * size, size, number);
}

// Each warp lays its sums down, then thread t adds up those of the block's column t.
void GpuEmitter::combineRows(const GpuPart &part, Value block, ValueRange sums) {
  const int64_t columns = shape_.lanes * shape_.width;
  Value lane = remainder(thread_, kWarp);
  Values ofWarp;
  for (Value sum : sums) {
    Values elements;
    for (int64_t element = 0; element < shape_.width; ++element) {
      Value own = vector::ExtractOp::create(b_, loc_, sum, ArrayRef<int64_t>{element});
      elements.push_back(acrossLanes(RowReduction::sum, own, shape_.lanes, kWarp));
    }
    ofWarp.push_back(vector::FromElementsOp::create(b_, loc_, sum.getType(), elements));
  }
  onlyIf(isBelow(lane, shape_.lanes), [&] {
    Value first = plus(times(quotient(thread_, kWarp), columns), times(lane, shape_.width));
    for (size_t sum = 0; sum < ofWarp.size(); ++sum)
      LLVM::StoreOp::create(b_, loc_, ofWarp[sum], sharedSum(sum, first),
                            unsigned(std::min<int64_t>(4 * shape_.width, 16)));
  });
  waitForBlock();
  onlyIf(isBelow(thread_, columns), [&] { writeColumn(part, block); });
}

void GpuEmitter::writeColumn(const GpuPart &part, Value block) {
  Piece piece =
      columnAt(plus(times(block, shape_.lanes), quotient(thread_, shape_.width)), shape_.vectors % shape_.lanes != 0);
  piece.row = position(0); // The results have no row dim: any row gives their places.
  enter(piece);
  Lanes single{1, 1, addI64(piece.lanes.position, wide(remainder(thread_, shape_.width)))};
  size_t number = 0;
  for (size_t effect : part.effects) {
    if (graph_.effects()[effect].kind != EffectKind::sumOverRows)
      continue;
    Type type = elementType(graph_[graph_.effects()[effect].node].element);
    Value total;
    for (int64_t warp = 0; warp < shape_.threads / kWarp; ++warp) {
      Value place = sharedSum(number, plus(thread_, position(warp * shape_.lanes * shape_.width)));
      Value next = LLVM::LoadOp::create(b_, loc_, type, place, 4);
      total = total ? combine(RowReduction::sum, total, next) : next;
    }
    ++number;
    writeSum(effect, splat(total, 1), single, piece.isInside);
  }
}

void GpuEmitter::writeSum(size_t number, Value sum, const Lanes &lanes, Value condition) {
  const RowGraph::Effect &effect = graph_.effects()[number];
  whereTrue(condition, [&] {
    storeVectorAt(effect, rowPlace(effect.operand, effect.at), sum, lanes,
                  graph_[effect.operand].access == Access::accumulate);
  });
}

// --- Tables ------------------------------------------------------------------------------------------------

void GpuEmitter::emitTables(const GpuPart &part) {
  const int64_t warps = shape_.threads / kWarp;
  Value lane = remainder(thread_, kWarp);
  Value block = arith::SubIOp::create(b_, loc_, block_, position(part.firstBlock));
  Value warp = plus(times(block, warps), quotient(thread_, kWarp));
  Value ownClass = remainder(warp, part.classes);
  Piece column = columnAt(plus(times(quotient(warp, part.classes), kWarp), lane), /*mayBeOutside=*/true);
  Values sums = loop(i64(0), i64(layout_.rows()), kWarp, zerosFor(part), [&](Value first, ValueRange carried) {
    Value own = plus(fit(first), lane), isOurs = isBelow(own, layout_.rows());
    if (part.classes > 1) {
      setRow(wide(bounded(own, layout_.rows())));
      isOurs = both(isOurs, isOfClass(uniform(*part.index), part.classes, ownClass));
    }
    return visitRows(part, fit(first), isOurs, column, carried);
  });
  column.row = position(0);
  enter(column);
  size_t next = 0;
  for (size_t effect : part.effects)
    if (graph_.effects()[effect].kind == EffectKind::sumOverRows)
      writeSum(effect, sums[next++], column.lanes, column.isInside);
}

Value GpuEmitter::isOfClass(Value index, int64_t classes, Value ownClass) {
  Value rest = arith::AndIOp::create(b_, loc_, index, constantOf(index.getType(), double(classes - 1)));
  Value own = arith::TruncIOp::create(b_, loc_, rest.getType(), wide(ownClass));
  return arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::eq, rest, own);
}

// Visits, in order, each of the 32 rows from `first` on whose lane has `isOurs` set.
GpuEmitter::Values GpuEmitter::visitRows(const GpuPart &part, Value first, Value isOurs, const Piece &column,
                                         ValueRange carried) {
  Type word = b_.getI32Type();
  auto number = [&](int64_t value) { return constantOf(word, double(value)); };
  Value rows = LLVM::CallIntrinsicOp::create(b_, loc_, word, b_.getStringAttr("llvm.nvvm.vote.ballot.sync"),
                                             ValueRange{number(-1), isOurs})
                   .getResult(0);
  Values state = {rows};
  llvm::append_range(state, carried);
  auto isLeft = [&](OpBuilder &, Location, ValueRange left) {
    Value any = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::ne, left[0], number(0));
    scf::ConditionOp::create(b_, loc_, any, left);
  };
  auto doNext = [&](OpBuilder &, Location, ValueRange left) {
    Value bit = LLVM::CountTrailingZerosOp::create(b_, loc_, word, left[0], /*is_zero_poison=*/true);
    Value next = arith::AddIOp::create(b_, loc_, left[0], number(-1));
    Values after = {arith::AndIOp::create(b_, loc_, left[0], next)};
    Value row = plus(first, thread_.getType() == word ? bit : wide(bit));
    llvm::append_range(after, visitRow(part, row, column, left.drop_front()));
    scf::YieldOp::create(b_, loc_, after);
  };
  OpBuilder::InsertionGuard guard(b_);
  auto whileOp = scf::WhileOp::create(b_, loc_, ValueRange(state).getTypes(), state);
  b_.createBlock(&whileOp.getBefore(), {}, ValueRange(state).getTypes(), SmallVector<Location>(state.size(), loc_));
  isLeft(b_, loc_, whileOp.getBefore().front().getArguments());
  b_.createBlock(&whileOp.getAfter(), {}, ValueRange(state).getTypes(), SmallVector<Location>(state.size(), loc_));
  doNext(b_, loc_, whileOp.getAfter().front().getArguments());
  return Values(whileOp.getResults().drop_front());
}

GpuEmitter::Values GpuEmitter::visitRow(const GpuPart &part, Value row, const Piece &column, ValueRange carried) {
  Piece piece{row, column.vector, column.isInside};
  enter(piece);
  Values values, sums(carried);
  std::vector<Place> places;
  for (size_t effect : part.effects) { // all values first: a store may be in place
    const RowGraph::Effect &info = graph_.effects()[effect];
    prepare(info.node);
    values.push_back(vectorOf(info.node, piece.lanes));
    places.push_back(rowPlace(info.operand, info.at));
  }
  size_t next = 0;
  for (size_t number = 0; number < part.effects.size(); ++number) {
    const RowGraph::Effect &effect = graph_.effects()[part.effects[number]];
    if (effect.kind == EffectKind::sumOverRows) {
      sums[next] = combine(RowReduction::sum, sums[next], values[number]);
      ++next;
      continue;
    }
    whereTrue(piece.isInside, [&] {
      storeVectorAt(effect, places[number], values[number], piece.lanes,
                    graph_[effect.operand].access == Access::accumulate);
    });
  }
  return sums;
}

} // namespace mgc::rowgen
