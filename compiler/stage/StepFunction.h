// A function of the step's end as verifyBindings has proved it: what its arguments and results are bound to (StepEnd.h), and
// what makes a value. Read by the verifiers of what it computes, before row ops stand in kernels and after.
#pragma once

#include "compiler/program/Blocks.h"
#include "dialects/mg/RowEmitter.h"

namespace mgc {

// mg.buffer; without an index -1.
struct Bound {
  llvm::StringRef kind;
  int64_t index = -1;
  bool isGradient() const { return kind.starts_with("gradient"); } // or the rank's part of it
  bool operator==(const Bound &) const = default;
};
std::string toString(const Bound &bound); // "gradient 3"

class StepFunction {
public:
  StepFunction(StageOp stage, llvm::StringRef symbol);
  mlir::func::FuncOp op() const { return function_; }
  mlir::InFlightDiagnostic error() const; // says the function and the stage; the rest of the message follows

  Bound boundOf(mlir::Value value) const; // without a kind if the value is no argument
  Bound boundOfResult(unsigned result) const;
  mlir::Value result(unsigned i) const;
  // Error, unless exactly one result is bound to it.
  mlir::FailureOr<mlir::Value> resultAt(const Bound &bound) const;

  std::string describe(mlir::Value value) const; // "argument 3, bound to gradient 1", "made by mg.zero"

private:
  mlir::func::FuncOp function_;
  int64_t stage_;
};

// The value itself, or what it is in the kernel that yields it.
mlir::Value sourceOf(mlir::Value value);
template <typename Op> Op madeBy(mlir::Value value) { return sourceOf(value).getDefiningOp<Op>(); }

// To compare lists of axes whose order does not matter.
plan::Axes sorted(plan::Axes axes);

} // namespace mgc
