// Errors of every op with an axis rule.
// RUN: %each %s > %t && %mg-opt %t -split-input-file -verify-diagnostics

!sh = tensor<4x8xf32, #mg.layout<s, h>>
!sh_h_tp = tensor<4x8xf32, #mg.layout<s, h [tp]>>
!h = tensor<8xf32, #mg.layout<h>>
!s = tensor<4xf32, #mg.layout<s>>
!sh_sum_tp = tensor<4x8xf32, #mg.layout<s, h, sum [tp]>>
!sb_i32 = tensor<4x1xi32, #mg.layout<s, b>>
!vh = tensor<8x4xf32, #mg.layout<v, h>>
!sbh = tensor<4x1x4xf32, #mg.layout<s, b, h>>

func.func @f(%x: !sh, %y2: tensor<6xf32, #mg.layout<h>>, %x2: !sh_h_tp, %y3: !h, %g: tensor<8xf32, #mg.layout<h [tp]>>,
    %x3: tensor<4xf32, #mg.layout<h, sum [tp]>>, %x4: !sh_sum_tp, %w: tensor<8x6xf32, #mg.layout<h, f, sum [dp]>>,
    %w2: tensor<8x6xf32, #mg.layout<h [tp], f>>, %x5: tensor<4x8xf32, #mg.layout<s, v [tp]>>,
    %x6: tensor<4x8xf32, #mg.layout<s, v>>, %ids: tensor<4xi32, #mg.layout<b>>, %ids2: !sb_i32, %table: !vh) {
  // EACH
  return
}

// Sizes differ.
// expected-error@+1 {{(rule_c2)}}
%0 = mg.add %x, %y2 : (!sh, tensor<6xf32, #mg.layout<h>>) -> !sh

// Split differently.
// expected-error@+1 {{(rule_c3)}}
%0 = mg.add %x2, %y3 : (!sh_h_tp, !h) -> !sh_h_tp

// Whole dimension split.
// expected-error@+1 {{(rule_c3)}}
%y, %r = mg.rms_norm %x2 gamma %g {epsilon = 1.0e-5} : (!sh_h_tp, tensor<8xf32, #mg.layout<h [tp]>>) -> (!sh_h_tp, !s)

// A pending sum may not pass a function that is not linear.
// expected-error@+1 {{where a complete value is needed (rule_c4)}}
%0 = mg.gelu %x3 {form = "erf"} : (tensor<4xf32, #mg.layout<h, sum [tp]>>) -> tensor<4xf32, #mg.layout<h, sum [tp]>>

// A bias added to a pending sum would be counted tp times.
// expected-error@+1 {{they must be alike: reduce the pending one first (rule_c4)}}
%0 = mg.add %x4, %y3 : (!sh_sum_tp, !h) -> !sh_sum_tp

// expected-error@+1 {{two operands are pending (rule_c4)}}
%0 = mg.einsum %x4, %w : (!sh_sum_tp, tensor<8x6xf32, #mg.layout<h, f, sum [dp]>>) -> tensor<4x6xf32, #mg.layout<s, f, sum [tp]>>

// The row-parallel product: the sum over the split h is pending.
// expected-error@+1 {{(rule_c5)}}
%0 = mg.einsum %x2, %w2 : (!sh_h_tp, tensor<8x6xf32, #mg.layout<h [tp], f>>) -> tensor<4x6xf32, #mg.layout<s, f>>

// expected-error@+1 {{the wrong kind of pending reduction (rule_c5)}}
%0 = mg.max %x5 {valid = 8} : (tensor<4x8xf32, #mg.layout<s, v [tp]>>) -> tensor<4xf32, #mg.layout<s, sum [tp]>>

// A map has the names of its operand: none is lost.
// expected-error@+1 {{* of the rule is bound to [s, h] and to [s] (rule_c1)}}
%0 = mg.gelu %x {form = "erf"} : (!sh) -> !s

// expected-error@+1 {{* of the rule is bound to [s] and to [b] (rule_c1)}}
%y, %r = mg.rms_norm %x gamma %y3 {epsilon = 1.0e-5} : (!sh, !h) -> (!sh, tensor<4xf32, #mg.layout<b>>)

// expected-error@+1 {{* of the rule is bound to [s] and to [b] (rule_c1)}}
%0 = mg.pick %x6, %ids : (tensor<4x8xf32, #mg.layout<s, v>>, tensor<4xi32, #mg.layout<b>>) -> !s

// expected-error@+1 {{coordinates.x = ["tp"]; expected a dimension of the op and names of axes (rule_c6)}}
%0 = mg.embed %ids2, %table {coordinates = {x = ["tp"]}} : (!sb_i32, !vh) -> !sbh

// expected-error@+1 {{coordinates.v = [0]; expected names of axes (rule_c6)}}
%0 = mg.embed %ids2, %table {coordinates = {v = [0]}} : (!sb_i32, !vh) -> !sbh
