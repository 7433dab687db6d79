// RowGraph: one row kernel as a graph of scalar expressions over an iteration space. Ops add nodes, the generator
// (Compile.h) turns the whole graph into one native function: fusion is adding several ops' nodes to one graph.
//
//   in:  dims (row, column, indexed), operands with the dims they have, nodes, effects (stores)
//   out: verify(), key() (equal keys = equal kernels)
//
// Layer norm's forward, x[s,b,h] -> y[s,b,h]:
//   RowGraph graph;
//   Dim s = graph.addDim(DimKind::row, 512), b = graph.addDim(DimKind::row, 2);
//   Dim h = graph.addDim(DimKind::column, 768);
//   Operand x = graph.addOperand(Element::f32, Access::in, {s, b, h});
//   Operand y = graph.addOperand(Element::f32, Access::out, {s, b, h});
//   Node v = graph.load(x);
//   Node mean = scale(graph, graph.reduce(Reduction::sum, v), 1.0 / 768);       // helpers: RowOps.h
//   ...
//   graph.store(y, result);
//
// The kernel's operands are the pointers in order of addOperand, its scalars the i64 numbers of scalar(i).
// Two operands of the same dims and element may be one buffer: all that an element's store needs of that place is loaded
// before. Until its store an output may hold another value of the same element (EmitRows.cpp). `accumulate`
// operands are read and written.
#pragma once

#include "mlir/IR/Builders.h"
#include "plan/instructions/RowKernelInstruction.h"
#include "runtime/base/Status.h"
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace mgc::rowgen {

// Operands are f32, bf16 or i32; nodes any but bf16: a bf16 operand's values are f32, rounded on storing to the nearest,
// ties to even.
enum class Element { f32, bf16, i32, i64, i1 };
int64_t bytesOf(Element element);            // size of an operand's element
constexpr Element valueOf(Element element) { // the type that a load yields and a store expects
  return element == Element::bf16 ? Element::f32 : element;
}
enum class Access { in, out, accumulate };
enum class RowReduction { sum, max };

// row:     split over threads; outer loops
// column:  the inner loops; row reductions run over all column dims
// indexed: not iterated; every access to an operand that has it says where (At)
enum class DimKind { row, column, indexed };

struct Dim {
  int id = -1;
};
struct RowOperand {
  int id = -1;
};
// An operand that is a part of a larger buffer: positions of its first `dims` dims are `pitch` elements apart, within
// which the other dims lie dense. Pitch 0: all of it is dense.
struct Pitch {
  int64_t dims = 0, elements = 0;
  bool operator==(const Pitch &) const = default;
};
struct Node {
  int id = -1;
};

// Position along one dim in an access: a constant, or a per-row i32 node. A load whose node lies outside
// [0, size) is 0; an addAt outside does nothing. The dim may be an indexed one (half of a rotary pair, row of
// a table) or, for loads, a column dim (the logit of the label).
struct At {
  Dim dim;
  std::variant<int64_t, Node> index;
};
bool hasDim(const std::vector<Dim> &dims, Dim dim);
bool isPositioned(const std::vector<At> &at, Dim dim);

// Emits arith, math or Math.h ops, valid for scalars and for vectors alike. All arguments come in the same
// shape: scalars where none varies over the columns, else vectors of one length.
using Body = std::function<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)>;

// Facts about the kernel that its caller needs.
struct KernelInfo {
  int64_t range = 0;           // argument range [0, range): rows, or blocks of columns; parts are independent
  double flops = 0, bytes = 0; // cost of the whole range
  int64_t scalars = 0;         // it reads the first so many
  std::vector<plan::RowKernel::Operand> operands;
};

class RowGraph {
public:
  // Iteration order is the order of addition, first = outermost; every row dim comes before every column dim.
  Dim addDim(DimKind kind, int64_t size);
  // Row-major over `dims` in the order given, contiguous but for the pitch; broadcast over the dims it lacks.
  RowOperand addOperand(Element element, Access access, std::vector<Dim> dims, Pitch pitch = {});
  // The kernel does only the first positions of the first dim: as many as `count` says, an i32 operand without dims, that is
  // read when it runs. Operands that have the first dim first are counted.
  void countRows(RowOperand count);
  // The kernel reads only those positions of the operand's first dim that there are, though it does not iterate it.
  void markCounted(RowOperand operand);

  // Equal nodes are made once.
  Node load(RowOperand operand, std::vector<At> at = {});
  Node constant(double value);           // f32
  Node constantI32(int64_t value);       // i32
  Node scalar(int number);               // i64: the kernel's scalar argument; the same for all rows
  Node index(Dim dim);                   // i32: position along an iterated dim
  Node index(Dim dim, int scalarNumber); // the same plus a scalar argument: a global position
  // `name` identifies the body: bodies of equal name and result type must emit the same ops, so a body that
  // captures a number has it in its name ("scale:0x1p-3"). flops: per element, for the cost.
  Node map(std::string name, Body body, std::vector<Node> arguments, Element result = Element::f32, double flops = 1);
  // The f32 value as an operand of the element would keep it: rounded as on storing.
  Node round(Node node, Element element);
  // Over all column dims; a per-row value. sum: f32 or i32. max: f32, i32 or i64; of f32, NaNs are passed over, -inf if
  // nothing else.
  Node reduce(RowReduction reduction, Node node);

  // operand = node, or operand += node for Access::accumulate, rounded once. The operand has all row dims. With no column
  // dim in it the node is a per-row value; else it has all column dims.
  void store(RowOperand operand, Node node, std::vector<At> at = {});
  // operand[columns] = sum of node over all rows, in a fixed order (or += for Access::accumulate); bf16 is rounded once.
  // It has all column dims and no row dim. A graph with this or addAt stores nothing per row and has no row reduction; its
  // range counts blocks of columns.
  void storeSumOverRows(RowOperand operand, Node node);
  // table[at.., columns] += node for each row in order, bf16 rounded each time; the table has all column dims and no row dim, is
  // Access::accumulate, and one `at` index is a per-row i32 node.
  void addAt(RowOperand table, std::vector<At> at, Node node);

  // All violations, one per line.
  Status verify() const;
  std::string key() const;

  // --- Queries of the generator
  struct DimInfo {
    DimKind kind;
    int64_t size;
  };
  struct OperandInfo {
    Element element;
    Access access;
    std::vector<Dim> dims;
    Pitch pitch{};
    bool isCounted = false;
  };
  enum class NodeKind { load, constant, scalar, index, map, reduce };
  struct NodeInfo {
    NodeKind kind;
    Element element = Element::f32;
    std::vector<Node> arguments{}; // map, reduce
    RowOperand operand{};          // load
    std::vector<At> at{};          // load
    double value = 0;              // constant
    int scalar = -1;               // scalar
    Dim dim{};                     // index
    RowReduction reduction = RowReduction::sum;
    std::string name{}; // map
    Body body{};        // map; none: it rounds to bf16
    double flops = 0;   // map
  };
  enum class EffectKind { store, sumOverRows, addAt };
  struct Effect {
    EffectKind kind;
    RowOperand operand;
    Node node;
    std::vector<At> at;
  };
  const std::vector<DimInfo> &dims() const { return dims_; }
  const std::vector<OperandInfo> &operands() const { return operands_; }
  const std::vector<NodeInfo> &nodes() const { return nodes_; }
  const std::vector<Effect> &effects() const { return effects_; }
  std::optional<RowOperand> count() const { return count_; }
  const DimInfo &operator[](Dim dim) const { return dims_[dim.id]; }
  const OperandInfo &operator[](RowOperand operand) const { return operands_[operand.id]; }
  const NodeInfo &operator[](Node node) const { return nodes_[node.id]; }
  // Nodes a node is computed from: arguments, and the indices of a load.
  std::vector<Node> inputsOf(Node node) const;
  // Does the node change along the columns?
  bool variesOverColumns(Node node) const;
  bool isColumnKernel() const;

private:
  Node addNode(NodeInfo info);
  std::vector<DimInfo> dims_;
  std::vector<OperandInfo> operands_;
  std::vector<NodeInfo> nodes_;
  std::vector<Effect> effects_;
  std::optional<RowOperand> count_;
  std::map<std::string, int> known_; // canonical text of a node -> its id
};

struct NamedGraph {
  std::string symbol; // a C identifier
  RowGraph graph;
};

} // namespace mgc::rowgen
