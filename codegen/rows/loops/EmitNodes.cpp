// Values of nodes, loads and stores of KernelEmitter.
//
// A node that does not vary over the columns is a scalar of the row (uniforms_), emitted before the column loops; one
// that does is a vector of the iteration (Lanes::values). An address is base + place in the row + place in the columns.
#include "codegen/rows/graph/Math.h"
#include "codegen/rows/loops/Emitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mgc::rowgen {

using namespace mlir;
using Kind = RowGraph::NodeKind;

// Alignment in bytes of a row's start.
static unsigned alignmentOf(Element element) { return unsigned(bytesOf(element)); }

void KernelEmitter::emitKernelValues() {
  for (int id = 0; id < int(graph_.nodes().size()); ++id)
    if (Kind kind = graph_[Node{id}].kind; layout_.isUsed({id}) && (kind == Kind::scalar || kind == Kind::constant))
      kernelValues_[id] = uniform({id});
}

Value KernelEmitter::countedRange(int64_t unitsOfPosition, int64_t unitSize) {
  Value count = loadElement(operands_[graph_.count()->id], Element::i32);
  count = arith::ExtSIOp::create(b_, loc_, b_.getI64Type(), count);
  count = arith::MaxSIOp::create(b_, loc_, count, i64(0));
  count = arith::MinSIOp::create(b_, loc_, count, i64(graph_[Dim{0}].size));
  Value units = mulI64(count, unitsOfPosition);
  return unitSize == 1 ? units : arith::DivUIOp::create(b_, loc_, addI64(units, i64(unitSize - 1)), i64(unitSize));
}

void KernelEmitter::setRow(Value row) {
  uniforms_ = kernelValues_;
  loadPlaces_.clear();
  storePlaces_.clear();
  for (size_t number = layout_.firstColumn(); number-- > 0;) {
    int64_t size = layout_.loops()[number].size;
    if (number == 0) {
      coordinates_[0] = row;
      break;
    }
    coordinates_[number] = arith::RemUIOp::create(b_, loc_, row, i64(size));
    row = arith::DivUIOp::create(b_, loc_, row, i64(size));
  }
}

// --- Addresses ---------------------------------------------------------------------------------------------

// The part of the offset that the row and the positions give. A position outside is replaced by 0 and flagged.
KernelEmitter::Place KernelEmitter::rowPlace(RowOperand operand, const std::vector<At> &at) {
  Place place{i64(0), {}};
  for (size_t number = 0; number < layout_.firstColumn(); ++number)
    if (int64_t stride = layout_.stride(operand, at, number))
      place.offset = addI64(place.offset, mulI64(coordinates_[number], stride));
  for (const At &position : at) {
    int64_t stride = layout_.stride(operand, position.dim);
    if (const int64_t *constant = std::get_if<int64_t>(&position.index)) {
      place.offset = addI64(place.offset, i64(*constant * stride));
      continue;
    }
    Value index = uniform(std::get<Node>(position.index));
    Value size = arith::ConstantOp::create(b_, loc_, b_.getI32IntegerAttr(graph_[position.dim].size));
    Value inside = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::ult, index, size);
    index = arith::ExtUIOp::create(b_, loc_, b_.getI64Type(), index);
    index = arith::SelectOp::create(b_, loc_, inside, index, i64(0));
    place.offset = addI64(place.offset, mulI64(index, stride));
    place.isValid = place.isValid ? arith::AndIOp::create(b_, loc_, place.isValid, inside).getResult() : inside;
  }
  return place;
}

// `position`: of the inner column loop; null outside the column loops.
Value KernelEmitter::pointer(RowOperand operand, const std::vector<At> &at, Value offset, Value position) {
  if (position) {
    for (size_t number = layout_.firstColumn(); number < layout_.loops().size(); ++number) {
      bool isInner = number + 1 == layout_.loops().size();
      if (int64_t stride = layout_.stride(operand, at, number))
        offset = addI64(offset, mulI64(isInner ? position : coordinates_[number], stride));
    }
  }
  return LLVM::GEPOp::create(b_, loc_, operands_[operand.id].getType(), memoryType(graph_[operand].element),
                             operands_[operand.id], ValueRange{offset});
}

Value KernelEmitter::loadElement(Value address, Element element) {
  Value value = LLVM::LoadOp::create(b_, loc_, memoryType(element), address, alignmentOf(element));
  return fromMemory(element, value);
}

// --- Uniform values ----------------------------------------------------------------------------------------

Value KernelEmitter::uniform(Node node) {
  if (Value known = uniforms_.lookup(node.id))
    return known;
  const RowGraph::NodeInfo &info = graph_[node];
  Value value;
  switch (info.kind) {
  case Kind::load:
    value = uniformLoad(info);
    break;
  case Kind::constant:
    value = constantOf(elementType(info.element), info.value);
    break;
  case Kind::scalar:
    value = scalarArgument(info.scalar);
    break;
  case Kind::index:
    value = uniformIndex(info);
    break;
  case Kind::map: {
    Values arguments;
    for (Node argument : info.arguments)
      arguments.push_back(uniform(argument));
    value = map(node, arguments);
    break;
  }
  case Kind::reduce:
    llvm_unreachable("a reduction is computed by its pass before any use");
  }
  uniforms_[node.id] = value;
  return value;
}

// Before anything is stored, for that may be in place. A place that a reduction gives is known only after it.
void KernelEmitter::loadUniforms() {
  for (int id = 0; id < int(graph_.nodes().size()); ++id)
    if (Node node{id};
        layout_.isUsed(node) && graph_[node].kind == Kind::load && !layout_.varies(node) && layout_.level(node) == 0)
      uniform(node);
}

Value KernelEmitter::uniformLoad(const RowGraph::NodeInfo &info) {
  Place place = rowPlace(info.operand, info.at);
  Value address = pointer(info.operand, info.at, place.offset, {});
  Value value = loadElement(address, graph_[info.operand].element);
  if (place.isValid)
    value = arith::SelectOp::create(b_, loc_, place.isValid, value, constantOf(value.getType(), 0));
  return value;
}

Value KernelEmitter::uniformIndex(const RowGraph::NodeInfo &info) {
  Value value = graph_[info.dim].size == 1 ? i64(0) : coordinates_[layout_.loopOf(info.dim)];
  return arith::TruncIOp::create(b_, loc_, b_.getI32Type(), value);
}

Value KernelEmitter::map(Node node, ValueRange arguments) {
  const RowGraph::NodeInfo &info = graph_[node];
  if (!info.body)
    return rounded(arguments[0]);
  Type expected = elementType(info.element);
  if (!arguments.empty())
    if (auto shaped = dyn_cast<VectorType>(arguments[0].getType()))
      expected = shaped.clone(expected);
  Value value = info.body(b_, NameLoc::get(b_.getStringAttr(info.name)), arguments);
  if (value && value.getType() == expected)
    return value;
  error_ = fmt::format("map '{}': its body gives another type than the node says", info.name);
  return arith::ConstantOp::create(b_, loc_, cast<TypedAttr>(b_.getZeroAttr(expected)));
}

// --- Varying values ----------------------------------------------------------------------------------------

void KernelEmitter::prepare(Node node) {
  const RowGraph::NodeInfo &info = graph_[node];
  if (!layout_.varies(node)) {
    uniform(node);
    return;
  }
  if (info.kind == Kind::load && !loadPlaces_.contains(node.id))
    loadPlaces_[node.id] = rowPlace(info.operand, info.at);
  for (Node argument : info.arguments)
    prepare(argument);
}

Value KernelEmitter::varying(Node node, Lanes &lanes) {
  if (Value known = lanes.values.lookup(node.id))
    return known;
  Value kept = keptValue(node, lanes);
  Value value = kept ? kept : computeVarying(node, lanes);
  lanes.values[node.id] = value;
  return value;
}

Value KernelEmitter::computeVarying(Node node, Lanes &lanes) {
  const RowGraph::NodeInfo &info = graph_[node];
  if (info.kind == Kind::load)
    return varyingLoad(node, lanes);
  if (info.kind == Kind::index)
    return varyingIndex(info, lanes);
  Values arguments;
  for (Node argument : info.arguments)
    arguments.push_back(vectorOf(argument, lanes));
  return map(node, arguments);
}

Value KernelEmitter::vectorOf(Node node, Lanes &lanes) {
  return layout_.varies(node) ? varying(node, lanes) : splat(uniform(node), lanes.width);
}

Value KernelEmitter::varyingLoad(Node node, const Lanes &lanes) {
  const RowGraph::NodeInfo &info = graph_[node];
  Place place = loadPlaces_.lookup(node.id);
  Value base = pointer(info.operand, info.at, place.offset, lanes.position);
  Value value = loadVector(base, info.operand, info.at, lanes);
  if (place.isValid)
    value = arith::SelectOp::create(b_, loc_, place.isValid, value, constantOf(value.getType(), 0));
  return value;
}

Value KernelEmitter::varyingIndex(const RowGraph::NodeInfo &info, const Lanes &lanes) {
  size_t number = layout_.loopOf(info.dim);
  bool isInner = number + 1 == layout_.loops().size();
  Value position = isInner ? lanes.position : coordinates_[number];
  Value value = splat(arith::TruncIOp::create(b_, loc_, b_.getI32Type(), position), lanes.width);
  if (!isInner)
    return value;
  SmallVector<int32_t> steps(lanes.width);
  for (int64_t lane = 0; lane < lanes.width; ++lane)
    steps[lane] = int32_t(lane);
  auto type = cast<VectorType>(value.getType());
  Value iota = arith::ConstantOp::create(b_, loc_, DenseElementsAttr::get(type, ArrayRef<int32_t>(steps)));
  return arith::AddIOp::create(b_, loc_, value, iota);
}

// --- Stores ------------------------------------------------------------------------------------------------

void KernelEmitter::prepareStore(size_t effect) {
  const RowGraph::Effect &info = graph_.effects()[effect];
  prepare(info.node);
  storePlaces_[effect] = rowPlace(info.operand, info.at);
}

void KernelEmitter::storeVector(size_t effect, Value value, const Lanes &lanes) {
  const RowGraph::Effect &info = graph_.effects()[effect];
  bool accumulates = graph_[info.operand].access == Access::accumulate;
  storeVectorAt(info, storePlaces_.lookup(effect), value, lanes, accumulates);
}

void KernelEmitter::storeVectorAt(const RowGraph::Effect &effect, Place place, Value value, const Lanes &lanes,
                                  bool accumulates) {
  Value base = pointer(effect.operand, effect.at, place.offset, lanes.position);
  auto write = [&] {
    Value old = accumulates ? loadVector(base, effect.operand, effect.at, lanes) : Value();
    Value sum = old ? combine(RowReduction::sum, old, value) : value;
    storeVectorTo(base, effect.operand, effect.at, sum, lanes);
  };
  if (place.isValid)
    onlyIf(place.isValid, write);
  else
    write();
}

void KernelEmitter::storeUniform(size_t effect) {
  const RowGraph::Effect &info = graph_.effects()[effect];
  Value value = uniform(info.node);
  Value address = pointer(info.operand, info.at, rowPlace(info.operand, info.at).offset, {});
  const auto &[element, access, dims, pitch, isCounted] = graph_[info.operand];
  if (access == Access::accumulate)
    value = combine(RowReduction::sum, loadElement(address, element), value);
  LLVM::StoreOp::create(b_, loc_, toMemory(element, value), address, alignmentOf(element));
}

} // namespace mgc::rowgen
