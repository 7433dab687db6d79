// Embedding: gradient, indexed factor.
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"

using namespace mlir;
using namespace mgc;

LogicalResult EmbedOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getResult()); dy && g.wants(getTable()))
    g.contribute(getTable(), g.make<EmbedGradOp>(getTable(), getIds(), dy, DictionaryAttr()));
  return success();
}

SmallVector<StringAttr> EmbedOp::getIndexedFactors() { return {layoutOf(getTable()).getNames()[0]}; }
SmallVector<StringAttr> EmbedGradOp::getIndexedFactors() { return {layoutOf(getResult()).getNames()[0]}; }

// --- row bodies: one row of the table per id
// ------------------------------------------------------------------------

static RowSpace gatherSpace(RowSpace::Kind kind, Value rows, Value all) {
  RowSpace space{kind, rowDims(rows), {}};
  space.columns.push_back(rowDims(all).back());
  return space;
}
RowSpace EmbedOp::getRowSpace() { return gatherSpace(RowSpace::Kind::rows, getIds(), getResult()); }
RowSpace EmbedGradOp::getRowSpace() { return gatherSpace(RowSpace::Kind::columns, getIds(), getDy()); }

static RowEmitter::Place rowOf(RowEmitter &e, Value table, Value ids) {
  RowSpace::NamedDim v = rowDims(table).front();
  return {v.name, e.localIndex(e.value(ids), v.name, v.size)};
}

Value EmbedOp::getLookupTable() { return getTable(); }
bool EmbedOp::looksUpInRow() { return false; }
LogicalResult EmbedOp::emitRow(RowEmitter &e) {
  e.define(getResult(), e.value(getTable(), rowOf(e, getTable(), getIds())));
  return success();
}

bool EmbedGradOp::onlyAccumulates() { return true; }
LogicalResult EmbedGradOp::emitRow(RowEmitter &e) {
  e.addAt(getResult(), rowOf(e, getResult(), getIds()), e.value(getDy()));
  return success();
}
