// The step's end, on buckets `tensor<PxNx16xf32, #mg.layout<part [pp, tp, dp], flat, lane>>`, of values and gradients maybe bf16.
include "dialects/mg/ops/OpBase.td"

def Mg_SumSquaresOp : Mg_ComputeOp<"sum_squares", [MgRow]> {
  let summary = "Sum of the squares over the dimensions the result lacks";
  let description = "1. the names of the result are the first ones of the operand, not all (sum_squares_c1)";
  let arguments = (ins Mg_Float:$value);
  let results = (outs Mg_F32:$result);
  let rule = ".. -> ..";
  let hasVerifier = 1;
}
def Mg_ClipFactorOp : Mg_ComputeOp<"clip_factor", [MgRow]> {
  let summary = "Gradient norm and the factor of the update";
  let description = [{
    norm = sqrt(sum_squares) / tokens; factor = min(1, clip / (norm + 1e-6)) / tokens, and 1 / tokens when clip = 0
    (Megatron-LM's clip_grad 0: no clipping). tokens = 0 gives factor 0.
  }];
  let arguments = (ins Mg_F32:$sumSquares, Mg_F32:$tokens, Mg_F32:$clip);
  let results = (outs Mg_F32:$norm, Mg_F32:$factor);
  let rule = ", , -> , ";
}
def Mg_AdamWOp : Mg_ComputeOp<"adamw", [MgRow]> {
  let summary = "One AdamW update in place: gradient * factor, decoupled decay when `decay`";
  let description = [{
    Loshchilov and Hutter 2019, in the order of PyTorch's AdamW: value *= 1 - lr * weight_decay (when decay);
    m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
    value -= lr * (m / bias_correction1) / (sqrt(v / bias_correction2) + eps).
    `scalars` are plan::kStepScalars. Where parameters are not f32, `value` is their master, from which they are cast.
  }];
  let arguments = (ins Mg_F32:$value, Mg_Float:$gradient, Mg_F32:$firstMoment, Mg_F32:$secondMoment, Mg_F32:$factor,
                       Mg_F32:$scalars, BoolAttr:$decay);
  let results = (outs Mg_F32:$newValue, Mg_F32:$newFirstMoment, Mg_F32:$newSecondMoment);
  let rule = "*, *, *, *, , n -> *, *, *";
}
def Mg_SgdOp : Mg_ComputeOp<"sgd", [MgRow]> {
  let summary = "One update of gradient descent with momentum in place: gradient * factor, with decay when `decay`";
  let description = [{
    As PyTorch's SGD, without dampening and Nesterov: g += weight_decay * value (when decay); b = momentum b + g;
    value -= lr * b. `scalars` and `value` are those of mg.adamw.
  }];
  let arguments = (ins Mg_F32:$value, Mg_Float:$gradient, Mg_F32:$momentumBuffer, Mg_F32:$factor, Mg_F32:$scalars,
                       BoolAttr:$decay);
  let results = (outs Mg_F32:$newValue, Mg_F32:$newMomentumBuffer);
  let rule = "*, *, *, , n -> *, *";
}
def Mg_LionOp : Mg_ComputeOp<"lion", [MgRow]> {
  let summary = "One Lion update in place: gradient * factor, decoupled decay when `decay`";
  let description = [{
    Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, Algorithm 2: value *= 1 - lr * weight_decay (when
    decay); value -= lr * sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g, of which the sign does not see the
    new one. sign(0) = 0, and the sign of a NaN is a NaN. beta1 and beta2 are lion_beta1 and lion_beta2 of `scalars`;
    `scalars` and `value` are those of mg.adamw.
  }];
  let arguments = (ins Mg_F32:$value, Mg_Float:$gradient, Mg_F32:$moment, Mg_F32:$factor, Mg_F32:$scalars,
                       BoolAttr:$decay);
  let results = (outs Mg_F32:$newValue, Mg_F32:$newMoment);
  let rule = "*, *, *, , n -> *, *";
}
def Mg_BalanceBiasOp : Mg_ComputeOp<"balance_bias", [MgRow]> {
  let summary = "Moves biases of routers in place towards even load";
  let description = [{
    value += rate for an expert with fewer tokens than the mean load, -= rate for one with more: Wang et al. 2024,
    auxiliary-loss-free load balancing, Algorithm 1, as DeepSeek-V3 was trained and as Megatron-LM does it. load has how many
    tokens of the step chose each expert, `mean` is their mean. rate is router_bias_rate of `scalars`, plan::kStepScalars.
  }];
  let arguments = (ins Mg_F32:$value, Mg_F32:$load, Mg_F32:$scalars, F64Attr:$mean);
  let results = (outs Mg_F32:$newValue);
  let rule = "*, *, n -> *";
}
