// RUN: %mg-opt %s --mg-shard -split-input-file -verify-diagnostics

// expected-error@+1 {{needs the attributes mg.mesh and mg.placement}}
module {
}

// -----

// expected-error@+1 {{row 'f' is no list of axis names}}
module attributes {mg.mesh = #mg.mesh<tp = 2>, mg.placement = {f = "tp"}} {
}

// -----

// expected-error@+1 {{row 's' needs `with` beside `extra`}}
module attributes {mg.mesh = #mg.mesh<tp = 2>, mg.placement = {s = {axes = [], extra = ["tp"]}}} {
}

// -----

module attributes {mg.mesh = #mg.mesh<tp = 2>, mg.placement = {f = ["tp"]}, mg.training = {split_backward = false}} {
// expected-error@+1 {{dimension 'f' of size 15 does not divide over ["tp"] of extent 2}}
func.func @gate(%x: tensor<4x15xf32, #mg.layout<s, f>>) -> tensor<4x15xf32, #mg.layout<s, f>> attributes {mg.block = "gate", mg.pass = "forward"} {
  %a = mg.gelu %x {form = "tanh"} : (tensor<4x15xf32, #mg.layout<s, f>>) -> tensor<4x15xf32, #mg.layout<s, f>>
  return %a : tensor<4x15xf32, #mg.layout<s, f>>
}
}
