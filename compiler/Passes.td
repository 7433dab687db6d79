// All passes of the compiler, one entry each; `mg-opt --help` and docs/passes.md are made from it.
include "mlir/Pass/PassBase.td"

def Grad : Pass<"mg-grad", "::mlir::ModuleOp"> {
  let summary = "Differentiate the logical blocks";
  let description = [{
    Replaces each block @B by @B.forward, which also returns what backward needs, and @B.backward; or, when the
    schedule splits the backward pass (mg.training's split_backward), by @B.forward, @B.input and @B.weight.
  }];
  let constructor = "::mgc::createGradPass()";
  let dependentDialects = ["::mgc::MgDialect"];
}

def Shard : Pass<"mg-shard", "::mlir::ModuleOp"> {
  let summary = "Give every value its layout and put mg.reshard at uses";
  let description = [{
    One pure function of (axis rule, placement table) gives every type; nothing is propagated. Reshards stand at uses
    by the eight rules of the sharding calculus.
  }];
  let constructor = "::mgc::createShardPass()";
  let dependentDialects = ["::mgc::MgDialect"];
}

def Local : Pass<"mg-local", "::mlir::ModuleOp"> {
  let summary = "Local shapes and explicit collectives";
  let description = [{
    Retypes every value to its block on one rank and lowers each mg.reshard to the fewest slices and collectives.
  }];
  let constructor = "::mgc::createLocalPass()";
  let dependentDialects = ["::mgc::MgDialect"];
}
