// The step's end where parameters are bf16: the optimizer updates masters in f32, of ZeRO-1 a rank's half of them, of which
// the values are the rounding; gradients are added up and reduced in f32. Two data ranks hold 256 and 8 elements; a bucket
// of 2 x 32 elements at least, since 32 of bf16 are an alignment of 64 bytes.
// RUN: %mg-opt %s --mg-stage --mg-local | FileCheck %s --enable-var-scope
// RUN: sed 's/zero = 1/zero = 0/' %s | %mg-opt --mg-stage --mg-local | FileCheck %s --check-prefix=REPLICATED
// RUN: sed 's/gradient_dtype = f32/gradient_dtype = bf16/; s/!gv = .*/!gv = !v/; s/!gh = .*/!gh = !h/' %s > %t.mlir
// RUN: sed -i 's/xf32, #mg.layout<v, h, sum/xbf16, #mg.layout<v, h, sum/; s/xf32, #mg.layout<h, sum/xbf16, #mg.layout<h, sum/' %t.mlir
// RUN: %mg-opt %t.mlir --mg-stage --mg-local | FileCheck %s --check-prefix=SAME
// RUN: %mg-opt %s --mg-stage --mg-local --mg-fuse | FileCheck %s --check-prefix=FUSE
// RUN: %mg-opt %s --mg-stage --mg-local --mg-fuse -o %t.mlir && %mgc compile %t.mlir --compile-to=memory | FileCheck %s --check-prefix=MEMORY
// RUN: sed 's/zero = 1/zero = 0/' %s | %mg-opt --mg-stage --mg-local --mg-fuse -o %t.whole.mlir && %mgc compile %t.whole.mlir --compile-to=memory | FileCheck %s --check-prefix=WHOLE

!i = tensor<4x2xi32, #mg.layout<s, b>>
!w = tensor<4x2xf32, #mg.layout<s, b>>
!x = tensor<4x2x8xbf16, #mg.layout<s, b, h>>
!v = tensor<32x8xbf16, #mg.layout<v, h>>
!h = tensor<8xbf16, #mg.layout<h>>
!gv = tensor<32x8xf32, #mg.layout<v, h>>
!gh = tensor<8xf32, #mg.layout<h>>
!0 = tensor<f32, #mg.layout<>>
#x = #mg.layout<s, b [dp], h>

module attributes {mg.mesh = #mg.mesh<dp = 2 : data>,
                   mg.training = #mg.training<sequence_length = 4, micro_batch_size = 2, global_batch_size = 4, microbatches = 1, vocabulary = 32,
                                  schedule = "1f1b", virtual_stages = 1, zero = 1, split_backward = false, dtype = bf16, gradient_dtype = f32>} {
func.func @embed.forward(%ids: !i {mg.data = "tokens", mg.type = tensor<4x4xi32, #mg.layout<s, b [dp]>>},
    %t: !v {mg.param = {tensor = "wte", file_shape = array<i64: 32, 8>}, mg.type = tensor<32x8xbf16, #mg.layout<v, h>>})
    -> (!x {mg.type = tensor<4x4x8xbf16, #x>}) attributes {mg.block = "embed", mg.pass = "forward"} {
  %0 = mg.embed %ids, %t : (!i, !v) -> !x
  return %0 : !x
}
func.func @embed.backward(%dy: !x {mg.arg = "dout", mg.index = 0, mg.type = tensor<4x4x8xbf16, #x>},
    %ids: !i {mg.data = "tokens", mg.type = tensor<4x4xi32, #mg.layout<s, b [dp]>>})
    -> (!gv {mg.result = "grad", mg.param = {tensor = "wte"}, mg.type = tensor<32x8xf32, #mg.layout<v, h, sum [dp]>>})
    attributes {mg.block = "embed", mg.pass = "backward"} {
  %0 = mg.embed_grad %ids, %dy : (!i, !x) -> !gv
  return %0 : !gv
}
func.func @layer.forward(%x: !x {mg.type = tensor<4x4x8xbf16, #x>},
    %g: !h {mg.param = {tensor = "layers.{}.scale", file_shape = array<i64: 8>}, mg.type = tensor<8xbf16, #mg.layout<h>>})
    -> (!x {mg.type = tensor<4x4x8xbf16, #x>}, !x {mg.result = "saved", mg.type = tensor<4x4x8xbf16, #x>})
    attributes {mg.block = "layer", mg.pass = "forward"} {
  %0 = mg.mul %x, %g : (!x, !h) -> !x
  return %0, %x : !x, !x
}
func.func @layer.backward(%dy: !x {mg.arg = "dout", mg.index = 0, mg.type = tensor<4x4x8xbf16, #x>},
    %x: !x {mg.arg = "saved", mg.index = 0, mg.type = tensor<4x4x8xbf16, #x>},
    %g: !h {mg.param = {tensor = "layers.{}.scale"}, mg.type = tensor<8xbf16, #mg.layout<h>>})
    -> (!x {mg.result = "din", mg.type = tensor<4x4x8xbf16, #x>},
        !gh {mg.result = "grad", mg.param = {tensor = "layers.{}.scale"}, mg.type = tensor<8xf32, #mg.layout<h, sum [dp]>>})
    attributes {mg.block = "layer", mg.pass = "backward"} {
  %0 = mg.mul %dy, %g : (!x, !h) -> !x
  %1 = mg.mul %dy, %x : (!x, !x) -> !x
  %2 = mg.sum %1 : (!x) -> !gh
  return %0, %2 : !x, !gh
}
func.func @head.forward(%x: !x {mg.type = tensor<4x4x8xbf16, #x>}, %w: !w {mg.data = "loss_weights", mg.type = tensor<4x4xf32, #mg.layout<s, b [dp]>>})
    -> (!0 {mg.result = "loss_sum", mg.type = tensor<f32, #mg.layout<sum [dp]>>},
        !0 {mg.result = "tokens", mg.type = tensor<f32, #mg.layout<sum [dp]>>}) attributes {mg.block = "head", mg.pass = "forward"} {
  %0 = mg.sum %x : (!x) -> !0
  %1 = mg.sum %w : (!w) -> !0
  return %0, %1 : !0, !0
}
func.func @head.backward() -> (!x {mg.result = "din", mg.type = tensor<4x4x8xbf16, #x>})
    attributes {mg.block = "head", mg.pass = "backward"} {
  %0 = mg.zero : !x
  return %0 : !x
}
mg.chain { mg.instance @embed mg.instance @layer count 1 mg.instance @head }
}

// CHECK-LABEL: func.func @begin.0(
// CHECK-SAME:    tensor<2x8x16xf32, {{[^>]*}}>> {mg.buffer = {index = 0 : i64, kind = "gradient"}
// CHECK-LABEL: func.func @reduce.0(
// CHECK:         %[[T:.*]] = mg.reduce_scatter %{{.*}} over ["dp"] {{.*}} : tensor<2x8x16xf32, {{.*}}> -> tensor<1x8x16xf32
// CHECK:         mg.sum_squares %[[T]] : (tensor<1x8x16xf32, {{.*}}>) -> tensor<1xf32
// CHECK-LABEL: func.func @update.0(
// CHECK-SAME:    %[[M:arg[0-9]+]]: tensor<1x8x16xf32, {{[^>]*}}>> {mg.buffer = {index = 0 : i64, kind = "master"}
// CHECK-SAME:    %[[G:arg[0-9]+]]: tensor<1x8x16xf32, {{[^>]*}}>> {mg.buffer = {index = 0 : i64, kind = "gradient_slice"}
// CHECK-NOT:     mg.slice
// CHECK:         %[[NEW:[a-z_A-Z0-9]+]], %{{.*}}, %{{.*}} = mg.adamw %[[M]], %[[G]]
// CHECK:         %[[V:.*]] = mg.cast %[[NEW]] : (tensor<1x8x16xf32, {{.*}}>) -> tensor<1x8x16xbf16
// CHECK:         %[[GATHERED:.*]] = mg.all_gather %[[V]] over ["dp"] {{.*}} -> tensor<2x8x16xbf16
// CHECK:         return %[[NEW]], %[[GATHERED]]
// CHECK:         mg.stage 0
// CHECK:         mg.bucket 256 {{.*}}decay{{.*}}shard = ["dp"]
// CHECK:         mg.bucket 64 {{.*}}shard = ["dp"]

// Without ZeRO-1 a rank has all masters.
// REPLICATED-LABEL: func.func @update.0(
// REPLICATED-SAME:    tensor<1x16x16xf32, {{[^>]*}}>> {mg.buffer = {index = 0 : i64, kind = "master"}
// REPLICATED:         mg.cast %{{.*}} -> tensor<1x16x16xbf16
// REPLICATED-NOT:     mg.all_gather

// SAME-LABEL: func.func @begin.0(
// SAME:         mg.zero : tensor<2x8x16xbf16
// SAME-LABEL: func.func @reduce.0(
// SAME:         %[[T:.*]] = mg.reduce_scatter {{.*}} -> tensor<1x8x16xbf16
// SAME:         mg.sum_squares %[[T]] : (tensor<1x8x16xbf16, {{.*}}>) -> tensor<1xf32
// SAME-LABEL: func.func @update.0(
// SAME:         mg.adamw {{.*}} : (tensor<1x8x16xf32, {{.*}}>, tensor<1x8x16xbf16, {{.*}}>, tensor<1x8x16xf32

// One kernel reads the gradient and the old state, writes the new, and rounds.
// FUSE-LABEL: func.func @update.0(
// FUSE:         mg.kernel {
// FUSE-NEXT:      %[[NEW:[a-z_A-Z0-9]+]], {{.*}} = mg.adamw
// FUSE-NEXT:      mg.cast %[[NEW]]
// FUSE-NEXT:      mg.yield

// 256 + 64 elements. Values of 2 bytes, gradients of 4 and a rank's half of them again, of masters and two moments a half of
// 4 each: 640 + 1280 + 640 + 3 * 640.
// MEMORY:      stage 0:
// MEMORY-NEXT: parameters: 640 bytes at 0
// MEMORY-NEXT: bucket0.value at 0
// MEMORY:      gradients: 1920 bytes at 640
// MEMORY-NEXT: bucket0.gradient at 640
// MEMORY:      bucket0.gradient_slice at 1920
// MEMORY:      optimizer: 1920 bytes at 2560
// MEMORY-NEXT: bucket0.master at 2560
// MEMORY:      bucket0.exp_avg at 3200
// MEMORY:      bucket0.exp_avg_sq at 3840

// 256 + 32 elements of 2 + 4 + 4 + 4 + 4 = 18 bytes, as Megatron-LM keeps.
// WHOLE:     stage 0:
// WHOLE:     parameters: 576 bytes at 0
// WHOLE:     gradients: 1152 bytes at 576
// WHOLE-NOT: gradient_slice
// WHOLE:     optimizer: 3456 bytes at 1728
