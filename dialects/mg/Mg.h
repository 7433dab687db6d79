// The mg dialect: attributes, interfaces and ops. Include this, not the generated files.
#pragma once

#include "dialects/mg/Assembly.h"
#include "dialects/mg/AxisRule.h"
#include "dialects/mg/ElementType.h"
#include "dialects/mg/InstructionCall.h"
#include "dialects/mg/RowSpace.h"
#include "dialects/mg/training/TrainingSettings.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "plan/PlanPrograms.h"

namespace mgc {
class GradientBuilder; // dialects/mg/Gradient.h
class RowEmitter;      // dialects/mg/RowEmitter.h

template <typename ConcreteOp>
class MovesData : public mlir::OpTrait::TraitBase<ConcreteOp, MovesData> {}; // ops/OpBase.td
template <typename ConcreteOp>
class Discontinuous : public mlir::OpTrait::TraitBase<ConcreteOp, Discontinuous> {};                  // ops/OpBase.td
template <typename ConcreteOp> class Costly : public mlir::OpTrait::TraitBase<ConcreteOp, Costly> {}; // ops/OpBase.td
template <typename ConcreteOp>
class OfLogits : public mlir::OpTrait::TraitBase<ConcreteOp, OfLogits> {}; // ops/OpBase.td
} // namespace mgc

// plan::Mesh is the parameter of #mg.mesh, TrainingSettings that of #mg.training.
namespace mgc::plan {
llvm::hash_code hash_value(const Mesh &mesh);
} // namespace mgc::plan
namespace mgc {
llvm::hash_code hash_value(const TrainingSettings &settings);
} // namespace mgc

#include "MgDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "MgAttributes.h.inc"
#include "MgInterfaces.h.inc"
#define GET_OP_CLASSES
#include "MgOps.h.inc"

namespace mgc {

// The layout of a tensor value; null when it has none.
inline LayoutAttr layoutOf(mlir::Type type) {
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  return tensor ? mlir::dyn_cast_or_null<LayoutAttr>(tensor.getEncoding()) : LayoutAttr();
}
inline LayoutAttr layoutOf(mlir::Value value) { return layoutOf(value.getType()); }
inline mlir::RankedTensorType tensorOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

// The fields of the module's mg.training; their defaults where it has none.
const TrainingSettings &trainingOf(mlir::ModuleOp module);

// Lists of axis names, as attributes and in plans.
plan::Axes axesOf(mlir::ArrayAttr axes);
mlir::ArrayAttr
namesIn(mlir::ArrayAttr pending); // the axes among what a value is pending over, which may have ties of stages
mlir::ArrayAttr axesAttr(mlir::MLIRContext *context, const plan::Axes &axes);

// Bytes of scratch memory that the op needs besides its operands and results; 0 for none.
inline int64_t workspaceBytes(mlir::Operation *op) {
  auto with = mlir::dyn_cast<WorkspaceOpInterface>(op);
  return with ? with.getWorkspaceBytes() : 0;
}

// taskOf: mg.pass of a function, what it does in a step; nothing for a block that is not differentiated.
std::optional<plan::Task> taskOf(mlir::func::FuncOp function);
// functionName: the symbol of a block's function for one of plan::kBlockTasks, "layer.forward".
std::string functionName(llvm::StringRef block, plan::Task task);

// Module attributes.
inline constexpr llvm::StringLiteral kMeshAttr = "mg.mesh";           // #mg.mesh
inline constexpr llvm::StringLiteral kPlacementAttr = "mg.placement"; // the rule table: docs/sharding.md
inline constexpr llvm::StringLiteral kModelAttr =
    "mg.model"; // {type, config: #mg.text of config.json verbatim, ignored_tensors}
inline constexpr llvm::StringLiteral kTrainingAttr = "mg.training"; // #mg.training
inline constexpr llvm::StringLiteral kPhaseAttr = "mg.phase";       // name of the last phase
// Function attributes. A logical block has kBlockAttr alone, as a unit; a function of a block has both.
inline constexpr llvm::StringLiteral kBlockAttr = "mg.block"; // name of the block
inline constexpr llvm::StringLiteral kPassAttr = "mg.pass";   // nameOf a plan::Task
// The stack of a block that is a layer: its name, whose layers a policy of recomputation counts ("decoder", "encoder", "later").
inline constexpr llvm::StringLiteral kStackAttr = "mg.stack";
// From grad on, of the functions of a variant of a block: the block that they may stand for. They are named VARIANT.forward .., and
// save other values (compiler/grad/Recompute.h).
inline constexpr llvm::StringLiteral kVariantAttr = "mg.variant_of";
// From grad on, of functions whose block has not the standard policy of recomputation: plan::Program::policy.
inline constexpr llvm::StringLiteral kPolicyAttr = "mg.policy";
// Function argument attributes: an argument without either is an activation of the chain.
inline constexpr llvm::StringLiteral kDataAttr = "mg.data";   // "tokens" | "labels" | "loss_weights" | ...
inline constexpr llvm::StringLiteral kParamAttr = "mg.param"; // dictionary: see docs/ir.md
// Function result attribute: "out" (an activation, the default), "saved", "din", "split", "grad", or what it adds to of
// the step's results (plan::kResults): "loss_sum", "tokens", or a term of the loss.
inline constexpr llvm::StringLiteral kResultAttr = "mg.result";
// From grad on: what a backward function's argument is ("dout" | "saved" | "split"), and which of its kind.
inline constexpr llvm::StringLiteral kArgAttr = "mg.arg";
inline constexpr llvm::StringLiteral kIndexAttr = "mg.index";
// From grad on, of an activation, on the argument that takes it and the result of forward that it is: a unit. No trained parameter
// is before it, so it has no gradient: no din, no dout (docs/frozen-parameters.md).
inline constexpr llvm::StringLiteral kFrozenAttr = "mg.frozen";
// Tag of a compute op: a name that rows of the rule table ask for.
inline constexpr llvm::StringLiteral kTagAttr = "mg.tag";
// Until grad, of a compute op: names of the modules (kRecomputeModules) that it is part of.
inline constexpr llvm::StringLiteral kModulesAttr = "mg.modules";
// A unit attribute of a value that forward saves, where instances may have it on the host (dialects/mg/training/OffloadWords.h).
inline constexpr llvm::StringLiteral kOffloadAttr = "mg.offload";
inline constexpr llvm::StringLiteral kTypeAttr = "mg.type"; // from local on: the sharded type, a TypeAttr
// Dictionary on arguments and results of begin, reduce and update: compiler/step/StepBuilder.h
inline constexpr llvm::StringLiteral kBufferAttr = "mg.buffer";

} // namespace mgc
