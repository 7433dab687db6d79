// Experts shared out over the ranks of dp, their columns over those of tp: tokens are gathered, and their sums scattered.
// RUN: %mg-opt %s --mg-grad --mg-shard | FileCheck %s --enable-var-scope --check-prefix=SHARD
// RUN: %mg-opt %s --mg-grad --mg-shard --mg-local --mg-order-rows | FileCheck %s --enable-var-scope --check-prefix=LOCAL

!x = tensor<16x4x8xf32, #mg.layout<s, b, h>>
!ids = tensor<16x4x2xi32, #mg.layout<s, b, k>>
!rows = tensor<128x8xf32, #mg.layout<c, h>>
!inner = tensor<128x6xf32, #mg.layout<c, m>>
!up = tensor<6x6x8xf32, #mg.layout<e, m, h>>
!down = tensor<6x8x6xf32, #mg.layout<e, h, m>>
!p = tensor<16x4x2xf32, #mg.layout<s, b, k>>

module attributes {mg.mesh = #mg.mesh<dp = 2 : data, tp = 2>, mg.training = #mg.training<split_backward = false>,
  mg.placement = [{dimension = "b", axes = ["dp"]}, {dimension = "s", axes = ["tp"], without = "m"},
                  {dimension = "m", axes = ["tp"]},
                  {dimension = "e", axes = ["dp"], with = "m", values = ["parameter"]}, {dimension = "e", axes = ["dp"], ops = ["dispatch", "combine", "spread", "collect", "grouped_einsum", "grouped_einsum_grad"]},
                  {dimension = "c", axes = ["dp"]}, {dimension = "s", axes = [], ops = ["dispatch", "combine", "spread", "collect", "grouped_einsum", "grouped_einsum_grad"]},
                  {dimension = "b", axes = [], ops = ["dispatch", "combine", "spread", "collect", "grouped_einsum", "grouped_einsum_grad"]}]} {

// Rows are where their experts are; each rank has room for those of all tokens: 16 4 of them, of 2 choices of 6 experts, on 2 ranks.
// SHARD-LABEL: func.func @experts.forward(
// SHARD:         mg.dispatch %{{.*}} {coordinates = {e = ["dp"]}, count = 6 : i64} : (tensor<16x4x8xf32, #mg.layout<s, b, h>>, tensor<16x4x2xi32, #mg.layout<s, b, k>>) -> tensor<256x8xf32, #mg.layout<c [dp], h>>
// SHARD:         mg.grouped_einsum %{{.*}} -> tensor<256x6xf32, #mg.layout<c [dp], m [tp]>>
// SHARD:         mg.grouped_einsum %{{.*}} -> tensor<256x8xf32, #mg.layout<c [dp], h, sum [tp]>>
// SHARD:         %[[Y:.*]] = mg.combine %{{.*}} -> tensor<16x4x8xf32, #mg.layout<s, b, h, sum [dp, tp]>>
// SHARD:         mg.reshard %[[Y]] : tensor<16x4x8xf32, #mg.layout<s, b, h, sum [dp, tp]>> -> tensor<16x4x8xf32, #mg.layout<s [tp], b [dp], h>>

// The gradients of an expert's matrices are whole where it is: it has seen all its rows.
// SHARD-LABEL: func.func @experts.backward(
// SHARD-DAG:     mg.grouped_einsum_grad %{{.*}} -> tensor<6x6x8xf32, #mg.layout<e [dp], m [tp], h>>
// SHARD-DAG:     mg.grouped_einsum_grad %{{.*}} -> tensor<6x8x6xf32, #mg.layout<e [dp], h, m [tp]>>
// SHARD-DAG:     mg.collect %{{.*}} -> tensor<16x4x2xf32, #mg.layout<s, b, k, sum [dp, tp]>>

// LOCAL-LABEL: func.func @experts.forward(
// LOCAL:         %[[COUNTS:.*]], %[[PLACES:.*]], %[[SOURCES:.*]] = mg.group %[[IDS:.*]] over ["dp"] : (tensor<16x4x2xi32, #mg.layout<s, b, k>>) -> (tensor<3xi32, #mg.layout<e>>, tensor<16x4x2xi32, #mg.layout<s, b, k>>, tensor<128xi32, #mg.layout<c>>)
// LOCAL:         mg.dispatch %{{.*}} to %[[IDS]] order %[[SOURCES]]
// LOCAL:         mg.grouped_einsum %{{.*}} to %[[IDS]] order %[[COUNTS]]
// LOCAL:         mg.combine %{{.*}} to %[[IDS]] order %[[PLACES]]
func.func @experts(%x: !x, %ids: !ids, %p: !p, %up: !up {mg.param = {tensor = "up"}}, %down: !down {mg.param = {tensor = "down"}}) -> !x attributes {mg.block} {
  %rows = mg.dispatch %x to %ids {count = 6 : i64} : (!x, !ids) -> !rows
  %inner = mg.grouped_einsum %rows, %up to %ids : (!rows, !up, !ids) -> !inner
  %column = mg.spread %p to %ids {count = 6 : i64} : (!p, !ids) -> tensor<128xf32, #mg.layout<c>>
  %scaled = mg.mul %inner, %column : (!inner, tensor<128xf32, #mg.layout<c>>) -> !inner
  %z = mg.grouped_einsum %scaled, %down to %ids : (!inner, !down, !ids) -> !rows
  %y = mg.combine %z to %ids {count = 6 : i64} : (!rows, !ids) -> !x
  return %y : !x
}
}
