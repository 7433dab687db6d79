// RUN: %mg-opt %s --mg-fuse | FileCheck %s --enable-var-scope

!x = tensor<4x2x8xf32, #mg.layout<s, b, h>>
!t = tensor<4x2x8xf32, #mg.layout<t, b, h>>
!part = tensor<2x2x8xf32, #mg.layout<s, b, h>>
!f = tensor<4x2x16xf32, #mg.layout<s, b, f>>
!sb = tensor<4x2xf32, #mg.layout<s, b>>
!h = tensor<8xf32, #mg.layout<h>>
!w = tensor<8x16xf32, #mg.layout<h, f>>
!v = tensor<16x8xf32, #mg.layout<v, h>>

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
  %1, %2 = mg.rms_norm %0, %g {epsilon = 1.0e-5 : f64} : (!x, !h) -> (!x, !sb)
  %3 = mg.einsum %1, %w : (!x, !w) -> !f
  return %0, %3 : !x, !f
}

// A dear function is not computed once per pass of a norm: two kernels.
// CHECK-LABEL: func.func @dear.forward(
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.silu
// CHECK-NEXT:      mg.yield
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.rms_norm
func.func @dear.forward(%x: !x, %g: !h {mg.param = {tensor = "g"}}) -> !x attributes {mg.block = "dear", mg.pass = "forward"} {
  %0 = mg.silu %x : (!x) -> !x
  %1, %2 = mg.rms_norm %0, %g {epsilon = 1.0e-5 : f64} : (!x, !h) -> (!x, !sb)
  return %1 : !x
}

// Nor before a norm's gradient, which sums over the columns although its result has them all.
// CHECK-LABEL: func.func @dear_gradient.forward(
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.gelu_grad
// CHECK-NEXT:      mg.yield
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.rms_norm_grad
func.func @dear_gradient.forward(%x: !x, %g: !h {mg.param = {tensor = "g"}}, %r: !sb, %dy: !x) -> !x attributes {mg.block = "dear_gradient", mg.pass = "forward"} {
  %0 = mg.gelu_grad %x, %dy {form = "tanh"} : (!x, !x) -> !x
  %1 = mg.rms_norm_grad %x, %g, %r, %0 : (!x, !h, !sb, !x) -> !x
  return %1 : !x
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

// What a collective uses cannot move past it: no kernel spans it.
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

// Sums over rows with one reader of dy are one kernel, and never one with what works row by row.
// CHECK-LABEL: func.func @sums.forward(
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.sum
// CHECK-NEXT:      mg.rms_norm_weight_grad
// CHECK-NEXT:      mg.yield
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.silu
func.func @sums.forward(%x: !x, %dy: !x, %r: !sb) -> (!h, !h, !x) attributes {mg.block = "sums", mg.pass = "forward"} {
  %0 = mg.sum %dy : (!x) -> !h
  %1 = mg.rms_norm_weight_grad %x, %r, %dy : (!x, !sb, !x) -> !h
  %2 = mg.silu %dy : (!x) -> !x
  return %0, %1, %2 : !h, !h, !x
}

// An activation that is saved is kept anyway; one that is returned twice, and an argument that is returned, is copied;
// a renamed value shares its memory and is not.
// CHECK-LABEL: func.func @owners.forward(
// CHECK-SAME:    %[[X:.*]]: tensor<4x2x8xf32
// CHECK:         %[[Y:.*]] = mg.kernel
// CHECK-NEXT:      mg.silu
// CHECK:         %[[T:.*]] = mg.rename %[[Y]]
// CHECK:         %[[C:.*]] = mg.kernel
// CHECK-NEXT:      mg.accumulate %[[X]]
// CHECK:         %[[D:.*]] = mg.kernel
// CHECK-NEXT:      mg.accumulate %[[Y]]
// CHECK:         return %[[C]], %[[X]], %[[T]], %[[D]]
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
// CHECK-DAG:       %[[S:.*]] = mg.sum %[[P]]
// CHECK-DAG:       %[[A:.*]] = mg.silu %[[P]]
// CHECK-DAG:       %[[B:.*]] = mg.accumulate %[[P]] {signs = array<i64: 1>}
// CHECK-DAG:       mg.yield %[[A]], %[[B]]
// CHECK-DAG:       mg.yield %[[S]]
// CHECK-NOT:     ^bb0
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
