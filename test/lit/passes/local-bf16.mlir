// A pending gradient of an activation is reduced in its own type; a parameter's gradient stays f32 and pending.
// RUN: %mg-opt %s --mg-grad --mg-shard --mg-local | FileCheck %s --enable-var-scope

!x = tensor<16x2x32xbf16, #mg.layout<s, b, h>>
!y = tensor<16x2x64xbf16, #mg.layout<s, b, f>>
!u = tensor<32x64xbf16, #mg.layout<h, f>>
!d = tensor<64x32xbf16, #mg.layout<f, h>>

module attributes {mg.mesh = #mg.mesh<tp = 2>, mg.placement = [{dimension = "f", axes = ["tp"]}, {dimension = "s", axes = ["tp"], with = "h", yields}],
                   mg.training = #mg.training<split_backward = false, dtype = bf16, gradient_dtype = f32>} {
// CHECK-LABEL: func.func @mlp.forward(
// CHECK:         mg.all_gather %{{.*}} : tensor<8x2x32xbf16, {{.*}}> -> tensor<16x2x32xbf16
// CHECK:         mg.reduce_scatter %{{.*}} : tensor<16x2x32xbf16, {{.*}}> -> tensor<8x2x32xbf16
// CHECK-LABEL: func.func @mlp.backward(
// CHECK-SAME:    tensor<32x32xf32, #mg.layout<h, f>> {{[^)]*}}mg.type = tensor<32x64xf32, #mg.layout<h, f [tp]>>
// CHECK-NOT:     f32, {{.*}}-> {{.*}}bf16
// CHECK:         return
func.func @mlp(%x: !x, %u: !u {mg.param = {tensor = "u"}}, %d: !d {mg.param = {tensor = "d"}}) -> !x attributes {mg.block} {
  %0 = mg.einsum %x, %u : (!x, !u) -> !y
  %1 = mg.silu %0 : (!y) -> !y
  %2 = mg.einsum %1, %d : (!y, !d) -> !x
  return %2 : !x
}
}
