// Dropout by counter: the mask depends on seed, site, instance, sample, position and column, never on the layout.
include "dialects/mg/ops/OpBase.td"

def Mg_DropoutOp : Mg_IndexedOp<"dropout", [MgGradient, MgStochastic, MgRow, Mg_Costly]> {
  let summary = "x / (1 - p) with probability 1 - p, else 0, over x[s, b, n]; its gradient is itself on dy";
  let description = [{
    Philox4x32-10; key from the run's seed and hash(site) and the block instance; counter from sample, position and
    column / 4.
    1. 0 < p < 1 (dropout_c1)
  }];
  let arguments = (ins Mg_Float:$x, Mg_I32:$positions, Mg_I32:$samples, F64Attr:$p, StrAttr:$site,
                       OptionalAttr<DictionaryAttr>:$coordinates);
  let results = (outs Mg_Float:$y);
  let rule = "s b n, s b, b -> s b n";
  let hasVerifier = 1;
}
