// A function of a step's end with the buffers that its arguments and results are bound to, for the verifier of its form
// (VerifyStepForm.h).
#pragma once

#include "compiler/step/StepBuilder.h"

namespace mgc {

// The buffer that an argument or result is bound to, by mg.buffer; without an index -1.
struct Bound {
  llvm::StringRef kind;
  int64_t index = -1;
  auto operator<=>(const Bound &) const = default;
  std::string text() const {
    if (kind.empty())
      return fmt::format("nothing ({})", kBufferAttr.str());
    return index < 0 ? kind.str() : fmt::format("{} {}", kind.str(), index);
  }
};

inline Bound boundIn(mlir::Attribute attribute) {
  auto buffer = llvm::dyn_cast_or_null<mlir::DictionaryAttr>(attribute);
  auto kind = buffer ? buffer.getAs<mlir::StringAttr>("kind") : mlir::StringAttr();
  auto index = buffer ? buffer.getAs<mlir::IntegerAttr>("index") : mlir::IntegerAttr();
  return {kind ? kind.getValue() : llvm::StringRef(), index ? index.getInt() : -1};
}

// The value before its changes of layout, or what mg-local makes of them.
inline mlir::Value beforeReshards(mlir::Value value) {
  while (mlir::Operation *op = value.getDefiningOp()) {
    if (!llvm::isa<ReshardOp, SliceOp, DemoteOp, AllReduceOp, ReduceScatterOp, AllGatherOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

// A function of a stage, with what its arguments and results are bound to.
class StepFunction {
public:
  StepFunction(StageOp stage, mlir::func::FuncOp function) : stage_(stage.getNumber()), function_(function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      arguments.push_back(boundIn(function.getArgAttr(i, kBufferAttr)));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      results.push_back(boundIn(function.getResultAttr(i, kBufferAttr)));
  }
  mlir::InFlightDiagnostic error() const { return errorIn(function_) << "stage " << stage_ << ": "; }
  mlir::func::FuncOp op() const { return function_; }
  bool isSharded() const { return !isLocal(function_); }
  // Whether no op stands in a kernel, so that what makes a value can be read.
  bool isReadable() const { return mlir::func::FuncOp(function_).getOps<KernelOp>().empty(); }

  mlir::RankedTensorType typeOf(const char *what, unsigned i) {
    const bool isArgument = what == kArgument;
    mlir::Attribute sharded = isArgument ? function_.getArgAttr(i, kTypeAttr) : function_.getResultAttr(i, kTypeAttr);
    if (isLocal(function_))
      return shardedType(sharded);
    return llvm::cast<mlir::RankedTensorType>(isArgument ? function_.getArgumentTypes()[i]
                                                         : function_.getResultTypes()[i]);
  }
  static constexpr const char *kArgument = "argument", *kResult = "result";

  // The argument bound to it, or null.
  mlir::Value argument(const Bound &bound) {
    const auto found = llvm::find(arguments, bound);
    return found == arguments.end() ? mlir::Value() : function_.getArgument(found - arguments.begin());
  }
  mlir::Value result(unsigned i) { return function_.getBody().front().getTerminator()->getOperand(i); }
  // Null where nothing is bound to it.
  mlir::Value result(const Bound &bound) {
    const auto found = llvm::find(results, bound);
    return found == results.end() ? mlir::Value() : result(found - results.begin());
  }
  std::string describe(mlir::Value value) {
    if (auto argument = llvm::dyn_cast_or_null<mlir::BlockArgument>(value))
      return fmt::format("argument {}, {}", argument.getArgNumber(), arguments[argument.getArgNumber()].text());
    return value ? "made by " + value.getDefiningOp()->getName().getStringRef().str() : "missing";
  }

  llvm::SmallVector<Bound> arguments, results;

private:
  int64_t stage_;
  mlir::func::FuncOp function_;
};

} // namespace mgc
