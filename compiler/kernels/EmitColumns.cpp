// Form columns of KernelEmitter: sums over rows (gradients of biases, norm weights, embedding tables).
//
//   for block of columns in [begin, end):       64 columns, or 32 when there are several sums
//     for row in all rows, in order:            chunks of 128 rows have partial sums of their own
//       sum[vector] += node[row, vector]        vectors of the block are independent accumulators
//       table[index[row], vector] += node[row, vector]
//     store the sums
#include "compiler/kernels/Emit.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mgc::rowgen {

using namespace mlir;
using EffectKind = RowGraph::EffectKind;

static constexpr int64_t kWidth = 16;
static constexpr int64_t kRowChunk = 128; // rows that one set of accumulators sums

void KernelEmitter::emitColumns() {
  int64_t size = layout_.innerSize(), block = layout_.blockSize(), blocks = layout_.blocksPerRow();
  loop(begin_, end_, 1, {}, [&](Value number, ValueRange) {
    Value inner = arith::RemUIOp::create(b_, loc_, number, i64(blocks));
    Value outer = arith::DivUIOp::create(b_, loc_, number, i64(blocks));
    for (size_t loop = layout_.loops().size() - 1; loop-- > layout_.firstColumn();) {
      coordinates_[loop] = arith::RemUIOp::create(b_, loc_, outer, i64(layout_.loops()[loop].size));
      outer = arith::DivUIOp::create(b_, loc_, outer, i64(layout_.loops()[loop].size));
    }
    Value start = mulI64(inner, block);
    Value isFull = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::sle, start, i64(size - block));
    onlyIf(isFull, [&] { emitColumnBlock(start, block); });
    if (int64_t rest = size % block) {
      Value isLast = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::sgt, start, i64(size - block));
      onlyIf(isLast, [&] { emitColumnBlock(i64(size - rest), rest); });
    }
    return Values();
  });
}

void KernelEmitter::emitColumnBlock(Value start, int64_t columns) {
  std::vector<Lanes> vectors;
  for (int64_t offset = 0; offset < columns; offset += kWidth) {
    int64_t valid = std::min(kWidth, columns - offset);
    vectors.push_back({valid == 1 ? 1 : int64_t(llvm::PowerOf2Ceil(valid)), valid, addI64(start, i64(offset))});
  }
  Values zeros;
  for (const RowGraph::Effect &effect : graph_.effects())
    if (effect.kind == EffectKind::sumOverRows)
      for (const Lanes &lanes : vectors)
        zeros.push_back(identityOf(Reduction::sum, vectorType(graph_[effect.node].element, lanes.width)));
  auto join = [&](size_t, Value total, Value partial) { return combine(Reduction::sum, total, partial); };
  Values sums = chunkedLoop(layout_.rows(), 1, kRowChunk, zeros, zeros, join,
                            [&](Value row, ValueRange carried) { return visitRow(row, vectors, carried); });
  size_t next = 0;
  setRow(i64(0)); // The result has no row dim: any row gives its place.
  for (size_t effect = 0; effect < graph_.effects().size(); ++effect) {
    const RowGraph::Effect &info = graph_.effects()[effect];
    if (info.kind != EffectKind::sumOverRows)
      continue;
    storePlaces_[effect] = rowPlace(info.operand, info.at);
    for (const Lanes &lanes : vectors)
      storeVector(effect, sums[next++], lanes);
  }
}

KernelEmitter::Values KernelEmitter::visitRow(Value row, std::vector<Lanes> vectors, ValueRange carried) {
  setRow(row);
  Values sums(carried);
  for (size_t effect = 0; effect < graph_.effects().size(); ++effect)
    prepareStore(effect);
  size_t next = 0;
  for (size_t effect = 0; effect < graph_.effects().size(); ++effect) {
    const RowGraph::Effect &info = graph_.effects()[effect];
    for (Lanes &lanes : vectors) {
      Value value = vectorOf(info.node, lanes);
      if (info.kind == EffectKind::addAt)
        storeVector(effect, value, lanes);
      else {
        sums[next] = combine(Reduction::sum, sums[next], value);
        ++next;
      }
    }
  }
  return sums;
}

} // namespace mgc::rowgen
