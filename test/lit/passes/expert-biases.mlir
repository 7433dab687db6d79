// Biases of experts, shared out over the ranks of dp, their columns over those of tp: a rank has those of its experts, and the sum
// over columns counts the bias of the last product once.
// RUN: %mg-opt %s --mg-grad --mg-shard | FileCheck %s --enable-var-scope --check-prefix=SHARD
// RUN: %mg-opt %s --mg-grad --mg-shard --mg-local --mg-order-rows | FileCheck %s --enable-var-scope --check-prefix=LOCAL

!x = tensor<16x4x8xf32, #mg.layout<s, b, h>>
!ids = tensor<16x4x2xi32, #mg.layout<s, b, k>>
!rows = tensor<128x8xf32, #mg.layout<c, h>>
!inner = tensor<128x6xf32, #mg.layout<c, m>>
!pairs = tensor<128x6x2xf32, #mg.layout<c, m, j>>
!column = tensor<128xf32, #mg.layout<c>>
!up = tensor<6x8x6x2xf32, #mg.layout<e, h, m, j>>
!upBias = tensor<6x6x2xf32, #mg.layout<e, m, j>>
!down = tensor<6x6x8xf32, #mg.layout<e, m, h>>
!downBias = tensor<6x8xf32, #mg.layout<e, y>>
!p = tensor<16x4x2xf32, #mg.layout<s, b, k>>

module attributes {mg.mesh = #mg.mesh<dp = 2 : data, tp = 2>, mg.training = #mg.training<split_backward = false>,
  mg.placement = [{dimension = "b", axes = ["dp"]}, {dimension = "s", axes = ["tp"], without = "m"},
                  {dimension = "m", axes = ["tp"]},
                  {dimension = "e", axes = ["dp"], with = "m", values = ["parameter"]}, {dimension = "e", axes = ["dp"], with = "y", values = ["parameter"]},
                  {dimension = "e", axes = ["dp"], ops = ["dispatch", "combine", "spread", "collect", "row_mask", "grouped_einsum", "grouped_einsum_grad"]},
                  {dimension = "c", axes = ["dp"]}, {dimension = "s", axes = [], ops = ["dispatch", "combine", "spread", "collect", "row_mask", "grouped_einsum", "grouped_einsum_grad"]},
                  {dimension = "b", axes = [], ops = ["dispatch", "combine", "spread", "collect", "row_mask", "grouped_einsum", "grouped_einsum_grad"]}]} {

// SHARD-LABEL: func.func @experts.forward(
// SHARD-SAME:    tensor<6x6x2xf32, #mg.layout<e [dp], m [tp], j>>
// SHARD-SAME:    tensor<6x8xf32, #mg.layout<e [dp], y>>
// SHARD:         %[[ONES:.*]] = mg.row_mask %{{.*}} {coordinates = {e = ["dp"]}, count = 6 : i64} : {{.*}} -> tensor<256xf32, #mg.layout<c [dp]>>
// SHARD:         mg.grouped_einsum %[[ONES]], {{.*}} -> tensor<256x6x2xf32, #mg.layout<c [dp], m [tp], j>>
// SHARD:         %[[BIAS:.*]] = mg.rename %{{.*}} {from = "y", to = "h"} : {{.*}} -> tensor<256x8xf32, #mg.layout<c [dp], h>>
// SHARD:         %[[ONCE:.*]] = mg.reshard %[[BIAS]] : {{.*}} -> tensor<256x8xf32, #mg.layout<c [dp], h, sum [tp]>>
// SHARD:         mg.add %{{.*}}, %[[ONCE]]
// SHARD:         mg.combine %{{.*}} -> tensor<16x4x8xf32, #mg.layout<s, b, h, sum [dp, tp]>>

// SHARD-LABEL: func.func @experts.backward(
// SHARD-DAG:     mg.grouped_einsum_grad %{{.*}} -> tensor<6x8xf32, #mg.layout<e [dp], y>>
// SHARD-DAG:     mg.grouped_einsum_grad %{{.*}} -> tensor<6x6x2xf32, #mg.layout<e [dp], m [tp], j>>
// SHARD-DAG:     mg.grouped_einsum_grad %{{.*}} -> tensor<6x8x6x2xf32, #mg.layout<e [dp], h, m [tp], j>>

// The mask is made of the sources, products of columns have the counts, and pairs of gradients are written once.
// LOCAL-LABEL: func.func @experts.forward(
// LOCAL:         %[[COUNTS:.*]], %[[PLACES:.*]], %[[SOURCES:.*]] = mg.group %[[IDS:.*]] over ["dp"]
// LOCAL:         %[[ONES:.*]] = mg.row_mask %[[IDS]] order %[[SOURCES]]
// LOCAL:         mg.grouped_einsum %[[ONES]], %{{.*}} to %[[IDS]] order %[[COUNTS]] {{.*}} -> tensor<128x3x2xf32, #mg.layout<c, m, j>>
// LOCAL:         mg.demote %{{.*}} over ["tp"]
// LOCAL-LABEL: func.func @experts.backward(
// LOCAL:         mg.zip
// LOCAL-NOT:     mg.zip
// LOCAL:         return
func.func @experts(%x: !x, %ids: !ids, %p: !p, %up: !up {mg.param = {tensor = "up"}}, %upBias: !upBias {mg.param = {tensor = "upBias"}}, %down: !down {mg.param = {tensor = "down"}}, %downBias: !downBias {mg.param = {tensor = "downBias"}}) -> !x attributes {mg.block} {
  %rows = mg.dispatch %x to %ids {count = 6 : i64} : (!x, !ids) -> !rows
  %ones = mg.row_mask %ids {count = 6 : i64} : (!ids) -> !column
  %column = mg.spread %p to %ids {count = 6 : i64} : (!p, !ids) -> !column
  %product = mg.grouped_einsum %rows, %up to %ids : (!rows, !up, !ids) -> !pairs
  %g0, %u0 = mg.unzip %product : (!pairs) -> (!inner, !inner)
  %biases = mg.grouped_einsum %ones, %upBias to %ids : (!column, !upBias, !ids) -> !pairs
  %g1, %u1 = mg.unzip %biases : (!pairs) -> (!inner, !inner)
  %g = mg.add %g0, %g1 : (!inner, !inner) -> !inner
  %u = mg.add %u0, %u1 : (!inner, !inner) -> !inner
  %gu = mg.mul %g, %u : (!inner, !inner) -> !inner
  %scaled = mg.mul %gu, %column : (!inner, !column) -> !inner
  %z = mg.grouped_einsum %scaled, %down to %ids : (!inner, !down, !ids) -> !rows
  %t = mg.grouped_einsum %column, %downBias to %ids : (!column, !downBias, !ids) -> tensor<128x8xf32, #mg.layout<c, y>>
  %th = mg.rename %t {from = "y", to = "h"} : (tensor<128x8xf32, #mg.layout<c, y>>) -> !rows
  %zt = mg.add %z, %th : (!rows, !rows) -> !rows
  %y = mg.combine %zt to %ids {count = 6 : i64} : (!rows, !ids) -> !x
  return %y : !x
}
}
