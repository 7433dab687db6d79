// RUN: %mg-opt %s --mg-grad -split-input-file -verify-diagnostics

!x = tensor<4x2x8xf32, #mg.layout<s, b, d>>
!w = tensor<8xf32, #mg.layout<d>>

module attributes {mg.training = #mg.training<split_backward = false>} {

// Angles that are learned would get no gradient.
func.func @learned_angles(%x: !x, %w: !w {mg.param = {tensor = "w"}}) -> !x attributes {mg.block} {
  %t = mg.add %x, %w : (!x, !w) -> !x
  // expected-error@+1 {{has no gradient of its cosines and sines}}
  %y = mg.rope %x, %t : (!x, !x) -> !x
  return %y : !x
}
}

// -----

!l = tensor<4x16xf32, #mg.layout<s, e>>
!e = tensor<16xf32, #mg.layout<e>>
!k = tensor<4x3xf32, #mg.layout<s, k>>
!i = tensor<4x3xi32, #mg.layout<s, k>>

module attributes {mg.training = #mg.training<split_backward = false>} {

// The load has one place.
func.func @two_loads(%x: !l, %b: !e {mg.param = {tensor = "b", mean_load = 4.0 : f64}},
                     %c: !e {mg.param = {tensor = "c", mean_load = 4.0 : f64, counts}}) -> !k attributes {mg.block} {
  // expected-error@+1 {{has a bias and a load; expected one of them, for the load of the experts (route_c6)}}
  %w, %i = mg.route %x, %b load %c {score = "sigmoid"} : (!l, !e, !e) -> (!k, !i)
  return %w : !k
}
}
