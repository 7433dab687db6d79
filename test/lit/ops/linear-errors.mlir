// RUN: %each %s > %t && %mg-opt %t -split-input-file -verify-diagnostics

!sh = tensor<4x8xf32, #mg.layout<s, h>>
!s = tensor<4xf32, #mg.layout<s>>
!sf = tensor<4x6xf32, #mg.layout<s, f>>
!shb = tensor<4x8x2xf32, #mg.layout<s, h, b>>
!hf = tensor<8x6xf32, #mg.layout<h, f>>
!h = tensor<8xf32, #mg.layout<h>>
!bs = tensor<2x4xf32, #mg.layout<b, s>>
!partLane = tensor<4x8xf32, #mg.layout<part, lane>>
!s_bf16 = tensor<4xbf16, #mg.layout<s>>
!t = tensor<4xf32, #mg.layout<t>>
!hf_8x16 = tensor<8x16xf32, #mg.layout<h, f>>
!sf_4x16 = tensor<4x16xf32, #mg.layout<s, f>>

func.func @f(%x: !sh, %w: !sh, %w2: tensor<6xf32, #mg.layout<f>>, %x2: !shb, %w3: !hf, %x3: tensor<4x8xf32>, %x4: !s,
    %y: !h, %y2: tensor<8x4xf32, #mg.layout<h, s>>, %x5: !partLane, %x6: tensor<4x8xbf16, #mg.layout<s, h>>,
    %x7: !s_bf16, %x8: tensor<4xf32, #mg.layout<s [tp]>>, %w4: !hf_8x16, %b: !sf_4x16,
    %b2: tensor<16xbf16, #mg.layout<f>>, %b3: tensor<8xf32, #mg.layout<f>>, %x9: !bs,
    %x10: tensor<4xf32, #mg.layout<b>>, %x11: tensor<f32, #mg.layout<>>) {
  // EACH
  return
}

// Kept factor in both.
// expected-error@+1 {{(einsum_c1)}}
%0 = mg.einsum %x, %w : (!sh, !sh) -> !s

// expected-error@+1 {{dimension 'h' is summed but only in one operand (einsum_c1)}}
%0 = mg.einsum %x, %w2 : (!sh, tensor<6xf32, #mg.layout<f>>) -> !sf

// expected-error@+1 {{kept and summed dimensions do not stand in runs of equal order (einsum_c2)}}
%0 = mg.einsum %x2, %w3 : (!shb, !hf) -> tensor<4x2x6xf32, #mg.layout<s, b, f>>

// No layout.
// expected-error@+1 {{(rule_c1)}}
%0 = mg.einsum %x3, %w3 : (tensor<4x8xf32>, !hf) -> !sf

// expected-error@+1 {{names of rhs must be names of lhs, and the result has those of lhs (add_c1)}}
%0 = mg.add %x4, %y : (!s, !h) -> !s

// expected-error@+1 {{names of rhs must be names of lhs, and the result has those of lhs (mul_c1)}}
%0 = mg.mul %x4, %y : (!s, !h) -> !s

// expected-error@+1 {{* of the rule is bound to [s, h] and to [h, s] (rule_c1)}}
%0 = mg.accumulate %x, %y2 {signs = array<i64: 1, 1>} : (!sh, tensor<8x4xf32, #mg.layout<h, s>>) -> !sh

// expected-error@+1 {{one sign, 1 or -1, per operand expected (accumulate_c1)}}
%0 = mg.accumulate %x4, %x4 {signs = array<i64: 1, 2>} : (!s, !s) -> !s

// expected-error@+1 {{names of the result must be names of the operand, in its order (sum_c1)}}
%0 = mg.sum %x2 : (!shb) -> !bs

// expected-error@+1 {{names of the result must be the first ones of the operand, not all (sum_squares_c1)}}
%0 = mg.sum_squares %x5 : (!partLane) -> tensor<8xf32, #mg.layout<lane>>

// expected-error@+1 {{names of the result must be the first ones of the operand, not all (sum_squares_c1)}}
%0 = mg.sum_squares %x5 : (!partLane) -> !partLane

// Rename keeps others.
// expected-error@+1 {{(rename_c1)}}
%0 = mg.rename %x {from = "s", to = "t"} : (!sh) -> !sh

// expected-error@+1 {{multiplies 'bf16' by 'f32' to 'f32'; expected operands of one element type and a result of that type or f32 (einsum_c3)}}
%0 = mg.einsum %x6, %w3 : (tensor<4x8xbf16, #mg.layout<s, h>>, !hf) -> !sf

// expected-error@+1 {{multiplies 'f32' by 'f32' to 'bf16'; expected operands of one element type and a result of that type or f32 (einsum_c3)}}
%0 = mg.einsum %x, %w3 : (!sh, !hf) -> tensor<4x6xbf16, #mg.layout<s, f>>

// expected-error@+1 {{casts 'bf16' to itself (cast_c1)}}
%0 = mg.cast %x7 : (!s_bf16) -> !s_bf16

// expected-error@+1 {{splits 's' over ["tp"] and 't' over []; expected the same axes (rename_c3)}}
%0 = mg.rename %x8 {from = "s", to = "t"} : (tensor<4xf32, #mg.layout<s [tp]>>) -> !t

// expected-error@+1 {{makes 'f32' of 'bf16'; expected one element type (rename_c2)}}
%0 = mg.rename %x7 {from = "s", to = "t"} : (!s_bf16) -> !t

// expected-error@+1 {{dimension 'h' of the result must be in exactly one operand (einsum_c1)}}
%0 = mg.linear %x, %w4, %y : (!sh, !hf_8x16, !h) -> !sh

// expected-error@+1 {{the bias must have the last names of the result, and one element for each of 16 columns (linear_c1)}}
%0 = mg.linear %x, %w4, %x4 : (!sh, !hf_8x16, !s) -> !sf_4x16

// expected-error@+1 {{the bias must have the last names of the result, and one element for each of 16 columns (linear_c1)}}
%0 = mg.linear %x, %w4, %b : (!sh, !hf_8x16, !sf_4x16) -> !sf_4x16

// expected-error@+1 {{adds a bias of 'bf16' to 'f32'; expected one element type (linear_c2)}}
%0 = mg.linear %x, %w4, %b2 : (!sh, !hf_8x16, tensor<16xbf16, #mg.layout<f>>) -> !sf_4x16

// expected-error@+1 {{dimension 'f' has sizes 16 and 8 (rule_c2)}}
%0 = mg.linear %x, %w4, %b3 : (!sh, !hf_8x16, tensor<8xf32, #mg.layout<f>>) -> !sf_4x16

// expected-error@+1 {{names of the operand must be names of the result, in its order (broadcast_c1)}}
%0 = mg.broadcast %x9 : (!bs) -> !shb

// expected-error@+1 {{the value has 1 dimensions; expected a scalar (loss_term_c2)}}
%0 = mg.loss_term %x10, %x10 {scale = 1.0 : f64} : (tensor<4xf32, #mg.layout<b>>, tensor<4xf32, #mg.layout<b>>) -> tensor<4xf32, #mg.layout<b>>

// expected-error@+1 {{expected a finite number (loss_term_c1)}}
%0 = mg.loss_term %x11, %x11 {scale = 1.0e300 : f64} : (tensor<f32, #mg.layout<>>, tensor<f32, #mg.layout<>>) -> tensor<f32, #mg.layout<>>
