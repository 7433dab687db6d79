// Embedding: gradient, indexed factor; rows of another sequence.
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"

using namespace mlir;
using namespace mgc;

template <typename Op> static LogicalResult verifyIds(Op op, const char *constraint) {
  for (const auto &[name, value] :
       {std::pair("padding", int64_t(op.getPadding().value_or(0))), {"offset", int64_t(op.getOffset())}})
    if (value < 0)
      return op.emitOpError() << name << " = " << value << "; expected 0 or more (" << constraint << ")";
  return success();
}
LogicalResult EmbedOp::verify() { return verifyIds(*this, "embed_c1"); }
LogicalResult EmbedGradOp::verify() { return verifyIds(*this, "embed_grad_c1"); }

LogicalResult EmbedOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getResult()); dy && g.wants(getTable()))
    g.contribute(getTable(),
                 g.make<EmbedGradOp>(getTable(), getIds(), dy, getPaddingAttr(), getOffsetAttr(), DictionaryAttr()));
  return success();
}

SmallVector<StringAttr> EmbedOp::getIndexedFactors() { return {layoutOf(getTable()).getNames()[0]}; }
SmallVector<StringAttr> EmbedGradOp::getIndexedFactors() { return {layoutOf(getResult()).getNames()[0]}; }

// --- row bodies: one row of the table per id

static RowSpace gatherSpace(RowSpace::Kind kind, Value rows, Value all) {
  RowSpace space{kind, rowDims(rows), {}};
  space.columns.push_back(rowDims(all).back());
  return space;
}
RowSpace EmbedOp::getRowSpace() { return gatherSpace(RowSpace::Kind::rows, getIds(), getResult()); }
RowSpace EmbedGradOp::getRowSpace() { return gatherSpace(RowSpace::Kind::columns, getIds(), getDy()); }

static RowEmitter::Place rowOf(RowEmitter &e, Value table, Value ids, int64_t offset) {
  const RowSpace::NamedDim v = rowDims(table).front();
  RowEmitter::Node id = e.value(ids);
  if (offset > 0)
    id = rowgen::addI32(e.graph(), id, e.graph().constantI32(offset));
  return {v.name, e.localIndex(id, v.name, v.size)};
}

Value EmbedOp::getLookupTable() { return getTable(); }
bool EmbedOp::looksUpInRow() { return false; }
LogicalResult EmbedOp::emitRow(RowEmitter &e) {
  e.define(getResult(), e.value(getTable(), rowOf(e, getTable(), getIds(), getOffset())));
  return success();
}

bool EmbedGradOp::onlyAccumulates() { return true; }
LogicalResult EmbedGradOp::emitRow(RowEmitter &e) {
  RowEmitter::Node dy = e.value(getDy());
  if (std::optional<uint64_t> padding = getPadding()) {
    rowgen::RowGraph &graph = e.graph();
    const RowEmitter::Node isPadding = rowgen::equal(graph, e.value(getIds()), graph.constantI32(int32_t(*padding)));
    dy = rowgen::select(graph, isPadding, graph.constant(0), dy);
  }
  e.addAt(getResult(), rowOf(e, getResult(), getIds(), getOffset()), dy);
  return success();
}

// --- relocate

LogicalResult RelocateOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getY());
  if (!dy || !g.wants(getX()))
    return success();
  if (!getSources())
    return emitOpError("has no sources, which its gradient reads");
  g.contribute(getX(), g.make<RelocateOp>(getX(), dy, getSources(), Value(), DictionaryAttr()));
  return success();
}

void RelocateOp::forgetGradient() { getSourcesMutable().clear(); }

SmallVector<StringAttr> RelocateOp::getIndexedFactors() { return {layoutOf(getX()).getNames()[0]}; }
RowSpace RelocateOp::getRowSpace() { return gatherSpace(RowSpace::Kind::rows, getPlaces(), getY()); }
Value RelocateOp::getLookupTable() { return getX(); }
bool RelocateOp::looksUpInRow() { return false; }
LogicalResult RelocateOp::emitRow(RowEmitter &e) {
  const RowSpace::NamedDim from = rowDims(getX()).front();
  e.define(getY(), e.value(getX(), {from.name, e.localIndex(e.value(getPlaces()), from.name, from.size)}));
  return success();
}
