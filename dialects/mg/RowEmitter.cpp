// See RowEmitter.h.
#include "dialects/mg/RowEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "runtime/random/Philox.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mgc;
using rowgen::Access;
using rowgen::DimKind;
using rowgen::Element;

RowEmitter::RowEmitter(const RowSpace &space) : space_(space) {
  for (const RowSpace::NamedDim &row : space.rows)
    dims_[row.name] = graph_.addDim(DimKind::row, row.size);
  for (const RowSpace::NamedDim &column : space.columns)
    dims_[column.name] = graph_.addDim(DimKind::column, column.size);
}

void RowEmitter::countRows(Value number) { graph_.countRows(operand(number, Access::in, {})); }

LogicalResult RowEmitter::emit(RowOpInterface op) {
  op_ = op;
  return op.emitRow(*this);
}

// Names outside the space are not iterated: every access says where.
rowgen::Dim RowEmitter::dim(StringAttr name, int64_t size) {
  auto [it, isNew] = dims_.try_emplace(name);
  if (isNew)
    it->second = graph_.addDim(DimKind::indexed, size);
  return it->second;
}

std::vector<rowgen::Dim> RowEmitter::dims(Value value) {
  std::vector<rowgen::Dim> result;
  for (const RowSpace::NamedDim &named : rowDims(value))
    result.push_back(dim(named.name, named.size));
  return result;
}

static Element elementIn(Value value) {
  switch (dtypeOf(elementOf(value))) {
  case plan::DType::f32:
    return Element::f32;
  case plan::DType::bf16:
    return Element::bf16;
  case plan::DType::i32:
    return Element::i32;
  }
  llvm_unreachable("every type is listed");
}

rowgen::RowOperand RowEmitter::operand(Value value, Access access, std::vector<rowgen::Dim> dims) {
  operands_.push_back({value, access});
  auto stored = stored_.find(value);
  rowgen::Pitch pitch = stored != stored_.end() ? stored->second.pitch : viewOf(value).pitch;
  return graph_.addOperand(elementIn(value), access, std::move(dims), pitch);
}

rowgen::RowOperand RowEmitter::input(Value value) {
  auto known = inputs_.find(value);
  if (known != inputs_.end())
    return known->second;
  return inputs_[value] = operand(value, Access::in, dims(value));
}

RowEmitter::Node RowEmitter::value(Value value) {
  assert(!places_.contains(value) && "its last dimension is not iterated");
  auto known = nodes_.find(value);
  return known != nodes_.end() ? known->second : graph_.load(input(value));
}

RowEmitter::Node RowEmitter::value(Value value, Place place) {
  if (auto made = places_.find(value); made != places_.end())
    return made->second[std::get<int64_t>(place.index)];
  rowgen::RowOperand table = input(value);
  int64_t size = tensorOf(value).getDimSize(layoutOf(value).indexOf(place.name));
  return graph_.load(table, {{dim(place.name, size), place.index}});
}

void RowEmitter::define(Value result, Node node) {
  // Readers in the kernel get what readers of the memory do.
  nodes_[result] = graph_.round(node, elementIn(result));
  auto out = stored_.find(result);
  if (out != stored_.end())
    graph_.store(operand(result, out->second.access, dims(result)), node);
}

void RowEmitter::definePlaces(Value result, ArrayRef<Node> nodes) {
  std::vector<Node> &places = places_[result];
  for (Node node : nodes)
    places.push_back(graph_.round(node, elementIn(result)));
  auto out = stored_.find(result);
  if (out == stored_.end())
    return;
  std::vector<rowgen::Dim> all = dims(result);
  rowgen::RowOperand stored = operand(result, out->second.access, all);
  for (auto [place, node] : llvm::enumerate(nodes))
    graph_.store(stored, node, {{all.back(), int64_t(place)}});
}

void RowEmitter::sumOverRows(Value result, Node node) {
  auto out = stored_.find(result);
  if (out != stored_.end())
    graph_.storeSumOverRows(operand(result, out->second.access, dims(result)), node);
}

void RowEmitter::addAt(Value result, Place place, Node node) {
  int64_t size = tensorOf(result).getDimSize(layoutOf(result).indexOf(place.name));
  if (stored_.contains(result))
    graph_.addAt(operand(result, Access::accumulate, dims(result)), {{dim(place.name, size), place.index}}, node);
}

int64_t RowEmitter::columnCount() const {
  int64_t count = 1;
  for (const RowSpace::NamedDim &column : space_.columns)
    count *= column.size;
  return count;
}

// --- scalars

int RowEmitter::scalar(plan::Scalar scalar) {
  for (auto [i, known] : llvm::enumerate(scalars_))
    if (known == scalar)
      return int(i);
  scalars_.push_back(std::move(scalar));
  return int(scalars_.size()) - 1;
}

// Global number of the block's first element.
plan::Scalar RowEmitter::offset(StringAttr name, int64_t size) {
  plan::Scalar result;
  auto coordinates = op_->getAttrOfType<DictionaryAttr>("coordinates");
  if (auto axes = coordinates ? coordinates.getAs<ArrayAttr>(name) : ArrayAttr(); axes && !axes.empty())
    result.terms.push_back({axesOf(axes), size});
  return result;
}

RowEmitter::Node RowEmitter::globalIndex(StringAttr name) {
  rowgen::Dim position = dims_.at(name);
  plan::Scalar first = offset(name, graph_[position].size);
  return first.terms.empty() ? graph_.index(position) : graph_.index(position, scalar(first));
}

RowEmitter::Node RowEmitter::localIndex(Node global, StringAttr name, int64_t size) {
  plan::Scalar first = offset(name, size);
  if (first.terms.empty())
    return global;
  return rowgen::subI32(graph_, global, rowgen::toI32(graph_, graph_.scalar(scalar(first))));
}

RowEmitter::Node RowEmitter::seed() {
  plan::Scalar seed;
  seed.kind = plan::Scalar::Kind::seed;
  return graph_.scalar(scalar(seed));
}

RowEmitter::Node RowEmitter::instance() {
  plan::Scalar instance;
  instance.kind = plan::Scalar::Kind::instance;
  return graph_.scalar(scalar(instance));
}

// --- comparisons

rowgen::Node mgc::greater(rowgen::RowGraph &graph, rowgen::Node a, rowgen::Node b) {
  rowgen::Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, x[0], x[1]);
  };
  return graph.map("ogt", body, {a, b}, Element::i1);
}

rowgen::Node mgc::lessI32(rowgen::RowGraph &graph, rowgen::Node a, rowgen::Node b) {
  rowgen::Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x[0], x[1]);
  };
  return graph.map("slt", body, {a, b}, Element::i1);
}

// --- tables

static std::string tableName(ArrayRef<float> table) {
  return llvm::formatv("table_{0}_{1:x-}", table.size(),
                       uint64_t(hashName({reinterpret_cast<const char *>(table.data()), table.size() * 4})))
      .str();
}

// The constant array of this name in the module (of a GPU: gpu.module) that is being built.
static Value tableAddress(OpBuilder &b, Location loc, const std::string &name, ArrayRef<float> table) {
  Operation *module = SymbolTable::getNearestSymbolTable(b.getBlock()->getParentOp());
  auto global = dyn_cast_or_null<LLVM::GlobalOp>(SymbolTable::lookupSymbolIn(module, name));
  if (!global) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&module->getRegion(0).front());
    auto type = LLVM::LLVMArrayType::get(b.getF32Type(), table.size());
    auto values = DenseElementsAttr::get(RankedTensorType::get({int64_t(table.size())}, b.getF32Type()), table);
    global = LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, LLVM::Linkage::Internal, name, values);
  }
  return LLVM::AddressOfOp::create(b, loc, global);
}

rowgen::Node mgc::lookUp(rowgen::RowGraph &graph, ArrayRef<float> table, rowgen::Node index) {
  std::string name = tableName(table);
  std::vector<float> values(table.begin(), table.end());
  rowgen::Body body = [name, values](OpBuilder &b, Location loc, ValueRange x) -> Value {
    Value base = tableAddress(b, loc, name, values);
    Type pointer = base.getType(), f32 = b.getF32Type();
    auto lanes = dyn_cast<VectorType>(x[0].getType());
    if (!lanes)
      return LLVM::LoadOp::create(b, loc, f32, LLVM::GEPOp::create(b, loc, pointer, f32, base, x[0]));
    // Masked lanes hold positions past the end: keep them inside.
    Value last = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(cast<ShapedType>(x[0].getType()), APInt(32, values.size() - 1)));
    Value inside = arith::MinUIOp::create(b, loc, x[0], last);
    Value pointers = LLVM::GEPOp::create(b, loc, VectorType::get(lanes.getShape(), pointer), f32, base, inside);
    auto bits = VectorType::get(lanes.getShape(), b.getI1Type());
    Value all = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(bits, true));
    return LLVM::masked_gather::create(b, loc, VectorType::get(lanes.getShape(), f32), pointers, all, ValueRange(),
                                       b.getI32IntegerAttr(4));
  };
  return graph.map(name, body, {index});
}
