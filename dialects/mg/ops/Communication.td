// Change of type (reshard) and what it is lowered to: collectives over named axes, and local slices.
include "dialects/mg/ops/OpBase.td"

def Mg_ReshardOp : Mg_Op<"reshard", [Pure]> {
  let summary = "The same value with another layout";
  let description = [{
    1. shape, element type and names are equal (reshard_c1)
    2. the layouts differ (reshard_c2)
    3. axes pending in the result were pending with the same reduction, or the value was complete and is a sum now (reshard_c3)
  }];
  let arguments = (ins Mg_Tensor:$value);
  let results = (outs Mg_Tensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

// Local programs: types are local, `axes` are primitive axes, first = major.
// `moved`: the dimensions that it cuts or concatenates, as C++ expressions.
class Mg_CollectiveOp<string mnemonic, string moved = "", list<Trait> traits = []>
    : Mg_Op<mnemonic, [Pure, Mg_MovesData, DeclareOpInterfaceMethods<Mg_CollectiveOpInterface, ["getMovedDims"]>,
                       MgInstruction] # traits> {
  let description = [{
    1. the axes are axes of the module's mg.mesh, each once (mesh_c4)
    2. dim, split and concat are dimensions of the value, split and concat different ones (collective_c1)
    3. the result has the names and the element type of the value (collective_c2)
    4. its sizes are those of the value, but multiplied (concatenation) or divided (split) by the number of ranks along
       the axes in the dimension named (collective_c3)
    5. reduction is sum or max (collective_c4)
  }];
  let arguments = (ins Mg_Tensor:$value, ArrayAttr:$axes);
  let results = (outs Mg_Tensor:$result);
  let assemblyFormat = "$value `over` $axes attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDefinition = "::llvm::SmallVector<int64_t> $cppClass::getMovedDims() { return {" # moved # "}; }";
}
def Mg_AllReduceOp : Mg_CollectiveOp<"all_reduce"> {
  let summary = "Reduction of the ranks' values along the axes; every rank gets the same bits";
  let arguments = (ins Mg_Tensor:$value, ArrayAttr:$axes, DefaultValuedAttr<StrAttr, "\"sum\"">:$reduction);
}
def Mg_AllGatherOp : Mg_CollectiveOp<"all_gather", "int64_t(getDim())"> {
  let summary = "Concatenation of the ranks' values along dimension dim";
  let arguments = (ins Mg_Tensor:$value, ArrayAttr:$axes, I64Attr:$dim);
}
def Mg_ReduceScatterOp : Mg_CollectiveOp<"reduce_scatter", "int64_t(getDim())"> {
  let summary = "Reduction, of which each rank keeps its block along dimension dim";
  let arguments = (ins Mg_Tensor:$value, ArrayAttr:$axes, I64Attr:$dim, DefaultValuedAttr<StrAttr, "\"sum\"">:$reduction);
}
def Mg_AllToAllOp : Mg_CollectiveOp<"all_to_all", "int64_t(getSplit()), int64_t(getConcat())", [MgWorkspace]> {
  let summary = "Dimension `split` is split further, dimension `concat` is concatenated";
  let arguments = (ins Mg_Tensor:$value, ArrayAttr:$axes, I64Attr:$split, I64Attr:$concat);
}
def Mg_PermuteOp : Mg_CollectiveOp<"permute"> {
  let summary = "The value of the rank before along the axes; the first rank gets that of the last: a step of a ring";
}
def Mg_SliceOp : Mg_CollectiveOp<"slice", "int64_t(getDim())"> {
  let summary = "The rank's block along dimension dim: local";
  let arguments = (ins Mg_Tensor:$value, ArrayAttr:$axes, I64Attr:$dim);
}
def Mg_DemoteOp : Mg_CollectiveOp<"demote"> {
  let summary = "The value where the coordinate along the axes is 0, else zero: local";
}
