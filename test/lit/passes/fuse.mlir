// RUN: %mg-opt %s --mg-fuse | FileCheck %s --enable-var-scope

!x = tensor<4x2x8xf32, #mg.layout<s, b, h>>
!t = tensor<4x2x8xf32, #mg.layout<t, b, h>>
!part = tensor<2x2x8xf32, #mg.layout<s, b, h>>
!f = tensor<4x2x16xf32, #mg.layout<s, b, f>>
!sb = tensor<4x2xf32, #mg.layout<s, b>>
!h = tensor<8xf32, #mg.layout<h>>
!w = tensor<8x16xf32, #mg.layout<h, f>>
!v = tensor<16x8xf32, #mg.layout<v, h>>
!X = tensor<512x2x768xf32, #mg.layout<s, b, h>>
!SB = tensor<512x2xf32, #mg.layout<s, b>>
!H = tensor<768xf32, #mg.layout<h>>

module attributes {mg.mesh = #mg.mesh<tp = 2>} {

// A residual sum and the norm after it are one kernel; both leave it.
// CHECK-LABEL: func.func @norm.forward(
// CHECK:         %[[K:.*]]:2 = mg.kernel {
// CHECK-NEXT:      %[[SUM:.*]] = mg.add
// CHECK-NEXT:      %[[Y:.*]], %{{.*}} = mg.rms_norm %[[SUM]]
// CHECK-NEXT:      mg.yield %[[SUM]], %[[Y]]
// CHECK:         mg.einsum %[[K]]#1
// CHECK:         return %[[K]]#0
func.func @norm.forward(%x: !x, %y: !x, %g: !h {mg.param = {tensor = "g"}}, %w: !w {mg.param = {tensor = "w"}}) -> (!x, !f)
    attributes {mg.block = "norm", mg.pass = "forward"} {
  %0 = mg.add %x, %y : (!x, !x) -> !x
  %1, %2 = mg.rms_norm %0 gamma %g {epsilon = 1.0e-5 : f64} : (!x, !h) -> (!x, !sb)
  %3 = mg.einsum %1, %w : (!x, !w) -> !f
  return %0, %3 : !x, !f
}

// A dear function would be computed once per pass of a norm, which takes longer than its result moves: two kernels.
// CHECK-LABEL: func.func @dear.forward(
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.silu
// CHECK-NEXT:      mg.yield
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.rms_norm
func.func @dear.forward(%x: !X, %g: !H {mg.param = {tensor = "g"}}) -> !X attributes {mg.block = "dear", mg.pass = "forward"} {
  %0 = mg.silu %x : (!X) -> !X
  %1, %2 = mg.rms_norm %0 gamma %g {epsilon = 1.0e-5 : f64} : (!X, !H) -> (!X, !SB)
  return %1 : !X
}

// Where little is moved and computed, the start of a kernel is what costs.
// CHECK-LABEL: func.func @small.forward(
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.silu
// CHECK-NEXT:      mg.rms_norm
func.func @small.forward(%x: !x, %g: !h {mg.param = {tensor = "g"}}) -> !x attributes {mg.block = "small", mg.pass = "forward"} {
  %0 = mg.silu %x : (!x) -> !x
  %1, %2 = mg.rms_norm %0 gamma %g {epsilon = 1.0e-5 : f64} : (!x, !h) -> (!x, !sb)
  return %1 : !x
}

// Nor before a norm's gradient, which sums over the columns although its result has them all.
// CHECK-LABEL: func.func @dear_gradient.forward(
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.gelu_grad
// CHECK-NEXT:      mg.yield
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.rms_norm_grad
func.func @dear_gradient.forward(%x: !X, %z: !X, %g: !H {mg.param = {tensor = "g"}}, %r: !SB, %dy: !X) -> !X attributes {mg.block = "dear_gradient", mg.pass = "forward"} {
  %0 = mg.gelu_grad %z, %dy {form = "tanh"} : (!X, !X) -> !X
  %1 = mg.rms_norm_grad %x, %r, %0 gamma %g : (!X, !SB, !X, !H) -> !X
  return %1 : !X
}

// Places that depend on data are read once the table is in memory; rows that are looked up do not make dear work double.
// CHECK-LABEL: func.func @lookup.forward(
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.silu
// CHECK-NEXT:      mg.yield
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.embed
// CHECK-NEXT:      mg.silu
// CHECK-NEXT:      mg.embed
func.func @lookup.forward(%ids: tensor<4x2xi32, #mg.layout<s, b>>, %table: !v {mg.param = {tensor = "v"}}) -> (!x, !x) attributes {mg.block = "lookup", mg.pass = "forward"} {
  %0 = mg.silu %table : (!v) -> !v
  %1 = mg.embed %ids, %0 : (tensor<4x2xi32, #mg.layout<s, b>>, !v) -> !x
  %2 = mg.silu %1 : (!x) -> !x
  %3 = mg.embed %ids, %table : (tensor<4x2xi32, #mg.layout<s, b>>, !v) -> !x
  return %2, %3 : !x, !x
}

// The operand of a collective cannot move past it: no kernel spans it.
// CHECK-LABEL: func.func @collective.forward(
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.silu
// CHECK-NEXT:      mg.yield
// CHECK:         %[[R:.*]] = mg.all_reduce
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.add %{{.*}}, %[[R]]
// CHECK-NEXT:      mg.yield
func.func @collective.forward(%x: !x) -> !x attributes {mg.block = "collective", mg.pass = "forward"} {
  %0 = mg.silu %x : (!x) -> !x
  %1 = mg.all_reduce %0 over ["tp"] : !x -> !x
  %2 = mg.add %0, %1 : (!x, !x) -> !x
  return %2 : !x
}

// Sums over rows, and the element-wise ops that they read, are one kernel, but never one with ops that work row by row.
// CHECK-LABEL: func.func @sums.forward(
// CHECK:         mg.kernel {
// CHECK-NEXT:      %[[DX:.*]] = mg.silu
// CHECK-NEXT:      mg.sum %[[DX]]
// CHECK-NEXT:      mg.rms_norm_weight_grad
// CHECK-NEXT:      mg.yield
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.rms_norm
func.func @sums.forward(%x: !x, %dy: !x, %r: !sb, %g: !h) -> (!h, !h, !x, !x) attributes {mg.block = "sums", mg.pass = "forward"} {
  %0 = mg.silu %dy : (!x) -> !x
  %1 = mg.sum %0 : (!x) -> !h
  %2 = mg.rms_norm_weight_grad %x, %r, %dy : (!x, !sb, !x) -> !h
  %3, %4 = mg.rms_norm %dy gamma %g {epsilon = 1.0e-5 : f64} : (!x, !h) -> (!x, !sb)
  return %1, %2, %0, %3 : !h, !h, !x, !x
}

// A sum over rows is known only after its kernel.
// CHECK-LABEL: func.func @total.forward(
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.sum
// CHECK-NEXT:      mg.yield
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.add
func.func @total.forward(%x: !x) -> !x attributes {mg.block = "total", mg.pass = "forward"} {
  %0 = mg.sum %x : (!x) -> !h
  %1 = mg.add %x, %0 : (!x, !h) -> !x
  return %1 : !x
}

// Ops that stand apart are one kernel where that is legal: what uses it and stood between follows it.
// CHECK-LABEL: func.func @apart.forward(
// CHECK:         %[[Q:.*]] = mg.einsum %{{.*}}, %[[W:.*]] :
// CHECK:         %[[K:.*]]:2 = mg.kernel {
// CHECK-NEXT:      mg.add
// CHECK-NEXT:      mg.accumulate
// CHECK-NEXT:      mg.yield
// CHECK:         mg.einsum %[[K]]#0, %[[W]]
// CHECK:         return
func.func @apart.forward(%x: !X, %y: !X, %w: tensor<768x16xf32, #mg.layout<h, f>> {mg.param = {tensor = "w"}})
    -> (tensor<512x2x16xf32, #mg.layout<s, b, f>>, tensor<512x2x16xf32, #mg.layout<s, b, f>>, !X)
    attributes {mg.block = "apart", mg.pass = "forward"} {
  %1 = mg.einsum %x, %w : (!X, tensor<768x16xf32, #mg.layout<h, f>>) -> tensor<512x2x16xf32, #mg.layout<s, b, f>>
  %0 = mg.add %x, %y : (!X, !X) -> !X
  %2 = mg.einsum %0, %w : (!X, tensor<768x16xf32, #mg.layout<h, f>>) -> tensor<512x2x16xf32, #mg.layout<s, b, f>>
  %3 = mg.accumulate %y, %0 {signs = array<i64: 1, -1>} : (!X, !X) -> !X
  return %1, %2, %3 : tensor<512x2x16xf32, #mg.layout<s, b, f>>, tensor<512x2x16xf32, #mg.layout<s, b, f>>, !X
}

// An activation that is saved is kept anyway; one that is returned twice, and an argument that is returned, is copied;
// a renamed value shares its memory and is not.
// CHECK-LABEL: func.func @owners.forward(
// CHECK-SAME:    %[[X:.*]]: tensor<4x2x8xf32
// CHECK:         %[[K:.*]]:3 = mg.kernel
// CHECK-NEXT:      %[[Y:.*]] = mg.silu
// CHECK-NEXT:      mg.accumulate %[[X]]
// CHECK-NEXT:      mg.accumulate %[[Y]]
// CHECK:         %[[T:.*]] = mg.rename %[[K]]#0
// CHECK:         return %[[K]]#1, %[[X]], %[[T]], %[[K]]#2
func.func @owners.forward(%x: !x) -> (!x, !x {mg.result = "saved"}, !t {mg.result = "saved"}, !x {mg.result = "saved"})
    attributes {mg.block = "owners", mg.pass = "forward"} {
  %0 = mg.silu %x : (!x) -> !x
  %1 = mg.rename %0 {from = "s", to = "t"} : (!x) -> !t
  return %x, %x, %1, %0 : !x, !x, !t, !x
}

// Row ops in a tile become kernels there; what it yields has memory of its own.
// CHECK-LABEL: func.func @tiled.forward(
// CHECK:         mg.tile 2 of
// CHECK-NEXT:    ^bb0(%[[P:[a-z0-9]+]]:
// CHECK-NEXT:      %[[K:.*]]:3 = mg.kernel {
// CHECK-NEXT:        %[[A:.*]] = mg.silu %[[P]]
// CHECK-NEXT:        %[[S:.*]] = mg.sum %[[P]]
// CHECK-NEXT:        %[[B:.*]] = mg.accumulate %[[P]] {signs = array<i64: 1>}
// CHECK-NEXT:        mg.yield %[[A]], %[[S]], %[[B]]
// CHECK:           mg.yield %[[K]]#0, %[[K]]#2, %[[K]]#1
// CHECK:         return
func.func @tiled.forward(%x: !x) -> (!x, !x, !h) attributes {mg.block = "tiled", mg.pass = "forward"} {
  %0:3 = mg.tile 2 of %x : (!x) -> (!x, !x, !h) {
  ^bb0(%p: !part):
    %a = mg.silu %p : (!part) -> !part
    %s = mg.sum %p : (!part) -> !h
    mg.yield %a, %p, %s : !part, !part, !h
  }
  return %0#0, %0#1, %0#2 : !x, !x, !h
}
}
