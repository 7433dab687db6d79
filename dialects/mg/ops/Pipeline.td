// Ops that stage, tile and fuse add: stages with buckets and chunks, tiles, row kernels, moves.
include "dialects/mg/ops/OpBase.td"

// --- stage ----------------------------------------------------------------------------------------------------------

def Mg_StageOp : Mg_Op<"stage", [NoTerminator, SingleBlock]> {
  let summary = "The buckets and chunks that the ranks of one pipeline stage hold and run";
  let description = [{
    Buckets, then the places of parameters in them, then chunks. `begin`, `reduce` and `update` are functions that run
    once per training step, sharded as those of blocks until mg-local has been at them; their arguments and results are bound
    to the stage's buffers by mg.buffer.

        mg.stage 0 begin @begin.0 reduce @reduce.0 update @update.0 {
          mg.bucket 4096 {split = ["tp"], reduce = [], data = ["dp"], tied = array<i64: 0, 3>, decay}
          mg.place @embed 1 instances 0 count 1 bucket 0 offset 0 stride 0
          mg.chunk 0 {
            mg.instance @embed
            mg.instance @layer count 3
          }
        }

    1. chunks are numbered from 0 and hold instances of blocks that have a forward function (stage_c1)
    2. a place names a bucket of the stage and a parameter of its block, and its instances lie inside the bucket, apart from
       each other (stage_c2)
    3. begin, reduce and update are functions (stage_c3)
    4. each parameter of each instance has a place (stage_c4)
  }];
  let arguments = (ins I64Attr:$number, FlatSymbolRefAttr:$begin, FlatSymbolRefAttr:$reduce,
                       FlatSymbolRefAttr:$update);
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
    `elements` per rank, padded; `use`: plan::BucketUse; `shard`: axes of `data` whose ranks have slices; `outer`: others
    along which each slice of what the update needs is shared out again. With `meanLoad` the load of experts stands in the
    place of their gradients: f32, and not in the norm.

    With `perUnit` (ZeRO-2 and 3) each instance's parameters are one of the `units`. `gather`: GatherTime, when the values
    are gathered of the ranks' slices. `mg.unit` has the functions that run around calls that use a unit.

    1. use is trained, routerBias, loadCounter or frozen (bucket_c1)
    2. units is 1, or with perUnit a number that divides elements (bucket_c2)
    3. gather is never, use, microbatch or step; never without shard, and use with perUnit alone (bucket_c3)
  }];
  let arguments = (ins I64Attr:$elements, ArrayAttr:$split, ArrayAttr:$reduce, ArrayAttr:$data,
                       DenseI64ArrayAttr:$tied, UnitAttr:$decay, DefaultValuedAttr<ArrayAttr, "{}">:$shard,
                       DefaultValuedAttr<ArrayAttr, "{}">:$outer,
                       DefaultValuedAttr<F64Attr, "0.0">:$meanLoad, DefaultValuedAttr<StrAttr, "\"trained\"">:$use,
                       DefaultValuedAttr<I64Attr, "1">:$units, UnitAttr:$perUnit,
                       DefaultValuedAttr<StrAttr, "\"never\"">:$gather);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    // At the end of a step.
    bool isSharded() { return !getShard().empty(); }
    bool isReduced() {
      const bool isPendingOverData = getPerUnit() ? getData() != getShard() : !getData().empty();
      return getUse() != "frozen" && (!getReduce().empty() || isPendingOverData || !getTied().empty());
    }
    int64_t unitElements() { return getElements() / getUnits(); }
  }];
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

def Mg_PiecesOp : Mg_Op<"pieces", [HasParent<"StageOp">]> {
  let summary = "A bucket's update in pieces, because some of its masters and optimizer states are on the host";
  let description = [{
    `update` is for `parts` parts of what a rank updates of the bucket, first for those from part `first` on, then for those
    behind them, `count` times. With `onHost` their masters and optimizer states are copied to the device before, and back
    behind it. The pieces of a bucket have all its parts, in order; those on the host come first.

        mg.pieces bucket 0 first 0 parts 3 count 8 update @update.0.0.0 {onHost}

    1. count and parts are at least 1 (pieces_c1)

    The form of all is proved with that of the step (step_c8, compiler/step/VerifyStepForm.h).
  }];
  let arguments = (ins I64Attr:$bucket, I64Attr:$first, I64Attr:$parts, I64Attr:$count, FlatSymbolRefAttr:$update,
                       UnitAttr:$onHost);
  let assemblyFormat = "`bucket` $bucket `first` $first `parts` $parts `count` $count `update` $update attr-dict";
  let hasVerifier = 1;
}

def Mg_UnitOp : Mg_Op<"unit", [HasParent<"StageOp">]> {
  let summary = "Functions that run around calls that use a unit of a bucket, or the whole of one that has none";
  let description = [{
    Before a call that makes gradients of the unit `clear` zeroes its gradient, behind it `sum` reduces it over the
    data axes and `accumulate` adds the sum to the rank's slice; of frozen parameters, and without perUnit, there is none of these.
    Where ranks keep slices of the values too, `gather` makes the unit's values of them before calls that read some.

        mg.unit bucket 3 clear @gradients.clear.0.3 sum @gradients.sum.0.3 accumulate @gradients.unit.0.3
          gather @gradients.gather.0.3

    The form of all is proved with that of the step (step_c7, compiler/step/VerifyStepForm.h).
  }];
  let arguments = (ins I64Attr:$bucket, OptionalAttr<FlatSymbolRefAttr>:$clear,
                       OptionalAttr<FlatSymbolRefAttr>:$sum,
                       OptionalAttr<FlatSymbolRefAttr>:$accumulate, OptionalAttr<FlatSymbolRefAttr>:$gather);
  let assemblyFormat = [{
    `bucket` $bucket (`clear` $clear^ `sum` $sum `accumulate` $accumulate)? (`gather` $gather^)? attr-dict
  }];
  let extraClassDeclaration = [{
    // The functions that it has.
    llvm::SmallVector<llvm::StringRef, 4> functions() {
      llvm::SmallVector<llvm::StringRef, 4> all;
      for (std::optional<llvm::StringRef> function : {getClear(), getSum(), getAccumulate(), getGather()})
        if (function)
          all.push_back(*function);
      return all;
    }
  }];
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
    4. `of` a number: only so many positions of the first dimension are done, the first ones; the others of a result may be
       anything. The number is i32, and all ops iterate that dimension first (kernel_c4)
  }];
  let arguments = (ins Optional<Mg_I32>:$number);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<Mg_Tensor>:$results);
  let assemblyFormat = "(`of` $number^ `:` type($number))? $body attr-dict `:` type($results)";
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

def Mg_ZeroOp : Mg_Op<"zero", [Pure, Mg_MovesData, MgInstruction]> {
  let summary = "Zeros";
  let results = (outs Mg_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}
def Mg_PackOp : Mg_Op<"pack", [Pure, Mg_MovesData]> {
  let summary = "Scalars side by side, so that they travel in one collective";
  let description = [{
    1. as many scalars as the result has elements (pack_c1)
    2. all are pending over the same axes (pack_c2)
  }];
  let arguments = (ins Variadic<Mg_F32>:$values);
  let results = (outs Mg_F32:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Mg_UnpackOp : Mg_Op<"unpack", [Pure, Mg_MovesData]> {
  let summary = "The elements of a vector as scalars";
  let description = [{
    1. as many scalars as the operand has elements (unpack_c1)
    2. all are pending over the same axes (unpack_c2)
  }];
  let arguments = (ins Mg_F32:$value);
  let results = (outs Variadic<Mg_F32>:$results);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
