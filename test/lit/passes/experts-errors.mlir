// A rule table that splits the rows of experts otherwise than their tokens is refused: their order is each rank's own.
// RUN: not %mg-opt %s --mg-grad --mg-shard 2>&1 | FileCheck %s

// CHECK: error: 'mg.silu' op rows 'c' of operand 0 are split over ["tp", "dp"], but used over []; expected rows of mg.placement that split them as the tokens that they are made of, in every op
!x = tensor<16x4x8xf32, #mg.layout<s, b, h>>
!ids = tensor<16x4x2xi32, #mg.layout<s, b, k>>
!rows = tensor<128x8xf32, #mg.layout<c, h>>

module attributes {mg.mesh = #mg.mesh<dp = 2 : data, tp = 2>, mg.training = #mg.training<split_backward = false>,
  mg.placement = [{dimension = "b", axes = ["dp"]}, {dimension = "s", axes = ["tp"]}]} {
func.func @experts(%x: !x, %ids: !ids) -> !x attributes {mg.block} {
  %rows = mg.dispatch %x to %ids {count = 6 : i64} : (!x, !ids) -> !rows
  %z = mg.silu %rows : (!rows) -> !rows
  %y = mg.combine %z to %ids {count = 6 : i64} : (!rows, !ids) -> !x
  return %y : !x
}
}
