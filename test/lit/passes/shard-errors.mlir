// RUN: %mg-opt %s --mg-shard -split-input-file -verify-diagnostics

// expected-error@+1 {{needs the attributes mg.mesh and mg.placement}}
module {
}

// -----

// expected-error@+1 {{row {axes = "tp", dimension = "f"} has no list of axes}}
module attributes {mg.mesh = #mg.mesh<tp = 2>, mg.placement = [{dimension = "f", axes = "tp"}]} {
}

// -----

// expected-error@+1 {{row {axes = ["tp"]} has no dimension}}
module attributes {mg.mesh = #mg.mesh<tp = 2>, mg.placement = [{axes = ["tp"]}]} {
}

// -----

module attributes {mg.mesh = #mg.mesh<tp = 2>, mg.placement = [{dimension = "f", axes = ["tp"]}], mg.training = #mg.training<split_backward = false>} {
// expected-error@+1 {{dimension 'f' of size 15 does not divide over ["tp"] of extent 2; possible sizes: 14, 16 (mesh_c5)}}
func.func @gate(%x: tensor<4x15xf32, #mg.layout<s, f>>) -> tensor<4x15xf32, #mg.layout<s, f>> attributes {mg.block = "gate", mg.pass = "forward"} {
  %a = mg.gelu %x {form = "tanh"} : (tensor<4x15xf32, #mg.layout<s, f>>) -> tensor<4x15xf32, #mg.layout<s, f>>
  return %a : tensor<4x15xf32, #mg.layout<s, f>>
}
}

// -----

// expected-error@+1 {{row {axes = ["nix"], dimension = "f"} names the axis "nix", which is none of #mg.mesh<tp = 2>}}
module attributes {mg.mesh = #mg.mesh<tp = 2>, mg.placement = [{dimension = "f", axes = ["nix"]}]} {
}

// -----

// b and p are in no tensor together, but in the op that looks rows up by position.
module attributes {mg.mesh = #mg.mesh<dp = 2 : data>, mg.placement = [{dimension = "b", axes = ["dp"]}, {dimension = "p", axes = ["dp"]}], mg.training = #mg.training<split_backward = false>} {
func.func @embed(%ids: tensor<4x2xi32, #mg.layout<s, b>> {mg.data = "positions"}, %table: tensor<8x4xf32, #mg.layout<p, h>> {mg.param = {tensor = "p"}})
    -> tensor<4x2x4xf32, #mg.layout<s, b, h>> attributes {mg.block = "embed", mg.pass = "forward"} {
  // expected-error@+1 {{axis 'dp' splits dimension 'b' and dimension 'p'; expected rows of mg.placement without a common axis where their dimensions meet}}
  %0 = mg.embed %ids, %table : (tensor<4x2xi32, #mg.layout<s, b>>, tensor<8x4xf32, #mg.layout<p, h>>) -> tensor<4x2x4xf32, #mg.layout<s, b, h>>
  return %0 : tensor<4x2x4xf32, #mg.layout<s, b, h>>
}
}

// -----

// expected-error@+1 {{ops = [1]; expected a list of names}}
module attributes {mg.mesh = #mg.mesh<tp = 2>, mg.placement = [{dimension = "f", axes = ["tp"], ops = [1]}]} {
}
