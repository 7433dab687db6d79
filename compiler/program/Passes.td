// All passes of the compiler, one entry each; `mg-opt --help` and docs/passes.md are made from it.
include "mlir/Pass/PassBase.td"

def Merge : Pass<"mg-merge", "::mlir::ModuleOp"> {
  let summary = "One matrix product where several multiply the same value";
  let description = [{
    Queries, keys and values, gate and up: their parameters are joined, the matrix product's parts taken by mg.parts;
    so are their biases. Not where a parameter is tied, nor where an axis splits a dimension along which they would be
    joined.
  }];
  let constructor = "::mgc::createMergePass()";
  let dependentDialects = ["::mgc::MgDialect"];
}

def Evaluate : Pass<"mg-evaluate", "::mlir::ModuleOp"> {
  let summary = "Freeze a program that is evaluated and not trained";
  let description = [{
    Freezes every parameter of a module in phase import, and sets dropout to 0. After all phases the program has no
    backward but that of the loss.
  }];
  let constructor = "::mgc::createEvaluatePass()";
  let dependentDialects = ["::mgc::MgDialect"];
}

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
    by the rules P1 to P8 of docs/sharding.md, P3 for ops that are linear in several operands too.
  }];
  let constructor = "::mgc::createShardPass()";
  let dependentDialects = ["::mgc::MgDialect"];
}

def Local : Pass<"mg-local", "::mlir::ModuleOp"> {
  let summary = "Local shapes and explicit collectives";
  let description = [{
    Retypes every value to its block on one rank and lowers each mg.reshard to slices and collectives: most often the
    fewest that do, where axes of several dimensions change places now and then one more.
  }];
  let constructor = "::mgc::createLocalPass()";
  let dependentDialects = ["::mgc::MgDialect"];
}

def Ring : Pass<"mg-ring", "::mlir::ModuleOp"> {
  let summary = "The steps of attention whose keys travel around a ring of ranks";
  let description = [{
    Attention with a `ring` becomes one call for the keys of each rank: mg.permute brings the keys of the next, and
    mg.merge_attention merges the results by their log-sum-exps. Backward, dk and dv travel with their keys and come home
    after one hop less than there are ranks.
  }];
  let constructor = "::mgc::createRingPass()";
  let dependentDialects = ["::mgc::MgDialect"];
}

def OrderRows : Pass<"mg-order-rows", "::mlir::ModuleOp"> {
  let summary = "The order of rows by expert";
  let description = [{
    A function that dispatches tokens to experts orders their rows once, by mg.group, and its ops are given what they need
    of the order: sources, places or counts. Ops whose ranks have other tokens than experts, by their types, become ops on
    the rank's own rows and mg.exchange.
  }];
  let constructor = "::mgc::createOrderRowsPass()";
  let dependentDialects = ["::mgc::MgDialect"];
}

def Stage : Pass<"mg-stage", "::mlir::ModuleOp"> {
  let summary = "Chunks per pipeline stage, gradient buckets, and the step's end";
  let description = [{
    Cuts the chain into chunks of balanced cost, lays the parameters of each stage out in buckets, and builds the
    functions that run once per training step.
  }];
  let constructor = "::mgc::createStagePass()";
  let dependentDialects = ["::mgc::MgDialect"];
}

def Tile : Pass<"mg-tile", "::mlir::ModuleOp"> {
  let summary = "Do the loss a part of the tokens at a time";
  let description = [{
    In a function that computes a loss: the logits and their gradient, what makes
    and uses them, and what lies between, move into one mg.tile over their first dimension. mg.training's loss_tile says
    for how many tokens such a value may exist at once; 0 means all.
  }];
  let constructor = "::mgc::createTilePass()";
  let dependentDialects = ["::mgc::MgDialect"];
}

def FuseEpilogues : Pass<"mg-fuse-epilogues", "::mlir::ModuleOp"> {
  let summary = "Biases and GELU as epilogues of matrix products";
  let description = [{
    For targets whose matrix products have epilogues: mg.einsum, mg.add of a parameter and mg.gelu become mg.linear where that
    saves a whole read and write of the product's result, for no row op would have read it anyway.
  }];
  let constructor = "::mgc::createFuseEpiloguesPass()";
  let dependentDialects = ["::mgc::MgDialect"];
}

def Fuse : Pass<"mg-fuse", "::mlir::ModuleOp"> {
  let summary = "Group row ops into kernels";
  let description = [{
    Afterwards a function holds library calls (einsum, linear, attention), mg.kernel and moves or collectives, nothing else.
    Each result that is added to a buffer is made by an einsum or a kernel that adds.
  }];
  let constructor = "::mgc::createFusePass()";
  let dependentDialects = ["::mgc::MgDialect"];
}
