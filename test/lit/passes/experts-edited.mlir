// Logical programs with experts that do not fit together, or that say what only ranks know.
// RUN: %mg-opt %s --mg-shard -split-input-file -verify-diagnostics

!x = tensor<16x4x8xf32, #mg.layout<s, b, h>>
!ids = tensor<16x4x2xi32, #mg.layout<s, b, k>>
!rows = tensor<128x8xf32, #mg.layout<c, h>>
module attributes {mg.mesh = #mg.mesh<dp = 2 : data>, mg.training = #mg.training<split_backward = false>, mg.placement = []} {
func.func @layer.forward(%x: !x, %ids: !ids) -> !x attributes {mg.block = "layer", mg.pass = "forward"} {
  %rows = mg.dispatch %x to %ids {count = 6 : i64} : (!x, !ids) -> !rows
  // expected-error@+1 {{has rows placed by 12 'e', an op of the block before it by 6; expected one number of them}}
  %y = mg.combine %rows to %ids {count = 12 : i64} : (!rows, !ids) -> !x
  return %y : !x
}
}

// -----

!x = tensor<16x4x8xf32, #mg.layout<s, b, h>>
!ids = tensor<16x4x2xi32, #mg.layout<s, b, k>>
!rows = tensor<128x8xf32, #mg.layout<c, h>>
module attributes {mg.mesh = #mg.mesh<dp = 2 : data>, mg.training = #mg.training<split_backward = false>, mg.placement = []} {
func.func @layer.forward(%x: !x, %ids: !ids) -> !x attributes {mg.block = "layer", mg.pass = "forward"} {
  // expected-error@+1 {{has coordinates or exchanges rows; a logical program knows no ranks}}
  %rows = mg.dispatch %x to %ids {count = 6 : i64, coordinates = {e = ["dp"]}} : (!x, !ids) -> !rows
  %y = mg.combine %rows to %ids {count = 6 : i64} : (!rows, !ids) -> !x
  return %y : !x
}
}

// -----

// Tokens are split over one of the two axes that place rows.
!x = tensor<16x4x8xf32, #mg.layout<s, b, h>>
!ids = tensor<16x4x2xi32, #mg.layout<s, b, k>>
!rows = tensor<128x8xf32, #mg.layout<c, h>>
module attributes {mg.mesh = #mg.mesh<dp = 2 : data, tp = 2>, mg.training = #mg.training<split_backward = false>,
  mg.placement = [{dimension = "b", axes = ["dp"]}, {dimension = "e", axes = ["dp", "tp"], ops = ["dispatch", "combine"]},
                  {dimension = "c", axes = ["dp", "tp"]}]} {
func.func @layer.forward(%x: !x, %ids: !ids) -> !x attributes {mg.block = "layer", mg.pass = "forward"} {
  // expected-error@+1 {{has rows placed over ["dp", "tp"], of which some split tokens too}}
  %rows = mg.dispatch %x to %ids {count = 8 : i64} : (!x, !ids) -> !rows
  %y = mg.combine %rows to %ids {count = 8 : i64} : (!rows, !ids) -> !x
  return %y : !x
}
}
