// RowGraph::verify: what the generator may rely on. All violations at once, one per line.
#include "codegen/rows/graph/RowGraph.h"
#include <set>

namespace mgc::rowgen {

namespace {
class Verifier {
public:
  explicit Verifier(const RowGraph &graph) : graph_(graph) {}
  Status run() {
    checkDims();
    for (size_t id = 0; id < graph_.operands().size(); ++id)
      checkOperand({int(id)});
    if (errors_.empty()) // Accesses below read the dims.
      for (size_t id = 0; id < graph_.nodes().size(); ++id)
        checkNode({int(id)});
    if (errors_.empty())
      for (size_t number = 0; number < graph_.effects().size(); ++number)
        checkEffect(number);
    if (graph_.count() && errors_.empty())
      checkCount();
    if (graph_.effects().empty())
      fail("the graph stores nothing: expected at least one store, storeSumOverRows or addAt");
    return errors_.empty() ? Status::ok() : Status::error(errors_);
  }

private:
  template <typename... Args> void fail(fmt::format_string<Args...> format, Args &&...args) {
    errors_ += (errors_.empty() ? "" : "\n") + fmt::format(format, std::forward<Args>(args)...);
  }

  void checkDims() {
    bool sawColumn = false;
    for (size_t id = 0; id < graph_.dims().size(); ++id) {
      const RowGraph::DimInfo &dim = graph_.dims()[id];
      if (dim.size < 1)
        fail("dim {}: size {}, expected at least 1", id, dim.size);
      if (dim.kind == DimKind::row && sawColumn)
        fail("dim {}: a row dim after a column dim; expected every row dim first", id);
      sawColumn |= dim.kind == DimKind::column;
    }
    int64_t iterations = 1;
    for (const RowGraph::DimInfo &dim : graph_.dims())
      if (dim.kind != DimKind::indexed && __builtin_mul_overflow(iterations, dim.size, &iterations))
        return fail("the iteration space has more than 2^63 points");
  }

  void checkOperand(RowOperand operand) {
    const RowGraph::OperandInfo &info = graph_[operand];
    if (info.element != Element::f32 && info.element != Element::bf16 && info.element != Element::i32)
      fail("operand {}: expected f32, bf16 or i32", operand.id);
    std::set<int> seen;
    const int64_t elementBytes = bytesOf(info.element);
    int64_t bytes = elementBytes;
    const Pitch &pitch = info.pitch;
    if (pitch.elements < 0 || pitch.dims < 0 || pitch.dims > int64_t(info.dims.size()))
      return fail("operand {}: pitch of {} elements after {} of {} dims", operand.id, pitch.elements, pitch.dims,
                  info.dims.size());
    for (size_t place = info.dims.size(); place-- > 0;) {
      Dim dim = info.dims[place];
      if (size_t(dim.id) >= graph_.dims().size())
        return fail("operand {}: dim {} is not of this graph", operand.id, dim.id);
      if (!seen.insert(dim.id).second)
        fail("operand {}: has dim {} twice", operand.id, dim.id);
      if (pitch.elements > 0 && int64_t(place) + 1 == pitch.dims) {
        if (pitch.elements < bytes / elementBytes)
          fail("operand {}: pitch {} for rows of {} elements", operand.id, pitch.elements, bytes / elementBytes);
        if (__builtin_mul_overflow(pitch.elements, elementBytes, &bytes))
          return fail("operand {}: larger than 2^63 bytes", operand.id);
      }
      if (__builtin_mul_overflow(bytes, graph_[dim].size, &bytes))
        return fail("operand {}: larger than 2^63 bytes", operand.id);
    }
  }

  // Rows that are not done add to nothing: sums over rows, and columns that are the first dim, have all of it.
  void checkCount() {
    const RowOperand count = *graph_.count();
    const RowGraph::OperandInfo &info = graph_[count];
    if (info.element != Element::i32 || info.access != Access::in || !info.dims.empty())
      fail("operand {} counts rows; expected an i32 number to read", count.id);
    if (graph_.dims().empty() || graph_.isColumnKernel() || (graph_.dims()[0].kind != DimKind::row && !isElementwise()))
      fail("the rows are counted; expected a first dim over which nothing is summed");
    for (size_t id = 0; id < graph_.operands().size(); ++id)
      for (size_t place = 1; place < graph_.operands()[id].dims.size(); ++place)
        if (graph_.operands()[id].dims[place].id == 0)
          fail("operand {}: has the dim of counted rows at place {}, expected it first", id, place);
  }
  bool isElementwise() const {
    for (const RowGraph::NodeInfo &node : graph_.nodes()) {
      bool isPlaced = node.kind == RowGraph::NodeKind::reduce;
      for (const At &at : node.at)
        isPlaced |= at.index.index() == 1;
      if (isPlaced)
        return false;
    }
    return std::ranges::all_of(graph_.effects(), [&](const RowGraph::Effect &effect) {
      const std::vector<Dim> &dims = graph_[effect.operand].dims;
      return !dims.empty() && dims[0].id == 0;
    });
  }

  // Every indexed dim has one position; positions exist and lie inside.
  void checkAt(const std::string &where, RowOperand operand, const std::vector<At> &at) {
    std::set<int> seen;
    for (const At &position : at) {
      if (!hasDim(graph_[operand].dims, position.dim)) {
        fail("{}: operand {} has no dim {}", where, operand.id, position.dim.id);
        continue;
      }
      if (!seen.insert(position.dim.id).second)
        fail("{}: two positions for dim {}", where, position.dim.id);
      if (const int64_t *constant = std::get_if<int64_t>(&position.index)) {
        if (*constant < 0 || *constant >= graph_[position.dim].size)
          fail("{}: position {} of dim {}, expected 0 to {}", where, *constant, position.dim.id,
               graph_[position.dim].size - 1);
      } else {
        checkIndexNode(where, std::get<Node>(position.index));
        checkCountable(where, position.dim);
      }
    }
    for (Dim dim : graph_[operand].dims)
      if (graph_[dim].kind == DimKind::indexed && !seen.contains(dim.id))
        fail("{}: no position for the indexed dim {} of operand {}", where, dim.id, operand.id);
  }

  void checkIndexNode(const std::string &where, Node node) {
    if (graph_[node].element != Element::i32)
      fail("{}: the index %{} is not i32", where, node.id);
    if (graph_.variesOverColumns(node))
      fail("{}: the index %{} changes along the columns; expected a per-row value", where, node.id);
  }

  // Positions that are nodes are i32. Any other dim may be longer: a bucket of 2^31 parameters is one dim.
  void checkCountable(const std::string &where, Dim dim) {
    if (graph_[dim].size > INT32_MAX)
      fail("{}: dim {} has size {}, but positions are i32; expected at most {}", where, dim.id, graph_[dim].size,
           INT32_MAX);
  }

  void checkNode(Node node) {
    const RowGraph::NodeInfo &info = graph_[node];
    std::string where = fmt::format("node %{}", node.id);
    using Kind = RowGraph::NodeKind;
    if (info.kind == Kind::load) {
      if (graph_[info.operand].access == Access::out)
        fail("{}: loads operand {}, which is for output only", where, info.operand.id);
      checkAt(where, info.operand, info.at);
    }
    if (info.kind == Kind::index && graph_[info.dim].kind == DimKind::indexed)
      fail("{}: index of dim {}, which is not iterated", where, info.dim.id);
    if (info.kind == Kind::index)
      checkCountable(where, info.dim);
    if (info.kind == Kind::map && !info.body && info.name != "bf16")
      fail("{}: map '{}' has no body", where, info.name);
    if (info.element == Element::bf16)
      fail("{}: bf16 is for operands; expected a value of f32", where);
    if (info.kind != Kind::reduce)
      return;
    const bool isMax = info.reduction == RowReduction::max;
    if (info.element == Element::i1 || (info.element == Element::i64 && !isMax))
      fail("{}: {} of this element type; expected {}", where, isMax ? "max" : "sum",
           isMax ? "f32, i32 or i64" : "f32 or i32");
    if (graph_.isColumnKernel())
      fail("{}: a row reduction in a kernel that sums over rows; expected its result as an operand, stored before",
           where);
  }

  void checkEffect(size_t number) {
    const RowGraph::Effect &effect = graph_.effects()[number];
    std::string where = fmt::format("effect {}", number);
    if (size_t(effect.operand.id) >= graph_.operands().size() || size_t(effect.node.id) >= graph_.nodes().size())
      return fail("{}: operand or node is not of this graph", where);
    const RowGraph::OperandInfo &operand = graph_[effect.operand];
    if (operand.access == Access::in)
      fail("{}: stores to operand {}, which is for input only", where, effect.operand.id);
    if (valueOf(operand.element) != graph_[effect.node].element)
      fail("{}: node %{} and operand {} have different element types", where, effect.node.id, effect.operand.id);
    checkAt(where, effect.operand, effect.at);
    switch (effect.kind) {
    case RowGraph::EffectKind::store:
      return checkStore(where, effect);
    case RowGraph::EffectKind::sumOverRows:
      return checkColumnsOnly(where, effect.operand);
    case RowGraph::EffectKind::addAt:
      checkColumnsOnly(where, effect.operand);
      if (operand.access != Access::accumulate)
        fail("{}: addAt to operand {}; expected it to be for accumulation", where, effect.operand.id);
    }
  }

  int count(DimKind kind, RowOperand operand) const {
    int found = 0;
    for (Dim dim : graph_[operand].dims)
      found += graph_[dim].kind == kind;
    return found;
  }
  int count(DimKind kind) const {
    int found = 0;
    for (const RowGraph::DimInfo &dim : graph_.dims())
      found += dim.kind == kind;
    return found;
  }

  void checkStore(const std::string &where, const RowGraph::Effect &effect) {
    for (const At &at : effect.at)
      if (graph_[at.dim].kind != DimKind::indexed || at.index.index() == 1)
        fail("{}: a store at dim {}; expected constant positions of indexed dims only", where, at.dim.id);
    if (count(DimKind::row, effect.operand) != count(DimKind::row))
      fail("{}: operand {} lacks a row dim; expected all", where, effect.operand.id);
    int columns = count(DimKind::column, effect.operand);
    if (columns == 0 && graph_.isColumnKernel())
      fail("{}: a value per row in a kernel that sums over rows; expected two kernels", where);
    if (columns != 0 && columns != count(DimKind::column))
      fail("{}: operand {} has {} of {} column dims; expected all or none", where, effect.operand.id, columns,
           count(DimKind::column));
    if (columns == 0 && graph_.variesOverColumns(effect.node))
      fail("{}: node %{} changes along the columns, operand {} has none; expected a per-row value", where,
           effect.node.id, effect.operand.id);
  }

  void checkColumnsOnly(const std::string &where, RowOperand operand) {
    if (count(DimKind::row, operand) != 0)
      fail("{}: operand {} has a row dim; expected column dims only", where, operand.id);
    if (count(DimKind::column, operand) != count(DimKind::column) || count(DimKind::column) == 0)
      fail("{}: operand {} has {} of {} column dims; expected all, and at least one", where, operand.id,
           count(DimKind::column, operand), count(DimKind::column));
  }

  const RowGraph &graph_;
  std::string errors_;
};
} // namespace

Status RowGraph::verify() const { return Verifier(*this).run(); }

} // namespace mgc::rowgen
