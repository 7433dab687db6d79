// Emits one laid-out row graph as a func.func of scf, arith, math, vector and llvm ops, for CPUs.
//   in:  Layout (of a verified graph), an empty module to append to
//   out: func @symbol(operands: ptr, scalars: ptr, begin: i64, end: i64)
// Explicit vectors of 16 floats; the order of every sum is fixed by sizes alone, never by begin and end.
#pragma once

#include "codegen/rows/loops/Emitter.h"
#include <optional>
#include <set>

namespace mgc::rowgen {

// Appends the kernel. Error: a body whose result has another type than its map says.
Status emitKernel(mlir::ModuleOp module, const std::string &symbol, const LoopLayout &layout);

class CpuEmitter : KernelEmitter {
public:
  CpuEmitter(mlir::ModuleOp module, const LoopLayout &layout)
      : KernelEmitter(module.getContext(), layout), module_(module) {}
  Status emit(const std::string &symbol);

private:
  // --- EmitCpu.cpp: the kernel's frame, masked vectors
  mlir::Value scalarArgument(int number) override;
  mlir::Value loadVector(mlir::Value base, RowOperand operand, const std::vector<At> &at, const Lanes &lanes) override;
  void storeVectorTo(mlir::Value base, RowOperand operand, const std::vector<At> &at, mlir::Value value,
                     const Lanes &lanes) override;
  void shareCountedRange();
  mlir::Value laneMask(const Lanes &lanes);
  mlir::Value pointers(mlir::Value base, int64_t stride, int64_t width, Element element);
  // for (size_t i = 0; i < size; i += step), in chunks whose partial results are combined: keeps long sums accurate.
  Values chunkedLoop(int64_t size, int64_t step, int64_t chunk, mlir::ValueRange totals, mlir::ValueRange identities,
                     const std::function<mlir::Value(size_t, mlir::Value, mlir::Value)> &combine, const LoopBody &body);

  // --- EmitRows.cpp: forms rows and blocks
  void emitRows();
  void emitBlocks();
  void emitFlat(const std::vector<size_t> &stores);
  void emitPass(int pass, int passes);
  // An expensive value that two passes need: the first stores it where the last will store an effect, the others load
  // it.
  struct Kept {
    Node node;
    size_t effect;
    int pass; // the first that needs it
  };
  void collectVarying(Node node, Node stop, std::set<int> &found) const;
  bool mayKeep(const Kept &kept, int passes) const;
  void chooseKept(int passes);
  void keep(Lanes &lanes);
  mlir::Value keptValue(Node node, const Lanes &lanes) override;
  struct Accumulator {
    Node reduction;
    int64_t width;
    int lane; // number of the unrolled copy it belongs to; -1: the tail
  };
  std::vector<Accumulator> accumulatorsOf(const std::vector<Node> &reductions);
  Values columnNest(size_t loop, const std::vector<Accumulator> &accumulators, Values carried,
                    const std::vector<size_t> &stores);
  Values innerColumns(const std::vector<Accumulator> &accumulators, Values carried, const std::vector<size_t> &stores);
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
  mlir::Value scalars_; // pointer
  mlir::Value begin_, end_;
  std::vector<std::pair<Node, Place>> nextPlaces_; // form rows: loads to fetch ahead, in the next row
  std::optional<Kept> kept_;                       // form rows
  enum class Keeping { notYet, now, done } keeping_ = Keeping::notYet;
  bool fetchesNextRow_ = false; // the pass that is being emitted does
};

} // namespace mgc::rowgen
