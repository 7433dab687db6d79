// The form of functions that mg.block and mg.pass mark: what every pass takes for granted.
// RUN: %each %s > %t && %mg-opt %t --mg-grad --mg-shard --mg-local --mg-fuse -split-input-file -verify-diagnostics

!x = tensor<4xf32, #mg.layout<h>>

// EACH

// expected-error@+1 {{with mg.block has 0 blocks; expected a body of one}}
func.func private @declared(!x) -> !x attributes {mg.block}

// expected-error@+1 {{a function with mg.pass names its block in mg.block}}
func.func @nameless(%x: !x) -> !x attributes {mg.pass = "forward"} { return %x : !x }

// expected-error@+1 {{a function with mg.pass names its block in mg.block}}
func.func @unnamed(%x: !x) -> !x attributes {mg.block, mg.pass = "forward"} { return %x : !x }

// expected-error@+1 {{a logical block has mg.block as a unit, a function of one mg.pass too}}
func.func @passless(%x: !x) -> !x attributes {mg.block = "b"} { return %x : !x }

// expected-error@+1 {{; expected one of begin, forward, backward, input, weight, gradients, reduce, update}}
func.func @sideways(%x: !x) -> !x attributes {mg.block = "b", mg.pass = "sideways"} { return %x : !x }

// expected-error@+1 {{belongs to no block: mg.block must be absent}}
func.func @begin(%x: !x) -> !x attributes {mg.block = "b", mg.pass = "begin"} { return %x : !x }

// expected-error@+1 {{a tensor with a layout has sizes that are known; found '?' (layout_c4)}}
func.func @sizeless(%x: tensor<?xf32, #mg.layout<h>>) attributes {mg.block} { return }

// expected-error@+1 {{argument 0 is 'i32'; expected a tensor with sizes and a layout}}
func.func @scalar(%x: i32) attributes {mg.block} { return }

func.func @helper(%x: !x) -> !x { return %x : !x }
func.func @caller(%x: !x) -> !x attributes {mg.block} {
  // expected-error@+1 {{in a function with mg.block; expected an op of mg}}
  %0 = func.call @helper(%x) : (!x) -> !x
  return %0 : !x
}

// expected-error@+1 {{has "mg.pass", an attribute of functions}}
module attributes {mg.pass = "forward"} {}
