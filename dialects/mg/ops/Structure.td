// The chain of block instances, and what the later phases add to the module.
include "dialects/mg/ops/OpBase.td"

def Mg_ChainOp : Mg_Op<"chain", [NoTerminator, SingleBlock]> {
  let summary = "The model: block instances in order; the results of one are the activations of the next";
  let description = [{
        mg.chain {
          mg.instance @embed
          mg.instance @layer count 12
          mg.instance @head
        }
    1. activations and results of neighbours close: same number, same types (chain_c1)
    2. one instance returns the loss_sum and tokens, and the last gives no activations (chain_c2)
  }];
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}
def Mg_InstanceOp : Mg_Op<"instance", [ParentOneOf<["ChainOp", "ChunkOp"]>]> {
  let summary = "`count` equal instances of a block, numbered from `first`";
  let description = [{
    The parameters of instance i are those of the block with {} in their tensor names replaced by i.
    1. the block is a function with attribute mg.block (instance_c1)
    2. count >= 1, first >= 0, first + count at most 2^16: no model has more layers (instance_c2)
  }];
  let arguments = (ins FlatSymbolRefAttr:$block, DefaultValuedAttr<I64Attr, "0">:$first,
                       DefaultValuedAttr<I64Attr, "1">:$count);
  let assemblyFormat = "$block (`first` $first^)? (`count` $count^)? attr-dict";
  let hasVerifier = 1;
}
