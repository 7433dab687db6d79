// Cross-entropy, parallel over the vocabulary (docs/sharding.md).
include "dialects/mg/ops/OpBase.td"

def Mg_CrossEntropyOp : Mg_ComputeOp<"cross_entropy", [MgGradient, DeclareOpInterfaceMethods<Mg_DecomposableOpInterface>]> {
  let summary = "sum of weights * -log softmax(logits)[labels] over all tokens; lse is kept for the gradient";
  let description = [{
    Columns >= valid are padding and count as -inf. Stands for max, sum_exp, log_sum_exp, pick and a difference of two
    sums, into which it is decomposed before types are assigned.
  }];
  let arguments = (ins Mg_Float:$logits, Mg_I32:$labels, Mg_F32:$weights, I64Attr:$valid);
  let results = (outs Mg_F32:$loss, Mg_F32:$lse);
  let rule = "* n, *, * -> , *";
}
def Mg_CrossEntropyGradOp : Mg_IndexedOp<"cross_entropy_grad", [MgDearRow]> {
  let summary = "(exp(logits - lse) - onehot(labels)) * weights: the gradient of the loss seeded with 1";
  let arguments = (ins Mg_Float:$logits, Mg_F32:$lse, Mg_I32:$labels, Mg_F32:$weights, I64Attr:$valid,
                       OptionalAttr<DictionaryAttr>:$coordinates);
  let results = (outs Mg_Float:$dlogits);
  let rule = "* n, *, *, * -> * n";
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
