// RUN: %each %s > %t && %mg-opt %t -split-input-file -verify-diagnostics

!x = tensor<4x8xf32, #mg.layout<s, h>>
!p = tensor<2x8xf32, #mg.layout<s, h>>
!h = tensor<8xf32, #mg.layout<h>>

func.func @f(%x: !x, %t: tensor<4x8xf32, #mg.layout<t, h>>, %y: !p, %g: !h) {
  // EACH
  return
}

// expected-error@+1 {{count is 1; expected at least 2 (tile_c1)}}
%0 = mg.tile 1 of %x : (!x) -> !x {
^bb0(%a: !x):
  %b = mg.silu %a : (!x) -> !x
  mg.yield %b : !x
}

// expected-error@+1 {{argument 0 is 'tensor<1x8xf32, #mg.layout<s, h>>', which is no part of 'tensor<4x8xf32, #mg.layout<s, h>>' (tile_c2)}}
%0 = mg.tile 2 of %x : (!x) -> !x {
^bb0(%a: tensor<1x8xf32, #mg.layout<s, h>>):
  %b = mg.silu %a : (tensor<1x8xf32, #mg.layout<s, h>>) -> tensor<1x8xf32, #mg.layout<s, h>>
  mg.yield %b : tensor<1x8xf32, #mg.layout<s, h>>
}

// expected-error@+1 {{argument 1 is 'tensor<2x8xf32, #mg.layout<t, h>>', which is no part of}}
%0 = mg.tile 2 of %x, %t : (!x, tensor<4x8xf32, #mg.layout<t, h>>) -> !x {
^bb0(%a: !p, %c: tensor<2x8xf32, #mg.layout<t, h>>):
  %b = mg.silu %a : (!p) -> !p
  mg.yield %b : !p
}

// expected-error@+1 {{yields 'tensor<2x8xf32, #mg.layout<s, h>>' for the result 'tensor<8x8xf32, #mg.layout<s, h>>'; expected that type, or a part of it (tile_c3)}}
%0 = mg.tile 2 of %x : (!x) -> tensor<8x8xf32, #mg.layout<s, h>> {
^bb0(%a: !p):
  %b = mg.silu %a : (!p) -> !p
  mg.yield %b : !p
}

// expected-error@+1 {{result 0 adds up what is no summand (tile_c3)}}
%0 = mg.tile 2 of %x : (!x) -> !p {
^bb0(%a: !p):
  %b = mg.silu %a : (!p) -> !p
  mg.yield %b : !p
}

// expected-error@+1 {{yields for result 0 a value of outside its body (tile_c3)}}
%0 = mg.tile 2 of %x : (!x) -> !x {
^bb0(%a: !p):
  mg.yield %y : !p
}

// A value without the dimension that does not depend on the part would be added once per part.
%0 = mg.tile 2 of %x : (!x) -> !h {
^bb0(%a: !p):
  // expected-error@+1 {{cannot be done on a part of the tiled dimension (tile_c4)}}
  %b = mg.silu %g : (!h) -> !h
  mg.yield %b : !h
}

// A summand is incomplete before the last part.
%0 = mg.tile 2 of %x : (!x) -> !h {
^bb0(%a: !p):
  %b = mg.sum %a : (!p) -> !h
  // expected-error@+1 {{cannot be done on a part of the tiled dimension (tile_c4)}}
  %c = mg.silu %b : (!h) -> !h
  mg.yield %c : !h
}

module attributes {mg.mesh = #mg.mesh<tp = 2>} {
func.func @f(%x: !x) {
  // EACH
  return
}
}

%0 = mg.tile 2 of %x : (!x) -> !x {
^bb0(%a: !p):
  // expected-error@+1 {{cannot be done on a part of the tiled dimension (tile_c4)}}
  %b = mg.all_gather %a over [] {dim = 0 : i64} : !p -> !p
  mg.yield %b : !p
}
