// The types refuse these bugs of docs/composition-bugs.md; numbers are those of its entries.
// RUN: %mg-opt %s -split-input-file -verify-diagnostics

// 1: each rank sees its own positions, so the norm's gradient is pending; taken for complete it does not type.
func.func @norm_gradient_taken_for_complete(%dy: tensor<16x8xf32, #mg.layout<s [tp], h>>) {
  // expected-error@+1 {{(rule_c5)}}
  %0 = mg.sum %dy : (tensor<16x8xf32, #mg.layout<s [tp], h>>) -> tensor<8xf32, #mg.layout<h>>
  return
}

// -----

// 2: without sequence parallelism, a weight that all heads share is pending over the axis of the heads.
func.func @head_weight_taken_for_complete(%dy: tensor<16x4x8xf32, #mg.layout<s, g [tp], d>>) {
  // expected-error@+1 {{(rule_c5)}}
  %0 = mg.sum %dy : (tensor<16x4x8xf32, #mg.layout<s, g [tp], d>>) -> tensor<8xf32, #mg.layout<d>>
  return
}

// -----

// 3: the product over query heads of a group is pending over the axis that splits them.
func.func @group_gradient_taken_for_complete(%dy: tensor<16x2x8xf32, #mg.layout<s, r [tpr], d>>, %w: tensor<4x2x8xf32, #mg.layout<h, r [tpr], d>>) {
  // expected-error@+1 {{(rule_c5)}}
  %0 = mg.einsum %dy, %w : (tensor<16x2x8xf32, #mg.layout<s, r [tpr], d>>, tensor<4x2x8xf32, #mg.layout<h, r [tpr], d>>) -> tensor<16x4xf32, #mg.layout<s, h>>
  return
}

// -----

// 4: a complete bias on a partial product counts once per rank.
func.func @bias_on_partial_product(%x: tensor<16x8xf32, #mg.layout<s, h, sum [tp]>>, %b: tensor<8xf32, #mg.layout<h>>) {
  // expected-error@+1 {{reduce the pending one first (rule_c4)}}
  %0 = mg.add %x, %b : (tensor<16x8xf32, #mg.layout<s, h, sum [tp]>>, tensor<8xf32, #mg.layout<h>>) -> tensor<16x8xf32, #mg.layout<s, h, sum [tp]>>
  return
}

// -----

// 4: contributions to one cotangent meet at one type.
func.func @partial_and_complete_contribution(%a: tensor<16x8xf32, #mg.layout<s, h, sum [tp]>>, %b: tensor<16x8xf32, #mg.layout<s, h>>) {
  // expected-error@+1 {{(rule_c4)}}
  %0 = mg.accumulate %a, %b {signs = array<i64: 1, 1>} : (tensor<16x8xf32, #mg.layout<s, h, sum [tp]>>, tensor<16x8xf32, #mg.layout<s, h>>) -> tensor<16x8xf32, #mg.layout<s, h, sum [tp]>>
  return
}

// -----

// 4: a decreed dual: nothing makes this sum pending, and reducing it would count it once per rank.
func.func @decreed_pending(%dy: tensor<16x8xf32, #mg.layout<s, h>>) {
  // expected-error@+1 {{(rule_c5)}}
  %0 = mg.sum %dy : (tensor<16x8xf32, #mg.layout<s, h>>) -> tensor<8xf32, #mg.layout<h, sum [tp]>>
  return
}

// -----

// 9: the combination of maxima of shards is a maximum.
func.func @maxima_summed(%x: tensor<16x128xf32, #mg.layout<s, v [tp]>>) {
  // expected-error@+1 {{wrong kind of pending reduction (rule_c5)}}
  %0 = mg.max %x {valid = 100} : (tensor<16x128xf32, #mg.layout<s, v [tp]>>) -> tensor<16xf32, #mg.layout<s, sum [tp]>>
  return
}

// -----

// 23: logits that are not split give a complete sum; read as a shard it would be reduced over tp.
func.func @gathered_logits_read_as_shard(%x: tensor<16x128xf32, #mg.layout<s, v>>, %labels: tensor<16xi32, #mg.layout<s>>) {
  // expected-error@+1 {{(rule_c5)}}
  %0 = mg.pick %x, %labels : (tensor<16x128xf32, #mg.layout<s, v>>, tensor<16xi32, #mg.layout<s>>) -> tensor<16xf32, #mg.layout<s, sum [tp]>>
  return
}

// -----

// 9: an axis pending and splitting at once.
// expected-error@+1 {{axis 'tp' occurs twice in one layout (layout_c2)}}
func.func private @pending_and_split(tensor<16x8xf32, #mg.layout<s [tp], h, sum [tp]>>)
