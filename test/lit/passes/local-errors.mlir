// RUN: %each %s > %t && %mg-opt %t --mg-local -split-input-file -verify-diagnostics

module attributes {mg.mesh = #mg.mesh<tp = 2>} {
// EACH
}

// expected-error@+1 {{dimension 's' of size 5 does not divide over ["tp"] of extent 2; possible sizes: 4, 6 (mesh_c5)}}
func.func @argument(%x: tensor<5xf32, #mg.layout<s [tp]>>) attributes {mg.block = "a", mg.pass = "forward"} {
  return
}

func.func @result(%x: tensor<1xf32, #mg.layout<s>>) attributes {mg.block = "a", mg.pass = "forward"} {
  // expected-error@+1 {{dimension 's' of size 1 does not divide over ["tp"] of extent 2; possible sizes: 2 (mesh_c5)}}
  %0 = mg.reshard %x : tensor<1xf32, #mg.layout<s>> -> tensor<1xf32, #mg.layout<s [tp]>>
  return
}

// expected-error@+1 {{names the axis "zz", which is none of #mg.mesh<tp = 2> (mesh_c4)}}
func.func @split(%x: tensor<4xf32, #mg.layout<s [zz]>>) attributes {mg.block = "a", mg.pass = "forward"} {
  return
}

// expected-error@+1 {{names the axis "zz", which is none of #mg.mesh<tp = 2> (mesh_c4)}}
func.func @pending(%x: tensor<4xf32, #mg.layout<s, sum [zz]>>) attributes {mg.block = "a", mg.pass = "forward"} {
  return
}

// expected-error@+1 {{argument 0 is 'tensor<4xf32>'; expected a tensor with sizes and a layout}}
func.func @bare(%x: tensor<4xf32>) attributes {mg.block = "a", mg.pass = "forward"} {
  return
}
