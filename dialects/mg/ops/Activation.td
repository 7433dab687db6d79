// Activation functions. Each is a map with a scalar body; its gradient is a second map.
include "dialects/mg/ops/OpBase.td"

class Mg_ActivationOp<string mnemonic, Trait row = MgDearRow> : Mg_ComputeOp<mnemonic, [MgGradient, row]> {
  let arguments = (ins Mg_Float:$x);
  let results = (outs Mg_Float:$y);
  let rule = "* -> *";
}
class Mg_ActivationGradOp<string mnemonic, Trait row = MgDearRow> : Mg_ComputeOp<mnemonic, [row]> {
  let arguments = (ins Mg_Float:$x, Mg_Float:$dy);
  let results = (outs Mg_Float:$dx);
  let rule = "*, * -> *";
}

// Forms of GELU: `erf` x Phi(x); `tanh` its tanh approximation (gelu_new, gelu_pytorch_tanh, gelu_fast);
// `sigmoid` x sigmoid(1.702 x) (quick_gelu).
def Mg_GeluOp : Mg_ActivationOp<"gelu"> {
  let summary = "GELU: form \"erf\", \"tanh\" or \"sigmoid\"";
  let description = "1. form is erf, tanh or sigmoid (gelu_c1)";
  let arguments = (ins Mg_Float:$x, StrAttr:$form);
  let hasVerifier = 1;
}
def Mg_GeluGradOp : Mg_ActivationGradOp<"gelu_grad"> {
  let summary = "dy * gelu'(x)";
  let arguments = (ins Mg_Float:$x, Mg_Float:$dy, StrAttr:$form);
  let hasVerifier = 1;
}
def Mg_SiluOp : Mg_ActivationOp<"silu"> { let summary = "x sigmoid(x)"; }
def Mg_SiluGradOp : Mg_ActivationGradOp<"silu_grad"> { let summary = "dy * silu'(x)"; }
def Mg_SigmoidOp : Mg_ActivationOp<"sigmoid"> { let summary = "1 / (1 + exp(-x))"; }
def Mg_SigmoidGradOp : Mg_ActivationGradOp<"sigmoid_grad"> { let summary = "dy * sigmoid(x) sigmoid(-x)"; }
def Mg_ReluOp : Mg_ActivationOp<"relu", MgRow> { let summary = "max(x, 0)"; }
def Mg_ReluGradOp : Mg_ActivationGradOp<"relu_grad", MgRow> { let summary = "dy where x > 0, else 0"; }
