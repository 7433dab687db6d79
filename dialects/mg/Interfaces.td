// Interfaces by which every mg op describes itself: its axis rule, gradient, cost and lowering.
#ifndef MGC_DIALECTS_MG_INTERFACES_TD
#define MGC_DIALECTS_MG_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Mg_ComputeOpInterface : OpInterface<"ComputeOpInterface"> {
  let cppNamespace = "::mgc";
  let description = [{
    An op with an axis rule: `operands -> results` over letters, one term per operand. `*` is any dimensions, the same
    names in the same order wherever it stands; `..` is any dimensions, in each term its own (the op says how they
    relate), before the letters or after them; `n!` is kept whole (never split); `n@` is whole too, unless a row of the rule table for
    the op splits it: then its blocks travel around these ranks (a ring), which may split another factor as well; a leading `~` marks an operand through which a pending sum may
    pass, `&` operands through which it may pass jointly (all pending alike); `max` before a result makes its
    reduction a maximum; the last operand term repeats for variadic operands; operands without a term are optional
    ones at the end. `c=s.b.k` is a factor whose
    positions are those of s, b and k together, in an order that is data: it has their axes. `c=s.b.k:e` has those of e
    too, which places its rows: one lies on the rank whose block of e has it, and a rank has room for all that may. Where
    no type has e, its size is the op's `count`. A factor that a result lacks, itself, merged or in parts, is reduced.
  }];
  let methods = [
    StaticInterfaceMethod<"The axis rule as written in the op's entry.", "::llvm::StringRef", "getRuleText", (ins)>,
    InterfaceMethod<"The rule with letters bound to the dimension names of this op's types.", "::mgc::AxisRule",
      "getAxisRule", (ins), "", [{ return ::mgc::bindRule($_op.getOperation(), $_op.getRuleText()); }]>,
    InterfaceMethod<"Floating point operations on the given types.", "double", "getFlops", (ins), "",
      [{ return ::mgc::elementwiseFlops($_op.getOperation()); }]>,
    InterfaceMethod<"Names of the factors whose global index the op reads (needs the rank's block offset).",
      "::llvm::SmallVector<::mlir::StringAttr>", "getIndexedFactors", (ins), "", [{ return {}; }]>
  ];
  let verify = [{ return ::mgc::verifyComputeOp($_op); }];
}

def Mg_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::mgc";
  let description = "An op that combines one value over ranks, element by element but for what it moves.";
  let methods = [
    InterfaceMethod<"Dimensions of the value that it cuts or concatenates.", "::llvm::SmallVector<int64_t>",
      "getMovedDims", (ins), "", [{ return {}; }]>
  ];
}

def Mg_DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mgc";
  let description = "Adds this op's contributions to its operands' cotangents, on logical values.";
  let methods = [
    InterfaceMethod<"", "::llvm::LogicalResult", "buildGradient", (ins "::mgc::GradientBuilder &":$g)>,
    InterfaceMethod<"Drops what only buildGradient reads: all gradients are made.", "void", "forgetGradient", (ins), "",
      [{ return; }]>
  ];
}

def Mg_StochasticOpInterface : OpInterface<"StochasticOpInterface"> {
  let cppNamespace = "::mgc";
  let description = "An op that drops values at random in training, and none where a model is evaluated.";
  let methods = [InterfaceMethod<"Becomes an op that drops nothing, or is replaced by its operand and erased.", "void",
    "dropNothing">];
}

def Mg_DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::mgc";
  let description = "An op that stands for several before types are assigned (the loss).";
  let methods = [InterfaceMethod<"Returns the values that replace the results.", "::llvm::SmallVector<::mlir::Value>",
    "decompose", (ins "::mlir::OpBuilder &":$builder)>];
}

def Mg_RowOpInterface : OpInterface<"RowOpInterface"> {
  let cppNamespace = "::mgc";
  let description = "An op between the matrix products: adds its scalar body to a row kernel.";
  let methods = [
    InterfaceMethod<"Adds the body.", "::llvm::LogicalResult", "emitRow", (ins "::mgc::RowEmitter &":$e)>,
    InterfaceMethod<"Which dimensions are rows, which columns.", "::mgc::RowSpace", "getRowSpace", (ins), "",
      [{ return ::mgc::rowSpaceOf($_op.getOperation()); }]>,
    InterfaceMethod<"The operand that is read at places that depend on data; null for none.", "::mlir::Value",
      "getLookupTable", (ins), "", [{ return {}; }]>,
    InterfaceMethod<"Whether those places are in the current row, so that the result may lie where the table does.", "bool",
      "looksUpInRow", (ins), "", [{ return true; }]>,
    InterfaceMethod<"How many of the last dimensions must lie together in operands and results whose rows lie apart.",
      "int64_t", "getDenseDims", (ins), "", [{ return 0; }]>,
    InterfaceMethod<"Whether its body adds to its result and never overwrites it: the result is zeroed before.", "bool",
      "onlyAccumulates", (ins), "", [{ return false; }]>
  ];
}

def Mg_ExpertRowsOpInterface : OpInterface<"ExpertRowsOpInterface"> {
  let cppNamespace = "::mgc";
  let description = [{
    An op on rows of experts, in the order that mg.group makes of its `experts`. It has `order`, `exchange` and `capacity`
    (ops/Experts.td).
  }];
  let methods = [
    InterfaceMethod<"Which result of mg.group its order is.", "::mgc::RowOrder", "getRowOrder">,
    InterfaceMethod<"Its operands and results that have the rows.", "::llvm::SmallVector<::mlir::Value>", "getRows">,
    InterfaceMethod<"The choices of the tokens.", "::mlir::Value", "getExperts">,
    InterfaceMethod<"Null before mg-order-rows.", "::mlir::Value", "getOrder">,
    InterfaceMethod<"", "void", "setOrder", (ins "::mlir::Value":$order), "",
      [{ $_op.getOrderMutable().assign(order); }]>,
    InterfaceMethod<"", "::mlir::ArrayAttr", "getExchangeAttr">,
    InterfaceMethod<"", "::mlir::IntegerAttr", "getCapacityAttr">
  ];
}

def Mg_WorkspaceOpInterface : OpInterface<"WorkspaceOpInterface"> {
  let cppNamespace = "::mgc";
  let description = "An op that may need scratch memory while it runs. Local types only.";
  let methods = [
    InterfaceMethod<"Bytes of it besides operands and results; 0 for none.", "int64_t", "getWorkspaceBytes">
  ];
}

def Mg_InstructionOpInterface : OpInterface<"InstructionOpInterface"> {
  let cppNamespace = "::mgc";
  let description = [{
    An op that is one instruction of the plan by itself: a library call, a collective, a move. Local types only.
  }];
  let methods = [InterfaceMethod<"The instruction.", "::mgc::InstructionCall", "getCall", (ins)>];
}

def Mg_LibraryOpInterface : OpInterface<"LibraryOpInterface"> {
  let cppNamespace = "::mgc";
  let description = [{
    An instruction that the runtime's library does as a whole: a matrix product, attention.
  }];
  let methods = [
    InterfaceMethod<"Whether it can add its result to what is there.", "bool", "canAccumulate", (ins), "",
      [{ return false; }]>,
    InterfaceMethod<"After how many dimensions the rows of an operand may lie apart (View.h); 0: it must be dense.",
      "int64_t", "getPitchedOperandDims", (ins "unsigned":$operand), "", [{ return 0; }]>,
    InterfaceMethod<"The same of a result.", "int64_t", "getPitchedResultDims", (ins "unsigned":$result), "",
      [{ return 0; }]>
  ];
}

#endif
