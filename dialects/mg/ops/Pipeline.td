// Ops that stage, fuse, schedule and memory add: stages with buckets and chunks, row kernels, moves, ordered steps.
include "dialects/mg/ops/OpBase.td"

// --- stage ----------------------------------------------------------------------------------------------------------

def Mg_StageOp : Mg_Op<"stage", [NoTerminator, SingleBlock]> {
  let summary = "The buckets and chunks that the ranks of one pipeline stage hold and run";
  let description = [{
    Buckets, then the places of parameters in them, then chunks; from `schedule` on, one mg.schedule. `begin`, `reduce`
    and `update` are functions that run once per training step; their arguments and results are bound to the stage's
    buffers by mg.buffer.

        mg.stage 0 begin @begin.0 reduce @reduce.0 update @update.0 {
          mg.bucket 4096 {split = ["tp"], reduce = [], data = ["dp"], tied = array<i64: 0, 3>, decay}
          mg.place @embed 1 instances 0 count 1 bucket 0 offset 0 stride 0
          mg.chunk 0 {
            mg.instance @embed
            mg.instance @layer count 3
          }
        }

    1. chunks are numbered from 0 and hold instances of blocks that have a forward function (stage_c1)
    2. a place names a bucket of the stage and a parameter of its block, and lies inside the bucket (stage_c2)
    3. begin, reduce and update are functions (stage_c3)
    4. each parameter of each instance has a place (stage_c4)
  }];
  let arguments = (ins I64Attr:$number, FlatSymbolRefAttr:$begin, FlatSymbolRefAttr:$reduce,
                       FlatSymbolRefAttr:$update, OptionalAttr<DictionaryAttr>:$memory);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$number `begin` $begin `reduce` $reduce `update` $update attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    template <typename Op> ::llvm::SmallVector<Op> all() { return ::llvm::to_vector(getBody().front().getOps<Op>()); }
  }];
}

def Mg_BucketOp : Mg_Op<"bucket", [HasParent<"StageOp">]> {
  let summary = "Parameters whose gradients are treated alike: plan::Bucket";
  let description = [{
    `elements` per rank, padded. `offsets` (from `memory` on): bytes of value, gradient, gradient_shard, master (where
    values are not f32), first_moment and second_moment in the rank's allocation.
  }];
  let arguments = (ins I64Attr:$elements, ArrayAttr:$split, ArrayAttr:$reduce, ArrayAttr:$data,
                       DenseI64ArrayAttr:$tied, UnitAttr:$decay, UnitAttr:$sharded,
                       OptionalAttr<DictionaryAttr>:$offsets);
  let assemblyFormat = "$elements attr-dict";
}

def Mg_PlaceOp : Mg_Op<"place", [HasParent<"StageOp">]> {
  let summary = "Where argument `argument` of a block's instances lies: offset + (instance - first) * stride, in elements";
  let arguments = (ins FlatSymbolRefAttr:$block, I64Attr:$argument, I64Attr:$first, I64Attr:$count, I64Attr:$bucket,
                       I64Attr:$offset, I64Attr:$stride);
  let assemblyFormat = [{
    $block $argument `instances` $first `count` $count `bucket` $bucket `offset` $offset `stride` $stride attr-dict
  }];
}

def Mg_ReductionOp : Mg_Op<"reduction", [HasParent<"StageOp">]> {
  let summary = "Completes gradients of a part of a chunk while the backward of what is before it goes on";
  let description = [{
    `function` reduces buckets that hold gradients of `instances` of the chunk's instances and of no others. The
    reductions of a chunk stand in the order of its backward: the first has its last instances.

        mg.reduction @gradients.0.0.0 chunk 0 instances 3

    1. the reductions of a chunk have all its instances, one at least each (reduction_c1)
  }];
  let arguments = (ins FlatSymbolRefAttr:$function, I64Attr:$chunk, I64Attr:$instances);
  let assemblyFormat = "$function `chunk` $chunk `instances` $instances attr-dict";
}

def Mg_ChunkOp : Mg_Op<"chunk", [NoTerminator, SingleBlock, HasParent<"StageOp">]> {
  let summary = "Block instances of one chunk of a stage, in order";
  let arguments = (ins I64Attr:$number);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$number attr-dict-with-keyword $body";
}

// --- tile -----------------------------------------------------------------------------------------------------------

def Mg_TileOp : Mg_Op<"tile", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Runs its body on `count` equal parts of the operands' first dimension, one after another";
  let description = [{
    A value made by the body exists for one part at a time. Other values are captured whole.

        %dx, %dw = mg.tile 4 of %x, %labels : (...) -> (...) {
        ^bb0(%part: .., %labels_part: ..):
          ..
          mg.yield %dx_part, %dw_part : ..
        }

    1. count >= 2 (tile_c1)
    2. the body has one argument per operand: the operand's type, its first dimension divided by count; that dimension
       has one name in all operands (tile_c2)
    3. a result has the type of what is yielded: then the parts' values are added up, in order; or that type with the
       first dimension, of the same name, times count: then they stand one after another; the body makes what it yields
       (tile_c3)
    4. each op inside gives, on a part, that part of what has the dimension and a summand of what has not (tile_c4)
  }];
  let arguments = (ins I64Attr:$count, Variadic<Mg_Tensor>:$values);
  let results = (outs Variadic<Mg_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count `of` $values attr-dict `:` functional-type($values, $results) $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mgc::YieldOp getYield();
    /// Whether the parts' values are added up in result i.
    bool isSum(unsigned i);
  }];
}

// --- fuse -----------------------------------------------------------------------------------------------------------

def Mg_KernelOp : Mg_Op<"kernel", [Pure, SingleBlock]> {
  let summary = "One row kernel: row ops over one iteration space; other values are captured";
  let description = [{
    1. holds row ops whose spaces merge into one, and yields what they make (kernel_c1)
    2. a value read at places that depend on data, and a sum over rows, is not read in the kernel that makes it
       (kernel_c2)
    3. a value is yielded once (kernel_c3)
  }];
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<Mg_Tensor>:$results);
  let assemblyFormat = "$body attr-dict `:` type($results)";
  let hasRegionVerifier = 1; // reads the ops inside, once they are verified
  let extraClassDeclaration = [{
    /// The space of all its ops; nothing when they do not merge.
    ::std::optional<::mgc::RowSpace> getSpace();
  }];
}
def Mg_YieldOp : Mg_Op<"yield", [Pure, Terminator, ParentOneOf<["KernelOp", "TileOp"]>]> {
  let summary = "Values that leave a row kernel or a tile";
  let arguments = (ins Variadic<Mg_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Mg_ZeroOp : Mg_Op<"zero", [Pure, Mg_MovesData]> {
  let summary = "Zeros";
  let results = (outs Mg_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}
def Mg_PackOp : Mg_Op<"pack", [Pure, Mg_MovesData]> {
  let summary = "Scalars side by side, so that they travel in one collective";
  let description = "1. as many scalars as the result has elements (pack_c1)";
  let arguments = (ins Variadic<Mg_F32>:$values);
  let results = (outs Mg_F32:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Mg_UnpackOp : Mg_Op<"unpack", [Pure, Mg_MovesData]> {
  let summary = "The elements of a vector as scalars";
  let description = "1. as many scalars as the operand has elements (unpack_c1)";
  let arguments = (ins Mg_F32:$value);
  let results = (outs Variadic<Mg_F32>:$results);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

// --- schedule -------------------------------------------------------------------------------------------------------

def Mg_ScheduleOp : Mg_Op<"schedule", [NoTerminator, SingleBlock, HasParent<"StageOp">]> {
  let summary = "The ordered steps of one training step; `bytes` of the area that holds the chunks' buffers";
  let description = "1. a step waits for earlier steps only (schedule_c1)";
  let arguments = (ins I64Attr:$bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$bytes attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}
def Mg_RunOp : Mg_Op<"run", [HasParent<"ScheduleOp">]> {
  let summary = "Runs a pass of a chunk; `buffers`: offset in the area by buffer kind, -1 where it has none";
  let description = "With `part`, only that part of it: the instances of the chunk's mg.reduction of that number.";
  let arguments = (ins StrAttr:$pass, I64Attr:$chunk, I64Attr:$microbatch, OptionalAttr<I64Attr>:$part,
                       DenseI64ArrayAttr:$buffers, DenseI64ArrayAttr:$waits);
  let assemblyFormat = [{
    $pass `chunk` $chunk `microbatch` $microbatch (`part` $part^)? `buffers` $buffers `waits` $waits attr-dict
  }];
}
class Mg_TransferOp<string mnemonic> : Mg_Op<mnemonic, [HasParent<"ScheduleOp">]> {
  let arguments = (ins I64Attr:$value, I64Attr:$microbatch, I64Attr:$peer, I64Attr:$offset, I64Attr:$bytes,
                       DenseI64ArrayAttr:$waits);
  let assemblyFormat = [{
    $value `microbatch` $microbatch `peer` $peer `at` $offset `bytes` $bytes `waits` $waits attr-dict
  }];
}
def Mg_SendOp : Mg_TransferOp<"send"> { let summary = "Sends a value of the area to a stage"; }
def Mg_RecvOp : Mg_TransferOp<"recv"> { let summary = "Receives a value into the area from a stage"; }
