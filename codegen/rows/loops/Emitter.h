// Code that the emitters of both targets share: how the nodes of a laid-out row graph become values, where accesses
// lie, plain building blocks. A target says how memory is read and written and who does what (EmitCpu.h, EmitGpu.h).
#pragma once

#include "codegen/rows/loops/LoopLayout.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

namespace mgc::rowgen {

// Where along the inner column loop a vector lies, and the values computed there.
struct Lanes {
  int64_t width = 1;
  int64_t valid = 1;    // lanes [valid, width) are masked off
  mlir::Value position; // i64: of lane 0
  llvm::DenseMap<int, mlir::Value> values{};
  bool isMasked() const { return valid != width; }
};

class KernelEmitter {
protected:
  KernelEmitter(mlir::MLIRContext *context, const LoopLayout &layout);
  virtual ~KernelEmitter() = default;
  using Values = llvm::SmallVector<mlir::Value>;
  using LoopBody = std::function<Values(mlir::Value position, mlir::ValueRange carried)>;

  // --- The target's part
  virtual mlir::Value scalarArgument(int number) = 0;
  // At `base`, where the access has lane 0. Values are f32 where memory is bf16.
  virtual mlir::Value loadVector(mlir::Value base, RowOperand operand, const std::vector<At> &at,
                                 const Lanes &lanes) = 0;
  virtual void storeVectorTo(mlir::Value base, RowOperand operand, const std::vector<At> &at, mlir::Value value,
                             const Lanes &lanes) = 0;
  // From and to memory's type, or a vector of it.
  virtual mlir::Value fromMemory(Element element, mlir::Value value);
  virtual mlir::Value toMemory(Element element, mlir::Value value);
  // The f32 value as memory of bf16 keeps it.
  virtual mlir::Value rounded(mlir::Value value) { return fromMemory(Element::bf16, toMemory(Element::bf16, value)); }
  // The value that an earlier pass has kept; null: it is computed.
  virtual mlir::Value keptValue(Node, const Lanes &) { return {}; }

  // --- EmitLoops.cpp: plain building blocks
  mlir::Value i64(int64_t value);
  mlir::Value addI64(mlir::Value a, mlir::Value b);
  mlir::Value mulI64(mlir::Value a, int64_t factor);
  Values loop(mlir::Value begin, mlir::Value end, int64_t step, mlir::ValueRange carried, const LoopBody &body);
  void onlyIf(mlir::Value condition, const std::function<void()> &body);
  mlir::Type elementType(Element element); // type of a value
  mlir::Type memoryType(Element element);  // type of an operand's element
  mlir::Type shapedLike(mlir::Value value, mlir::Type type);
  mlir::Type vectorType(Element element, int64_t width);
  mlir::Value splat(mlir::Value scalar, int64_t width);
  mlir::Value constantOf(mlir::Type type, double value);
  virtual mlir::Value combine(RowReduction reduction, mlir::Value a, mlir::Value b);
  mlir::Value identityOf(RowReduction reduction, mlir::Type type);
  mlir::Value combineLanes(RowReduction reduction, mlir::Value vector);

  // --- EmitNodes.cpp: values of nodes, loads and stores
  void emitKernelValues(); // constants and scalar arguments: once, before any row
  // i64: what of the kernel's range there is, where the rows are counted. A count out of range is as the nearest in it.
  mlir::Value countedRange(int64_t unitsOfPosition, int64_t unitSize);
  void setRow(mlir::Value row);   // decodes a linear row number into the row loops' coordinates
  void loadUniforms();            // the row's, except those at a place that a reduction gives
  mlir::Value uniform(Node node); // per-row value at the current insertion point
  mlir::Value varying(Node node, Lanes &lanes);
  mlir::Value computeVarying(Node node, Lanes &lanes);
  mlir::Value vectorOf(Node node, Lanes &lanes); // either kind, as a vector
  void prepare(Node node);                       // emits what `varying` takes from outside the column loops
  struct Place {                                 // the place of an access in the current row
    mlir::Value offset;                          // elements
    mlir::Value isValid;                         // i1, or null: always
  };
  void prepareStore(size_t effect);
  void storeVector(size_t effect, mlir::Value value, const Lanes &lanes);
  void storeVectorAt(const RowGraph::Effect &effect, Place place, mlir::Value value, const Lanes &lanes,
                     bool accumulates);
  void storeUniform(size_t effect);
  Place rowPlace(RowOperand operand, const std::vector<At> &at);
  mlir::Value pointer(RowOperand operand, const std::vector<At> &at, mlir::Value offset, mlir::Value position);
  mlir::Value loadElement(mlir::Value address, Element element);
  mlir::Value map(Node node, mlir::ValueRange arguments);
  mlir::Value uniformLoad(const RowGraph::NodeInfo &info);
  mlir::Value uniformIndex(const RowGraph::NodeInfo &info);
  mlir::Value varyingLoad(Node node, const Lanes &lanes);
  mlir::Value varyingIndex(const RowGraph::NodeInfo &info, const Lanes &lanes);

  const LoopLayout &layout_;
  const RowGraph &graph_;
  mlir::OpBuilder b_;
  mlir::Location loc_;
  std::vector<mlir::Value> operands_;             // base pointers
  std::vector<mlir::Value> coordinates_;          // by loop, i64; null where not (yet) in that loop
  llvm::DenseMap<int, mlir::Value> kernelValues_; // constants and scalar arguments
  llvm::DenseMap<int, mlir::Value> uniforms_;     // node -> value in the current row
  llvm::DenseMap<int, Place> loadPlaces_;         // varying load -> its place in the current row
  llvm::DenseMap<size_t, Place> storePlaces_;     // column store -> its place in the current row
  std::string error_;
};

} // namespace mgc::rowgen
