// A ring of one rank has no steps: all keys are its own, and results keep their type.
// RUN: %mg-opt %s --mg-ring | FileCheck %s --enable-var-scope --implicit-check-not=mg.permute --implicit-check-not=ring

!q = tensor<4x2x1x2x8xbf16, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xbf16, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>

module attributes {mg.mesh = #mg.mesh<cp = 1 : sequence>} {
// CHECK-LABEL: func.func @forward(
// CHECK:         mg.attention {{.*}} -> (tensor<4x2x1x2x8xbf16
func.func @forward(%q: !q, %k: !k, %v: !k, %p: !s, %t: !t) -> (!q, !l) {
  %o, %lse = mg.attention %q, %k, %v, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = ["cp"]} : (!q, !k, !k, !s, !t) -> (!q, !l)
  return %o, %lse : !q, !l
}
// CHECK-LABEL: func.func @backward(
// CHECK:         mg.attention_grad {{.*}} -> (tensor<4x2x1x2x8xbf16
func.func @backward(%q: !q, %k: !k, %v: !k, %o: !q, %l: !l, %do: !q, %p: !s, %t: !t) -> (!q, !k, !k) {
  %dq, %dk, %dv = mg.attention_grad %q, %k, %v, %o, %l, %do, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = ["cp"]} : (!q, !k, !k, !q, !l, !q, !s, !t) -> (!q, !k, !k)
  return %dq, %dk, %dv : !q, !k, !k
}
}
