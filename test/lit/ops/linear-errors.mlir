// RUN: %mg-opt %s -split-input-file -verify-diagnostics

func.func @kept_factor_in_both(%x: tensor<4x8xf32, #mg.layout<s, h>>, %w: tensor<4x8xf32, #mg.layout<s, h>>) {
  // expected-error@+1 {{(einsum_c1)}}
  %0 = mg.einsum %x, %w : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<4x8xf32, #mg.layout<s, h>>) -> tensor<4xf32, #mg.layout<s>>
  return
}

// -----

func.func @summed_factor_in_one(%x: tensor<4x8xf32, #mg.layout<s, h>>, %w: tensor<6xf32, #mg.layout<f>>) {
  // expected-error@+1 {{dimension 'h' is summed but only in one operand (einsum_c1)}}
  %0 = mg.einsum %x, %w : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<6xf32, #mg.layout<f>>) -> tensor<4x6xf32, #mg.layout<s, f>>
  return
}

// -----

func.func @summed_factor_between_kept(%x: tensor<4x8x2xf32, #mg.layout<s, h, b>>, %w: tensor<8x6xf32, #mg.layout<h, f>>) {
  // expected-error@+1 {{kept and summed dimensions do not stand in runs of equal order (einsum_c2)}}
  %0 = mg.einsum %x, %w : (tensor<4x8x2xf32, #mg.layout<s, h, b>>, tensor<8x6xf32, #mg.layout<h, f>>) -> tensor<4x2x6xf32, #mg.layout<s, b, f>>
  return
}

// -----

func.func @no_layout(%x: tensor<4x8xf32>, %w: tensor<8x6xf32, #mg.layout<h, f>>) {
  // expected-error@+1 {{(rule_c1)}}
  %0 = mg.einsum %x, %w : (tensor<4x8xf32>, tensor<8x6xf32, #mg.layout<h, f>>) -> tensor<4x6xf32, #mg.layout<s, f>>
  return
}

// -----

func.func @add_name_of_rhs_only(%x: tensor<4xf32, #mg.layout<s>>, %y: tensor<8xf32, #mg.layout<h>>) {
  // expected-error@+1 {{names of rhs must be names of lhs, and the result has those of lhs (add_c1)}}
  %0 = mg.add %x, %y : (tensor<4xf32, #mg.layout<s>>, tensor<8xf32, #mg.layout<h>>) -> tensor<4xf32, #mg.layout<s>>
  return
}

// -----

func.func @mul_name_of_rhs_only(%x: tensor<4xf32, #mg.layout<s>>, %y: tensor<8xf32, #mg.layout<h>>) {
  // expected-error@+1 {{names of rhs must be names of lhs, and the result has those of lhs (mul_c1)}}
  %0 = mg.mul %x, %y : (tensor<4xf32, #mg.layout<s>>, tensor<8xf32, #mg.layout<h>>) -> tensor<4xf32, #mg.layout<s>>
  return
}

// -----

func.func @accumulate_names(%x: tensor<4x8xf32, #mg.layout<s, h>>, %y: tensor<8x4xf32, #mg.layout<h, s>>) {
  // expected-error@+1 {{* of the rule is bound to [s, h] and to [h, s] (rule_c1)}}
  %0 = mg.accumulate %x, %y {signs = array<i64: 1, 1>} : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<8x4xf32, #mg.layout<h, s>>) -> tensor<4x8xf32, #mg.layout<s, h>>
  return
}

// -----

func.func @accumulate_signs(%x: tensor<4xf32, #mg.layout<s>>) {
  // expected-error@+1 {{one sign, 1 or -1, per operand expected (accumulate_c1)}}
  %0 = mg.accumulate %x, %x {signs = array<i64: 1, 2>} : (tensor<4xf32, #mg.layout<s>>, tensor<4xf32, #mg.layout<s>>) -> tensor<4xf32, #mg.layout<s>>
  return
}

// -----

func.func @sum_order(%x: tensor<4x8x2xf32, #mg.layout<s, h, b>>) {
  // expected-error@+1 {{names of the result must be names of the operand, in its order (sum_c1)}}
  %0 = mg.sum %x : (tensor<4x8x2xf32, #mg.layout<s, h, b>>) -> tensor<2x4xf32, #mg.layout<b, s>>
  return
}

// -----

func.func @sum_squares_over_the_first(%x: tensor<4x8xf32, #mg.layout<part, lane>>) {
  // expected-error@+1 {{names of the result must be the first ones of the operand, not all (sum_squares_c1)}}
  %0 = mg.sum_squares %x : (tensor<4x8xf32, #mg.layout<part, lane>>) -> tensor<8xf32, #mg.layout<lane>>
  return
}

// -----

func.func @sum_squares_of_each(%x: tensor<4x8xf32, #mg.layout<part, lane>>) {
  // expected-error@+1 {{names of the result must be the first ones of the operand, not all (sum_squares_c1)}}
  %0 = mg.sum_squares %x : (tensor<4x8xf32, #mg.layout<part, lane>>) -> tensor<4x8xf32, #mg.layout<part, lane>>
  return
}

// -----

func.func @rename_keeps_others(%x: tensor<4x8xf32, #mg.layout<s, h>>) {
  // expected-error@+1 {{(rename_c1)}}
  %0 = mg.rename %x {from = "s", to = "t"} : (tensor<4x8xf32, #mg.layout<s, h>>) -> tensor<4x8xf32, #mg.layout<s, h>>
  return
}

// -----

func.func @einsum_of_two_types(%x: tensor<4x8xbf16, #mg.layout<s, h>>, %w: tensor<8x6xf32, #mg.layout<h, f>>) {
  // expected-error@+1 {{multiplies 'bf16' by 'f32' to 'f32'; expected operands of one element type and a result of that type or f32 (einsum_c3)}}
  %0 = mg.einsum %x, %w : (tensor<4x8xbf16, #mg.layout<s, h>>, tensor<8x6xf32, #mg.layout<h, f>>) -> tensor<4x6xf32, #mg.layout<s, f>>
  return
}

// -----

func.func @einsum_to_less(%x: tensor<4x8xf32, #mg.layout<s, h>>, %w: tensor<8x6xf32, #mg.layout<h, f>>) {
  // expected-error@+1 {{multiplies 'f32' by 'f32' to 'bf16'; expected operands of one element type and a result of that type or f32 (einsum_c3)}}
  %0 = mg.einsum %x, %w : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<8x6xf32, #mg.layout<h, f>>) -> tensor<4x6xbf16, #mg.layout<s, f>>
  return
}

// -----

func.func @cast_to_itself(%x: tensor<4xbf16, #mg.layout<s>>) {
  // expected-error@+1 {{casts 'bf16' to itself (cast_c1)}}
  %0 = mg.cast %x : (tensor<4xbf16, #mg.layout<s>>) -> tensor<4xbf16, #mg.layout<s>>
  return
}

// -----

func.func @rename_to_another_split(%x: tensor<4xf32, #mg.layout<s [tp]>>) {
  // expected-error@+1 {{splits 's' over ["tp"] and 't' over []; expected the same axes (rename_c3)}}
  %0 = mg.rename %x {from = "s", to = "t"} : (tensor<4xf32, #mg.layout<s [tp]>>) -> tensor<4xf32, #mg.layout<t>>
  return
}

// -----

func.func @rename_to_another_type(%x: tensor<4xbf16, #mg.layout<s>>) {
  // expected-error@+1 {{makes 'f32' of 'bf16'; expected one element type (rename_c2)}}
  %0 = mg.rename %x {from = "s", to = "t"} : (tensor<4xbf16, #mg.layout<s>>) -> tensor<4xf32, #mg.layout<t>>
  return
}

// -----

func.func @linear_is_a_product(%x: tensor<4x8xf32, #mg.layout<s, h>>, %w: tensor<8x16xf32, #mg.layout<h, f>>, %b: tensor<8xf32, #mg.layout<h>>) {
  // expected-error@+1 {{dimension 'h' of the result must be in exactly one operand (einsum_c1)}}
  %0 = mg.linear %x, %w, %b : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<8x16xf32, #mg.layout<h, f>>, tensor<8xf32, #mg.layout<h>>) -> tensor<4x8xf32, #mg.layout<s, h>>
  return
}

// -----

func.func @linear_bias_of_rows(%x: tensor<4x8xf32, #mg.layout<s, h>>, %w: tensor<8x16xf32, #mg.layout<h, f>>, %b: tensor<4xf32, #mg.layout<s>>) {
  // expected-error@+1 {{the bias must have the last names of the result, and one element for each of 16 columns (linear_c1)}}
  %0 = mg.linear %x, %w, %b : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<8x16xf32, #mg.layout<h, f>>, tensor<4xf32, #mg.layout<s>>) -> tensor<4x16xf32, #mg.layout<s, f>>
  return
}

// -----

func.func @linear_bias_of_all(%x: tensor<4x8xf32, #mg.layout<s, h>>, %w: tensor<8x16xf32, #mg.layout<h, f>>, %b: tensor<4x16xf32, #mg.layout<s, f>>) {
  // expected-error@+1 {{the bias must have the last names of the result, and one element for each of 16 columns (linear_c1)}}
  %0 = mg.linear %x, %w, %b : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<8x16xf32, #mg.layout<h, f>>, tensor<4x16xf32, #mg.layout<s, f>>) -> tensor<4x16xf32, #mg.layout<s, f>>
  return
}

// -----

func.func @linear_bias_type(%x: tensor<4x8xf32, #mg.layout<s, h>>, %w: tensor<8x16xf32, #mg.layout<h, f>>, %b: tensor<16xbf16, #mg.layout<f>>) {
  // expected-error@+1 {{adds a bias of 'bf16' to 'f32'; expected one element type (linear_c2)}}
  %0 = mg.linear %x, %w, %b : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<8x16xf32, #mg.layout<h, f>>, tensor<16xbf16, #mg.layout<f>>) -> tensor<4x16xf32, #mg.layout<s, f>>
  return
}

// -----

func.func @linear_results(%x: tensor<4x8xf32, #mg.layout<s, h>>, %w: tensor<8x16xf32, #mg.layout<h, f>>, %b: tensor<16xf32, #mg.layout<f>>) {
  // expected-error@+1 {{keeps 'tensor<4x16xbf16, #mg.layout<s, f>>' of 'tensor<4x16xf32, #mg.layout<s, f>>'; expected one type (linear_c3)}}
  %0:2 = mg.linear %x, %w, %b : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<8x16xf32, #mg.layout<h, f>>, tensor<16xf32, #mg.layout<f>>) -> (tensor<4x16xf32, #mg.layout<s, f>>, tensor<4x16xbf16, #mg.layout<s, f>>)
  return
}

// -----

func.func @linear_columns(%x: tensor<4x8xf32, #mg.layout<s, h>>, %w: tensor<8x12xf32, #mg.layout<h, f>>, %b: tensor<12xf32, #mg.layout<f>>) {
  // expected-error@+1 {{has GELU over 12 columns; expected a multiple of 8 (linear_c4)}}
  %0:2 = mg.linear %x, %w, %b : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<8x12xf32, #mg.layout<h, f>>, tensor<12xf32, #mg.layout<f>>) -> (tensor<4x12xf32, #mg.layout<s, f>>, tensor<4x12xf32, #mg.layout<s, f>>)
  return
}

// -----

func.func @linear_sizes(%x: tensor<4x8xf32, #mg.layout<s, h>>, %w: tensor<8x16xf32, #mg.layout<h, f>>, %b: tensor<8xf32, #mg.layout<f>>) {
  // expected-error@+1 {{dimension 'f' has sizes 16 and 8 (rule_c2)}}
  %0 = mg.linear %x, %w, %b : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<8x16xf32, #mg.layout<h, f>>, tensor<8xf32, #mg.layout<f>>) -> tensor<4x16xf32, #mg.layout<s, f>>
  return
}

// -----

func.func @broadcast_order(%x: tensor<2x4xf32, #mg.layout<b, s>>) {
  // expected-error@+1 {{names of the operand must be names of the result, in its order (broadcast_c1)}}
  %0 = mg.broadcast %x : (tensor<2x4xf32, #mg.layout<b, s>>) -> tensor<4x8x2xf32, #mg.layout<s, h, b>>
  return
}

// -----

func.func @term_of_rows(%x: tensor<4xf32, #mg.layout<b>>) {
  // expected-error@+1 {{the value has 1 dimensions; expected a scalar (loss_term_c2)}}
  %0 = mg.loss_term %x, %x {scale = 1.0 : f64} : (tensor<4xf32, #mg.layout<b>>, tensor<4xf32, #mg.layout<b>>) -> tensor<4xf32, #mg.layout<b>>
  return
}

// -----

func.func @infinite_term(%x: tensor<f32, #mg.layout<>>) {
  // expected-error@+1 {{expected a finite number (loss_term_c1)}}
  %0 = mg.loss_term %x, %x {scale = 1.0e300 : f64} : (tensor<f32, #mg.layout<>>, tensor<f32, #mg.layout<>>) -> tensor<f32, #mg.layout<>>
  return
}
