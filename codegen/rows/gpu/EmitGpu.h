// Emits one laid-out row graph as a gpu.func of gpu, scf, arith, math, vector and llvm ops.
//   in:  Layout (of a verified graph), a gpu.module to append to
//   out: gpu.func @symbol(operands: ptr<1>.., scalars: i64..) kernel, and its facts for plan::RowKernel
// GpuShape.h divides the work among threads. Where rows allow it, there are two versions of the body: one for operands
// that begin at multiples of 16 bytes, and one that reads and writes single elements; both sum in the same order.
#pragma once

#include "codegen/rows/gpu/GpuShape.h"
#include "codegen/rows/loops/Emitter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include <set>

namespace mgc::rowgen {

// Appends the kernel. Error: a body whose result has another type than its map says; more blocks than a launch may have;
// more shared memory than every GPU has for a block.
Status emitGpuKernel(mlir::gpu::GPUModuleOp module, const std::string &symbol, const LoopLayout &layout);

class GpuEmitter : KernelEmitter {
public:
  GpuEmitter(mlir::gpu::GPUModuleOp module, const LoopLayout &layout)
      : KernelEmitter(module.getContext(), layout), module_(module), shape_(GpuShape::of(layout)) {}
  Status emit(const std::string &symbol);

private:
  // One vector of a thread.
  struct Piece {
    mlir::Value row;      // null: the current one
    mlir::Value vector;   // its number in the columns; null: there are none
    mlir::Value isInside; // i1, or null: always. False: another thread has this piece; it is read, but not stored
    Lanes lanes{};
  };

  // --- EmitGpu.cpp: the kernel's frame, accesses to memory
  mlir::gpu::GPUFuncOp makeFunction(const std::string &symbol);
  void addFacts(const std::string &symbol);
  void whereRowsAre(const std::function<void()> &body);
  void emitVersions();
  void emitForm();
  mlir::Value isAligned();
  bool mayBeVector(RowOperand operand, const std::vector<At> &at) const;
  mlir::Value scalarArgument(int number) override { return scalars_[number]; }
  mlir::Value loadVector(mlir::Value base, RowOperand operand, const std::vector<At> &at, const Lanes &lanes) override;
  void storeVectorTo(mlir::Value base, RowOperand operand, const std::vector<At> &at, mlir::Value value,
                     const Lanes &lanes) override;
  mlir::Value toMemory(Element element, mlir::Value value) override;
  mlir::Value loadWords(mlir::Value base, Element element, int64_t width);
  void storeWords(mlir::Value base, Element element, mlir::Value value);
  // Pairs of bf16 in words of i32, from and to f32.
  mlir::Value packed(mlir::Value value);
  mlir::Value unpacked(mlir::Value words);
  mlir::Value rounded(mlir::Value value) override;
  mlir::Value elementAddress(mlir::Value base, Element element, int64_t number);

  // --- EmitGpuThreads.cpp: positions (i32, or i64 where there are too many), pieces, threads that work together
  mlir::Value position(int64_t value);
  mlir::Value fit(mlir::Value value);  // i64 -> a position's type
  mlir::Value wide(mlir::Value value); // the reverse
  mlir::Value plus(mlir::Value value, mlir::Value other);
  mlir::Value times(mlir::Value value, int64_t factor);
  mlir::Value quotient(mlir::Value value, int64_t divisor);
  mlir::Value remainder(mlir::Value value, int64_t divisor);
  mlir::Value isBelow(mlir::Value value, int64_t size);
  mlir::Value bounded(mlir::Value value, int64_t size);
  // The same of all rows, or vectors, of the kernel: `size`, or those that there are.
  mlir::Value isThere(mlir::Value value, int64_t size);
  mlir::Value boundedThere(mlir::Value value, int64_t size);
  mlir::Value both(mlir::Value a, mlir::Value b); // and; null: always
  void whereTrue(mlir::Value condition, const std::function<void()> &body);
  void enter(Piece &piece); // its row and columns become the current ones
  void collectLoads(Node node, std::set<int> &found) const;
  void loadFirst(const std::vector<Node> &nodes, std::vector<Piece> &pieces);
  mlir::Value written(size_t effect, Lanes &lanes);
  void storePieces(std::vector<Piece> &pieces, const std::vector<size_t> &effects);
  mlir::Value combine(RowReduction reduction, mlir::Value a, mlir::Value b) override;
  mlir::Value shuffled(mlir::Value value, int64_t distance);
  mlir::Value acrossLanes(RowReduction reduction, mlir::Value value, int64_t from, int64_t to);
  mlir::Value shared(int64_t first, int64_t size, mlir::Value element);
  void waitForBlock();

  // --- EmitGpuRows.cpp: forms rows and blocks
  void emitBlocks();
  void storeRows(std::vector<Piece> &pieces);
  void emitRows();
  void emitPass(int pass);
  std::vector<Piece> piecesOfRow(mlir::Value first, int64_t left);
  Values visitVectors(const std::vector<Node> &reductions, Values totals, const std::vector<size_t> &stores);
  Values visit(std::vector<Piece> &pieces, const std::vector<Node> &reductions, mlir::ValueRange totals,
               const std::vector<size_t> &stores);
  void finishReductions(const std::vector<Node> &reductions, mlir::ValueRange totals);
  void acrossWarps(const std::vector<Node> &reductions, Values &results);
  void storeUniforms(mlir::Value condition);
  void waitForReaders();

  // --- EmitGpuColumns.cpp: form columns
  void emitColumns();
  Piece columnAt(mlir::Value vector, bool mayBeOutside);
  Values zerosFor(const GpuPart &part);
  void emitSums(const GpuPart &part);
  Values addRows(const GpuPart &part, mlir::Value firstRow, const Piece &column, mlir::ValueRange sums);
  std::vector<Piece> piecesOfRows(mlir::Value firstRow, const Piece &column);
  void addPiece(const GpuPart &part, Piece &piece, Values &sums);
  mlir::Value sharedSum(size_t sum, mlir::Value number);
  void combineRows(const GpuPart &part, mlir::Value block, mlir::ValueRange sums);
  void writeColumn(const GpuPart &part, mlir::Value block);
  void writeSum(size_t effect, mlir::Value sum, const Lanes &lanes, mlir::Value condition);
  void emitTables(const GpuPart &part);
  mlir::Value isOfClass(mlir::Value index, int64_t classes, mlir::Value ownClass);
  Values visitRows(const GpuPart &part, mlir::Value first, mlir::Value isOurs, const Piece &column,
                   mlir::ValueRange sums);
  Values visitRow(const GpuPart &part, mlir::Value row, const Piece &column, mlir::ValueRange sums);

  mlir::gpu::GPUModuleOp module_;
  GpuShape shape_;
  std::vector<mlir::Value> scalars_;
  mlir::Value thread_, block_; // positions
  mlir::Value there_;          // how many rows, or vectors, there are; null: all
  bool aligned_ = true;        // the version that is being emitted
  int64_t sharedFloats_ = 0;
  std::string sharedName_;
  // Form rows.
  mlir::Value lane_, rowIsInside_; // a position; i1 or null
  std::vector<Piece> kept_;
  int64_t reducedFloats_ = 0; // floats of the block's shared memory that reductions already use
  bool waited_ = false;
};

} // namespace mgc::rowgen
