// Rows of a table, selected by ids.
include "dialects/mg/ops/OpBase.td"

def Mg_EmbedOp : Mg_IndexedOp<"embed", [MgGradient, MgGatheringRow]> {
  let summary = "Row ids[...] + offset of the table; 0 where it is outside the rank's block";
  let description = [{
    `padding` names the id whose row gets no gradient from here (torch.nn.Embedding's padding_idx). `offset`: rows of the
    table before that of id 0 (positions of BART and RoBERTa).
    1. padding and offset are not negative (embed_c1)
  }];
  let arguments = (ins Mg_I32:$ids, Mg_Float:$table, OptionalAttr<I64Attr>:$padding,
                       DefaultValuedAttr<I64Attr, "0">:$offset,
                       OptionalAttr<DictionaryAttr>:$coordinates);
  let results = (outs Mg_Float:$result);
  let rule = "*, v h! -> * h";
  let hasVerifier = 1;
}
def Mg_EmbedGradOp : Mg_IndexedOp<"embed_grad", [MgAddingRow]> {
  let summary = "Gradient of the table: row v is the sum of dy where ids + offset = v; 0 for the id `padding`";
  let description = [{
    1. padding and offset are not negative (embed_grad_c1)
  }];
  let arguments = (ins Mg_I32:$ids, Mg_Float:$dy, OptionalAttr<I64Attr>:$padding,
                       DefaultValuedAttr<I64Attr, "0">:$offset,
                       OptionalAttr<DictionaryAttr>:$coordinates);
  let results = (outs Mg_Float:$result);
  let rule = "*, * h! -> v h";
  let hasVerifier = 1;
}
