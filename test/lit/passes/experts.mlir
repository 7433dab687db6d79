// Rows by expert in the passes: gradients, the split of the rows, the order that a rank gives them.
// RUN: %mg-opt %s --mg-grad | FileCheck %s --enable-var-scope --check-prefix=GRAD
// RUN: %mg-opt %s --mg-grad --mg-shard | FileCheck %s --enable-var-scope --check-prefix=SHARD
// RUN: %mg-opt %s --mg-grad --mg-shard --mg-local --mg-order-rows | FileCheck %s --enable-var-scope --check-prefix=ORDER

!x = tensor<16x4x8xf32, #mg.layout<s, b, h>>
!ids = tensor<16x4x2xi32, #mg.layout<s, b, k>>
!rows = tensor<128x8xf32, #mg.layout<c, h>>
!inner = tensor<128x5xf32, #mg.layout<c, m>>
!up = tensor<6x5x8xf32, #mg.layout<e, m, h>>
!down = tensor<6x8x5xf32, #mg.layout<e, h, m>>
!p = tensor<16x4x2xf32, #mg.layout<s, b, k>>

module attributes {mg.mesh = #mg.mesh<dp = 2 : data, tp = 2>, mg.training = #mg.training<split_backward = false>,
  mg.placement = [{dimension = "b", axes = ["dp"]}, {dimension = "s", axes = ["tp"]},
                  {dimension = "c", axes = ["tp"]}, {dimension = "c", axes = ["dp"]}]} {

// Dispatch and combine are each other's gradient; that of a matrix is a sum over the rows of its expert.
// GRAD-LABEL: func.func @experts.backward(
// GRAD-DAG:     %[[DZ:.*]] = mg.dispatch %{{.*}} to %[[IDS:.*]] {count = 6 : i64}
// GRAD-DAG:     mg.grouped_einsum_grad %{{.*}}, %[[DZ]] to %[[IDS]] : {{.*}} -> tensor<6x8x5xf32, #mg.layout<e, h, m>>
// GRAD-DAG:     mg.collect %{{.*}} to %[[IDS]] {count = 6 : i64}
// GRAD-DAG:     mg.combine %{{.*}} to %[[IDS]] {count = 6 : i64}

// Rows are split as the tokens that they are of; nothing is reduced forward, the matrices' gradients over all that split tokens.
// SHARD-LABEL: func.func @experts.forward(
// SHARD:         mg.dispatch %{{.*}} -> tensor<128x8xf32, #mg.layout<c [tp, dp], h>>
// SHARD:         mg.combine %{{.*}} -> tensor<16x4x8xf32, #mg.layout<s [tp], b [dp], h>>
// SHARD-NOT:     mg.reshard
// SHARD-LABEL: func.func @experts.backward(
// SHARD-DAG:     mg.grouped_einsum_grad %{{.*}} -> tensor<6x5x8xf32, #mg.layout<e, m, h, sum [dp, tp]>>
// SHARD-DAG:     mg.grouped_einsum_grad %{{.*}} -> tensor<6x8x5xf32, #mg.layout<e, h, m, sum [dp, tp]>>

// A function orders its rows once.
// ORDER-LABEL: func.func @experts.forward(
// ORDER:         %[[COUNTS:.*]], %[[PLACES:.*]], %[[SOURCES:.*]] = mg.group %[[IDS:.*]] over [] : (tensor<8x2x2xi32, #mg.layout<s, b, k>>) -> (tensor<6xi32, #mg.layout<e>>, tensor<8x2x2xi32, #mg.layout<s, b, k>>, tensor<32xi32, #mg.layout<c>>)
// ORDER-NOT:     mg.group %
// ORDER:         mg.dispatch %{{.*}} to %[[IDS]] order %[[SOURCES]]
// ORDER:         mg.grouped_einsum %{{.*}} to %[[IDS]] order %[[COUNTS]]
// ORDER:         mg.combine %{{.*}} to %[[IDS]] order %[[PLACES]]
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
