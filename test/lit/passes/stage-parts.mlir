// A bucket is divided into parts of about 2048 rows of 16 by its size alone. A rank's shard of the table, 6144 rows, is three
// parts, and the whole twice as many; one of the scales is a prime number of rows, hence one part.
// RUN: %mg-opt %s --mg-stage --mg-local | FileCheck %s --enable-var-scope

!i = tensor<2x2xi32, #mg.layout<s, b>>
!w = tensor<2x2xf32, #mg.layout<s, b>>
!x = tensor<2x2x16xf32, #mg.layout<s, b, h>>
!v = tensor<12288x16xf32, #mg.layout<v, h>>
!h = tensor<16xf32, #mg.layout<h>>
!0 = tensor<f32, #mg.layout<>>
#x = #mg.layout<s, b [dp], h>

module attributes {mg.mesh = #mg.mesh<dp = 2 : data>,
                   mg.training = #mg.training<sequence_length = 2, micro_batch_size = 2, global_batch_size = 4, microbatches = 1, vocabulary = 12288,
                                  schedule = "1f1b", virtual_stages = 1, zero = 1, split_backward = false>} {
func.func @embed.forward(%ids: !i {mg.data = "tokens", mg.type = tensor<2x4xi32, #mg.layout<s, b [dp]>>},
    %t: !v {mg.param = {tensor = "wte", file_shape = array<i64: 12288, 16>}, mg.type = tensor<12288x16xf32, #mg.layout<v, h>>})
    -> (!x {mg.type = tensor<2x4x16xf32, #x>}) attributes {mg.block = "embed", mg.pass = "forward"} {
  %0 = mg.embed %ids, %t : (!i, !v) -> !x
  return %0 : !x
}
func.func @embed.backward(%dy: !x {mg.arg = "dout", mg.index = 0, mg.type = tensor<2x4x16xf32, #x>},
    %ids: !i {mg.data = "tokens", mg.type = tensor<2x4xi32, #mg.layout<s, b [dp]>>})
    -> (!v {mg.result = "grad", mg.param = {tensor = "wte"}, mg.type = tensor<12288x16xf32, #mg.layout<v, h, sum [dp]>>})
    attributes {mg.block = "embed", mg.pass = "backward"} {
  %0 = mg.embed_grad %ids, %dy : (!i, !x) -> !v
  return %0 : !v
}
func.func @layer.forward(%x: !x {mg.type = tensor<2x4x16xf32, #x>},
    %g: !h {mg.param = {tensor = "layers.{}.scale", file_shape = array<i64: 16>}, mg.type = tensor<16xf32, #mg.layout<h>>})
    -> (!x {mg.type = tensor<2x4x16xf32, #x>}, !x {mg.result = "saved", mg.type = tensor<2x4x16xf32, #x>})
    attributes {mg.block = "layer", mg.pass = "forward"} {
  %0 = mg.mul %x, %g : (!x, !h) -> !x
  return %0, %x : !x, !x
}
func.func @layer.backward(%dy: !x {mg.arg = "dout", mg.index = 0, mg.type = tensor<2x4x16xf32, #x>},
    %x: !x {mg.arg = "saved", mg.index = 0, mg.type = tensor<2x4x16xf32, #x>},
    %g: !h {mg.param = {tensor = "layers.{}.scale"}, mg.type = tensor<16xf32, #mg.layout<h>>})
    -> (!x {mg.result = "din", mg.type = tensor<2x4x16xf32, #x>},
        !h {mg.result = "grad", mg.param = {tensor = "layers.{}.scale"}, mg.type = tensor<16xf32, #mg.layout<h, sum [dp]>>})
    attributes {mg.block = "layer", mg.pass = "backward"} {
  %0 = mg.mul %dy, %g : (!x, !h) -> !x
  %1 = mg.mul %dy, %x : (!x, !x) -> !x
  %2 = mg.sum %1 : (!x) -> !h
  return %0, %2 : !x, !h
}
func.func @head.forward(%x: !x {mg.type = tensor<2x4x16xf32, #x>}, %w: !w {mg.data = "loss_weights", mg.type = tensor<2x4xf32, #mg.layout<s, b [dp]>>})
    -> (!0 {mg.result = "loss_sum", mg.type = tensor<f32, #mg.layout<sum [dp]>>},
        !0 {mg.result = "tokens", mg.type = tensor<f32, #mg.layout<sum [dp]>>}) attributes {mg.block = "head", mg.pass = "forward"} {
  %0 = mg.sum %x : (!x) -> !0
  %1 = mg.sum %w : (!w) -> !0
  return %0, %1 : !0, !0
}
func.func @head.backward() -> (!x {mg.result = "din", mg.type = tensor<2x4x16xf32, #x>})
    attributes {mg.block = "head", mg.pass = "backward"} {
  %0 = mg.zero : !x
  return %0 : !x
}
mg.chain { mg.instance @embed mg.instance @layer count 6002 mg.instance @head }
}

// CHECK-LABEL: func.func @reduce.0(
// CHECK:         %[[T:.*]] = mg.reduce_scatter %{{.*}} : tensor<6x2048x16xf32, {{.*}} -> tensor<3x2048x16xf32
// CHECK:         %[[S:.*]] = mg.reduce_scatter %{{.*}} : tensor<2x3001x16xf32, {{.*}} -> tensor<1x3001x16xf32
// CHECK:         %[[TP:.*]] = mg.sum_squares %[[T]] : {{.*}} -> tensor<3xf32, #mg.layout<part>>
// CHECK:         mg.sum %[[TP]] : {{.*}} -> tensor<f32, #mg.layout<>>
// CHECK:         mg.sum_squares %[[S]] : {{.*}} -> tensor<1xf32, #mg.layout<part>>
