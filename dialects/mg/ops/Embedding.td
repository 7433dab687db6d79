// Rows of a table, selected by ids.
include "dialects/mg/ops/OpBase.td"

def Mg_EmbedOp : Mg_IndexedOp<"embed", [MgGradient, MgGatheringRow]> {
  let summary = "Row ids[...] of the table; 0 where the id is outside the rank's block";
  let arguments = (ins Mg_I32:$ids, Mg_Float:$table, OptionalAttr<DictionaryAttr>:$coordinates);
  let results = (outs Mg_Float:$result);
  let rule = "*, v h! -> * h";
}
def Mg_EmbedGradOp : Mg_IndexedOp<"embed_grad", [MgAddingRow]> {
  let summary = "Gradient of the table: row v is the sum of dy where ids = v";
  let arguments = (ins Mg_I32:$ids, Mg_Float:$dy, OptionalAttr<DictionaryAttr>:$coordinates);
  let results = (outs Mg_Float:$result);
  let rule = "*, * h! -> v h";
}
