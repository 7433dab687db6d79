// Forms rows and blocks of CpuEmitter: the passes over the columns.
//
//   for row in [begin, end):
//     per-row values                                          pass 0
//     for columns: accumulate the reductions of level 1
//     per-row values that use them                            pass 1
//     for columns: accumulate the reductions of level 2
//     ...
//     the last pass also stores what has columns; per-row values are stored at the very end
// Every pass loads or computes anew what it needs of the columns, but for one expensive value that an output can hold
// until the last pass writes it (exp of a softmax): a row stays in the first-level cache. While one pass works on it,
// the next row is fetched, for the hardware sees a stream only in the first pass and no stream in rows of a table;
// longer rows than these two would fill the cache.
#include "codegen/rows/cpu/EmitCpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <algorithm>

namespace mgc::rowgen {

using namespace mlir;
using Kind = RowGraph::NodeKind;

static constexpr int kUnroll = 2;              // independent accumulators per reduction
static constexpr int64_t kColumnChunk = 4096;  // columns that one set of accumulators sums
static constexpr double kCostlyFlops = 10;     // more than a store and a load cost
static constexpr int64_t kFetchedBytes = 8192; // longest row that is prefetched, for each operand
static constexpr size_t kMostFetched = 2;      // operands; more keep the memory busy as it is

// --- Form rows ---------------------------------------------------------------------------------------------

void CpuEmitter::emitRows() {
  const int passes = layout_.passes();
  chooseKept(passes);
  loop(begin_, end_, 1, {}, [&](Value row, ValueRange) {
    findNextPlaces(row);
    setRow(row);
    keeping_ = Keeping::notYet;
    loadUniforms();
    for (int pass = 0; pass < passes; ++pass) {
      fetchesNextRow_ = pass == std::min(1, passes - 1); // the first pass has its own row to wait for
      if (kept_ && pass >= kept_->pass)
        keeping_ = pass == kept_->pass ? Keeping::now : Keeping::done;
      emitPass(pass, passes);
    }
    for (size_t effect = 0; effect < graph_.effects().size(); ++effect)
      if (!layout_.storesColumns(graph_.effects()[effect]))
        storeUniform(effect);
    return Values();
  });
}

// --- Values kept from pass to pass

// The node and what it is computed from, as far as it varies; not what `stop` is computed from.
void CpuEmitter::collectVarying(Node node, Node stop, std::set<int> &found) const {
  if (!layout_.varies(node) || !found.insert(node.id).second || node.id == stop.id)
    return;
  for (Node input : graph_.inputsOf(node))
    collectVarying(input, stop, found);
}

// An operand with rows may share the effect's memory, and is lost when the value is stored: no later pass may load it.
// In a kernel of a single row no operand shows whether it has rows: each may be lost. A later pass must need the value:
// otherwise there is nothing to gain.
bool CpuEmitter::mayKeep(const Kept &kept, int passes) const {
  auto isLost = [&](const RowGraph::NodeInfo &info) {
    return info.kind == Kind::load && (layout_.rows() == 1 || layout_.changesWithRow(info.operand, info.at));
  };
  std::set<int> later;
  for (int pass = kept.pass + 1; pass < passes; ++pass)
    for (Node node : layout_.wantedBy(pass))
      collectVarying(node, kept.node, later);
  for (int id = 0; id < int(graph_.nodes().size()); ++id) {
    bool isLate = layout_.varies({id}) ? later.contains(id) : layout_.isUsed({id}) && layout_.level({id}) > 0;
    if (isLate && isLost(graph_[Node{id}]))
      return false;
  }
  return later.contains(kept.node.id);
}

void CpuEmitter::chooseKept(int passes) {
  std::set<int> needed;
  for (int pass = 0; pass + 1 < passes && !kept_; ++pass) {
    for (Node node : layout_.wantedBy(pass))
      collectVarying(node, {}, needed);
    for (int id : needed)
      for (size_t number = 0; number < graph_.effects().size() && !kept_; ++number) {
        const RowGraph::NodeInfo &node = graph_[Node{id}];
        const RowGraph::Effect &effect = graph_.effects()[number];
        const RowGraph::OperandInfo &operand = graph_[effect.operand];
        bool canHold = layout_.storesColumns(effect) && operand.access == Access::out &&
                       operand.element == node.element && effect.at.empty();
        if (canHold && node.kind == Kind::map && node.flops >= kCostlyFlops && mayKeep({{id}, number, pass}, passes))
          kept_ = {{id}, number, pass};
      }
  }
}

void CpuEmitter::keep(Lanes &lanes) { storeVector(kept_->effect, vectorOf(kept_->node, lanes), lanes); }

Value CpuEmitter::keptValue(Node node, const Lanes &lanes) {
  if (!kept_ || kept_->node.id != node.id || keeping_ != Keeping::done)
    return {};
  const RowGraph::Effect &effect = graph_.effects()[kept_->effect];
  Value base = pointer(effect.operand, effect.at, storePlaces_.lookup(kept_->effect).offset, lanes.position);
  return loadVector(base, effect.operand, effect.at, lanes);
}

// --- The next row

void CpuEmitter::findNextPlaces(Value row) {
  int64_t columns = 1;
  for (size_t loop = layout_.firstColumn(); loop < layout_.loops().size(); ++loop)
    columns *= layout_.loops()[loop].size;
  if (columns * 4 > kFetchedBytes || layout_.firstColumn() == 0)
    return;
  setRow(arith::MinSIOp::create(b_, loc_, addI64(row, i64(1)), addI64(end_, i64(-1))));
  for (int id = 0; id < int(graph_.nodes().size()); ++id) {
    const RowGraph::NodeInfo &node = graph_[Node{id}];
    bool isLoad = node.kind == Kind::load && layout_.isUsed({id}) && layout_.varies({id});
    if (isLoad && layout_.changesWithRow(node.operand, node.at))
      nextPlaces_.push_back({{id}, rowPlace(node.operand, node.at)});
  }
  if (nextPlaces_.size() > kMostFetched)
    nextPlaces_.clear();
}

void CpuEmitter::fetchNextRow(const Lanes &lanes) {
  constexpr int kRead = 0, kAllLevels = 3, kData = 1;
  for (const auto &[node, place] : nextPlaces_) {
    Value address = pointer(graph_[node].operand, graph_[node].at, place.offset, lanes.position);
    LLVM::Prefetch::create(b_, loc_, address, kRead, kAllLevels, kData);
  }
}

void CpuEmitter::emitPass(int pass, int passes) {
  const std::vector<Node> reductions = layout_.reductionsOf(pass);
  std::vector<size_t> stores;
  for (size_t effect = 0; pass + 1 == passes && effect < graph_.effects().size(); ++effect)
    if (layout_.storesColumns(graph_.effects()[effect]))
      stores.push_back(effect);
  for (Node reduction : reductions)
    prepare(graph_[reduction].arguments[0]);
  for (size_t effect : stores)
    prepareStore(effect);
  if (keeping_ == Keeping::now) {
    const RowGraph::Effect &holder = graph_.effects()[kept_->effect];
    storePlaces_[kept_->effect] = rowPlace(holder.operand, holder.at);
  }
  if (!layout_.hasColumns()) { // All column dims have size 1: a sum is its only summand.
    for (Node reduction : reductions)
      uniforms_[reduction.id] = uniform(graph_[reduction].arguments[0]);
    return;
  }
  std::vector<Accumulator> accumulators = accumulatorsOf(reductions);
  Values initial;
  for (const Accumulator &accumulator : accumulators) {
    const RowGraph::NodeInfo &info = graph_[accumulator.reduction];
    initial.push_back(identityOf(info.reduction, vectorType(info.element, accumulator.width)));
  }
  Values totals = columnNest(layout_.firstColumn(), accumulators, initial, stores);
  finishReductions(reductions, accumulators, totals);
}

// Width of the vector that covers the last `count` < kWidth columns.
static int64_t tailWidth(int64_t count) {
  int64_t width = 1;
  while (width < count)
    width *= 2;
  return width;
}

std::vector<CpuEmitter::Accumulator> CpuEmitter::accumulatorsOf(const std::vector<Node> &reductions) {
  std::vector<Accumulator> accumulators;
  int64_t size = layout_.innerSize();
  for (Node reduction : reductions) {
    for (int lane = 0; lane < kUnroll && (lane + 1) * kWidth <= size; ++lane)
      accumulators.push_back({reduction, kWidth, lane});
    if (size % kWidth)
      accumulators.push_back({reduction, tailWidth(size % kWidth), -1});
  }
  return accumulators;
}

CpuEmitter::Values CpuEmitter::columnNest(size_t number, const std::vector<Accumulator> &accumulators, Values carried,
                                          const std::vector<size_t> &stores) {
  if (number + 1 == layout_.loops().size())
    return innerColumns(accumulators, carried, stores);
  return loop(i64(0), i64(layout_.loops()[number].size), 1, carried, [&](Value position, ValueRange inner) {
    coordinates_[number] = position;
    return columnNest(number + 1, accumulators, Values(inner), stores);
  });
}

// The inner column loop: pairs of full vectors, at most one more full vector, the tail.
CpuEmitter::Values CpuEmitter::innerColumns(const std::vector<Accumulator> &accumulators, Values carried,
                                            const std::vector<size_t> &stores) {
  int64_t size = layout_.innerSize(), full = size / kWidth * kWidth;
  int64_t step = kWidth * (accumulators.empty() ? 1 : kUnroll), inLoop = size / step * step;
  if (inLoop > 0) {
    Values identities;
    for (size_t number = 0; number < carried.size(); ++number)
      identities.push_back(identityOf(graph_[accumulators[number].reduction].reduction, carried[number].getType()));
    auto join = [&](size_t number, Value total, Value partial) {
      return combine(graph_[accumulators[number].reduction].reduction, total, partial);
    };
    carried = chunkedLoop(inLoop, step, kColumnChunk, carried, identities, join, [&](Value start, ValueRange inner) {
      Values values(inner);
      for (int lane = 0; lane * kWidth < step; ++lane) {
        Lanes lanes{kWidth, kWidth, addI64(start, i64(lane * kWidth))};
        visit(lanes, lane, accumulators, values, stores);
      }
      return values;
    });
  }
  for (int64_t position = inLoop; position < full; position += kWidth) {
    Lanes lanes{kWidth, kWidth, i64(position)};
    visit(lanes, 0, accumulators, carried, stores);
  }
  if (full < size) {
    Lanes lanes{tailWidth(size - full), size - full, i64(full)};
    visit(lanes, -1, accumulators, carried, stores);
  }
  return carried;
}

// One vector of columns: accumulate into the accumulators of `lane`, then store.
void CpuEmitter::visit(Lanes &lanes, int lane, const std::vector<Accumulator> &accumulators, Values &carried,
                       const std::vector<size_t> &stores) {
  if (fetchesNextRow_)
    fetchNextRow(lanes);
  for (size_t number = 0; number < accumulators.size(); ++number) {
    if (accumulators[number].lane != lane)
      continue;
    const RowGraph::NodeInfo &info = graph_[accumulators[number].reduction];
    Value value = vectorOf(info.arguments[0], lanes);
    if (lanes.isMasked())
      value = arith::SelectOp::create(b_, loc_, laneMask(lanes), value, identityOf(info.reduction, value.getType()));
    carried[number] = combine(info.reduction, carried[number], value);
  }
  if (keeping_ == Keeping::now)
    keep(lanes);
  storeLanes(lanes, stores);
}

// All values first: a store may be in place.
void CpuEmitter::storeLanes(Lanes &lanes, const std::vector<size_t> &stores) {
  Values values;
  for (size_t effect : stores)
    values.push_back(vectorOf(graph_.effects()[effect].node, lanes));
  for (size_t number = 0; number < stores.size(); ++number)
    storeVector(stores[number], values[number], lanes);
}

// The unrolled accumulators are added up as vectors, then lane by lane; the tail comes last.
void CpuEmitter::finishReductions(const std::vector<Node> &reductions, const std::vector<Accumulator> &accumulators,
                                  ValueRange totals) {
  for (Node reduction : reductions) {
    RowReduction kind = graph_[reduction].reduction;
    Value vector, result;
    for (size_t number = 0; number < accumulators.size(); ++number) {
      if (accumulators[number].reduction.id != reduction.id)
        continue;
      if (accumulators[number].lane >= 0)
        vector = vector ? combine(kind, vector, totals[number]) : totals[number];
      else
        result = combineLanes(kind, totals[number]);
    }
    if (vector) {
      Value sum = combineLanes(kind, vector);
      result = result ? combine(kind, sum, result) : sum;
    }
    uniforms_[reduction.id] = result;
  }
}

// --- Form blocks -------------------------------------------------------------------------------------------

// The range counts (row, block) pairs. Only the last block of a row has the columns beyond the last full vector.
void CpuEmitter::emitFlat(const std::vector<size_t> &stores) {
  setRow(i64(0));
  for (size_t effect : stores)
    prepareStore(effect);
  loop(mulI64(begin_, kWidth), mulI64(end_, kWidth), kWidth, {}, [&](Value position, ValueRange) {
    Lanes lanes{kWidth, kWidth, position};
    storeLanes(lanes, stores);
    return Values();
  });
}

void CpuEmitter::emitBlocks() {
  int64_t blocks = layout_.blocksPerRow(), size = layout_.innerSize(), full = size / kWidth * kWidth;
  std::vector<size_t> stores;
  for (size_t effect = 0; effect < graph_.effects().size(); ++effect)
    stores.push_back(effect);
  if (layout_.isFlat())
    return emitFlat(stores);
  loop(begin_, end_, 1, {}, [&](Value number, ValueRange) {
    Value block = blocks == 1 ? i64(0) : arith::RemUIOp::create(b_, loc_, number, i64(blocks)).getResult();
    setRow(blocks == 1 ? number : arith::DivUIOp::create(b_, loc_, number, i64(blocks)).getResult());
    if (!layout_.hasColumns()) {
      for (size_t effect : stores)
        uniform(graph_.effects()[effect].node);
      for (size_t effect : stores)
        storeUniform(effect);
      return Values();
    }
    for (size_t effect : stores)
      prepareStore(effect);
    if (full > 0) {
      Value start = mulI64(block, layout_.blockSize());
      Value end = arith::MinSIOp::create(b_, loc_, addI64(start, i64(layout_.blockSize())), i64(full));
      loop(start, end, kWidth, {}, [&](Value position, ValueRange) {
        Lanes lanes{kWidth, kWidth, position};
        storeLanes(lanes, stores);
        return Values();
      });
    }
    auto storeTail = [&] {
      Lanes lanes{tailWidth(size - full), size - full, i64(full)};
      storeLanes(lanes, stores);
    };
    if (full < size && blocks == 1)
      storeTail();
    else if (full < size)
      onlyIf(arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::eq, block, i64(blocks - 1)), storeTail);
    return Values();
  });
}

} // namespace mgc::rowgen
