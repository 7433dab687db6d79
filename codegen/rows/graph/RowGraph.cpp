// Builds row graphs: nodes are made once, each known by its canonical text, from which key() is composed.
#include "codegen/rows/graph/RowGraph.h"
#include "codegen/rows/graph/RowOps.h"
#include <cassert>

namespace mgc::rowgen {

int64_t bytesOf(Element element) {
  switch (element) {
  case Element::bf16:
    return 2;
  case Element::f32:
  case Element::i32:
    return 4;
  case Element::i64:
    return 8;
  case Element::i1:
    return 1;
  }
  return 0;
}

static std::string textOf(const std::vector<At> &at) {
  std::string text;
  for (const At &position : at) {
    if (const int64_t *constant = std::get_if<int64_t>(&position.index))
      text += fmt::format("@d{}={}", position.dim.id, *constant);
    else
      text += fmt::format("@d{}=%{}", position.dim.id, std::get<Node>(position.index).id);
  }
  return text;
}

static std::string textOf(const RowGraph::NodeInfo &info) {
  std::string text = fmt::format("{}:{}", int(info.kind), int(info.element));
  switch (info.kind) {
  case RowGraph::NodeKind::load:
    return text + fmt::format(" o{}{}", info.operand.id, textOf(info.at));
  case RowGraph::NodeKind::constant:
    return text + fmt::format(" {:a}", info.value);
  case RowGraph::NodeKind::scalar:
    return text + fmt::format(" s{}", info.scalar);
  case RowGraph::NodeKind::index:
    return text + fmt::format(" d{}", info.dim.id);
  case RowGraph::NodeKind::map:
    text += fmt::format(" '{}'", info.name);
    break;
  case RowGraph::NodeKind::reduce:
    text += fmt::format(" r{}", int(info.reduction));
    break;
  }
  for (Node argument : info.arguments)
    text += fmt::format(" %{}", argument.id);
  return text;
}

Dim RowGraph::addDim(DimKind kind, int64_t size) {
  dims_.push_back({kind, size});
  return {int(dims_.size()) - 1};
}

RowOperand RowGraph::addOperand(Element element, Access access, std::vector<Dim> dims, Pitch pitch) {
  operands_.push_back({element, access, std::move(dims), pitch});
  return {int(operands_.size()) - 1};
}

void RowGraph::countRows(RowOperand count) { count_ = count; }

void RowGraph::markCounted(RowOperand operand) { operands_[operand.id].isCounted = true; }

Node RowGraph::addNode(NodeInfo info) {
  auto [place, isNew] = known_.try_emplace(textOf(info), int(nodes_.size()));
  if (isNew)
    nodes_.push_back(std::move(info));
  return {place->second};
}

Node RowGraph::load(RowOperand operand, std::vector<At> at) {
  assert(size_t(operand.id) < operands_.size() && "operand of another graph");
  NodeInfo info{NodeKind::load, valueOf(operands_[operand.id].element)};
  info.operand = operand;
  info.at = std::move(at);
  return addNode(std::move(info));
}

Node RowGraph::constant(double value) {
  NodeInfo info{NodeKind::constant, Element::f32};
  info.value = value;
  return addNode(std::move(info));
}

Node RowGraph::constantI32(int64_t value) {
  NodeInfo info{NodeKind::constant, Element::i32};
  info.value = double(int32_t(value));
  return addNode(std::move(info));
}

Node RowGraph::scalar(int number) {
  NodeInfo info{NodeKind::scalar, Element::i64};
  info.scalar = number;
  return addNode(std::move(info));
}

Node RowGraph::index(Dim dim) {
  assert(size_t(dim.id) < dims_.size() && "dim of another graph");
  NodeInfo info{NodeKind::index, Element::i32};
  info.dim = dim;
  return addNode(std::move(info));
}

Node RowGraph::index(Dim dim, int scalarNumber) {
  return addI32(*this, index(dim), toI32(*this, scalar(scalarNumber)));
}

Node RowGraph::map(std::string name, Body body, std::vector<Node> arguments, Element result, double flops) {
  NodeInfo info{NodeKind::map, result, std::move(arguments)};
  for (Node argument : info.arguments)
    assert(size_t(argument.id) < nodes_.size() && "node of another graph");
  info.name = std::move(name);
  info.body = std::move(body);
  info.flops = flops;
  return addNode(std::move(info));
}

Node RowGraph::round(Node node, Element element) {
  return element == Element::bf16 ? map("bf16", {}, {node}, Element::f32, 0) : node;
}

Node RowGraph::reduce(RowReduction reduction, Node node) {
  assert(size_t(node.id) < nodes_.size() && "node of another graph");
  NodeInfo info{NodeKind::reduce, nodes_[node.id].element, {node}};
  info.reduction = reduction;
  return addNode(std::move(info));
}

void RowGraph::store(RowOperand operand, Node node, std::vector<At> at) {
  effects_.push_back({EffectKind::store, operand, node, std::move(at)});
}

void RowGraph::storeSumOverRows(RowOperand operand, Node node) {
  effects_.push_back({EffectKind::sumOverRows, operand, node, {}});
}

void RowGraph::addAt(RowOperand table, std::vector<At> at, Node node) {
  effects_.push_back({EffectKind::addAt, table, node, std::move(at)});
}

std::vector<Node> RowGraph::inputsOf(Node node) const {
  const NodeInfo &info = (*this)[node];
  std::vector<Node> inputs = info.arguments;
  for (const At &at : info.at)
    if (const Node *index = std::get_if<Node>(&at.index))
      inputs.push_back(*index);
  return inputs;
}

bool hasDim(const std::vector<Dim> &dims, Dim dim) { return std::ranges::find(dims, dim.id, &Dim::id) != dims.end(); }

bool isPositioned(const std::vector<At> &at, Dim dim) {
  return std::ranges::any_of(at, [&](const At &position) { return position.dim.id == dim.id; });
}

// Nodes are in topological order: one sweep up to the node.
bool RowGraph::variesOverColumns(Node node) const {
  std::vector<bool> varies(node.id + 1);
  for (int id = 0; id <= node.id; ++id) {
    const NodeInfo &info = nodes_[id];
    if (info.kind == NodeKind::index)
      varies[id] = (*this)[info.dim].kind == DimKind::column;
    if (info.kind == NodeKind::load)
      for (Dim dim : (*this)[info.operand].dims)
        varies[id] = varies[id] || ((*this)[dim].kind == DimKind::column && !isPositioned(info.at, dim));
    if (info.kind == NodeKind::map)
      for (Node argument : info.arguments)
        varies[id] = varies[id] || varies[argument.id];
  }
  return varies[node.id];
}

bool RowGraph::isColumnKernel() const {
  return std::ranges::any_of(effects_, [](const Effect &effect) { return effect.kind != EffectKind::store; });
}

std::string RowGraph::key() const {
  std::string text;
  for (const DimInfo &dim : dims_)
    text += fmt::format("d{}:{} ", int(dim.kind), dim.size);
  for (const OperandInfo &operand : operands_) {
    text += fmt::format("\no{}:{}", int(operand.element), int(operand.access));
    if (operand.pitch.elements > 0)
      text += fmt::format(" {}:{}", operand.pitch.dims, operand.pitch.elements);
    for (Dim dim : operand.dims)
      text += fmt::format(" d{}", dim.id);
    text += operand.isCounted ? " counted" : "";
  }
  if (count_)
    text += fmt::format("\nrows o{}", count_->id);
  for (const NodeInfo &node : nodes_)
    text += "\n" + textOf(node);
  for (const Effect &effect : effects_)
    text += fmt::format("\ne{} o{} %{}{}", int(effect.kind), effect.operand.id, effect.node.id, textOf(effect.at));
  return text;
}

} // namespace mgc::rowgen
