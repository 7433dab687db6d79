// RUN: %mg-opt %s --mg-fuse | FileCheck %s --enable-var-scope

!x = tensor<4x2x8xf32, #mg.layout<s, b, h>>
!a = tensor<4x2x2x16xf32, #mg.layout<s, b, j, f>>
!f = tensor<4x2x16xf32, #mg.layout<s, b, f>>
!w = tensor<2x16x8xf32, #mg.layout<j, f, h>>
!dj = tensor<4x2x4x2xf32, #mg.layout<s, b, d, j>>
!d = tensor<4x2x4xf32, #mg.layout<s, b, d>>
!t = tensor<4x2x4xf32, #mg.layout<s, b, d>>
!p = tensor<4x2xi32, #mg.layout<s, b>>
!v = tensor<16x8xf32, #mg.layout<f, h>>

module attributes {mg.mesh = #mg.mesh<>} {

// Kernels read parts where they lie. A product and what is returned take copies.
// CHECK-LABEL: func.func @parts.forward(
// CHECK:         %[[P:.*]]:2 = mg.parts
// CHECK:         mg.kernel {
// CHECK-DAG:       %[[M:.*]] = mg.mul %[[P]]#0, %[[P]]#1
// CHECK-DAG:       %[[C0:.*]] = mg.accumulate %[[P]]#0
// CHECK-DAG:       %[[C1:.*]] = mg.accumulate %[[P]]#1
// CHECK:         mg.einsum %{{.*}}, %
// CHECK-NOT:     mg.einsum %[[P]]
// CHECK:         return
// CHECK-NOT:     %[[P]]
func.func @parts.forward(%x: !x, %w: !w {mg.param = {along = "j", parts = [{tensor = "a"}, {tensor = "b"}]}},
                         %v: !v {mg.param = {tensor = "v"}})
    -> (!f, !x, !f {mg.result = "saved"}) attributes {mg.block = "parts", mg.pass = "forward"} {
  %all = mg.einsum %x, %w : (!x, !w) -> !a
  %g, %u = mg.parts %all along "j" : !a -> (!f, !f)
  %m = mg.mul %g, %u : (!f, !f) -> !f
  %y = mg.einsum %g, %v : (!f, !v) -> !x
  return %m, %y, %u : !f, !x, !f
}

// Rope's halves lie together: a part whose single elements lie apart is copied for it. So is one that a tile's product reads.
// CHECK-LABEL: func.func @rope.forward(
// CHECK:         %[[P:.*]]:2 = mg.parts
// CHECK:         mg.accumulate %[[P]]#0
// CHECK:         mg.rope %
// CHECK-NOT:     %[[P]]#0
// CHECK:         return
func.func @rope.forward(%x: !dj, %p: !p {mg.data = "positions"}) -> !d attributes {mg.block = "rope", mg.pass = "forward"} {
  %a, %b = mg.parts %x along "j" : !dj -> (!d, !d)
  %t = mg.cos_sin %p {frequencies = array<f32: 1.0, 0.5>} : (!p) -> !t
  %y = mg.rope %a, %t : (!d, !t) -> !d
  %z = mg.add %y, %b : (!d, !d) -> !d
  return %z : !d
}

// A kernel's result is written where it lies in the joined value; an argument, and a value that is joined twice, is
// copied there.
// CHECK-LABEL: func.func @join.forward(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x2x16xf32
// CHECK:         %[[K:.*]]:4 = mg.kernel {
// CHECK:         %[[A:.*]] = mg.join %[[K]]#{{.}}, %[[K]]#{{.}} along "j"
// CHECK:         %[[B:.*]] = mg.join %[[K]]#{{.}}, %[[K]]#{{.}} along "j"
// CHECK:         return %[[A]], %[[B]]
func.func @join.forward(%x: !f) -> (!a, !a) attributes {mg.block = "join", mg.pass = "forward"} {
  %s = mg.silu %x : (!f) -> !f
  %a = mg.join %s, %x along "j" : (!f, !f) -> !a
  %b = mg.join %s, %s along "j" : (!f, !f) -> !a
  return %a, %b : !a, !a
}
}
