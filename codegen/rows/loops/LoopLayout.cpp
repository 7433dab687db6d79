// See Layout.h.
#include "codegen/rows/loops/LoopLayout.h"
#include "runtime/base/Rounding.h"
#include <algorithm>
#include <cassert>
#include <set>

namespace mgc::rowgen {

using Kind = RowGraph::NodeKind;

static constexpr int64_t kRowsOfSum = 4;
static constexpr int64_t kFlatBlock = 1024; // columns per unit of the range of an elementwise kernel

static bool hasNodeIndex(const std::vector<At> &at) {
  return std::any_of(at.begin(), at.end(), [](const At &position) { return position.index.index() == 1; });
}

LoopLayout::LoopLayout(const RowGraph &graph) : graph_(graph) {
  used_.assign(graph.nodes().size(), false);
  for (const RowGraph::Effect &effect : graph.effects()) {
    markUsed(effect.node);
    for (const At &at : effect.at)
      if (const Node *index = std::get_if<Node>(&at.index))
        markUsed(*index);
  }
  for (int id = 0; id < int(graph.dims().size()); ++id)
    if (DimKind kind = graph[Dim{id}].kind; kind != DimKind::indexed && graph[Dim{id}].size > 1)
      loops_.push_back({graph[Dim{id}].size, kind == DimKind::column, {Dim{id}}});
  form_ = graph.isColumnKernel() ? Form::columns : isElementwise() ? Form::blocks : Form::rows;
  mergeLoops(/*acrossColumns=*/form_ == Form::blocks);
  if (form_ == Form::blocks)
    for (Loop &loop : loops_)
      loop.column = &loop == &loops_.back();
  firstColumn_ = 0;
  while (firstColumn_ < loops_.size() && !loops_[firstColumn_].column)
    ++firstColumn_;
  findNodeFacts();
  isFlat_ = form_ == Form::blocks && loops_.size() == 1 && hasColumns() && innerSize() % kWidth == 0;
  if (form_ == Form::blocks)
    blockSize_ = isFlat_ ? kWidth : std::min(kFlatBlock, innerSize());
  if (form_ == Form::columns)
    chooseColumnBlocks();
}

bool LoopLayout::changesWithRow(RowOperand operand, const std::vector<At> &at) const {
  for (size_t loop = 0; loop < firstColumn_; ++loop)
    if (stride(operand, at, loop) != 0)
      return true;
  return hasNodeIndex(at);
}

size_t LoopLayout::countStreams() const {
  size_t count = 0;
  for (int id = 0; id < int(graph_.nodes().size()); ++id)
    if (const RowGraph::NodeInfo &node = graph_[Node{id}]; used_[id] && node.kind == Kind::load && varies_[id])
      count += changesWithRow(node.operand, node.at);
  for (const RowGraph::Effect &effect : graph_.effects())
    count += changesWithRow(effect.operand, effect.at);
  return count;
}

// As many columns as the registers hold sums of: 16 of 8 floats; fewer beside stores, where registers are scarce. The results
// are read and written once per rowChunk_ rows, and as many rows are read at once, by each operand: the hardware follows
// few such streams, and sums of thousands of rows one by one lose digits. A sum has the same order in every kernel that it
// may be fused into: a policy of recomputation that changes a kernel changes no bit of its sums.
void LoopLayout::chooseColumnBlocks() {
  using EffectKind = RowGraph::EffectKind;
  auto count = [&](EffectKind kind) {
    return std::count_if(graph_.effects().begin(), graph_.effects().end(),
                         [&](const RowGraph::Effect &effect) { return effect.kind == kind; });
  };
  bool stores = count(EffectKind::store) > 0;
  rowChunk_ = kRowsOfSum;
  blockSize_ = std::min(kWidth * (stores ? 1 : count(EffectKind::sumOverRows) > 1 ? 2 : 4), innerSize());
}

void LoopLayout::markUsed(Node node) {
  if (used_[node.id])
    return;
  used_[node.id] = true;
  for (Node input : graph_.inputsOf(node))
    markUsed(input);
}

// True where each iteration stands alone, so that the border between rows and columns is arbitrary.
bool LoopLayout::isElementwise() const {
  for (int id = 0; id < int(graph_.nodes().size()); ++id)
    if (const RowGraph::NodeInfo &node = graph_[Node{id}];
        used_[id] && (node.kind == Kind::reduce || hasNodeIndex(node.at)))
      return false;
  for (const RowGraph::Effect &effect : graph_.effects())
    for (const Loop &loop : loops_)
      if (!hasDim(graph_[effect.operand].dims, loop.dims[0]))
        return false;
  return true;
}

int64_t LoopLayout::stride(RowOperand operand, Dim dim) const {
  int64_t product = 1;
  const auto &[element, access, dims, pitch, isCounted] = graph_[operand];
  for (size_t place = dims.size(); place-- > 0;) {
    if (pitch.elements > 0 && int64_t(place) + 1 == pitch.dims)
      product = pitch.elements;
    if (dims[place].id == dim.id)
      return product;
    product *= graph_[dims[place]].size;
  }
  return 0;
}

int64_t LoopLayout::stride(RowOperand operand, const std::vector<At> &at, size_t loop) const {
  Dim innermost = loops_[loop].dims.back();
  return isPositioned(at, innermost) ? 0 : stride(operand, innermost);
}

bool LoopLayout::mayMerge(const Loop &outer, const Loop &inner) const {
  auto fits = [&](RowOperand operand, const std::vector<At> &at) {
    auto strideOf = [&](Dim dim) { return isPositioned(at, dim) ? 0 : stride(operand, dim); };
    return strideOf(outer.dims.back()) == strideOf(inner.dims.back()) * inner.size;
  };
  for (int id = 0; id < int(graph_.nodes().size()); ++id) {
    const RowGraph::NodeInfo &node = graph_[Node{id}];
    if (!used_[id])
      continue;
    if (node.kind == Kind::load && !fits(node.operand, node.at))
      return false;
    if (node.kind == Kind::index && (hasDim(outer.dims, node.dim) || hasDim(inner.dims, node.dim)))
      return false;
  }
  return std::ranges::all_of(graph_.effects(), [&](const auto &effect) { return fits(effect.operand, effect.at); });
}

void LoopLayout::mergeLoops(bool acrossColumns) {
  for (size_t inner = loops_.size(); inner-- > 1;) {
    Loop &outer = loops_[inner - 1];
    if ((outer.column != loops_[inner].column && !acrossColumns) || !mayMerge(outer, loops_[inner]))
      continue;
    outer.size *= loops_[inner].size;
    outer.dims.insert(outer.dims.end(), loops_[inner].dims.begin(), loops_[inner].dims.end());
    loops_.erase(loops_.begin() + inner);
  }
}

size_t LoopLayout::loopOf(Dim dim) const {
  for (size_t loop = 0; loop < loops_.size(); ++loop)
    if (hasDim(loops_[loop].dims, dim))
      return loop;
  assert(false && "the dim is not iterated");
  return 0;
}

// Nodes are in topological order: one sweep.
void LoopLayout::findNodeFacts() {
  varies_.assign(graph_.nodes().size(), false);
  levels_.assign(graph_.nodes().size(), 0);
  for (int id = 0; id < int(graph_.nodes().size()); ++id) {
    const RowGraph::NodeInfo &node = graph_[Node{id}];
    for (Node input : graph_.inputsOf(Node{id})) {
      levels_[id] = std::max(levels_[id], levels_[input.id] + (node.kind == Kind::reduce));
      varies_[id] = varies_[id] || (node.kind == Kind::map && varies_[input.id]);
    }
    for (size_t loop = firstColumn_; loop < loops_.size(); ++loop) {
      if (node.kind == Kind::load && stride(node.operand, node.at, loop) != 0)
        varies_[id] = true;
      if (node.kind == Kind::index && hasDim(loops_[loop].dims, node.dim))
        varies_[id] = true;
    }
  }
}

int64_t LoopLayout::rows() const {
  int64_t product = 1;
  for (size_t loop = 0; loop < firstColumn_; ++loop)
    product *= loops_[loop].size;
  return product;
}

int64_t LoopLayout::blocksPerRow() const { return divideUp(innerSize(), blockSize_); }

bool LoopLayout::storesColumns(const RowGraph::Effect &effect) const {
  for (size_t loop = firstColumn_; loop < loops_.size(); ++loop)
    if (stride(effect.operand, effect.at, loop) != 0)
      return true;
  return false;
}

int LoopLayout::passes() const {
  int passes = 0;
  for (int id = 0; id < int(graph_.nodes().size()); ++id)
    if (used_[id] && graph_[Node{id}].kind == Kind::reduce)
      passes = std::max(passes, levels_[id]);
  for (const RowGraph::Effect &effect : graph_.effects())
    if (storesColumns(effect))
      passes = std::max(passes, levels_[effect.node.id] + 1);
  return passes;
}

std::vector<Node> LoopLayout::reductionsOf(int pass) const {
  std::vector<Node> reductions;
  for (int id = 0; id < int(graph_.nodes().size()); ++id)
    if (used_[id] && graph_[Node{id}].kind == Kind::reduce && levels_[id] == pass + 1)
      reductions.push_back({id});
  return reductions;
}

std::vector<Node> LoopLayout::wantedBy(int pass) const {
  std::vector<Node> wanted;
  for (Node reduction : reductionsOf(pass))
    wanted.push_back(graph_[reduction].arguments[0]);
  for (const RowGraph::Effect &effect : graph_.effects())
    if (pass + 1 == passes() && storesColumns(effect))
      wanted.push_back(effect.node);
  return wanted;
}

double LoopLayout::elements(const Loop *begin, const Loop *end) const {
  double product = 1;
  for (; begin != end; ++begin)
    product *= double(begin->size);
  return product;
}

// Bytes that an access touches, each counted once: broadcasts are read once.
double LoopLayout::accessBytes(RowOperand operand, const std::vector<At> &at) const {
  double bytes = double(bytesOf(graph_[operand].element));
  for (const Loop &loop : loops_)
    for (Dim dim : loop.dims)
      if (hasDim(graph_[operand].dims, dim) && !isPositioned(at, dim))
        bytes *= double(graph_[dim].size);
  // A gathered row is another one for each row.
  if (hasNodeIndex(at))
    for (size_t loop = 0; loop < firstColumn_; ++loop)
      if (stride(operand, at, loop) == 0)
        bytes *= double(loops_[loop].size);
  return bytes;
}

plan::RowKernel::Operand LoopLayout::useOf(RowOperand operand) const {
  const auto &[element, access, dims, pitch, isMarked] = graph_[operand];
  const int64_t width = bytesOf(element);
  int64_t bytes = width, row = width;
  for (size_t i = 0; i < dims.size(); ++i) {
    bytes *= graph_[dims[i]].size;
    row *= int64_t(i) < pitch.dims ? 1 : graph_[dims[i]].size;
  }
  const auto use = access == Access::in    ? plan::OperandUse::read
                   : access == Access::out ? plan::OperandUse::written
                                           : plan::OperandUse::updated;
  const bool isCounted = isMarked || (graph_.count() && !dims.empty() && dims[0].id == 0);
  if (pitch.elements == 0 || pitch.elements * width == row)
    return {use, bytes, 0, 0, isCounted};
  return {use, bytes, row, pitch.elements * width, isCounted};
}

int64_t LoopLayout::countScalars() const {
  int64_t count = 0;
  for (int id = 0; id < int(graph_.nodes().size()); ++id)
    if (used_[id])
      count = std::max(count, int64_t(graph_[Node{id}].scalar) + 1);
  return count;
}

KernelInfo LoopLayout::info() const {
  KernelInfo info;
  info.scalars = countScalars();
  for (int id = 0; id < int(graph_.operands().size()); ++id)
    info.operands.push_back(useOf(RowOperand{id}));
  double all = elements(loops_.data(), loops_.data() + loops_.size()), perRow = double(rows());
  for (int id = 0; id < int(graph_.nodes().size()); ++id) {
    const RowGraph::NodeInfo &node = graph_[Node{id}];
    if (!used_[id])
      continue;
    if (node.kind == Kind::map)
      info.flops += node.flops * (varies_[id] ? all : perRow);
    if (node.kind == Kind::reduce)
      info.flops += all;
    if (node.kind == Kind::load)
      info.bytes += accessBytes(node.operand, node.at);
  }
  for (const RowGraph::Effect &effect : graph_.effects()) {
    bool accumulates = graph_[effect.operand].access == Access::accumulate;
    info.bytes += accessBytes(effect.operand, effect.at) * (accumulates ? 2 : 1);
    info.flops += effect.kind == RowGraph::EffectKind::store ? 0 : all;
  }
  info.range = range();
  return info;
}

int64_t LoopLayout::range() const {
  int64_t range = form_ == Form::rows ? rows() : blocksPerRow();
  if (form_ == Form::blocks)
    range *= rows();
  if (form_ == Form::columns)
    for (size_t loop = firstColumn_; loop + 1 < loops_.size(); ++loop)
      range *= loops_[loop].size;
  return range;
}

// Where the first dim is part of the loop that is cut into blocks, that loop is the only one.
int64_t LoopLayout::unitsOfPosition() const {
  const int64_t all = form_ == Form::rows ? rows() : firstColumn_ > 0 ? range() : innerSize();
  return all / graph_.dims()[0].size;
}
int64_t LoopLayout::unitSize() const { return form_ == Form::blocks && firstColumn_ == 0 ? blockSize_ : 1; }

// Whether no code depends on the size of the first dim: it is the outermost loop, and no operand's strides have it.
bool LoopLayout::isBoundByRange() const {
  const Dim first{0};
  const bool isOuter = !loops_.empty() && loops_[0].dims[0].id == first.id && (isFlat_ || firstColumn_ > 0);
  return isOuter && form_ != Form::columns && !graph_.count() &&
         std::ranges::all_of(graph_.operands(), [&](const RowGraph::OperandInfo &operand) {
           return std::none_of(operand.dims.begin() + (operand.dims.empty() ? 0 : 1), operand.dims.end(),
                               [&](Dim dim) { return dim.id == first.id; });
         });
}

std::string LoopLayout::codeKey() const {
  std::string key = graph_.key();
  if (isBoundByRange()) // it begins with the first dim: "d0:512 "
    key.erase(key.find(':') + 1, key.find(' ') - key.find(':') - 1);
  return key;
}

} // namespace mgc::rowgen
