// Collectives and slices fit their types.
// RUN: %each %s > %t && %mg-opt %t -split-input-file -verify-diagnostics

!x = tensor<4x8xf32, #mg.layout<s, h>>
!sh = tensor<2x8xf32, #mg.layout<s, h>>

module attributes {mg.mesh = #mg.mesh<dp = 2 : data, tp = 2>} {
func.func @f(%x: !x) {
  // EACH
  return
}
}

// expected-error@+1 {{names the axis "nix", which is none of #mg.mesh<dp = 2 : data, tp = 2> (mesh_c4)}}
%0 = mg.all_gather %x over ["nix"] {dim = 0} : !x -> !x

module attributes {mg.mesh = #mg.mesh<tp = 2>} {
func.func @f(%x: !x, %x2: tensor<5x8xf32, #mg.layout<s, h>>) {
  // EACH
  return
}
}

// expected-error@+1 {{names the axis "tp" twice in ["tp", "tp"] (mesh_c4)}}
%0 = mg.all_reduce %x over ["tp", "tp"] : !x -> !x

// expected-error@+1 {{dimension 7 of a value of rank 2 (collective_c1)}}
%0 = mg.all_gather %x over ["tp"] {dim = 7} : !x -> !x

// expected-error@+1 {{dimension -1 of a value of rank 2 (collective_c1)}}
%0 = mg.slice %x over ["tp"] {dim = -1} : !x -> !x

// expected-error@+1 {{splits and concatenates dimension 0 (collective_c1)}}
%0 = mg.all_to_all %x over ["tp"] {split = 0, concat = 0} : !x -> !x

// expected-error@+1 {{the result must have the names and the element type of the value (collective_c2)}}
%0 = mg.demote %x over ["tp"] : !x -> tensor<4x8xf32, #mg.layout<s, f>>

// expected-error@+1 {{dimension 0 of size 4 becomes 9; expected it multiplied by 2 (collective_c3)}}
%0 = mg.all_gather %x over ["tp"] {dim = 0} : !x -> tensor<9x8xf32, #mg.layout<s, h>>

// expected-error@+1 {{dimension 0 of size 5 becomes 2; expected it divided by 2 (collective_c3)}}
%0 = mg.reduce_scatter %x2 over ["tp"] {dim = 0} : tensor<5x8xf32, #mg.layout<s, h>> -> !sh

// expected-error@+1 {{dimension 1 of size 8 becomes 8; expected it multiplied by 2 (collective_c3)}}
%0 = mg.all_to_all %x over ["tp"] {split = 0, concat = 1} : !x -> !sh

// expected-error@+1 {{dimension 0 of size 4 becomes 2; expected it divided by 1 (collective_c3)}}
%0 = mg.permute %x over ["tp"] : !x -> !sh

// expected-error@+1 {{reduction is 'mean'; expected sum or max (collective_c4)}}
%0 = mg.all_reduce %x over ["tp"] {reduction = "mean"} : !x -> !x

func.func @f(%x: !x) {
  // EACH
  return
}

// expected-error@+1 {{stands in a module without mg.mesh (mesh_c4)}}
%0 = mg.all_reduce %x over ["tp"] : !x -> !x
