// The types refuse these bugs of docs/composition-bugs.md; numbers are those of its entries.
// RUN: %each %s > %t && %mg-opt %t -split-input-file -verify-diagnostics

!h = tensor<8xf32, #mg.layout<h>>
!sh_sum_tp = tensor<16x8xf32, #mg.layout<s, h, sum [tp]>>
!sh = tensor<16x8xf32, #mg.layout<s, h>>
!s_sum_tp = tensor<16xf32, #mg.layout<s, sum [tp]>>

func.func @f(%dy: tensor<16x8xf32, #mg.layout<s [tp], h>>, %dy2: tensor<16x4x8xf32, #mg.layout<s, g [tp], d>>,
    %dy3: tensor<16x2x8xf32, #mg.layout<s, r [tpr], d>>, %w: tensor<4x2x8xf32, #mg.layout<h, r [tpr], d>>,
    %x: !sh_sum_tp, %b: !h, %b2: !sh, %x2: tensor<16x128xf32, #mg.layout<s, v [tp]>>,
    %x3: tensor<16x128xf32, #mg.layout<s, v>>, %labels: tensor<16xi32, #mg.layout<s>>) {
  // EACH
  return
}

// 1: each rank sees its own positions, so the norm's gradient is pending; taken for complete it does not type.
// expected-error@+1 {{(rule_c5)}}
%0 = mg.sum %dy : (tensor<16x8xf32, #mg.layout<s [tp], h>>) -> !h

// 2: without sequence parallelism, a weight that all heads share is pending over the axis of the heads.
// expected-error@+1 {{(rule_c5)}}
%0 = mg.sum %dy2 : (tensor<16x4x8xf32, #mg.layout<s, g [tp], d>>) -> tensor<8xf32, #mg.layout<d>>

// 3: the product over query heads of a group is pending over the axis that splits them.
// expected-error@+1 {{(rule_c5)}}
%0 = mg.einsum %dy3, %w : (tensor<16x2x8xf32, #mg.layout<s, r [tpr], d>>, tensor<4x2x8xf32, #mg.layout<h, r [tpr], d>>) -> tensor<16x4xf32, #mg.layout<s, h>>

// 4: a complete bias on a partial product counts once per rank.
// expected-error@+1 {{reduce the pending one first (rule_c4)}}
%0 = mg.add %x, %b : (!sh_sum_tp, !h) -> !sh_sum_tp

// 4: contributions to one cotangent meet at one type.
// expected-error@+1 {{(rule_c4)}}
%0 = mg.accumulate %x, %b2 {signs = array<i64: 1, 1>} : (!sh_sum_tp, !sh) -> !sh_sum_tp

// 4: a decreed dual: nothing makes this sum pending, and reducing it would count it once per rank.
// expected-error@+1 {{(rule_c5)}}
%0 = mg.sum %b2 : (!sh) -> tensor<8xf32, #mg.layout<h, sum [tp]>>

// 9: the combination of maxima of shards is a maximum.
// expected-error@+1 {{wrong kind of pending reduction (rule_c5)}}
%0 = mg.max %x2 {valid = 100} : (tensor<16x128xf32, #mg.layout<s, v [tp]>>) -> !s_sum_tp

// 23: logits that are not split give a complete sum; read as a shard it would be reduced over tp.
// expected-error@+1 {{(rule_c5)}}
%0 = mg.pick %x3, %labels : (tensor<16x128xf32, #mg.layout<s, v>>, tensor<16xi32, #mg.layout<s>>) -> !s_sum_tp

// EACH

// 9: an axis pending and splitting at once.
// expected-error@+1 {{axis 'tp' occurs twice in one layout (layout_c2)}}
func.func private @pending_and_split(tensor<16x8xf32, #mg.layout<s [tp], h, sum [tp]>>)
