// The same experts where tokens stay on their ranks, and their rows travel over dp.
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
                  {dimension = "c", axes = ["dp"]}, {dimension = "s", axes = [], ops = ["dispatch", "combine", "spread", "collect", "grouped_einsum", "grouped_einsum_grad"]}]} {

// Nothing is reduced over dp, and no token gathered over it.
// SHARD-LABEL: func.func @experts.forward(
// SHARD:         mg.dispatch %{{.*}} {coordinates = {e = ["dp"]}, count = 6 : i64} : (tensor<16x4x8xf32, #mg.layout<s, b [dp], h>>, tensor<16x4x2xi32, #mg.layout<s, b [dp], k>>) -> tensor<256x8xf32, #mg.layout<c [dp], h>>
// SHARD:         mg.combine %{{.*}} -> tensor<16x4x8xf32, #mg.layout<s, b [dp], h, sum [tp]>>
// SHARD-LABEL: func.func @experts.backward(
// SHARD-DAG:     mg.grouped_einsum_grad %{{.*}} -> tensor<6x6x8xf32, #mg.layout<e [dp], m [tp], h>>
// SHARD-DAG:     mg.collect %{{.*}} -> tensor<16x4x2xf32, #mg.layout<s, b [dp], k, sum [tp]>>

// A rank groups the rows of its own tokens, of all experts; all learn the counts; products have those of the rank's experts.
// LOCAL-LABEL: func.func @experts.forward(
// LOCAL:         %[[COUNTS:.*]], %[[PLACES:.*]], %[[SOURCES:.*]] = mg.group %[[IDS:.*]] over [] : (tensor<16x2x2xi32, #mg.layout<s, b, k>>) -> (tensor<6xi32, #mg.layout<e>>, tensor<16x2x2xi32, #mg.layout<s, b, k>>, tensor<64xi32, #mg.layout<c>>)
// LOCAL-DAG:     %[[ALL:.*]] = mg.all_gather %[[COUNTS]] over ["dp"] {dim = 0 : i64}
// LOCAL-DAG:     %[[OWN:.*]] = mg.reduce_scatter %[[COUNTS]] over ["dp"] {dim = 0 : i64}
// LOCAL:         %[[ROWS:.*]] = mg.dispatch %{{.*}} to %[[IDS]] order %[[SOURCES]] {count = 6 : i64} : {{.*}} -> tensor<64x8xf32, #mg.layout<c, h>>
// LOCAL:         mg.exchange %[[ROWS]] by %[[ALL]] over ["dp"] : {{.*}} -> tensor<128x8xf32, #mg.layout<c, h>>
// LOCAL:         mg.grouped_einsum %{{.*}} to %[[IDS]] order %[[OWN]]
// LOCAL:         %[[BACK:.*]] = mg.exchange %{{.*}} by %[[ALL]] over ["dp"] back : {{.*}} -> tensor<64x8xf32, #mg.layout<c, h>>
// LOCAL:         mg.combine %[[BACK]] to %[[IDS]] order %[[PLACES]] {count = 6 : i64}
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
