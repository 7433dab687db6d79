// Contractions, sums and products of values.
include "dialects/mg/ops/OpBase.td"

def Mg_EinsumOp : Mg_ComputeOp<"einsum", [MgGradient,
    DeclareOpInterfaceMethods<Mg_LibraryOpInterface, ["canAccumulate"]>, MgInstruction, MgWorkspace]> {
  let summary = "Contraction: sums the product over the factors the result lacks";
  let description = [{
    The factors are the dimension names. One matrix product on every rank: the factors of each operand must fall into
    at most three runs (batch-free): those kept from the left, those kept from the right, those summed.

        %q = mg.einsum %x, %wq : (tensor<.., #mg.layout<s, b, h>>, tensor<.., #mg.layout<h, g, r, d>>)
                                 -> tensor<.., #mg.layout<s, b, g, r, d>>

    1. every factor of the result is in exactly one operand; a factor of both operands is summed (einsum_c1)
    2. kept and summed factors stand in runs of equal order, so that the product is one gemm (einsum_c2)
    3. the operands have one element type, the result has it or f32: sums are made in f32 and rounded once (einsum_c3)
  }];
  let arguments = (ins Mg_Float:$lhs, Mg_Float:$rhs);
  let results = (outs Mg_Float:$result);
  let rule = "~.., ~.. -> ..";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    double getFlops();
    /// The local matrix product as one gemm; fails where the runs do not merge.
    struct GemmShape { int64_t m, n, k; bool swapOperands, transposeLhs, transposeRhs; };
    ::mlir::FailureOr<GemmShape> getGemmShape();
  }];
}

def Mg_LinearOp : Mg_ComputeOp<"linear", [
    DeclareOpInterfaceMethods<Mg_LibraryOpInterface>, MgInstruction, MgWorkspace]> {
  let summary = "Matrix product with an epilogue: mg.einsum plus a bias";
  let description = [{
    mg-fuse-epilogues makes the op for targets whose library runs it in one call: lhs rhs + bias. Sums are made in f32 and
    rounded once.

        %y = mg.linear %x, %w, %b : (tensor<.., #mg.layout<s, b, h>>, tensor<.., #mg.layout<h, f>>,
                                     tensor<.., #mg.layout<f>>) -> tensor<.., #mg.layout<s, b, f>>

    1. lhs and rhs make the result as they do in mg.einsum (einsum_c1, einsum_c2, einsum_c3)
    2. the bias has one element for each column of the one gemm: its names are the last of the result (linear_c1)
    3. the bias has the element type of the result (linear_c2)
  }];
  let arguments = (ins Mg_Float:$lhs, Mg_Float:$rhs, Mg_Float:$bias);
  let results = (outs Mg_Float:$result);
  let rule = ".., .., .. -> ..";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    double getFlops();
    /// Whether the value can be the bias of such a matrix product: linear_c1, linear_c2.
    static bool canBeBias(::mlir::Value value, ::mlir::Value result, int64_t columns);
  }];
}

def Mg_AddOp : Mg_ComputeOp<"add", [MgGradient, MgRow]> {
  let summary = "Sum of two values; the right one is broadcast over the dimensions it lacks";
  let description = "1. the names of rhs are names of lhs, and the result has the names of lhs (add_c1)";
  let arguments = (ins Mg_Float:$lhs, Mg_Float:$rhs);
  let results = (outs Mg_Float:$result);
  let rule = "&.., &.. -> ..";
  let hasVerifier = 1;
}

def Mg_AccumulateOp : Mg_ComputeOp<"accumulate", [MgGradient, MgRowSpace]> {
  let summary = "Signed sum of equally named values: cotangents, loss terms";
  let description = [{
    `apart`: a kernel of its own. A kernel that adds more stands where the last value is made, and keeps the memory of all
    until then.

    1. as many signs (1 or -1) as operands (accumulate_c1)
  }];
  let arguments = (ins Variadic<Mg_Float>:$values, DenseI64ArrayAttr:$signs, UnitAttr:$apart);
  let results = (outs Mg_Float:$result);
  let rule = "&* -> *";
  let hasVerifier = 1;
}

def Mg_SumOp : Mg_ComputeOp<"sum", [MgGradient, MgRow]> {
  let summary = "Sum over the dimensions the result lacks";
  let description = "1. the names of the result are names of the operand, in its order (sum_c1)";
  let arguments = (ins Mg_Float:$value);
  let results = (outs Mg_Float:$result);
  let rule = "~.. -> ..";
  let hasVerifier = 1;
}

def Mg_BroadcastOp : Mg_ComputeOp<"broadcast", [MgGradient, MgRow]> {
  let summary = "The value at every position of the dimensions it lacks: the gradient of mg.sum";
  let description = "1. the names of the operand are names of the result, in its order (broadcast_c1)";
  let arguments = (ins Mg_Float:$value);
  let results = (outs Mg_Float:$result);
  let rule = "~.. -> ..";
  let hasVerifier = 1;
}

def Mg_MulOp : Mg_ComputeOp<"mul", [MgGradient, MgRow]> {
  let summary = "Product of two values; the right one is broadcast over the dimensions it lacks";
  let description = "1. the names of rhs are names of lhs, and the result has the names of lhs (mul_c1)";
  let arguments = (ins Mg_Float:$lhs, Mg_Float:$rhs);
  let results = (outs Mg_Float:$result);
  let rule = ".., .. -> ..";
  let hasVerifier = 1;
}

def Mg_ScaleOp : Mg_ComputeOp<"scale", [MgGradient, MgRow]> {
  let summary = "Product with a constant that does not depend on the layout";
  let arguments = (ins Mg_Float:$value, F64Attr:$factor);
  let results = (outs Mg_Float:$result);
  let rule = "~* -> *";
}

def Mg_CastOp : Mg_ComputeOp<"cast", [MgGradient, MgRow]> {
  let summary = "The same values in another element type, rounded to nearest, to even where two are as near";
  let description = "1. the element types differ (cast_c1)";
  let arguments = (ins Mg_Float:$value);
  let results = (outs Mg_Float:$result);
  let rule = "~* -> *";
  let hasVerifier = 1;
}

def Mg_RenameOp : Mg_Op<"rename", [Pure, MgGradient,
    Mg_MovesData, DeclareOpInterfaceMethods<Mg_ComputeOpInterface, ["getRuleText", "getAxisRule"]>]> {
  let summary = "The same data with dimension `from` called `to`: keys are the positions s under the name t";
  let description = [{
    Both names are whole here, so that a value split over `from` is gathered at its use (and its cotangent, pending,
    reduce-scattered): the key/value all-gather of context parallelism. Where rows of the rule table for the op split
    both alike, a rank's block stays its block: the keys of ring attention. No data moves. The gradient has the same
    mg.tag, so that rows of the rule table for keys hold for their cotangents.
    1. the result has the names of the operand with `from` replaced by `to` (rename_c1)
    2. the element types are equal (rename_c2)
    3. the result is split as the operand is (rename_c3)
  }];
  let arguments = (ins Mg_Tensor:$value, StrAttr:$from, StrAttr:$to);
  let results = (outs Mg_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
