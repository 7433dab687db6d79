// One error per constraint of the ops of experts, and of merged factors.
// RUN: %mg-opt %s -split-input-file -verify-diagnostics

func.func @group(%ids: tensor<4x3xi32, #mg.layout<s, k>>) {
  // expected-error@+1 {{gives 9 places to 12 choices; expected one for each (group_c1)}}
  %a, %b, %c = mg.group %ids over [] : (tensor<4x3xi32, #mg.layout<s, k>>) -> (tensor<6xi32, #mg.layout<e>>, tensor<3x3xi32, #mg.layout<n, k>>, tensor<12xi32, #mg.layout<c>>)
  return
}

// -----

module attributes {mg.mesh = #mg.mesh<ep = 2>} {
func.func @group_room(%ids: tensor<4x3xi32, #mg.layout<s, k>>) {
  // expected-error@+1 {{has room for 12 rows of 12 choices, 3 for a token, among 2 experts; expected 8 (group_c2)}}
  %a, %b, %c = mg.group %ids over ["ep"] : (tensor<4x3xi32, #mg.layout<s, k>>) -> (tensor<2xi32, #mg.layout<e>>, tensor<4x3xi32, #mg.layout<s, k>>, tensor<12xi32, #mg.layout<c>>)
  return
}
}

// -----

module attributes {mg.mesh = #mg.mesh<ep = 2>} {
func.func @group_axes(%ids: tensor<4x3xi32, #mg.layout<s, k>>) {
  // expected-error@+1 {{(mesh_c4)}}
  %a, %b, %c = mg.group %ids over ["dp"] : (tensor<4x3xi32, #mg.layout<s, k>>) -> (tensor<2xi32, #mg.layout<e>>, tensor<4x3xi32, #mg.layout<s, k>>, tensor<8xi32, #mg.layout<c>>)
  return
}
}

// -----

!rows = tensor<12x8xf32, #mg.layout<c, h>>
module attributes {mg.mesh = #mg.mesh<ep = 2>} {
func.func @exchange_with_nobody(%rows: !rows, %n: tensor<24xi32, #mg.layout<e>>) {
  // expected-error@+1 {{exchanges rows over no axes (exchange_c3)}}
  %a = mg.exchange %rows by %n over [] : (!rows, tensor<24xi32, #mg.layout<e>>) -> tensor<20x8xf32, #mg.layout<c, h>>
  return
}
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!x = tensor<4x2x8xf32, #mg.layout<s, b, h>>
module attributes {mg.mesh = #mg.mesh<ep = 2>} {
func.func @exchange_of_others(%x: !x, %ids: !ids) {
  // expected-error@+1 {{exchange = ["ep"]; expected the axes that share out what places its rows (rule_c6)}}
  %y = mg.dispatch %x to %ids {count = 6 : i64, exchange = ["ep"]} : (!x, !ids) -> tensor<48x8xf32, #mg.layout<c, h>>
  return
}
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!x = tensor<4x2x8xf32, #mg.layout<s, b, h>>
module attributes {mg.mesh = #mg.mesh<ep = 2>} {
func.func @exchange_number(%x: !x, %ids: !ids) {
  // expected-error@+1 {{exchange = [1]; expected names of axes (rule_c6)}}
  %y = mg.dispatch %x to %ids {count = 6 : i64, exchange = [1]} : (!x, !ids) -> tensor<48x8xf32, #mg.layout<c, h>>
  return
}
}

// -----

!rows = tensor<12x8xf32, #mg.layout<c, h>>
module attributes {mg.mesh = #mg.mesh<ep = 2>} {
func.func @exchange_type(%rows: !rows, %n: tensor<24xi32, #mg.layout<e>>) {
  // expected-error@+1 {{expected rows of the same type, if another number of them (exchange_c1)}}
  %a = mg.exchange %rows by %n over ["ep"] : (!rows, tensor<24xi32, #mg.layout<e>>) -> tensor<20x9xf32, #mg.layout<c, h>>
  return
}
}

// -----

!rows = tensor<12x8xf32, #mg.layout<c, h>>
module attributes {mg.mesh = #mg.mesh<ep = 2>} {
func.func @exchange_counts(%rows: !rows, %n: tensor<22xi32, #mg.layout<e>>) {
  // expected-error@+1 {{has 22 counts for 2 ranks; expected of each rank one for each expert of every rank (exchange_c2)}}
  %a = mg.exchange %rows by %n over ["ep"] : (!rows, tensor<22xi32, #mg.layout<e>>) -> tensor<20x8xf32, #mg.layout<c, h>>
  return
}
}

// -----

!rows = tensor<12x8xf32, #mg.layout<c, h>>
module attributes {mg.mesh = #mg.mesh<ep = 2>} {
func.func @exchange_axes(%rows: !rows, %n: tensor<24xi32, #mg.layout<e>>) {
  // expected-error@+1 {{(mesh_c4)}}
  %a = mg.exchange %rows by %n over ["tp"] back : (!rows, tensor<24xi32, #mg.layout<e>>) -> tensor<20x8xf32, #mg.layout<c, h>>
  return
}
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s [tp], b, k>>
!x = tensor<4x2x8xf32, #mg.layout<s [tp], b, h>>
!rows = tensor<24x8xf32, #mg.layout<c [tp], h>>
!order = tensor<24xi32, #mg.layout<c [tp]>>

func.func @dispatch(%x: !x, %ids: !ids, %order: !order) {
  // expected-error@+1 {{has an order of rows, which only local programs know (dispatch_c1)}}
  %y = mg.dispatch %x to %ids order %order {count = 6 : i64} : (!x, !ids, !order) -> !rows
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s [tp], b, k>>
!x = tensor<4x2x8xf32, #mg.layout<s [tp], b, h>>
!rows = tensor<24x8xf32, #mg.layout<c [tp], h>>

func.func @combine(%rows: !rows, %ids: !ids) {
  // expected-error@+1 {{has an order of rows, which only local programs know (combine_c1)}}
  %y = mg.combine %rows to %ids order %ids {count = 6 : i64} : (!rows, !ids, !ids) -> !x
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s [tp], b, k>>
!p = tensor<4x2x3xf32, #mg.layout<s [tp], b, k>>
!column = tensor<24xf32, #mg.layout<c [tp]>>
!order = tensor<24xi32, #mg.layout<c [tp]>>

func.func @spread(%p: !p, %ids: !ids, %order: !order) {
  // expected-error@+1 {{has an order of rows, which only local programs know (spread_c1)}}
  %y = mg.spread %p to %ids order %order {count = 6 : i64} : (!p, !ids, !order) -> !column
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s [tp], b, k>>
!p = tensor<4x2x3xf32, #mg.layout<s [tp], b, k>>
!column = tensor<24xf32, #mg.layout<c [tp]>>

func.func @collect(%column: !column, %ids: !ids) {
  // expected-error@+1 {{has an order of rows, which only local programs know (collect_c1)}}
  %y = mg.collect %column to %ids order %ids {count = 6 : i64} : (!column, !ids, !ids) -> !p
  return
}

// -----

!ids = tensor<4x3xi32, #mg.layout<s, k>>
!rows = tensor<12x8xf32, #mg.layout<c, h>>

func.func @other_rows(%x: tensor<4x8xf32, #mg.layout<s, h>>, %ids: !ids) {
  // expected-error@+1 {{rank 2 where the rule has 3 dimensions (rule_c1)}}
  %y = mg.dispatch %x to %ids {count = 6 : i64} : (tensor<4x8xf32, #mg.layout<s, h>>, !ids) -> !rows
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s [tp], b [dp], k>>
!x = tensor<4x2x8xf32, #mg.layout<s [tp], b [dp], h>>

func.func @merged_axes(%x: !x, %ids: !ids) {
  // expected-error@+1 {{dimension 'c' has size 24 over ["dp", "tp"]; expected 24 over ["tp", "dp"], as its parts have together (rule_c7)}}
  %y = mg.dispatch %x to %ids {count = 6 : i64} : (!x, !ids) -> tensor<24x8xf32, #mg.layout<c [dp, tp], h>>
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!x = tensor<4x2x8xf32, #mg.layout<s, b, h>>

func.func @merged_size(%x: !x, %ids: !ids) {
  // expected-error@+1 {{dimension 'c' has size 23 over []; expected 24 over [], as its parts have together (rule_c7)}}
  %y = mg.dispatch %x to %ids {count = 6 : i64} : (!x, !ids) -> tensor<23x8xf32, #mg.layout<c, h>>
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s [tp], b, k>>
!rows = tensor<24x8xf32, #mg.layout<c [tp], h>>

func.func @gradient_is_pending(%a: !rows, %b: tensor<24x5xf32, #mg.layout<c [tp], m>>, %ids: !ids) {
  // expected-error@+1 {{result 0 is pending over []; its operands make it ["tp"] (rule_c5)}}
  %y = mg.grouped_einsum_grad %a, %b to %ids : (!rows, tensor<24x5xf32, #mg.layout<c [tp], m>>, !ids) -> tensor<6x8x5xf32, #mg.layout<e, h, m>>
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!rows = tensor<24x8xf32, #mg.layout<c, h>>

func.func @matrices(%a: !rows, %w: tensor<8x6x5xf32, #mg.layout<h, e, m>>, %ids: !ids) {
  // expected-error@+1 {{expected the experts first, and then the last dimensions of the rows (grouped_einsum_c1)}}
  %y = mg.grouped_einsum %a, %w to %ids : (!rows, tensor<8x6x5xf32, #mg.layout<h, e, m>>, !ids) -> tensor<24x5xf32, #mg.layout<c, m>>
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!rows = tensor<24x8xf32, #mg.layout<c, h>>

func.func @types(%a: !rows, %w: tensor<6x8x5xbf16, #mg.layout<e, h, m>>, %ids: !ids) {
  // expected-error@+1 {{expected operands of one element type and a result of that type or f32 (grouped_einsum_c2)}}
  %y = mg.grouped_einsum %a, %w to %ids : (!rows, tensor<6x8x5xbf16, #mg.layout<e, h, m>>, !ids) -> tensor<24x5xf32, #mg.layout<c, m>>
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s [tp], b, k>>
!rows = tensor<24x8xf32, #mg.layout<c [tp], h>>

func.func @counts(%a: !rows, %w: tensor<6x8x5xf32, #mg.layout<e, h, m>>, %ids: !ids, %n: tensor<6xi32, #mg.layout<e>>) {
  // expected-error@+1 {{has an order of rows, which only local programs know (grouped_einsum_c3)}}
  %y = mg.grouped_einsum %a, %w to %ids order %n : (!rows, tensor<6x8x5xf32, #mg.layout<e, h, m>>, !ids, tensor<6xi32, #mg.layout<e>>) -> tensor<24x5xf32, #mg.layout<c [tp], m>>
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!rows = tensor<24x8xf32, #mg.layout<c, h>>

func.func @gradient_matrices(%a: !rows, %b: tensor<24x5xf32, #mg.layout<c, m>>, %ids: !ids) {
  // expected-error@+1 {{expected the experts first, and then the last dimensions of the rows (grouped_einsum_grad_c1)}}
  %y = mg.grouped_einsum_grad %a, %b to %ids : (!rows, tensor<24x5xf32, #mg.layout<c, m>>, !ids) -> tensor<6x5x9xf32, #mg.layout<e, m, g>>
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!rows = tensor<24x8xf32, #mg.layout<c, h>>

func.func @gradient_types(%a: !rows, %b: tensor<24x5xf32, #mg.layout<c, m>>, %ids: !ids) {
  // expected-error@+1 {{expected operands of one element type and a result of that type or f32 (grouped_einsum_grad_c2)}}
  %y = mg.grouped_einsum_grad %a, %b to %ids : (!rows, tensor<24x5xf32, #mg.layout<c, m>>, !ids) -> tensor<6x8x5xbf16, #mg.layout<e, h, m>>
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s [tp], b, k>>
!rows = tensor<24x8xf32, #mg.layout<c [tp], h>>

func.func @gradient_counts(%a: !rows, %b: tensor<24x5xf32, #mg.layout<c [tp], m>>, %ids: !ids, %n: tensor<6xi32, #mg.layout<e>>) {
  // expected-error@+1 {{has an order of rows, which only local programs know (grouped_einsum_grad_c3)}}
  %y = mg.grouped_einsum_grad %a, %b to %ids order %n : (!rows, tensor<24x5xf32, #mg.layout<c [tp], m>>, !ids, tensor<6xi32, #mg.layout<e>>) -> tensor<6x8x5xf32, #mg.layout<e, h, m, sum [tp]>>
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!rows = tensor<24x8xf32, #mg.layout<c, h>>

func.func @too_few_counts(%a: !rows, %w: tensor<6x8x5xf32, #mg.layout<e, h, m>>, %ids: !ids, %n: tensor<4xi32, #mg.layout<n>>) {
  // expected-error@+1 {{has counts of 4 experts, and matrices of 6 (grouped_einsum_c4)}}
  %y = mg.grouped_einsum %a, %w to %ids order %n : (!rows, tensor<6x8x5xf32, #mg.layout<e, h, m>>, !ids, tensor<4xi32, #mg.layout<n>>) -> tensor<24x5xf32, #mg.layout<c, m>>
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!rows = tensor<24x8xf32, #mg.layout<c, h>>

func.func @counts_of_others(%a: !rows, %b: tensor<24x5xf32, #mg.layout<c, m>>, %ids: !ids, %n: tensor<4xi32, #mg.layout<n>>) {
  // expected-error@+1 {{has counts of 4 experts, and matrices of 6 (grouped_einsum_grad_c4)}}
  %y = mg.grouped_einsum_grad %a, %b to %ids order %n : (!rows, tensor<24x5xf32, #mg.layout<c, m>>, !ids, tensor<4xi32, #mg.layout<n>>) -> tensor<6x8x5xf32, #mg.layout<e, h, m>>
  return
}

// -----

// Experts on two ranks: each has room for the rows that tokens may have there.
!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!rows = tensor<24x8xf32, #mg.layout<c, h>>
module attributes {mg.mesh = #mg.mesh<ep = 2>} {
func.func @room(%a: !rows, %w: tensor<6x8x5xf32, #mg.layout<e [ep], h, m>>, %ids: !ids) {
  // expected-error@+1 {{dimension 'c' has size 24 over []; expected 48 over ["ep"], as its parts have together (rule_c7)}}
  %y = mg.grouped_einsum %a, %w to %ids : (!rows, tensor<6x8x5xf32, #mg.layout<e [ep], h, m>>, !ids) -> tensor<24x5xf32, #mg.layout<c, m>>
  return
}
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!rows = tensor<48x8xf32, #mg.layout<c [ep], h>>
module attributes {mg.mesh = #mg.mesh<ep = 2>} {
func.func @partial_sums(%z: !rows, %ids: !ids) {
  // expected-error@+1 {{result 0 is pending over []; its operands make it ["ep"] (rule_c5)}}
  %y = mg.combine %z to %ids {count = 6 : i64, coordinates = {e = ["ep"]}} : (!rows, !ids) -> tensor<4x2x8xf32, #mg.layout<s, b, h>>
  return
}
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s [tp], b, k>>
!order = tensor<24xi32, #mg.layout<c [tp]>>

func.func @row_mask(%ids: !ids, %order: !order) {
  // expected-error@+1 {{has an order of rows, which only local programs know (row_mask_c1)}}
  %y = mg.row_mask %ids order %order {count = 6 : i64} : (!ids, !order) -> tensor<24xf32, #mg.layout<c [tp]>>
  return
}

// -----

// Rows of two dimensions, one of which the rows that they are made of have too.
!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
func.func @common_dimension(%a: tensor<24x8xf32, #mg.layout<c, h>>, %w: tensor<6x8x5x8xf32, #mg.layout<e, h, m, j>>, %ids: !ids) {
  // expected-error@+1 {{expected the experts first, and then the last dimensions of the rows (grouped_einsum_c1)}}
  %y = mg.grouped_einsum %a, %w to %ids : (tensor<24x8xf32, #mg.layout<c, h>>, tensor<6x8x5x8xf32, #mg.layout<e, h, m, j>>, !ids) -> tensor<24x8x5xf32, #mg.layout<c, h, m>>
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
func.func @drop_weights(%ids: !ids, %w: tensor<4x2x2xf32, #mg.layout<s, b, k>>, %at: tensor<4x2xi32, #mg.layout<s, b>>) {
  // expected-error@+1 {{dimension 'k' has sizes 3 and 2 (rule_c2)}}
  %kept = mg.drop %ids by %w at %at {count = 6 : i64, capacity = 2 : i64, together = 1 : i64} : (!ids, tensor<4x2x2xf32, #mg.layout<s, b, k>>, tensor<4x2xi32, #mg.layout<s, b>>) -> !ids
  return
}

// -----

!ids = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!w = tensor<4x2x3xf32, #mg.layout<s, b, k>>
func.func @drop_together(%ids: !ids, %w: !w, %at: tensor<4x2xi32, #mg.layout<s, b>>) {
  // expected-error@+1 {{has room for 2 choices of each of 6 experts, for the tokens of 3 sequences of 2; expected positive numbers, and sequences that divide the batch (drop_c1)}}
  %kept = mg.drop %ids by %w at %at {count = 6 : i64, capacity = 2 : i64, together = 3 : i64} : (!ids, !w, tensor<4x2xi32, #mg.layout<s, b>>) -> !ids
  return
}

// -----

// The room of an expert depends on the whole sequence.
!ids = tensor<4x2x3xi32, #mg.layout<s [tp], b, k>>
!w = tensor<4x2x3xf32, #mg.layout<s [tp], b, k>>
module attributes {mg.mesh = #mg.mesh<tp = 2>} {
func.func @drop_of_a_part(%ids: !ids, %w: !w, %at: tensor<4x2xi32, #mg.layout<s [tp], b>>) {
  // expected-error@+1 {{(rule_c}}
  %kept = mg.drop %ids by %w at %at {count = 6 : i64, capacity = 2 : i64, together = 1 : i64} : (!ids, !w, tensor<4x2xi32, #mg.layout<s [tp], b>>) -> !ids
  return
}
}

// -----

func.func @count_of_counts(%n: tensor<4xi32, #mg.layout<e>>) {
  // expected-error@+1 {{expected a list, and a number without dimensions (row_count_c1)}}
  %a = mg.row_count %n : (tensor<4xi32, #mg.layout<e>>) -> tensor<4xi32, #mg.layout<e>>
  return
}

// -----

module attributes {mg.mesh = #mg.mesh<ep = 2>} {
func.func @group_capacity(%ids: tensor<4x3xi32, #mg.layout<s, k>>) {
  // expected-error@+1 {{has room for 8 rows of 12 choices, 3 for a token, among 2 experts; expected 6 (group_c2)}}
  %a, %b, %c = mg.group %ids over ["ep"] {capacity = 3 : i64} : (tensor<4x3xi32, #mg.layout<s, k>>) -> (tensor<2xi32, #mg.layout<e>>, tensor<4x3xi32, #mg.layout<s, k>>, tensor<8xi32, #mg.layout<c>>)
  return
}
}

// -----

// Each of 4 experts has 3 rows of both sequences: at most 2 rows from one of the sequences, on each rank that has one.
!ids = tensor<4x2x3xi32, #mg.layout<s, b [dp], k>>
!x = tensor<4x2x8xf32, #mg.layout<s, b [dp], h>>
module attributes {mg.mesh = #mg.mesh<dp = 2>} {
func.func @capacity(%x: !x, %ids: !ids) {
  // expected-error@+1 {{dimension 'c' has size 24 over ["dp"]; expected 16 over ["dp"], as its parts have together (rule_c7)}}
  %y = mg.dispatch %x to %ids {count = 4 : i64, capacity = 3 : i64} : (!x, !ids) -> tensor<24x8xf32, #mg.layout<c [dp], h>>
  return
}
}
