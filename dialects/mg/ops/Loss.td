// Cross-entropy, parallel over the vocabulary (docs/sharding.md), and the other terms of the loss (docs/experts.md).
include "dialects/mg/ops/OpBase.td"

def Mg_CrossEntropyOp : Mg_ComputeOp<"cross_entropy", [MgGradient, Mg_OfLogits,
    DeclareOpInterfaceMethods<Mg_DecomposableOpInterface>]> {
  let summary = "sum of weights * -log softmax(logits)[labels] over all tokens; lse is kept for the gradient";
  let description = [{
    Columns >= valid are padding and count as -inf. Stands for max, sum_exp, log_sum_exp, pick and a difference of two
    sums, into which it is decomposed before types are assigned. The loss is a result of its block, where its gradient is
    seeded with 1, or a part of a term of the loss (mg.loss_term).
  }];
  let arguments = (ins Mg_Float:$logits, Mg_I32:$labels, Mg_F32:$weights, I64Attr:$valid);
  let results = (outs Mg_F32:$loss, Mg_F32:$lse);
  let rule = "* n, *, * -> , *";
}
def Mg_CrossEntropyGradOp : Mg_IndexedOp<"cross_entropy_grad", [MgRow, Mg_Costly, Mg_OfLogits]> {
  let summary = "(exp(logits - lse) - onehot(labels)) * weights: the gradient of the loss where its cotangent is 1";
  let arguments = (ins Mg_Float:$logits, Mg_F32:$lse, Mg_I32:$labels, Mg_F32:$weights, I64Attr:$valid,
                       OptionalAttr<DictionaryAttr>:$coordinates);
  let results = (outs Mg_Float:$dlogits);
  let rule = "* n, *, *, * -> * n";
}
def Mg_LossTermOp : Mg_ComputeOp<"loss_term", [MgGradient, MgRow]> {
  let summary = "A term of the loss in addition to the cross-entropy: value * scale, its share of the loss";
  let description = [{
    The loss of a step is loss_sum / tokens, and its terms. The value is a sum over the tokens or the sequences of a
    microbatch, scale the term's coefficient over their number in the step. Gradients are divided by the tokens of the
    step where they are updated, all alike; so the cotangent of the value is scale * stepTokens.

        %term = mg.loss_term %sum, %stepTokens {scale = 1.0e-4 : f64}
            : (tensor<f32, #mg.layout<>>, tensor<f32, #mg.layout<>>) -> tensor<f32, #mg.layout<>>

    1. scale is finite (loss_term_c1)
    2. the operands are scalars (loss_term_c2)
  }];
  let arguments = (ins Mg_F32:$value, Mg_F32:$stepTokens, F64Attr:$scale);
  let results = (outs Mg_F32:$term);
  let rule = "~*, * -> *";
  let hasVerifier = 1;
}
def Mg_MaxOp : Mg_IndexedOp<"max", [MgRow]> {
  let summary = "Maximum over the last dimension, columns >= valid excluded";
  let arguments = (ins Mg_Float:$value, I64Attr:$valid, OptionalAttr<DictionaryAttr>:$coordinates);
  let results = (outs Mg_F32:$result);
  let rule = "* n -> max *";
}
def Mg_SumExpOp : Mg_IndexedOp<"sum_exp", [MgRow]> {
  let summary = "Sum of exp(value - max) over the last dimension, columns >= valid excluded";
  let arguments = (ins Mg_Float:$value, Mg_F32:$max, I64Attr:$valid, OptionalAttr<DictionaryAttr>:$coordinates);
  let results = (outs Mg_F32:$result);
  let rule = "* n, * -> *";
}
def Mg_LogSumExpOp : Mg_ComputeOp<"log_sum_exp", [MgRow]> {
  let summary = "max + log(sum)";
  let arguments = (ins Mg_F32:$max, Mg_F32:$sum);
  let results = (outs Mg_F32:$lse);
  let rule = "*, * -> *";
}
def Mg_PickOp : Mg_IndexedOp<"pick", [MgTableRow]> {
  let summary = "value[..., ids[...]]; 0 where the id is outside the rank's block";
  let arguments = (ins Mg_Float:$value, Mg_I32:$ids, OptionalAttr<DictionaryAttr>:$coordinates);
  let results = (outs Mg_F32:$result);
  let rule = "* n, * -> *";
}
