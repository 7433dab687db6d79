// Form columns of CpuEmitter: sums over rows (gradients of biases, norm weights, embedding tables), and element-wise
// stores.
//
//   zero the results of [begin, end) that do not accumulate
//   for chunk of rows, in order:                  its pages and prefetched lines serve neighbouring blocks
//     for block of columns in [begin, end):
//       for row in the chunk, in order:
//         sum[vector] += node[row, vector]        vectors of the block are independent accumulators
//         table[index[row], vector] += node[row, vector]
//         out[row, vector] = node[row, vector]
//       result[block] += sum
//
// A bf16 result is rounded once: each block then has all rows at one go, and partial sums stay in registers.
#include "codegen/rows/cpu/EmitCpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mgc::rowgen {

using namespace mlir;
using EffectKind = RowGraph::EffectKind;

static constexpr int64_t kRoundedChunk = 64; // rows that one partial sum has, where a result is rounded

void CpuEmitter::emitColumns() {
  auto anySum = [&](auto &&predicate) {
    return llvm::any_of(graph_.effects(), [&](const RowGraph::Effect &effect) {
      return effect.kind == EffectKind::sumOverRows && predicate(graph_[effect.operand]);
    });
  };
  if (anySum([](const RowGraph::OperandInfo &operand) { return operand.element == Element::bf16; }))
    return forEachColumnBlock([&](const std::vector<Lanes> &vectors) { sumAllRows(vectors); });
  bool overwrites = anySum([](const RowGraph::OperandInfo &operand) { return operand.access != Access::accumulate; });
  if (overwrites)
    forEachColumnBlock([&](const std::vector<Lanes> &vectors) { zeroSums(vectors); });
  loop(i64(0), i64(layout_.rows()), layout_.rowChunk(), {}, [&](Value firstRow, ValueRange) {
    Value endRow = arith::MinSIOp::create(b_, loc_, addI64(firstRow, i64(layout_.rowChunk())), i64(layout_.rows()));
    forEachColumnBlock([&](const std::vector<Lanes> &vectors) { addRows(firstRow, endRow, vectors); });
    return Values();
  });
}

// The last block along the inner loop may be shorter: it has code of its own.
void CpuEmitter::forEachColumnBlock(const std::function<void(const std::vector<Lanes> &)> &body) {
  int64_t size = layout_.innerSize(), block = layout_.blockSize(), blocks = layout_.blocksPerRow(), rest = size % block;
  loop(begin_, end_, 1, {}, [&](Value number, ValueRange) {
    Value inner = arith::RemUIOp::create(b_, loc_, number, i64(blocks));
    Value outer = arith::DivUIOp::create(b_, loc_, number, i64(blocks));
    for (size_t loop = layout_.loops().size(); loop-- > layout_.firstColumn();) {
      if (loop + 1 == layout_.loops().size()) // the inner loop: `inner`
        continue;
      coordinates_[loop] = arith::RemUIOp::create(b_, loc_, outer, i64(layout_.loops()[loop].size));
      outer = arith::DivUIOp::create(b_, loc_, outer, i64(layout_.loops()[loop].size));
    }
    Value start = mulI64(inner, block);
    Value isShort = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::sgt, start, i64(size - block));
    Value isFull = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::sle, start, i64(size - block));
    onlyIf(isFull, [&] { body(vectorsOf(start, block)); });
    if (rest)
      onlyIf(isShort, [&] { body(vectorsOf(i64(size - rest), rest)); });
    return Values();
  });
}

std::vector<Lanes> CpuEmitter::vectorsOf(Value start, int64_t columns) {
  std::vector<Lanes> vectors;
  for (int64_t offset = 0; offset < columns; offset += kWidth) {
    int64_t valid = std::min(kWidth, columns - offset);
    vectors.push_back({int64_t(llvm::PowerOf2Ceil(valid)), valid, addI64(start, i64(offset))});
  }
  return vectors;
}

void CpuEmitter::zeroSums(const std::vector<Lanes> &vectors) {
  setRow(i64(0)); // The results have no row dim: any row gives their places.
  for (const RowGraph::Effect &effect : graph_.effects()) {
    const RowGraph::OperandInfo &operand = graph_[effect.operand];
    if (effect.kind != EffectKind::sumOverRows || operand.access == Access::accumulate)
      continue;
    for (const Lanes &lanes : vectors)
      storeVectorAt(effect, rowPlace(effect.operand, effect.at),
                    identityOf(RowReduction::sum, vectorType(valueOf(operand.element), lanes.width)), lanes, false);
  }
}

void CpuEmitter::addRows(Value firstRow, Value endRow, const std::vector<Lanes> &vectors) {
  Values sums = loop(firstRow, endRow, 1, zerosFor(vectors),
                     [&](Value row, ValueRange carried) { return visitRow(row, vectors, carried); });
  writeSums(vectors, sums, [](Access) { return true; });
}

void CpuEmitter::sumAllRows(const std::vector<Lanes> &vectors) {
  Values zeros = zerosFor(vectors);
  auto add = [&](size_t, Value total, Value partial) { return combine(RowReduction::sum, total, partial); };
  Values sums = chunkedLoop(layout_.rows(), 1, kRoundedChunk, zeros, zeros, add,
                            [&](Value row, ValueRange carried) { return visitRow(row, vectors, carried); });
  writeSums(vectors, sums, [](Access access) { return access == Access::accumulate; });
}

CpuEmitter::Values CpuEmitter::zerosFor(const std::vector<Lanes> &vectors) {
  Values zeros;
  for (const RowGraph::Effect &effect : graph_.effects())
    if (effect.kind == EffectKind::sumOverRows)
      for (const Lanes &lanes : vectors)
        zeros.push_back(identityOf(RowReduction::sum, vectorType(graph_[effect.node].element, lanes.width)));
  return zeros;
}

void CpuEmitter::writeSums(const std::vector<Lanes> &vectors, ValueRange sums, bool (*adds)(Access)) {
  size_t next = 0;
  setRow(i64(0));
  for (const RowGraph::Effect &effect : graph_.effects())
    if (effect.kind == EffectKind::sumOverRows)
      for (const Lanes &lanes : vectors)
        storeVectorAt(effect, rowPlace(effect.operand, effect.at), sums[next++], lanes,
                      adds(graph_[effect.operand].access));
}

CpuEmitter::Values CpuEmitter::visitRow(Value row, std::vector<Lanes> vectors, ValueRange carried) {
  setRow(row);
  Values sums(carried);
  for (const RowGraph::Effect &effect : graph_.effects())
    prepare(effect.node);
  std::vector<Place> places;
  for (const RowGraph::Effect &effect : graph_.effects())
    places.push_back(rowPlace(effect.operand, effect.at));
  for (size_t vector = 0; vector < vectors.size(); ++vector) {
    for (const RowGraph::Effect &effect : graph_.effects()) // all values first: a store may be in place
      vectorOf(effect.node, vectors[vector]);
    size_t sum = vector; // the sums of an effect stand together
    for (size_t number = 0; number < places.size(); ++number) {
      const RowGraph::Effect &effect = graph_.effects()[number];
      bool adds = graph_[effect.operand].access == Access::accumulate;
      Value value = vectorOf(effect.node, vectors[vector]);
      if (effect.kind != EffectKind::sumOverRows) {
        storeVectorAt(effect, places[number], value, vectors[vector], adds);
        continue;
      }
      sums[sum] = combine(RowReduction::sum, sums[sum], value);
      sum += vectors.size();
    }
  }
  return sums;
}

} // namespace mgc::rowgen
