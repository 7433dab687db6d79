// RUN: %each %s > %t && %mg-opt %t -split-input-file -verify-diagnostics

!a = tensor<4x3x8xf32, #mg.layout<s, j, d>>
!p = tensor<4x3x8xf32, #mg.layout<s, r, d>>
!srd = tensor<4x2x8xf32, #mg.layout<s, r, d>>
!sj = tensor<4x3xf32, #mg.layout<s, j>>
!s = tensor<4xf32, #mg.layout<s>>

func.func @f(%x: !a, %x2: !srd, %y: tensor<8x4xf32, #mg.layout<d, s>>, %x3: tensor<4x3x8xbf16, #mg.layout<s, j, d>>,
    %y2: tensor<4x8xbf16, #mg.layout<s, d>>, %x4: !sj, %x5: !s) {
  // EACH
  return
}

// expected-error@+1 {{the parts take 2 positions of "j", which has 3 (parts_c2)}}
%0:2 = mg.parts %x along "j" : !a -> (tensor<4x8xf32, #mg.layout<s, d>>, tensor<4x8xf32, #mg.layout<s, d>>)

// expected-error@+1 {{part 0 must have the names of the whole with "j" left out or replaced by one of its own (parts_c1)}}
%0 = mg.parts %x along "j" : !a -> (!a)

// expected-error@+1 {{the whole has no dimension "k" (parts_c1)}}
%0 = mg.parts %x along "k" : !a -> (!p)

// expected-error@+1 {{part 1 must have the names of the whole with "j" left out or replaced by one of its own (join_c1)}}
%0 = mg.join %x2, %y along "j" : (!srd, tensor<8x4xf32, #mg.layout<d, s>>) -> !a

// A dimension of the parts has the size it has in the whole.
// expected-error@+1 {{(rule_c2)}}
%0 = mg.parts %x along "j" : !a -> (tensor<2x3x8xf32, #mg.layout<s, r, d>>)

// A part lies in the whole's memory: its elements are those of the whole.
// expected-error@+1 {{part 0 is 'f32', the whole 'bf16'; expected one element type (parts_c3)}}
%0 = mg.parts %x3 along "j" : tensor<4x3x8xbf16, #mg.layout<s, j, d>> -> (!p)

// expected-error@+1 {{part 1 is 'bf16', the whole 'f32'; expected one element type (join_c3)}}
%0 = mg.join %x2, %y2 along "j" : (!srd, tensor<4x8xbf16, #mg.layout<s, d>>) -> !a

// expected-error@+1 {{the last dimension of the pairs has 3 positions; expected 2 (unzip_c1)}}
%0, %1 = mg.unzip %x4 : (!sj) -> (!s, !s)

// expected-error@+1 {{the last dimension of the pairs has 3 positions; expected 2 (zip_c1)}}
%0 = mg.zip %x5, %x5 : (!s, !s) -> !sj

module attributes {mg.mesh = #mg.mesh<tp = 2>} {
func.func @f(%x: tensor<4x2x8xf32, #mg.layout<s, j ["tp"], d>>) {
  // EACH
  return
}
}

// No axis splits the dimension along which they are joined.
// expected-error@+1 {{(rule_c3)}}
%0 = mg.parts %x along "j" : tensor<4x2x8xf32, #mg.layout<s, j ["tp"], d>> -> (tensor<4x2x8xf32, #mg.layout<s, r ["tp"], d>>)
