// Layer norm and RMS norm over one whole dimension, the last one. Statistics are f32.
include "dialects/mg/ops/OpBase.td"

// The factor of a norm is `offset + gamma`, added in f32; Gemma stores weights whose offset is 1. A norm without gamma has
// no factor, and one without beta no summand.
class Mg_NormOp<string mnemonic, list<Trait> traits = []> : Mg_ComputeOp<mnemonic, [MgGradient, MgRow] # traits> {
  let hasVerifier = 1;
}
// The gradient of the norm's x: gamma, if there is one, comes last.
class Mg_NormGradOp<string mnemonic> : Mg_ComputeOp<mnemonic, [MgRow]> {
  let results = (outs Mg_Float:$dx);
  let hasVerifier = 1;
}

def Mg_LayerNormOp : Mg_NormOp<"layer_norm", [AttrSizedOperandSegments]> {
  let summary = "(x - mean) * rstd * (offset + gamma) + beta over the last dimension; mean and rstd are kept for the gradient";
  let description = [{
        %y, %mean, %rstd = mg.layer_norm %x gamma %g beta %b {epsilon = 1.0e-5 : f64}

    1. offset is finite, and 0 without gamma (layer_norm_c1)
  }];
  let arguments = (ins Mg_Float:$x, Optional<Mg_Float>:$gamma, Optional<Mg_Float>:$beta, F64Attr:$epsilon,
                       DefaultValuedAttr<F64Attr, "0.0">:$offset);
  let results = (outs Mg_Float:$y, Mg_F32:$mean, Mg_F32:$rstd);
  let rule = "* n!, n!, n! -> * n, *, *";
  let assemblyFormat = "$x (`gamma` $gamma^)? (`beta` $beta^)? attr-dict `:` functional-type(operands, results)";
}
def Mg_LayerNormGradOp : Mg_NormGradOp<"layer_norm_grad"> {
  let summary = "dx of layer_norm";
  let description = "1. offset is finite, and 0 without gamma (layer_norm_grad_c1)";
  let arguments = (ins Mg_Float:$x, Mg_F32:$mean, Mg_F32:$rstd, Mg_Float:$dy, Optional<Mg_Float>:$gamma,
                       DefaultValuedAttr<F64Attr, "0.0">:$offset);
  let rule = "* n!, *, *, * n!, n! -> * n";
  let assemblyFormat = [{
    $x `,` $mean `,` $rstd `,` $dy (`gamma` $gamma^)? attr-dict `:` functional-type(operands, results)
  }];
}
def Mg_LayerNormWeightGradOp : Mg_ComputeOp<"layer_norm_weight_grad", [MgRow]> {
  let summary = "dgamma of layer_norm: sum of dy * (x - mean) * rstd over all rows";
  let arguments = (ins Mg_Float:$x, Mg_F32:$mean, Mg_F32:$rstd, Mg_Float:$dy);
  let results = (outs Mg_Float:$dgamma);
  let rule = "* n!, *, *, * n! -> n";
}

def Mg_RmsNormOp : Mg_NormOp<"rms_norm"> {
  let summary = "x * rstd * (offset + gamma) with rstd = 1 / sqrt(mean(x^2) + epsilon) over the last dimension";
  let description = [{
        %y, %rstd = mg.rms_norm %x gamma %g {epsilon = 1.0e-6 : f64, offset = 1.0 : f64}

    1. offset is finite, and 0 without gamma (rms_norm_c1)
  }];
  let arguments = (ins Mg_Float:$x, Optional<Mg_Float>:$gamma, F64Attr:$epsilon,
                       DefaultValuedAttr<F64Attr, "0.0">:$offset);
  let results = (outs Mg_Float:$y, Mg_F32:$rstd);
  let rule = "* n!, n! -> * n, *";
  let assemblyFormat = "$x (`gamma` $gamma^)? attr-dict `:` functional-type(operands, results)";
}
def Mg_RmsNormGradOp : Mg_NormGradOp<"rms_norm_grad"> {
  let summary = "dx of rms_norm";
  let description = "1. offset is finite, and 0 without gamma (rms_norm_grad_c1)";
  let arguments = (ins Mg_Float:$x, Mg_F32:$rstd, Mg_Float:$dy, Optional<Mg_Float>:$gamma,
                       DefaultValuedAttr<F64Attr, "0.0">:$offset);
  let rule = "* n!, *, * n!, n! -> * n";
  let assemblyFormat = [{
    $x `,` $rstd `,` $dy (`gamma` $gamma^)? attr-dict `:` functional-type(operands, results)
  }];
}
def Mg_RmsNormWeightGradOp : Mg_ComputeOp<"rms_norm_weight_grad", [MgRow]> {
  let summary = "dgamma of rms_norm: sum of dy * x * rstd over all rows";
  let arguments = (ins Mg_Float:$x, Mg_F32:$rstd, Mg_Float:$dy);
  let results = (outs Mg_Float:$dgamma);
  let rule = "* n!, *, * n! -> n";
}

// A norm over several dimensions, which ranks may split, is made of its parts: the sum of squares may be pending.
def Mg_ReciprocalRootOp : Mg_ComputeOp<"reciprocal_root", [MgGradient, MgRow]> {
  let summary = "1 / sqrt(x + epsilon)";
  let description = [{
        %root = mg.reciprocal_root %meanSquare {epsilon = 1.0e-6 : f64}

    1. epsilon is finite and not negative (reciprocal_root_c1)
  }];
  let arguments = (ins Mg_Float:$x, F64Attr:$epsilon);
  let results = (outs Mg_Float:$y);
  let rule = "* -> *";
  let hasVerifier = 1;
}
def Mg_ReciprocalRootGradOp : Mg_ComputeOp<"reciprocal_root_grad", [MgRow]> {
  let summary = "-dy y^3 / 2, y the reciprocal root";
  let arguments = (ins Mg_Float:$y, Mg_Float:$dy);
  let results = (outs Mg_Float:$dx);
  let rule = "*, * -> *";
}
