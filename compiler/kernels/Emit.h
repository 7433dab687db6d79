// Emits one laid-out row graph as a func.func of scf, arith, math, vector and llvm ops.
//   in:  Layout (of a verified graph), an empty module to append to
//   out: func @symbol(operands: ptr, scalars: ptr, begin: i64, end: i64)
// Explicit vectors of 16 floats; the order of every sum is fixed by sizes alone, never by begin and end.
#pragma once

#include "compiler/kernels/Layout.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>
#include <set>

namespace mgc::rowgen {

// Appends the kernel. Error: a body whose result has another type than its map says.
Status emitKernel(mlir::ModuleOp module, const std::string &symbol, const Layout &layout);

// Where along the inner column loop a vector lies, and the values computed there.
struct Lanes {
  int64_t width = 1;
  int64_t valid = 1;    // lanes [valid, width) are masked off
  mlir::Value position; // i64: of lane 0
  llvm::DenseMap<int, mlir::Value> values{};
  bool isMasked() const { return valid != width; }
};

class KernelEmitter {
public:
  KernelEmitter(mlir::ModuleOp module, const Layout &layout);
  Status emit(const std::string &symbol);

private:
  using Values = llvm::SmallVector<mlir::Value>;
  using LoopBody = std::function<Values(mlir::Value position, mlir::ValueRange carried)>;

  // --- EmitLoops.cpp: plain building blocks
  mlir::Value i64(int64_t value);
  mlir::Value addI64(mlir::Value a, mlir::Value b);
  mlir::Value mulI64(mlir::Value a, int64_t factor);
  Values loop(mlir::Value begin, mlir::Value end, int64_t step, mlir::ValueRange carried,
              const LoopBody &body);
  void onlyIf(mlir::Value condition, const std::function<void()> &body);
  // for (size_t i = 0; i < size; i += step), in chunks whose partial results are combined: keeps long sums
  // accurate.
  Values chunkedLoop(int64_t size, int64_t step, int64_t chunk, mlir::ValueRange totals,
                     mlir::ValueRange identities,
                     const std::function<mlir::Value(size_t, mlir::Value, mlir::Value)> &combine,
                     const LoopBody &body);
  mlir::Type elementType(Element element); // of values
  mlir::Type memoryType(Element element);  // of operands
  mlir::Value fromMemory(Element element, mlir::Value value);
  mlir::Value toMemory(Element element, mlir::Value value);
  mlir::Type shapedLike(mlir::Value value, mlir::Type type);
  mlir::Type vectorType(Element element, int64_t width);
  mlir::Value splat(mlir::Value scalar, int64_t width);
  mlir::Value constantOf(mlir::Type type, double value);
  mlir::Value laneMask(const Lanes &lanes);
  mlir::Value combine(Reduction reduction, mlir::Value a, mlir::Value b);
  mlir::Value identityOf(Reduction reduction, mlir::Type type);
  mlir::Value combineLanes(Reduction reduction, mlir::Value vector);

  // --- EmitNodes.cpp: values of nodes, loads and stores
  void setRow(mlir::Value row);   // decodes a linear row number into the row loops' coordinates
  mlir::Value uniform(Node node); // per-row value at the current insertion point
  mlir::Value varying(Node node, Lanes &lanes);
  mlir::Value vectorOf(Node node, Lanes &lanes); // either kind, as a vector
  void prepare(Node node);                       // emits what `varying` takes from outside the column loops
  struct Place {                                 // of an access in the current row
    mlir::Value offset;                          // elements
    mlir::Value isValid;                         // i1, or null: always
  };
  void prepareStore(size_t effect);
  void storeVector(size_t effect, mlir::Value value, const Lanes &lanes);
  void storeVectorAt(const RowGraph::Effect &effect, Place place, mlir::Value value, const Lanes &lanes,
                     bool accumulates);
  void storeUniform(size_t effect);
  Place rowPlace(Operand operand, const std::vector<At> &at);
  mlir::Value pointer(Operand operand, const std::vector<At> &at, mlir::Value offset, mlir::Value position);
  mlir::Value pointers(mlir::Value base, int64_t stride, int64_t width, Element element);
  mlir::Value loadElement(mlir::Value address, Element element);
  mlir::Value loadVector(mlir::Value base, Element element, int64_t stride, const Lanes &lanes);
  void storeVectorTo(mlir::Value base, Element element, int64_t stride, mlir::Value value, const Lanes &lanes,
                     bool accumulates);
  mlir::Value map(Node node, mlir::ValueRange arguments);
  mlir::Value scalarArgument(int number);
  mlir::Value uniformLoad(const RowGraph::NodeInfo &info);
  mlir::Value uniformIndex(const RowGraph::NodeInfo &info);
  mlir::Value varyingLoad(Node node, const Lanes &lanes);
  mlir::Value varyingIndex(const RowGraph::NodeInfo &info, const Lanes &lanes);

  // --- EmitRows.cpp: forms rows and blocks
  void emitRows();
  void emitBlocks();
  void emitPass(int pass, int passes);
  void loadUniforms();
  // A dear value that two passes need: the first stores it where the last will store an effect, the others load it.
  struct Kept {
    Node node;
    size_t effect;
    int pass; // the first that needs it
  };
  std::vector<Node> wantedBy(int pass, int passes) const;
  void collectVarying(Node node, Node stop, std::set<int> &found) const;
  bool mayKeep(const Kept &kept, int passes) const;
  void chooseKept(int passes);
  void keep(Lanes &lanes);
  mlir::Value loadKept(const Lanes &lanes);
  struct Accumulator {
    Node reduction;
    int64_t width;
    int lane; // which of the unrolled copies it belongs to; -1: the tail
  };
  std::vector<Accumulator> accumulatorsOf(const std::vector<Node> &reductions);
  Values columnNest(size_t loop, const std::vector<Accumulator> &accumulators, Values carried,
                    const std::vector<size_t> &stores);
  Values innerColumns(const std::vector<Accumulator> &accumulators, Values carried,
                      const std::vector<size_t> &stores);
  void visit(Lanes &lanes, int lane, const std::vector<Accumulator> &accumulators, Values &carried,
             const std::vector<size_t> &stores);
  void storeLanes(Lanes &lanes, const std::vector<size_t> &stores);
  void findNextPlaces(mlir::Value row);
  void fetchNextRow(const Lanes &lanes);
  void finishReductions(const std::vector<Node> &reductions, const std::vector<Accumulator> &accumulators,
                        mlir::ValueRange totals);

  // --- EmitColumns.cpp: form columns
  void emitColumns();
  void forEachColumnBlock(const std::function<void(const std::vector<Lanes> &)> &body);
  std::vector<Lanes> vectorsOf(mlir::Value start, int64_t columns);
  void zeroSums(const std::vector<Lanes> &vectors);
  void addRows(mlir::Value firstRow, mlir::Value endRow, const std::vector<Lanes> &vectors);
  void sumAllRows(const std::vector<Lanes> &vectors);
  Values zerosFor(const std::vector<Lanes> &vectors);
  void writeSums(const std::vector<Lanes> &vectors, mlir::ValueRange sums, bool (*adds)(Access));
  Values visitRow(mlir::Value row, std::vector<Lanes> vectors, mlir::ValueRange carried);

  mlir::ModuleOp module_;
  const Layout &layout_;
  const RowGraph &graph_;
  mlir::OpBuilder b_;
  mlir::Location loc_;
  std::vector<mlir::Value> operands_; // base pointers
  mlir::Value scalars_;               // pointer
  mlir::Value begin_, end_;
  std::vector<mlir::Value> coordinates_;           // of the loops, i64; null where not (yet) in that loop
  llvm::DenseMap<int, mlir::Value> kernelValues_;  // constants and scalar arguments
  llvm::DenseMap<int, mlir::Value> uniforms_;      // node -> value in the current row
  llvm::DenseMap<int, Place> loadPlaces_;          // varying load -> its place in the current row
  llvm::DenseMap<size_t, Place> storePlaces_;      // column store -> its place in the current row
  std::vector<std::pair<Node, Place>> nextPlaces_; // form rows: loads to fetch ahead, in the next row
  std::optional<Kept> kept_;                       // form rows
  enum class Keeping { notYet, now, done } keeping_ = Keeping::notYet;
  bool fetchesNextRow_ = false; // the pass that is being emitted does
  std::string error_;
};

} // namespace mgc::rowgen
