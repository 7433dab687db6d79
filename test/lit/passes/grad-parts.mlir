// RUN: %mg-opt %s --mg-grad | FileCheck %s --enable-var-scope
// RUN: sed 's/split_backward = false/split_backward = true/' %s | %mg-opt --mg-grad | FileCheck %s --check-prefix=HALVES --enable-var-scope

!x = tensor<4x2x8xf32, #mg.layout<s, b, h>>
!a = tensor<4x2x2x16xf32, #mg.layout<s, b, j, f>>
!f = tensor<4x2x16xf32, #mg.layout<s, b, f>>
!w = tensor<2x16x8xf32, #mg.layout<j, f, h>>
!b = tensor<16xf32, #mg.layout<f>>

module attributes {mg.training = #mg.training<split_backward = false>} {

// Backward needs both parts: the whole is saved, once, and the activation recomputed. Their cotangents are joined.
// CHECK-LABEL: func.func @gate.forward(
// CHECK:         %[[ALL:.*]] = mg.einsum
// CHECK:         return %{{.*}}, %[[ALL]], %{{.*}} : tensor<4x2x16xf32, {{.*}}, tensor<4x2x2x16xf32, {{.*}}, tensor<4x2x8xf32
// CHECK-LABEL: func.func @gate.backward(
// CHECK:         %[[P:.*]]:2 = mg.parts
// CHECK:         mg.silu %[[P]]#0
// CHECK:         %[[J:.*]] = mg.join {{.*}} along "j"
// CHECK-DAG:     mg.einsum %[[J]],
// CHECK-DAG:     mg.einsum {{.*}}, %[[J]]
func.func @gate(%x: !x, %w: !w {mg.param = {along = "j", parts = [{tensor = "gate"}, {tensor = "up"}]}}) -> !f attributes {mg.block} {
  %all = mg.einsum %x, %w : (!x, !w) -> !a
  %g, %u = mg.parts %all along "j" : !a -> (!f, !f)
  %s = mg.silu %g : (!f) -> !f
  %y = mg.mul %s, %u : (!f, !f) -> !f
  return %y : !f
}

// Backward needs one part only: that is saved.
// CHECK-LABEL: func.func @one.forward(
// CHECK:         %[[P:.*]]:2 = mg.parts
// CHECK:         return %{{.*}}, %[[P]]#0, %{{.*}} : tensor<4x2x16xf32, {{.*}}, tensor<4x2x16xf32, {{.*}}, tensor<4x2x8xf32

// The weight half takes the joined value and reads its parts there.
// HALVES-LABEL: func.func @one.weight(%{{.*}}: tensor<4x2x2x16xf32,
// HALVES:         %[[P:.*]]:2 = mg.parts
// HALVES:         mg.sum %[[P]]#1
// HALVES-LABEL: func.func @one.input(
// HALVES:         %[[J:.*]] = mg.join
// HALVES:         return %{{[^,]*}}, %[[J]] : tensor<4x2x8xf32, {{.*}}, tensor<4x2x2x16xf32
func.func @one(%x: !x, %w: !w {mg.param = {along = "j", parts = [{tensor = "a"}, {tensor = "b"}]}},
               %bias: !b {mg.param = {tensor = "bias"}}) -> !f attributes {mg.block} {
  %all = mg.einsum %x, %w : (!x, !w) -> !a
  %g, %u = mg.parts %all along "j" : !a -> (!f, !f)
  %s = mg.silu %g : (!f) -> !f
  %t = mg.add %u, %bias : (!f, !b) -> !f
  %y = mg.add %s, %t : (!f, !f) -> !f
  return %y : !f
}
}
