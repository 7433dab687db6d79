// Classes the op families share.
#ifndef MGC_DIALECTS_MG_OPS_OPBASE_TD
#define MGC_DIALECTS_MG_OPS_OPBASE_TD

include "dialects/mg/Dialect.td"
include "dialects/mg/Interfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"

defvar Mg_Tensor = AnyRankedTensor;
// Parameters, activations and their gradients: row ops compute in f32 and round what they store. Mg_F32 is what no
// precision of a model changes: sums over rows, the loss, the optimizer's state.
def Mg_Float : RankedTensorOf<[F32, BF16]>;
def Mg_F32 : RankedTensorOf<[F32]>;
def Mg_I32 : RankedTensorOf<[I32]>;

// Moves values or combines them over ranks, and computes nothing else: local copies, zeros, collectives.
def Mg_MovesData : NativeOpTrait<"MovesData"> { let cppNamespace = "::mgc"; }

// A choice: its results jump where its operands change by a rounding. Operands that were rounded since, as what is saved is,
// could choose otherwise: backward saves the results and does not compute them again.
def Mg_Discontinuous : NativeOpTrait<"Discontinuous"> { let cppNamespace = "::mgc"; }

// Many operations per element (exp, gelu, ..): not to be computed again in each pass of a row kernel over the columns.
def Mg_Costly : NativeOpTrait<"Costly"> { let cppNamespace = "::mgc"; }

// Reads logits, its first operand: a value for each word of the vocabulary and each token, which the loss alone needs. So they
// are made in backward, with all that no activation needs either (mg-grad), and of some tokens at a time (mg-tile).
def Mg_OfLogits : NativeOpTrait<"OfLogits"> { let cppNamespace = "::mgc"; }

class Mg_Op<string mnemonic, list<Trait> traits = []> : Op<Mg_Dialect, mnemonic, traits>;

// An op with an axis rule, written in `rule` (Interfaces.td says how).
class Mg_ComputeOp<string mnemonic, list<Trait> traits = []>
    : Mg_Op<mnemonic, [Pure, DeclareOpInterfaceMethods<Mg_ComputeOpInterface, ["getRuleText"]>] # traits> {
  string rule = ?;
  code declarations = "";
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = declarations;
  let extraClassDefinition = "::llvm::StringRef $cppClass::getRuleText() { return \"" # rule # "\"; }";
}

// Building blocks of each family's entries: row ops, library ops, differentiable ops.
defvar MgRow = DeclareOpInterfaceMethods<Mg_RowOpInterface>;
defvar MgRowSpace = DeclareOpInterfaceMethods<Mg_RowOpInterface, ["getRowSpace"]>; // iterates by another rule
defvar MgHalvedRow = DeclareOpInterfaceMethods<Mg_RowOpInterface, ["getRowSpace", "getDenseDims"]>;
defvar MgTableRow = DeclareOpInterfaceMethods<Mg_RowOpInterface, ["getRowSpace", "getLookupTable"]>;
defvar MgGatheringRow = DeclareOpInterfaceMethods<Mg_RowOpInterface, ["getRowSpace", "getLookupTable", "looksUpInRow"]>;
defvar MgAddingRow = DeclareOpInterfaceMethods<Mg_RowOpInterface, ["getRowSpace", "onlyAccumulates"]>;
defvar MgGradient = DeclareOpInterfaceMethods<Mg_DifferentiableOpInterface>;
defvar MgForgettingGradient = DeclareOpInterfaceMethods<Mg_DifferentiableOpInterface, ["forgetGradient"]>;
defvar MgStochastic = DeclareOpInterfaceMethods<Mg_StochasticOpInterface>;
defvar MgInstruction = DeclareOpInterfaceMethods<Mg_InstructionOpInterface>;
defvar MgWorkspace = DeclareOpInterfaceMethods<Mg_WorkspaceOpInterface>;

// Reads the rank's coordinates: `coordinates` maps an indexed factor to the axes that split it; set when going local.
class Mg_IndexedOp<string mnemonic, list<Trait> traits = []>
    : Mg_Op<mnemonic, [Pure, DeclareOpInterfaceMethods<Mg_ComputeOpInterface, ["getRuleText", "getIndexedFactors"]>]
            # traits> {
  string rule = ?;
  string indexed = "";
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = "::llvm::StringRef $cppClass::getRuleText() { return \"" # rule # "\"; }";
}

#endif
