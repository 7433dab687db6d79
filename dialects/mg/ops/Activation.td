// Activation functions. Each is a map with a scalar body; its gradient is a second map.
include "dialects/mg/ops/OpBase.td"

class Mg_ActivationOp<string mnemonic, list<Trait> cost = [Mg_Costly]> : Mg_ComputeOp<mnemonic, [MgGradient, MgRow] # cost> {
  let arguments = (ins Mg_Float:$x);
  let results = (outs Mg_Float:$y);
  let rule = "* -> *";
}
class Mg_ActivationGradOp<string mnemonic, list<Trait> cost = [Mg_Costly]> : Mg_ComputeOp<mnemonic, [MgRow] # cost> {
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
def Mg_TanhOp : Mg_ActivationOp<"tanh"> { let summary = "tanh(x)"; }
def Mg_TanhGradOp : Mg_ActivationGradOp<"tanh_grad"> { let summary = "dy / cosh(x)^2"; }
def Mg_MishOp : Mg_ActivationOp<"mish"> { let summary = "x tanh(log(1 + exp(x)))"; }
def Mg_MishGradOp : Mg_ActivationGradOp<"mish_grad"> { let summary = "dy * mish'(x)"; }
// Ma et al., Mega: Moving average equipped gated attention (2022): between 0 and 1, like the square of relu near its middle.
def Mg_LaplaceOp : Mg_ActivationOp<"laplace"> {
  let summary = "Phi((x - m) / s), Phi the normal distribution function, m = 0.707107 and s = 0.282095";
}
def Mg_LaplaceGradOp : Mg_ActivationGradOp<"laplace_grad"> { let summary = "dy * phi((x - m) / s) / s"; }
def Mg_HardSwishOp : Mg_ActivationOp<"hard_swish", []> { let summary = "x min(max(x + 3, 0), 6) / 6"; }
def Mg_HardSwishGradOp : Mg_ActivationGradOp<"hard_swish_grad", []> {
  let summary = "dy where x >= 3, 0 where x <= -3, dy (x / 3 + 1/2) between";
}
def Mg_ClampOp : Mg_ActivationOp<"clamp", []> {
  let summary = "x, but at most `most` and at least `least`";
  let description = [{
        %gate = mg.clamp %x {most = 7.0 : f64}      %up = mg.clamp %x {least = -7.0 : f64, most = 7.0 : f64}

    NaN stays NaN. 1. there is a bound, bounds are finite, and least is below most (clamp_c1)
  }];
  let arguments = (ins Mg_Float:$x, OptionalAttr<F64Attr>:$least, OptionalAttr<F64Attr>:$most);
  let hasVerifier = 1;
}
def Mg_ClampGradOp : Mg_ActivationGradOp<"clamp_grad", []> {
  let summary = "dy where x is within the bounds or at one, else 0";
  let description = "1. there is a bound, bounds are finite, and least is below most (clamp_grad_c1)";
  let arguments = (ins Mg_Float:$x, Mg_Float:$dy, OptionalAttr<F64Attr>:$least, OptionalAttr<F64Attr>:$most);
  let hasVerifier = 1;
}
def Mg_ReluOp : Mg_ActivationOp<"relu", []> {
  let summary = "x where it is positive, but at most `most`; slope x elsewhere";
  let description = [{
        %y = mg.relu %x      %leaky = mg.relu %x {slope = 0.01 : f64}      %relu6 = mg.relu %x {most = 6.0 : f64}

    1. slope is finite, most is finite and positive (relu_c1)
  }];
  let arguments = (ins Mg_Float:$x, DefaultValuedAttr<F64Attr, "0.0">:$slope, OptionalAttr<F64Attr>:$most);
  let hasVerifier = 1;
}
def Mg_ReluGradOp : Mg_ActivationGradOp<"relu_grad", []> {
  let summary = "dy where 0 < x < most, 0 where x >= most, slope dy elsewhere";
  let description = "1. slope is finite, most is finite and positive (relu_grad_c1)";
  let arguments = (ins Mg_Float:$x, Mg_Float:$dy, DefaultValuedAttr<F64Attr, "0.0">:$slope,
                       OptionalAttr<F64Attr>:$most);
  let hasVerifier = 1;
}
