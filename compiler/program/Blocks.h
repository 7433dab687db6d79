// The functions of the module by block, and what their arguments and results are. Read by stage and all later phases.
#pragma once

#include "dialects/mg/DataKind.h"
#include "dialects/mg/View.h"
#include "plan/PlanSchedule.h"
#include "plan/mesh/Mesh.h"
#include "runtime/base/Status.h"

#include <map>

namespace mgc {

// An error that says in which function; the rest of the message follows.
inline mlir::InFlightDiagnostic errorIn(mlir::func::FuncOp function) {
  return function.emitError() << "function " << function.getName() << ": ";
}

// Requires that mg.data of an argument names a known kind of data, and mg.param a tensor.
Status verifyArgument(mlir::func::FuncOp function, unsigned argument);

// One function of a block: forward, backward, input or weight.
struct BlockFunction {
  enum class ArgumentKind { activation, dout, saved, split, data, parameter };
  enum class ResultKind { out, saved, lossSum, tokens, term, din, split, grad };
  struct Argument {
    ArgumentKind kind;
    int64_t index;       // activation, dout, saved, split: which; parameter: the forward's argument; data: -1
    bool frozen = false; // activation: it has no gradient; parameter: it is not trained
  };
  struct Result {
    ResultKind kind;
    // The number among results of its kind. din: among the forward's activations; grad: the forward's argument; term:
    // in plan::kResults.
    int64_t index;
    int64_t activation = -1; // saved: the activation that it is, which is kept anyway; -1: a value of its own
    bool frozen = false;     // out: it has no gradient
    bool offloaded = false;  // saved: of an instance that is offloaded it is on the host
    // The result of the step that it adds to, a number in plan::kResults; nothing: none.
    std::optional<int64_t> total() const;
    // Adds to what its place holds: gradients and sums over microbatches.
    bool accumulates() const { return kind == ResultKind::grad || total().has_value(); }
  };
  mlir::func::FuncOp function;
  std::vector<Argument> arguments;
  std::vector<Result> results;

  explicit operator bool() const { return bool(function); }
  mlir::RankedTensorType argumentType(size_t i) const;
  mlir::RankedTensorType resultType(size_t i) const;
  std::vector<int64_t> resultsOf(ResultKind kind) const; // their numbers, by index
};

struct ModelBlock {
  std::string name;
  std::string base;   // the block that instances name; it is another one's of a variant (kVariantAttr)
  std::string stack;  // kStackAttr; empty: it is no layer
  std::string policy; // kPolicyAttr
  BlockFunction forward, backward, input, weight;       // backward, or input and weight; a loss has no weight
  std::vector<int64_t> activations;                     // numbers of forward's arguments
  std::vector<int64_t> differentiated;                  // the activations with gradients
  std::vector<const BlockFunction *> functions() const; // the functions that it has
  mlir::LogicalResult verify() const;                   // backward functions take what forward gives, in its type
  // The one that computes a loss with its gradient: backward or input, which adds to the step's results; null: none of this
  // block does.
  const BlockFunction *lossFunction() const;
  bool returnsLoss() const;             // one of its functions adds one loss_sum and one tokens: it is the head
  bool computes(plan::Task task) const; // its function does something
  // The sharded type of the gradient of forward's argument; null: none, or before local.
  mlir::RankedTensorType gradientType(int64_t argument) const;
  bool isLayer() const;                                   // takes and gives activations
  const BlockFunction *functionOf(plan::Task task) const; // null: it has none
};

// An instance of a block in a chunk. Neighbours may be a unit, which keeps what enters its first instance alone (LayerPolicies.h).
struct Instance {
  const ModelBlock *block; // has its forward
  int64_t number;
  // The variant whose forward the backward of the unit calls, to recompute what this variant's backward reads; null: the
  // instance is by itself or the last of its unit, and its backward is that of `block`.
  const ModelBlock *recomputed = nullptr;
  bool continuesUnit = false;                             // it is not the first of its unit
  bool isOffloaded = false;                               // BlockFunction::Result::offloaded
  const BlockFunction *functionOf(plan::Task task) const; // null: it has none
};

class Blocks {
public:
  // Errors, on the module: a block without forward, arguments or results of no known kind, a backward function
  // that takes what forward does not give or as another type.
  static mlir::FailureOr<Blocks> read(mlir::ModuleOp module);
  const ModelBlock &at(llvm::StringRef name) const { return blocks_.at(name.str()); }
  auto begin() const { return blocks_.begin(); } // name and block
  auto end() const { return blocks_.end(); }
  bool has(llvm::StringRef name) const { return blocks_.count(name.str()); }
  std::vector<const ModelBlock *> variantsOf(const ModelBlock &block) const; // the block, then others of its base
  const ModelBlock *variantOf(const ModelBlock &block, llvm::StringRef variant) const; // null: there is none
  std::vector<Instance> instancesOf(mlir::Region &body) const; // instances of a chain or a chunk

private:
  mlir::LogicalResult add(mlir::func::FuncOp function);
  std::map<std::string, ModelBlock> blocks_;
};

// The passes of a chunk that run per microbatch: forward, and backward or input and weight.
std::vector<plan::Task> passesOf(mlir::ModuleOp module);

// The module's #mg.mesh; an error where it has none.
mlir::FailureOr<MeshAttr> requireMesh(mlir::ModuleOp module);
plan::Mesh meshOf(mlir::ModuleOp module); // its mg.mesh

// Values that have memory of their own, among several: no argument's, and none that another has claimed.
class OwnMemory {
public:
  bool claim(mlir::Value value);

private:
  llvm::DenseSet<mlir::Value> claimed_;
};
// Whether the value may be added to what is in its place: what makes it can add, and nothing reads it.
bool isOnlyAdded(mlir::Value value);

mlir::RankedTensorType shardedType(mlir::Attribute typeAttr);
// Whether mg-local has been at the function: all that it takes and gives has its sharded type as mg.type.
bool isLocal(mlir::func::FuncOp function);

} // namespace mgc
