// Chunks, buckets and the step's end of two stages. Each layer holds one vector of 8 elements, 16 with padding, which does not
// decay although it is seen as a matrix; its gradient is pending over tp (another axis) and dp (a data axis).
// RUN: %mg-opt %s --mg-stage --mg-local | FileCheck %s --enable-var-scope
// RUN: %mg-opt %s --mg-stage --mg-local --mg-fuse -o %t.fuse.mlir && %mgc compile %t.fuse.mlir --compile-to=schedule | FileCheck %s --check-prefix=STEPS

!i = tensor<2x2xi32, #mg.layout<s, b>>
!w = tensor<2x2xf32, #mg.layout<s, b>>
!x = tensor<2x2x8xf32, #mg.layout<s, b, h>>
!v = tensor<16x8xf32, #mg.layout<v, h>>
!h = tensor<8xf32, #mg.layout<h>>
!0 = tensor<f32, #mg.layout<>>
#x = #mg.layout<s [tp], b [dp], h>

module attributes {mg.mesh = #mg.mesh<pp = 2 : stage, dp = 2 : data, tp = 2>,
                   mg.training = #mg.training<sequence_length = 4, micro_batch_size = 2, global_batch_size = 8, microbatches = 2, vocabulary = 32,
                                  schedule = "1f1b", virtual_stages = 1, zero = 1, split_backward = false>} {
func.func @embed.forward(%ids: !i {mg.data = "tokens", mg.type = tensor<4x4xi32, #mg.layout<s [tp], b [dp]>>},
    %t: !v {mg.param = {tensor = "wte", file_shape = array<i64: 32, 8>}, mg.type = tensor<32x8xf32, #mg.layout<v [tp], h>>})
    -> (!x {mg.type = tensor<4x4x8xf32, #x>}) attributes {mg.block = "embed", mg.pass = "forward"} {
  %0 = mg.embed %ids, %t {coordinates = {v = ["tp"]}} : (!i, !v) -> !x
  return %0 : !x
}
func.func @embed.backward(%dy: !x {mg.arg = "dout", mg.index = 0, mg.type = tensor<4x4x8xf32, #x>},
    %ids: !i {mg.data = "tokens", mg.type = tensor<4x4xi32, #mg.layout<s [tp], b [dp]>>})
    -> (!v {mg.result = "grad", mg.param = {tensor = "wte"}, mg.type = tensor<32x8xf32, #mg.layout<v [tp], h, sum [dp]>>})
    attributes {mg.block = "embed", mg.pass = "backward"} {
  %0 = mg.embed_grad %ids, %dy {coordinates = {v = ["tp"]}} : (!i, !x) -> !v
  return %0 : !v
}
func.func @layer.forward(%x: !x {mg.type = tensor<4x4x8xf32, #x>},
    %g: !h {mg.param = {tensor = "layers.{}.scale", file_shape = array<i64: 2, 4>, tensor_shape = array<i64: 8>}, mg.type = tensor<8xf32, #mg.layout<h>>})
    -> (!x {mg.type = tensor<4x4x8xf32, #x>}, !x {mg.result = "saved", mg.type = tensor<4x4x8xf32, #x>})
    attributes {mg.block = "layer", mg.pass = "forward"} {
  %0 = mg.mul %x, %g : (!x, !h) -> !x
  return %0, %x : !x, !x
}
func.func @layer.backward(%dy: !x {mg.arg = "dout", mg.index = 0, mg.type = tensor<4x4x8xf32, #x>},
    %x: !x {mg.arg = "saved", mg.index = 0, mg.type = tensor<4x4x8xf32, #x>},
    %g: !h {mg.param = {tensor = "layers.{}.scale"}, mg.type = tensor<8xf32, #mg.layout<h>>})
    -> (!x {mg.result = "din", mg.type = tensor<4x4x8xf32, #x>},
        !h {mg.result = "grad", mg.param = {tensor = "layers.{}.scale"}, mg.type = tensor<8xf32, #mg.layout<h, sum [dp, tp]>>})
    attributes {mg.block = "layer", mg.pass = "backward"} {
  %0 = mg.mul %dy, %g : (!x, !h) -> !x
  %1 = mg.mul %dy, %x : (!x, !x) -> !x
  %2 = mg.sum %1 : (!x) -> !h
  return %0, %2 : !x, !h
}
func.func @head.forward(%x: !x {mg.type = tensor<4x4x8xf32, #x>}, %w: !w {mg.data = "loss_weights", mg.type = tensor<4x4xf32, #mg.layout<s [tp], b [dp]>>})
    -> (!0 {mg.result = "loss_sum", mg.type = tensor<f32, #mg.layout<sum [dp, tp]>>},
        !0 {mg.result = "tokens", mg.type = tensor<f32, #mg.layout<sum [dp]>>}) attributes {mg.block = "head", mg.pass = "forward"} {
  %0 = mg.sum %x : (!x) -> !0
  %1 = mg.sum %w : (!w) -> !0
  return %0, %1 : !0, !0
}
func.func @head.backward() -> (!x {mg.result = "din", mg.type = tensor<4x4x8xf32, #x>})
    attributes {mg.block = "head", mg.pass = "backward"} {
  %0 = mg.zero : !x
  return %0 : !x
}
mg.chain { mg.instance @embed mg.instance @layer count 4 mg.instance @head }
}

// The step begins with zeros.
// CHECK-LABEL: func.func @begin.0()
// CHECK-SAME:    tensor<2x4x16xf32, {{[^>]*}}>> {mg.buffer = {index = 0 : i64, kind = "gradient"}
// CHECK:         mg.zero : tensor<2x4x16xf32

// First the other axes, then the data axes, divided over them by ZeRO-1. The norm counts each element once: the slice
// of the split table on every rank, that of the scale where the coordinate along tp is 0.
// CHECK-LABEL: func.func @reduce.0(
// CHECK-SAME:    %[[TABLE:arg0]]: tensor<2x4x16xf32, {{.*}} %[[SCALE:arg1]]: tensor<2x1x16xf32
// CHECK:         %[[T:.*]] = mg.reduce_scatter %[[TABLE]] over ["dp"] {{.*}} -> tensor<1x4x16xf32
// CHECK:         %[[S:.*]] = mg.all_reduce %[[SCALE]] over ["tp"] : tensor<2x1x16xf32
// CHECK:         %[[S2:.*]] = mg.reduce_scatter %[[S]] over ["dp"] {{.*}} -> tensor<1x1x16xf32
// CHECK:         %[[TOKENS:.*]] = mg.demote %{{.*}} over ["tp"]
// CHECK:         %[[TP:.*]] = mg.sum_squares %[[T]]
// CHECK:         %[[TT:.*]] = mg.sum %[[TP]]
// CHECK:         %[[SP:.*]] = mg.sum_squares %[[S2]]
// CHECK:         %[[SS:.*]] = mg.sum %[[SP]]
// CHECK:         %[[SD:.*]] = mg.demote %[[SS]] over ["tp"]
// CHECK:         %[[ALL:.*]] = mg.accumulate %[[TT]], %[[SD]]
// CHECK:         %[[PACKED:.*]] = mg.pack %{{.*}}, %[[TOKENS]], %[[ALL]]
// CHECK:         mg.all_reduce %[[PACKED]] over ["pp", "dp", "tp"]
// CHECK:         mg.clip_factor

// Each rank updates its slice and gathers the rest.
// CHECK-LABEL: func.func @update.0(
// CHECK:         %[[SLICE:.*]] = mg.slice %{{.*}} over ["dp"] {{.*}} -> tensor<1x4x16xf32
// CHECK:         %[[NEW:.*]], %{{.*}}, %{{.*}} = mg.adamw %[[SLICE]], {{.*}} {decay = true}
// CHECK:         mg.all_gather %[[NEW]] over ["dp"] {{.*}} -> tensor<2x4x16xf32

// CHECK-LABEL: mg.stage 0 begin @begin.0 reduce @reduce.0 update @update.0 {
// CHECK-NEXT:    mg.bucket 128 {data = ["dp"], decay, reduce = [], shard = ["dp"], split = ["tp"], tied = array<i64>}
// CHECK-NEXT:    mg.bucket 32 {data = ["dp"], reduce = ["tp"], shard = ["dp"], split = [], tied = array<i64>}
// CHECK-NEXT:    mg.place @embed 1 instances 0 count 1 bucket 0 offset 0 stride 128
// CHECK-NEXT:    mg.place @layer 1 instances 0 count 2 bucket 1 offset 0 stride 16
// CHECK-NEXT:    mg.chunk 0 {
// CHECK-NEXT:      mg.instance @embed
// CHECK-NEXT:      mg.instance @layer count 2{{$}}
// CHECK-LABEL: mg.stage 1
// CHECK:         mg.instance @head
// CHECK-NOT:     mg.chain

// The module after fuse: a schedule per stage.
// STEPS:      stage 0: 11 steps
// STEPS-NEXT: run begin
// STEPS-NEXT: 2 times, i = 0 ..
// STEPS-NEXT:   run forward.0 microbatch 0 + i
// STEPS-NEXT:   send output.0 microbatch 0 + i -> stage 1, 128 bytes, waits 1 back
// STEPS-NEXT:   recv gradientIn.0 microbatch 0 + i <- stage 1
// STEPS-NEXT: run backward.0 microbatch 0, waits 4 back
// STEPS:      run update
// STEPS:      stage 1:
