// Rows by expert are printed as they are read, logical and local.
// RUN: %mg-opt %s | FileCheck %s
// RUN: %mg-opt %s | %mg-opt | FileCheck %s

!x = tensor<4x2x8xf32, #mg.layout<s [cp, tp], b [dp], h>>
!ids = tensor<4x2x3xi32, #mg.layout<s [cp, tp], b [dp], k>>
!rows = tensor<24x8xf32, #mg.layout<c [cp, tp, dp], h>>
!inner = tensor<24x5xf32, #mg.layout<c [cp, tp, dp], m>>
!weights = tensor<4x2x3xf32, #mg.layout<s [cp, tp], b [dp], k>>
!column = tensor<24xf32, #mg.layout<c [cp, tp, dp]>>
!w = tensor<6x5x8xf32, #mg.layout<e, m, h>>

// c has the axes of s and b; the gradient of the matrices is pending over them.
// CHECK-LABEL: func.func @split(
// CHECK: mg.dispatch %arg0 to %arg1 {count = 6 : i64} : (
// CHECK: mg.grouped_einsum %{{.*}}, %arg2 to %arg1 : (
// CHECK: mg.spread %arg3 to %arg1 {count = 6 : i64}
// CHECK: mg.collect %{{.*}} to %arg1 {count = 6 : i64}
// CHECK: mg.grouped_einsum_grad %{{.*}} -> tensor<6x5x8xf32, #mg.layout<e, m, h, sum [cp, tp, dp]>>
// CHECK: mg.combine %{{.*}} to %arg1 {count = 6 : i64}
func.func @split(%x: !x, %ids: !ids, %w: !w, %p: !weights) {
  %rows = mg.dispatch %x to %ids {count = 6 : i64} : (!x, !ids) -> !rows
  %inner = mg.grouped_einsum %rows, %w to %ids : (!rows, !w, !ids) -> !inner
  %column = mg.spread %p to %ids {count = 6 : i64} : (!weights, !ids) -> !column
  %back = mg.collect %column to %ids {count = 6 : i64} : (!column, !ids) -> !weights
  %dw = mg.grouped_einsum_grad %inner, %rows to %ids : (!inner, !rows, !ids) -> tensor<6x5x8xf32, #mg.layout<e, m, h, sum [cp, tp, dp]>>
  %y = mg.combine %rows to %ids {count = 6 : i64} : (!rows, !ids) -> !x
  return
}

// CHECK-LABEL: func.func @local(
// CHECK: %[[COUNTS:.*]], %[[PLACES:.*]], %[[SOURCES:.*]] = mg.group %arg1 over []
// CHECK: mg.dispatch %arg0 to %arg1 order %[[SOURCES]]
// CHECK: mg.grouped_einsum %{{.*}}, %arg2 to %arg1 order %[[COUNTS]]
// CHECK: mg.combine %{{.*}} to %arg1 order %[[PLACES]]
!lx = tensor<2x1x8xf32, #mg.layout<s, b, h>>
!lids = tensor<2x1x3xi32, #mg.layout<s, b, k>>
!lrows = tensor<6x8xf32, #mg.layout<c, h>>
!e = tensor<6xi32, #mg.layout<e>>
!c = tensor<6xi32, #mg.layout<c>>
func.func @local(%x: !lx, %ids: !lids, %w: tensor<6x8x8xf32, #mg.layout<e, h, m>>) {
  %counts, %places, %sources = mg.group %ids over [] : (!lids) -> (!e, !lids, !c)
  %rows = mg.dispatch %x to %ids order %sources {count = 6 : i64} : (!lx, !lids, !c) -> !lrows
  %z = mg.grouped_einsum %rows, %w to %ids order %counts : (!lrows, tensor<6x8x8xf32, #mg.layout<e, h, m>>, !lids, !e) -> tensor<6x8xf32, #mg.layout<c, m>>
  %y = mg.combine %rows to %ids order %places {count = 6 : i64} : (!lrows, !lids, !lids) -> !lx
  return
}

// Rows of two dimensions, and columns times the experts' rows: biases. Their gradients are pending as those of matrices are.
// CHECK-LABEL: func.func @biases(
// CHECK: mg.row_mask %arg1 {count = 6 : i64}
// CHECK: mg.grouped_einsum %arg0, %arg2 to %arg1 : {{.*}} -> tensor<24x5x2xf32, #mg.layout<c [cp, tp, dp], m, j>>
// CHECK: mg.grouped_einsum %{{.*}}, %arg3 to %arg1 : {{.*}} -> tensor<24x5x2xf32, #mg.layout<c [cp, tp, dp], m, j>>
// CHECK: mg.grouped_einsum %{{.*}}, %arg3 to %arg1 : {{.*}} -> tensor<24xf32, #mg.layout<c [cp, tp, dp]>>
// CHECK: mg.grouped_einsum_grad %{{.*}} -> tensor<6x5x2xf32, #mg.layout<e, m, j, sum [cp, tp, dp]>>
!pairs = tensor<24x5x2xf32, #mg.layout<c [cp, tp, dp], m, j>>
!bias = tensor<6x5x2xf32, #mg.layout<e, m, j>>
func.func @biases(%x: !rows, %ids: !ids, %w: tensor<6x8x5x2xf32, #mg.layout<e, h, m, j>>, %b: !bias) {
  %ones = mg.row_mask %ids {count = 6 : i64} : (!ids) -> !column
  %y = mg.grouped_einsum %x, %w to %ids : (!rows, tensor<6x8x5x2xf32, #mg.layout<e, h, m, j>>, !ids) -> !pairs
  %z = mg.grouped_einsum %ones, %b to %ids : (!column, !bias, !ids) -> !pairs
  %back = mg.grouped_einsum %z, %b to %ids : (!pairs, !bias, !ids) -> !column
  %db = mg.grouped_einsum_grad %ones, %z to %ids : (!column, !pairs, !ids) -> tensor<6x5x2xf32, #mg.layout<e, m, j, sum [cp, tp, dp]>>
  return
}

// CHECK-LABEL: func.func @drop(
// CHECK: mg.drop %arg0 by %arg1 at %arg2 {byPosition, capacity = 2 : i64, count = 6 : i64, together = 1 : i64} : (tensor<4x2x3xi32, #mg.layout<s, b [dp], k>>
func.func @drop(%ids: tensor<4x2x3xi32, #mg.layout<s, b [dp], k>>, %w: tensor<4x2x3xf32, #mg.layout<s, b [dp], k>>,
                %at: tensor<4x2xi32, #mg.layout<s, b [dp]>>) {
  %kept = mg.drop %ids by %w at %at {byPosition, count = 6 : i64, capacity = 2 : i64, together = 1 : i64} : (tensor<4x2x3xi32, #mg.layout<s, b [dp], k>>, tensor<4x2x3xf32, #mg.layout<s, b [dp], k>>, tensor<4x2xi32, #mg.layout<s, b [dp]>>) -> tensor<4x2x3xi32, #mg.layout<s, b [dp], k>>
  return
}
