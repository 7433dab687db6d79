// Layer norm and RMS norm over one whole dimension, the last one. Statistics are f32.
include "dialects/mg/ops/OpBase.td"

def Mg_LayerNormOp : Mg_ComputeOp<"layer_norm", [MgGradient, MgRow]> {
  let summary = "(x - mean) * rstd * gamma + beta over the last dimension; mean and rstd are kept for the gradient";
  let arguments = (ins Mg_Float:$x, Mg_Float:$gamma, Mg_Float:$beta, F64Attr:$epsilon);
  let results = (outs Mg_Float:$y, Mg_F32:$mean, Mg_F32:$rstd);
  let rule = "* n!, n!, n! -> * n, *, *";
}
def Mg_LayerNormGradOp : Mg_ComputeOp<"layer_norm_grad", [MgRow]> {
  let summary = "dx of layer_norm";
  let arguments = (ins Mg_Float:$x, Mg_Float:$gamma, Mg_F32:$mean, Mg_F32:$rstd, Mg_Float:$dy);
  let results = (outs Mg_Float:$dx);
  let rule = "* n!, n!, *, *, * n! -> * n";
}
def Mg_LayerNormWeightGradOp : Mg_ComputeOp<"layer_norm_weight_grad", [MgRow]> {
  let summary = "dgamma of layer_norm: sum of dy * (x - mean) * rstd over all rows";
  let arguments = (ins Mg_Float:$x, Mg_F32:$mean, Mg_F32:$rstd, Mg_Float:$dy);
  let results = (outs Mg_Float:$dgamma);
  let rule = "* n!, *, *, * n! -> n";
}

def Mg_RmsNormOp : Mg_ComputeOp<"rms_norm", [MgGradient, MgRow]> {
  let summary = "x * rstd * gamma with rstd = 1 / sqrt(mean(x^2) + epsilon) over the last dimension";
  let arguments = (ins Mg_Float:$x, Mg_Float:$gamma, F64Attr:$epsilon);
  let results = (outs Mg_Float:$y, Mg_F32:$rstd);
  let rule = "* n!, n! -> * n, *";
}
def Mg_RmsNormGradOp : Mg_ComputeOp<"rms_norm_grad", [MgRow]> {
  let summary = "dx of rms_norm";
  let arguments = (ins Mg_Float:$x, Mg_Float:$gamma, Mg_F32:$rstd, Mg_Float:$dy);
  let results = (outs Mg_Float:$dx);
  let rule = "* n!, n!, *, * n! -> * n";
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
