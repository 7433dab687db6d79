// RUN: %mg-opt %s --mg-grad -verify-diagnostics

!x = tensor<4x2x8xf32, #mg.layout<s, b, d>>
!w = tensor<8xf32, #mg.layout<d>>

module attributes {mg.training = {split_backward = false}} {

// Angles that are learned would get no gradient.
func.func @learned_angles(%x: !x, %w: !w {mg.param = {tensor = "w"}}) -> !x attributes {mg.block} {
  %t = mg.add %x, %w : (!x, !w) -> !x
  // expected-error@+1 {{has no gradient of its cosines and sines}}
  %y = mg.rope %x, %t : (!x, !x) -> !x
  return %y : !x
}
}
