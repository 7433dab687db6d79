// A chunk in parts, from its end on, each of the fewest instances with bucket_elements elements: the head, which has
// none, and two layers of 8; two more; the embedding. Each part's gradients have buckets of their own and are completed
// while the parts before it are computed.
// RUN: %mg-opt %s --mg-stage --mg-local | FileCheck %s --enable-var-scope
// RUN: %mg-opt %s --mg-stage --mg-local --mg-fuse -o %t.mlir && %mgc compile %t.mlir --compile-to=schedule | FileCheck %s --check-prefix=STEPS
// RUN: %mgc compile %t.mlir --compile-to=memory | FileCheck %s --check-prefix=FRAME

!i = tensor<2x2xi32, #mg.layout<s, b>>
!w = tensor<2x2xf32, #mg.layout<s, b>>
!x = tensor<2x2x8xf32, #mg.layout<s, b, h>>
!v = tensor<16x8xf32, #mg.layout<v, h>>
!h = tensor<8xf32, #mg.layout<h>>
!0 = tensor<f32, #mg.layout<>>
#x = #mg.layout<s [tp], b [dp], h>

module attributes {mg.mesh = #mg.mesh<dp = 2 : data, tp = 2>,
                   mg.training = #mg.training<sequence_length = 4, micro_batch_size = 2, global_batch_size = 8, microbatches = 2, vocabulary = 32,
                                  schedule = "1f1b", virtual_stages = 1, zero = 1, split_backward = false, bucket_elements = 16>} {
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
    %g: !h {mg.param = {tensor = "layers.{}.scale", file_shape = array<i64: 8>}, mg.type = tensor<8xf32, #mg.layout<h>>})
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

// CHECK-LABEL: func.func @reduce.0(
// CHECK-NOT: mg.reduce_scatter
// CHECK-LABEL: func.func @update.0(
// CHECK-LABEL: func.func @gradients.0.0(
// CHECK: mg.all_reduce %{{.*}} over ["tp"]
// CHECK: mg.reduce_scatter %{{.*}} over ["dp"]
// CHECK: mg.stage 0
// CHECK: mg.reduction @gradients.0.0 chunk 0 instances 3
// CHECK: mg.reduction @gradients.0.1 chunk 0 instances 2
// CHECK: mg.reduction @gradients.0.2 chunk 0 instances 1

// STEPS: run backward.0 microbatch 0{{$}}
// STEPS: run backward.0 microbatch 1 part 0
// STEPS-NEXT: run gradients.0 part 0, waits 1 back
// STEPS-NEXT: run backward.0 microbatch 1 part 1
// STEPS-NEXT: run gradients.0 part 1, waits 1 back
// STEPS-NEXT: run backward.0 microbatch 1 part 2
// STEPS-NEXT: run gradients.0 part 2, waits 1 back
// STEPS-NEXT: run reduce, waits 1 back

// FRAME: function gradients.0.0: frame of 0 bytes
