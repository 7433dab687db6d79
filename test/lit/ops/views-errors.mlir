// RUN: %mg-opt %s -split-input-file -verify-diagnostics

!a = tensor<4x3x8xf32, #mg.layout<s, j, d>>
!p = tensor<4x8xf32, #mg.layout<s, d>>
func.func @f(%x: !a) {
  // expected-error@+1 {{the parts take 2 positions of "j", which has 3 (parts_c2)}}
  %0:2 = mg.parts %x along "j" : !a -> (!p, !p)
  return
}

// -----

!a = tensor<4x3x8xf32, #mg.layout<s, j, d>>
!p = tensor<4x3x8xf32, #mg.layout<s, j, d>>
func.func @f(%x: !a) {
  // expected-error@+1 {{part 0 must have the names of the whole with "j" left out or replaced by one of its own (parts_c1)}}
  %0 = mg.parts %x along "j" : !a -> (!p)
  return
}

// -----

!a = tensor<4x3x8xf32, #mg.layout<s, j, d>>
!p = tensor<4x3x8xf32, #mg.layout<s, r, d>>
func.func @f(%x: !a) {
  // expected-error@+1 {{the whole has no dimension "k" (parts_c1)}}
  %0 = mg.parts %x along "k" : !a -> (!p)
  return
}

// -----

!a = tensor<4x3x8xf32, #mg.layout<s, j, d>>
!p = tensor<4x2x8xf32, #mg.layout<s, r, d>>
!q = tensor<8x4xf32, #mg.layout<d, s>>
func.func @f(%x: !p, %y: !q) {
  // expected-error@+1 {{part 1 must have the names of the whole with "j" left out or replaced by one of its own (join_c1)}}
  %0 = mg.join %x, %y along "j" : (!p, !q) -> !a
  return
}

// -----

// A dimension of the parts has the size it has in the whole.
!a = tensor<4x3x8xf32, #mg.layout<s, j, d>>
!p = tensor<2x3x8xf32, #mg.layout<s, r, d>>
func.func @f(%x: !a) {
  // expected-error@+1 {{(rule_c2)}}
  %0 = mg.parts %x along "j" : !a -> (!p)
  return
}

// -----

// No axis splits the dimension along which they are joined.
!a = tensor<4x2x8xf32, #mg.layout<s, j ["tp"], d>>
!p = tensor<4x2x8xf32, #mg.layout<s, r ["tp"], d>>
module attributes {mg.mesh = #mg.mesh<tp = 2>} {
func.func @f(%x: !a) {
  // expected-error@+1 {{(rule_c3)}}
  %0 = mg.parts %x along "j" : !a -> (!p)
  return
}
}

// -----

// A part lies in the whole's memory: its elements are those of the whole.
!a = tensor<4x3x8xbf16, #mg.layout<s, j, d>>
!p = tensor<4x3x8xf32, #mg.layout<s, r, d>>
func.func @f(%x: !a) {
  // expected-error@+1 {{part 0 is 'f32', the whole 'bf16'; expected one element type (parts_c3)}}
  %0 = mg.parts %x along "j" : !a -> (!p)
  return
}

// -----

!a = tensor<4x3x8xf32, #mg.layout<s, j, d>>
!p = tensor<4x2x8xf32, #mg.layout<s, r, d>>
!q = tensor<4x8xbf16, #mg.layout<s, d>>
func.func @f(%x: !p, %y: !q) {
  // expected-error@+1 {{part 1 is 'bf16', the whole 'f32'; expected one element type (join_c3)}}
  %0 = mg.join %x, %y along "j" : (!p, !q) -> !a
  return
}

// -----

func.func @unzip_three(%x: tensor<4x3xf32, #mg.layout<s, j>>) {
  // expected-error@+1 {{the last dimension of the pairs has 3 positions; expected 2 (unzip_c1)}}
  %0, %1 = mg.unzip %x : (tensor<4x3xf32, #mg.layout<s, j>>) -> (tensor<4xf32, #mg.layout<s>>, tensor<4xf32, #mg.layout<s>>)
  return
}

// -----

func.func @zip_three(%x: tensor<4xf32, #mg.layout<s>>) {
  // expected-error@+1 {{the last dimension of the pairs has 3 positions; expected 2 (zip_c1)}}
  %0 = mg.zip %x, %x : (tensor<4xf32, #mg.layout<s>>, tensor<4xf32, #mg.layout<s>>) -> tensor<4x3xf32, #mg.layout<s, j>>
  return
}
