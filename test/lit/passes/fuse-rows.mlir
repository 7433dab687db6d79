// Row ops on rows of experts do those that there are; no kernel has ops on rows of two orders, or on rows and tokens.
// RUN: %mg-opt %s --mg-fuse | FileCheck %s --enable-var-scope

!x = tensor<8x1x16xf32, #mg.layout<s, b, h>>
!ids = tensor<8x1x2xi32, #mg.layout<s, b, k>>
!p = tensor<8x1x2xf32, #mg.layout<s, b, k>>
!rows = tensor<16x16xf32, #mg.layout<c, h>>
!inner = tensor<16x4xf32, #mg.layout<c, m>>
!column = tensor<16xf32, #mg.layout<c>>
!c = tensor<16xi32, #mg.layout<c>>
!e = tensor<2xi32, #mg.layout<e>>
!all = tensor<4xi32, #mg.layout<e>>
!up = tensor<2x4x16xf32, #mg.layout<e, m, h>>
!down = tensor<2x16x4xf32, #mg.layout<e, h, m>>

module attributes {mg.mesh = #mg.mesh<ep = 2>} {

// CHECK-LABEL: func.func @one.forward(
// CHECK:         %[[COUNTS:.*]], %{{.*}}, %[[SOURCES:.*]] = mg.group
// CHECK:         %[[NUMBER:.*]] = mg.kernel {
// CHECK-NEXT:      mg.row_count %[[COUNTS]]
// CHECK:         mg.kernel of %[[NUMBER]] : tensor<i32, #mg.layout<>> {
// CHECK:           mg.dispatch
// CHECK:         mg.grouped_einsum
// CHECK:         mg.kernel of %[[NUMBER]] : tensor<i32, #mg.layout<>> {
// CHECK-DAG:       mg.silu
// CHECK-DAG:       mg.mul
// CHECK:         mg.grouped_einsum
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.combine
func.func @one.forward(%x: !x, %ids: !ids, %p: !p, %up: !up {mg.param = {tensor = "up"}}, %down: !down {mg.param = {tensor = "down"}}) -> !x
    attributes {mg.block = "one", mg.pass = "forward"} {
  %counts, %places, %sources = mg.group %ids over ["ep"] : (!ids) -> (!e, !ids, !c)
  %rows = mg.dispatch %x to %ids order %sources {count = 4 : i64, coordinates = {e = ["ep"]}} : (!x, !ids, !c) -> !rows
  %column = mg.spread %p to %ids order %sources {count = 4 : i64, coordinates = {e = ["ep"]}} : (!p, !ids, !c) -> !column
  %z = mg.grouped_einsum %rows, %up to %ids order %counts {coordinates = {e = ["ep"]}} : (!rows, !up, !ids, !e) -> !inner
  %act = mg.silu %z : (!inner) -> !inner
  %scaled = mg.mul %act, %column : (!inner, !column) -> !inner
  %out = mg.grouped_einsum %scaled, %down to %ids order %counts {coordinates = {e = ["ep"]}} : (!inner, !down, !ids, !e) -> !rows
  %y = mg.combine %out to %ids order %places {count = 4 : i64, coordinates = {e = ["ep"]}} : (!rows, !ids, !ids) -> !x
  return %y : !x
}

// A rank's own rows, and those of its experts, are as many places: each has its number.
// CHECK-LABEL: func.func @two.forward(
// CHECK-DAG:     %[[OWN:.*]] = mg.reduce_scatter
// CHECK-DAG:     mg.row_count %[[OWN]]
// CHECK:         mg.kernel of %[[MINE:.*]] : tensor<i32, #mg.layout<>> {
// CHECK-NEXT:      mg.dispatch
// CHECK-NEXT:      mg.yield
// CHECK:         mg.exchange
// CHECK:         mg.kernel of %[[THEIRS:.*]] : tensor<i32, #mg.layout<>> {
// CHECK-NEXT:      mg.silu
// CHECK-NEXT:      mg.yield
// CHECK:         mg.grouped_einsum
// CHECK:         return
func.func @two.forward(%x: !x, %ids: !ids, %up: !up {mg.param = {tensor = "up"}}) -> tensor<32x4xf32, #mg.layout<c, m>>
    attributes {mg.block = "two", mg.pass = "forward"} {
  %counts, %places, %sources = mg.group %ids over [] : (!ids) -> (!all, !ids, !c)
  %every = mg.all_gather %counts over ["ep"] {dim = 0 : i64} : !all -> tensor<8xi32, #mg.layout<e>>
  %own = mg.reduce_scatter %counts over ["ep"] {dim = 0 : i64} : !all -> !e
  %rows = mg.dispatch %x to %ids order %sources {count = 4 : i64} : (!x, !ids, !c) -> !rows
  %there = mg.exchange %rows by %every over ["ep"] : (!rows, tensor<8xi32, #mg.layout<e>>) -> tensor<32x16xf32, #mg.layout<c, h>>
  %act = mg.silu %there : (tensor<32x16xf32, #mg.layout<c, h>>) -> tensor<32x16xf32, #mg.layout<c, h>>
  %z = mg.grouped_einsum %act, %up to %ids order %own {coordinates = {e = ["ep"]}, exchange = ["ep"]} : (tensor<32x16xf32, #mg.layout<c, h>>, !up, !ids, !e) -> tensor<32x4xf32, #mg.layout<c, m>>
  return %z : tensor<32x4xf32, #mg.layout<c, m>>
}
}
