// All passes of the compiler, one entry each; `mg-opt --help` and docs/passes.md are made from it.
include "mlir/Pass/PassBase.td"

// A pass that takes the forms of these phases (docs/ir.md) and refuses others: FormPass.h.
class FormPass<string argument, list<string> phases>
    : PassBase<argument, "::mgc::FormPass<\"" # !interleave(phases, "\", \"") # "\">"> {
  list<string> takes = phases;
  let dependentDialects = ["::mgc::MgDialect"];
}

def Merge : FormPass<"mg-merge", ["import"]> {
  let summary = "Merge the matrix products that multiply the same value";
  let description = [{
    Joins the parameters of queries, keys and values, and of gate and up, and their biases; mg.parts takes the parts of
    the one product. Parameters stay apart where one is tied, or where an axis splits the dimension along which they
    would be joined.
  }];
  let constructor = "::mgc::createMergePass()";
}

def Evaluate : FormPass<"mg-evaluate", ["import"]> {
  let summary = "Freeze a program that is evaluated and not trained";
  let description = [{
    Freezes every parameter of a module in phase import, and sets dropout to 0. After all phases the program has no
    backward but that of the loss.
  }];
  let constructor = "::mgc::createEvaluatePass()";
}

def Grad : FormPass<"mg-grad", ["import", "merge"]> {
  let summary = "Differentiate the logical blocks";
  let description = [{
    Replaces each block @B by @B.forward, which also returns what backward needs, and @B.backward; or, when the
    schedule splits the backward pass (mg.training's split_backward), by @B.forward, @B.input and @B.weight.
  }];
  let constructor = "::mgc::createGradPass()";
}

def Shard : FormPass<"mg-shard", ["grad"]> {
  let summary = "Give every value its layout and put mg.reshard at uses";
  let description = [{
    One pure function of (axis rule, placement table) gives every type; nothing is propagated. Reshards stand at uses
    by the rules P1 to P8 of docs/sharding.md, P3 for ops that are linear in several operands too.
  }];
  let constructor = "::mgc::createShardPass()";
}

def Local : FormPass<"mg-local", ["shard", "stage"]> {
  let summary = "Lower to local shapes and explicit collectives";
  let description = [{
    Retypes every value to its block on one rank and lowers each mg.reshard to slices and collectives: the fewest
    possible in most cases, and at times one more where axes of several dimensions change places.
  }];
  let constructor = "::mgc::createLocalPass()";
}

def Ring : FormPass<"mg-ring", ["local"]> {
  let summary = "Unroll attention whose keys travel around a ring of ranks";
  let description = [{
    Attention with a `ring` becomes one call for the keys of each rank: mg.permute brings the keys of the next, and
    mg.merge_attention merges the results by their log-sum-exps. In backward dk and dv travel with their keys and
    return to their rank after one hop less than there are ranks.
  }];
  let constructor = "::mgc::createRingPass()";
}

def OrderRows : FormPass<"mg-order-rows", ["local"]> {
  let summary = "Order rows by expert and exchange them";
  let description = [{
    In a function that dispatches tokens to experts, one mg.group orders the rows, and its sources, places or counts
    become operands of the other ops. Ops whose types say that a rank's experts are not those of its tokens become ops on
    the rank's own rows and mg.exchange.
  }];
  let constructor = "::mgc::createOrderRowsPass()";
}

def Stage : FormPass<"mg-stage", ["local"]> {
  let summary = "Build the chunks of each pipeline stage, gradient buckets, and the step's functions";
  let description = [{
    Cuts the chain into chunks of balanced cost, lays the parameters of each stage out in buckets, and builds the
    functions that run once per training step, with layouts. mg-local lowers these.
  }];
  let constructor = "::mgc::createStagePass()";
}

def Tile : FormPass<"mg-tile", ["step"]> {
  let summary = "Compute the loss for a part of the tokens at a time";
  let description = [{
    In a function that computes a loss, the logits, their gradient and the ops that make or use them move into one
    mg.tile over the first dimension. mg.training's loss_tile is the number of tokens for which such a value may exist at
    once; 0 means all.
  }];
  let constructor = "::mgc::createTilePass()";
}

def FuseEpilogues : FormPass<"mg-fuse-epilogues", ["step", "tile"]> {
  let summary = "Fuse biases into matrix products as epilogues";
  let description = [{
    On targets whose matrix products have epilogues, mg.einsum and mg.add of a parameter become mg.linear where that saves
    a read and a write of the whole result: where no row op reads it.
  }];
  let constructor = "::mgc::createFuseEpiloguesPass()";
}

def Fuse : FormPass<"mg-fuse", ["step", "tile"]> {
  let summary = "Group row ops into kernels";
  let description = [{
    Afterwards a function holds library calls (einsum, linear, attention), mg.kernel and moves or collectives, nothing else.
    Each result that is added to a buffer is made by an einsum or a kernel that adds.
  }];
  let constructor = "::mgc::createFusePass()";
}
