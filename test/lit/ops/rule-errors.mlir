// Errors of every op with an axis rule.
// RUN: %mg-opt %s -split-input-file -verify-diagnostics

func.func @sizes_differ(%x: tensor<4x8xf32, #mg.layout<s, h>>, %y: tensor<6xf32, #mg.layout<h>>) {
  // expected-error@+1 {{(rule_c2)}}
  %0 = mg.add %x, %y : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<6xf32, #mg.layout<h>>) -> tensor<4x8xf32, #mg.layout<s, h>>
  return
}

// -----

func.func @split_differently(%x: tensor<4x8xf32, #mg.layout<s, h [tp]>>, %y: tensor<8xf32, #mg.layout<h>>) {
  // expected-error@+1 {{(rule_c3)}}
  %0 = mg.add %x, %y : (tensor<4x8xf32, #mg.layout<s, h [tp]>>, tensor<8xf32, #mg.layout<h>>) -> tensor<4x8xf32, #mg.layout<s, h [tp]>>
  return
}

// -----

func.func @whole_dimension_split(%x: tensor<4x8xf32, #mg.layout<s, h [tp]>>, %g: tensor<8xf32, #mg.layout<h [tp]>>) {
  // expected-error@+1 {{(rule_c3)}}
  %y, %r = mg.rms_norm %x gamma %g {epsilon = 1.0e-5} : (tensor<4x8xf32, #mg.layout<s, h [tp]>>, tensor<8xf32, #mg.layout<h [tp]>>) -> (tensor<4x8xf32, #mg.layout<s, h [tp]>>, tensor<4xf32, #mg.layout<s>>)
  return
}

// -----

// A pending sum may not pass a function that is not linear.
func.func @pending_into_gelu(%x: tensor<4xf32, #mg.layout<h, sum [tp]>>) {
  // expected-error@+1 {{where a complete value is needed (rule_c4)}}
  %0 = mg.gelu %x {form = "erf"} : (tensor<4xf32, #mg.layout<h, sum [tp]>>) -> tensor<4xf32, #mg.layout<h, sum [tp]>>
  return
}

// -----

// A bias added to a pending sum would be counted tp times.
func.func @bias_on_pending(%x: tensor<4x8xf32, #mg.layout<s, h, sum [tp]>>, %b: tensor<8xf32, #mg.layout<h>>) {
  // expected-error@+1 {{they must be alike: reduce the pending one first (rule_c4)}}
  %0 = mg.add %x, %b : (tensor<4x8xf32, #mg.layout<s, h, sum [tp]>>, tensor<8xf32, #mg.layout<h>>) -> tensor<4x8xf32, #mg.layout<s, h, sum [tp]>>
  return
}

// -----

func.func @both_pending(%x: tensor<4x8xf32, #mg.layout<s, h, sum [tp]>>, %w: tensor<8x6xf32, #mg.layout<h, f, sum [dp]>>) {
  // expected-error@+1 {{two operands are pending (rule_c4)}}
  %0 = mg.einsum %x, %w : (tensor<4x8xf32, #mg.layout<s, h, sum [tp]>>, tensor<8x6xf32, #mg.layout<h, f, sum [dp]>>) -> tensor<4x6xf32, #mg.layout<s, f, sum [tp]>>
  return
}

// -----

// The row-parallel product: the sum over the split h is pending.
func.func @pending_forgotten(%x: tensor<4x8xf32, #mg.layout<s, h [tp]>>, %w: tensor<8x6xf32, #mg.layout<h [tp], f>>) {
  // expected-error@+1 {{(rule_c5)}}
  %0 = mg.einsum %x, %w : (tensor<4x8xf32, #mg.layout<s, h [tp]>>, tensor<8x6xf32, #mg.layout<h [tp], f>>) -> tensor<4x6xf32, #mg.layout<s, f>>
  return
}

// -----

func.func @max_pending_as_sum(%x: tensor<4x8xf32, #mg.layout<s, v [tp]>>) {
  // expected-error@+1 {{the wrong kind of pending reduction (rule_c5)}}
  %0 = mg.max %x {valid = 8} : (tensor<4x8xf32, #mg.layout<s, v [tp]>>) -> tensor<4xf32, #mg.layout<s, sum [tp]>>
  return
}

// -----

// A map has the names of its operand: none is lost.
func.func @map_drops_a_dimension(%x: tensor<4x8xf32, #mg.layout<s, h>>) {
  // expected-error@+1 {{* of the rule is bound to [s, h] and to [s] (rule_c1)}}
  %0 = mg.gelu %x {form = "erf"} : (tensor<4x8xf32, #mg.layout<s, h>>) -> tensor<4xf32, #mg.layout<s>>
  return
}

// -----

func.func @statistics_of_other_rows(%x: tensor<4x8xf32, #mg.layout<s, h>>, %g: tensor<8xf32, #mg.layout<h>>) {
  // expected-error@+1 {{* of the rule is bound to [s] and to [b] (rule_c1)}}
  %y, %r = mg.rms_norm %x gamma %g {epsilon = 1.0e-5} : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<8xf32, #mg.layout<h>>) -> (tensor<4x8xf32, #mg.layout<s, h>>, tensor<4xf32, #mg.layout<b>>)
  return
}

// -----

func.func @labels_of_other_rows(%x: tensor<4x8xf32, #mg.layout<s, v>>, %ids: tensor<4xi32, #mg.layout<b>>) {
  // expected-error@+1 {{* of the rule is bound to [s] and to [b] (rule_c1)}}
  %0 = mg.pick %x, %ids : (tensor<4x8xf32, #mg.layout<s, v>>, tensor<4xi32, #mg.layout<b>>) -> tensor<4xf32, #mg.layout<s>>
  return
}

// -----

func.func @coordinates_of_no_dimension(%ids: tensor<4x1xi32, #mg.layout<s, b>>, %table: tensor<8x4xf32, #mg.layout<v, h>>) {
  // expected-error@+1 {{coordinates.x = ["tp"]; expected a dimension of the op and names of axes (rule_c6)}}
  %0 = mg.embed %ids, %table {coordinates = {x = ["tp"]}} : (tensor<4x1xi32, #mg.layout<s, b>>, tensor<8x4xf32, #mg.layout<v, h>>) -> tensor<4x1x4xf32, #mg.layout<s, b, h>>
  return
}

// -----

func.func @coordinates_of_numbers(%ids: tensor<4x1xi32, #mg.layout<s, b>>, %table: tensor<8x4xf32, #mg.layout<v, h>>) {
  // expected-error@+1 {{coordinates.v = [0]; expected names of axes (rule_c6)}}
  %0 = mg.embed %ids, %table {coordinates = {v = [0]}} : (tensor<4x1xi32, #mg.layout<s, b>>, tensor<8x4xf32, #mg.layout<v, h>>) -> tensor<4x1x4xf32, #mg.layout<s, b, h>>
  return
}
