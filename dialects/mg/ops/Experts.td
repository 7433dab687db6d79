// The experts of a mixture: tokens to rows in the order of their experts, matrix products of such rows, and back.
//
// A token has a row for each of its k choices: c of them for s b tokens, grouped by expert, and on the rank that has the expert.
// The order of the rows is data, and of each rank its own: c has the axes of s, b and e, and a place of c means
// something only with the `experts` that it was made for. So every op here takes them, and no reshard may change the split of c.
include "dialects/mg/ops/OpBase.td"

def Mg_DropOp : Mg_ComputeOp<"drop", [MgInstruction, MgWorkspace, Mg_Discontinuous]> {
  let summary = "Keeps the choices that their experts have room for";
  let description = [{
    The tokens of `together` sequences of a batch share the room of each expert of `count`, `capacity` choices. Those with the
    largest weights have it, or with byPosition those of the first positions: plan::DropChoices has the order to the last tie. A
    choice without room becomes `count`, which is no expert's number: it has no row, and its weight no gradient. The weights that
    are left stay as they are, as in Megatron-LM. The tokens before a token are those of its whole sequence: s is whole.

        %kept = mg.drop %experts by %weights at %positions {count = 8 : i64, capacity = 40 : i64, together = 2 : i64}

    1. count, capacity and together are positive, and together divides the batch (drop_c1)
  }];
  let arguments = (ins Mg_I32:$experts, Mg_F32:$weights, Mg_I32:$positions, I64Attr:$count, I64Attr:$capacity,
                       I64Attr:$together, UnitAttr:$byPosition);
  let results = (outs Mg_I32:$kept);
  let rule = "s! b k!, s! b k!, s! b -> s! b k!";
  let assemblyFormat = [{
    $experts `by` $weights `at` $positions attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

defvar MgExpertRows = DeclareOpInterfaceMethods<Mg_ExpertRowsOpInterface, ["getRowOrder", "getRows"]>;
class MgRowsIn<string rowOrder, string values> {
  string definitions = "::mgc::RowOrder $cppClass::getRowOrder() { return ::mgc::RowOrder::" # rowOrder # "; }\n"
      # "::llvm::SmallVector<::mlir::Value> $cppClass::getRows() { return {" # values # "}; }\n";
}

// `order` is what mg.group makes of the experts; mg-order-rows gives it to local ops, logical ones have none. `count`: how many
// experts there are, on all ranks; `coordinates` has the axes that share them out. `exchange`, of a local op that mg-order-rows has
// not seen: the axes whose ranks have other tokens, to which rows travel. `capacity`, after mg.drop: how many rows an expert has
// at most, of all tokens that the op's types have (AxisRule.h).
class Mg_RowsOp<string mnemonic, string rowRule, string rowOrder, list<Trait> traits = []>
    : Mg_IndexedOp<mnemonic, [MgGradient, MgExpertRows,
        DeclareOpInterfaceMethods<Mg_RowOpInterface, ["getRowSpace", "getLookupTable", "looksUpInRow",
                                                         "getDenseDims"]>] # traits> {
  let rule = rowRule;
  let hasVerifier = 1;
  let extraClassDefinition = "::llvm::StringRef $cppClass::getRuleText() { return \"" # rowRule # "\"; }" # [{
    ::llvm::SmallVector<::mlir::StringAttr> $cppClass::getIndexedFactors() { return ::mgc::rowFactors(*this); }
    ::mlir::Value $cppClass::getLookupTable() { return getValue(); }
    bool $cppClass::looksUpInRow() { return false; }
    int64_t $cppClass::getDenseDims() { return ::mgc::tensorOf(getExperts()).getRank(); } // all
  }] # MgRowsIn<rowOrder, !if(!eq(rowOrder, "sources"), "getResult()", "getValue()")>.definitions;
  let assemblyFormat = [{
    $value `to` $experts (`order` $order^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Mg_GroupOp : Mg_ComputeOp<"group", [MgInstruction]> {
  let summary = "The order of rows by expert";
  let description = [{
    Orders the rows of the rank's experts: counts[e] is the number of rows of expert e, places[s, b, j] the place of the row
    of a token's choice j, sources[c] the choice, s b k flattened, whose row has place c. Rows of an expert are in the order
    of the tokens. A choice of another rank's expert, or of none (mg.drop), has the place c, and a place after the last row the
    source s b k: there is nothing at either. Local types only: the order is the rank's own.

        %counts, %places, %sources = mg.group %experts over ["ep"]

    1. all is dense, and places are as many as experts (group_c1)
    2. there are as many sources as the tokens may have rows on the rank: for each token no more than its choices, or counts;
       with a capacity no more than that for each expert (group_c2)
    3. the axes are axes of the module's mg.mesh, each once (mesh_c4)
  }];
  let arguments = (ins Mg_I32:$experts, ArrayAttr:$axes, OptionalAttr<I64Attr>:$capacity);
  let results = (outs Mg_I32:$counts, Mg_I32:$places, Mg_I32:$sources);
  let rule = ".. -> .., .., ..";
  let assemblyFormat = "$experts `over` $axes attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Mg_RowCountOp : Mg_ComputeOp<"row_count", [MgRowSpace]> {
  let summary = "Number of rows: the sum of the counts of all experts that a rank has";
  let description = [{
    The number of rows that row kernels over such rows process (mg.kernel). mg-fuse creates the op; the order of the sum does
    not matter.

        %number = mg.row_count %counts

    1. counts are a list, the result is a number (row_count_c1)
  }];
  let arguments = (ins Mg_I32:$counts);
  let results = (outs Mg_I32:$number);
  let rule = ".. -> ..";
  let hasVerifier = 1;
}

def Mg_ExchangeOp : Mg_Op<"exchange", [Pure, MgInstruction]> {
  let summary = "Rows to the ranks of their experts, and back";
  let description = [{
    value has a rank's rows in the order of all experts, the result those of its own experts from all ranks: by expert, and for
    one expert by rank. `back` is the reverse. counts: for each rank along the axes the number of rows of each of all experts.
    Places after the last row are neither read nor written. Local types only.

        %rows = mg.exchange %own by %counts over ["ep"]

    1. the rows keep their type (exchange_c1)
    2. counts has a number of each rank for each expert, of which all ranks have as many (exchange_c2)
    3. there are axes (exchange_c3)
    4. they are axes of the module's mg.mesh, each once (mesh_c4)
  }];
  let arguments = (ins Mg_Float:$value, Mg_I32:$counts, ArrayAttr:$axes, UnitAttr:$back);
  let results = (outs Mg_Float:$result);
  let assemblyFormat = "$value `by` $counts `over` $axes (`back` $back^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Mg_DispatchOp : Mg_RowsOp<"dispatch", "~s b h, s b k!, c -> c=s.b.k:e h", "sources"> {
  let summary = "A token's activation in each of its rows";
  let description = [{
    order: the sources of mg.group.

    1. where the tokens are split there is no order: it is a rank's own (dispatch_c1)
  }];
  let arguments = (ins Mg_Float:$value, Mg_I32:$experts, Optional<Mg_I32>:$order, I64Attr:$count,
                       OptionalAttr<DictionaryAttr>:$coordinates, OptionalAttr<ArrayAttr>:$exchange,
                       OptionalAttr<I64Attr>:$capacity);
  let results = (outs Mg_Float:$result);
}
def Mg_CombineOp : Mg_RowsOp<"combine", "~c=s.b.k:e h, s b k!, s b k! -> s b h", "places"> {
  let summary = "The sum of a token's rows";
  let description = [{
    Sums are made in f32, in the order of the choices. order: the places of mg.group.

    1. where the tokens are split there is no order: it is a rank's own (combine_c1)
  }];
  let arguments = (ins Mg_Float:$value, Mg_I32:$experts, Optional<Mg_I32>:$order, I64Attr:$count,
                       OptionalAttr<DictionaryAttr>:$coordinates, OptionalAttr<ArrayAttr>:$exchange,
                       OptionalAttr<I64Attr>:$capacity);
  let results = (outs Mg_Float:$result);
}
def Mg_SpreadOp : Mg_RowsOp<"spread", "~s b k!, s b k!, c -> c=s.b.k:e", "sources"> {
  let summary = "The number of a choice, its weight, at its row";
  let description = [{
    order: the sources of mg.group.

    1. where the tokens are split there is no order: it is a rank's own (spread_c1)
  }];
  let arguments = (ins Mg_Float:$value, Mg_I32:$experts, Optional<Mg_I32>:$order, I64Attr:$count,
                       OptionalAttr<DictionaryAttr>:$coordinates, OptionalAttr<ArrayAttr>:$exchange,
                       OptionalAttr<I64Attr>:$capacity);
  let results = (outs Mg_Float:$result);
}
def Mg_CollectOp : Mg_RowsOp<"collect", "~c=s.b.k:e, s b k!, s b k! -> s b k!", "places"> {
  let summary = "The number of a row at its choice: undoes mg.spread";
  let description = [{
    order: the places of mg.group.

    1. where the tokens are split there is no order: it is a rank's own (collect_c1)
  }];
  let arguments = (ins Mg_Float:$value, Mg_I32:$experts, Optional<Mg_I32>:$order, I64Attr:$count,
                       OptionalAttr<DictionaryAttr>:$coordinates, OptionalAttr<ArrayAttr>:$exchange,
                       OptionalAttr<I64Attr>:$capacity);
  let results = (outs Mg_Float:$result);
}

def Mg_RowMaskOp : Mg_IndexedOp<"row_mask", [MgGradient, MgRowSpace, MgExpertRows]> {
  let summary = "1 at each row, 0 behind the last: the column that adds an expert's bias to each of its rows";
  let description = [{
    order: the sources of mg.group. It has no gradient: the choice has none.

        %ones = mg.row_mask %experts {count = 8 : i64}
            : (tensor<64x4x2xi32, #mg.layout<s, b, k>>) -> tensor<512xf32, #mg.layout<c>>
        %bias = mg.grouped_einsum %ones, %rows to %experts : (.., tensor<8x16xf32, #mg.layout<e, m>>, ..)
            -> tensor<512x16xf32, #mg.layout<c, m>>

    1. where the tokens are split there is no order: it is a rank's own (row_mask_c1)
  }];
  let arguments = (ins Mg_I32:$experts, Optional<Mg_I32>:$order, I64Attr:$count,
                       OptionalAttr<DictionaryAttr>:$coordinates, OptionalAttr<ArrayAttr>:$exchange,
                       OptionalAttr<I64Attr>:$capacity);
  let results = (outs Mg_Float:$result);
  let rule = "s b k!, c -> c=s.b.k:e";
  let assemblyFormat = "$experts (`order` $order^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

class Mg_GroupedOp<string mnemonic, string groupedRule, string rows, list<Trait> traits = []>
    : Mg_IndexedOp<mnemonic, [MgInstruction, MgExpertRows,
        DeclareOpInterfaceMethods<Mg_LibraryOpInterface, ["canAccumulate"]>] # traits> {
  let rule = groupedRule;
  let hasVerifier = 1;
  let extraClassDeclaration = "double getFlops();";
  let extraClassDefinition = "::llvm::StringRef $cppClass::getRuleText() { return \"" # groupedRule # "\"; }" # [{
    ::llvm::SmallVector<::mlir::StringAttr> $cppClass::getIndexedFactors() { return ::mgc::rowFactors(*this); }
  }] # MgRowsIn<"counts", rows>.definitions;
  let assemblyFormat = [{
    $lhs `,` $rhs `to` $experts (`order` $order^)? attr-dict `:` functional-type(operands, results)
  }];
}
def Mg_GroupedEinsumOp : Mg_GroupedOp<"grouped_einsum", "~c=s.b.k:e .., .., s b k!, e -> c ..", "getLhs(), getResult()",
                                    [MgGradient]> {
  let summary = "Rows times the matrix of their expert";
  let description = [{
    lhs [c, x] and rhs, the experts' matrices [e, x, y] or [e, y, x]: result[c, y] = sum over x of lhs[c, x] rhs[expert of c, x,
    y]. x and y are any dimensions, or none: a column lhs [c] puts its number times the expert's row of rhs [e, y] in each row,
    as biases of experts. order: the counts of mg.group.

    1. rhs has the experts first, and then x and y, which have no dimension in common (grouped_einsum_c1)
    2. the operands have one element type, the result has it or f32 (grouped_einsum_c2)
    3. where the tokens are split there is no order: it is a rank's own (grouped_einsum_c3)
    4. order has a number for each expert of the rank (grouped_einsum_c4)
  }];
  let arguments = (ins Mg_Float:$lhs, Mg_Float:$rhs, Mg_I32:$experts, Optional<Mg_I32>:$order,
                       OptionalAttr<DictionaryAttr>:$coordinates, OptionalAttr<ArrayAttr>:$exchange,
                       OptionalAttr<I64Attr>:$capacity);
  let results = (outs Mg_Float:$result);
}
def Mg_GroupedEinsumGradOp : Mg_GroupedOp<"grouped_einsum_grad", "c=s.b.k:e .., c .., s b k!, e -> ..", "getLhs(), getRhs()"> {
  let summary = "Gradient of the experts' matrices: for each the sum over its rows";
  let description = [{
    lhs [c, x], rhs [c, y]: result[e, x, y], or [e, y, x], = sum over the rows c of expert e of lhs[c, x] rhs[c, y]; zeros for
    an expert without rows. x and y are any dimensions, or none. order: the counts of mg.group.

    1. the result has the experts first, and then x and y, which have no dimension in common (grouped_einsum_grad_c1)
    2. the operands have one element type, the result has it or f32 (grouped_einsum_grad_c2)
    3. where the tokens are split there is no order: it is a rank's own (grouped_einsum_grad_c3)
    4. order has a number for each expert of the rank (grouped_einsum_grad_c4)
  }];
  let arguments = (ins Mg_Float:$lhs, Mg_Float:$rhs, Mg_I32:$experts, Optional<Mg_I32>:$order,
                       OptionalAttr<DictionaryAttr>:$coordinates, OptionalAttr<ArrayAttr>:$exchange,
                       OptionalAttr<I64Attr>:$capacity);
  let results = (outs Mg_Float:$result);
}
