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

def Mg_RelocateOp : Mg_IndexedOp<"relocate", [MgForgettingGradient, MgGatheringRow]> {
  let summary = "Positions of another sequence where this one has places for them: y[s, b] = x[places[s, b], b]; 0 where "
                "that is -1, or outside the rank's block";
  let description = [{
    `places` has for each position s the position t of x that stands there, or -1. `sources` is its inverse: for each
    position t the one s where it stands, or -1, so that the gradient of x is the same op with both exchanged. A position
    of x stands at one place at most; a position at none has no gradient. Only the gradient reads sources: mg-grad takes
    them away.

        places  = -1  2  3 -1       y = 0  x2  x3  0
        sources = -1 -1  1  2
  }];
  let arguments = (ins Mg_Float:$x, Mg_I32:$places, Optional<Mg_I32>:$sources, OptionalAttr<DictionaryAttr>:$coordinates);
  let results = (outs Mg_Float:$y);
  let rule = "~t b h!, s b, t b -> s b h";
}
