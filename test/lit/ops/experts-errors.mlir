// One error per constraint of the ops of experts, and of merged factors.
// RUN: %each %s > %t && %mg-opt %t -split-input-file -verify-diagnostics

!ids = tensor<4x3xi32, #mg.layout<s, k>>
!e_i32 = tensor<6xi32, #mg.layout<e>>
!c_i32 = tensor<12xi32, #mg.layout<c>>
!sbk_s_tp_i32 = tensor<4x2x3xi32, #mg.layout<s [tp], b, k>>
!x = tensor<4x2x8xf32, #mg.layout<s [tp], b, h>>
!rows = tensor<24x8xf32, #mg.layout<c [tp], h>>
!order = tensor<24xi32, #mg.layout<c [tp]>>
!p = tensor<4x2x3xf32, #mg.layout<s [tp], b, k>>
!column = tensor<24xf32, #mg.layout<c [tp]>>
!ch = tensor<12x8xf32, #mg.layout<c, h>>
!sbh = tensor<4x2x8xf32, #mg.layout<s, b, h>>
!sbk_i32 = tensor<4x2x3xi32, #mg.layout<s, b, k>>
!ehm = tensor<6x8x5xf32, #mg.layout<e, h, m>>
!cm_c_tp = tensor<24x5xf32, #mg.layout<c [tp], m>>
!ch_24x8 = tensor<24x8xf32, #mg.layout<c, h>>
!cm = tensor<24x5xf32, #mg.layout<c, m>>
!ehm_bf16 = tensor<6x8x5xbf16, #mg.layout<e, h, m>>
!n_i32 = tensor<4xi32, #mg.layout<n>>
!sb_i32 = tensor<4x2xi32, #mg.layout<s, b>>
!e_2_i32 = tensor<2xi32, #mg.layout<e>>
!c_8_i32 = tensor<8xi32, #mg.layout<c>>
!e_24_i32 = tensor<24xi32, #mg.layout<e>>
!ch_20x8 = tensor<20x8xf32, #mg.layout<c, h>>
!ch_48x8 = tensor<48x8xf32, #mg.layout<c, h>>

func.func @f(%ids: !ids, %x: !x, %ids2: !sbk_s_tp_i32, %order: !order, %rows: !rows, %p: !p, %column: !column,
    %x2: tensor<4x8xf32, #mg.layout<s, h>>, %x3: tensor<4x2x8xf32, #mg.layout<s [tp], b [dp], h>>,
    %ids3: tensor<4x2x3xi32, #mg.layout<s [tp], b [dp], k>>, %x4: !sbh, %ids4: !sbk_i32, %b2: !cm_c_tp, %a2: !ch_24x8,
    %w: tensor<8x6x5xf32, #mg.layout<h, e, m>>, %w2: !ehm_bf16, %w3: !ehm, %n: !e_i32, %b3: !cm, %n2: !n_i32,
    %w4: tensor<6x8x5x8xf32, #mg.layout<e, h, m, j>>, %w5: tensor<4x2x2xf32, #mg.layout<s, b, k>>, %at: !sb_i32,
    %w6: tensor<4x2x3xf32, #mg.layout<s, b, k>>, %n3: tensor<4xi32, #mg.layout<e>>) {
  // EACH
  return
}

// expected-error@+1 {{gives 9 places to 12 choices; expected one for each (group_c1)}}
%a, %b, %c = mg.group %ids over [] : (!ids) -> (!e_i32, tensor<3x3xi32, #mg.layout<n, k>>, !c_i32)

// expected-error@+1 {{has an order of rows, which only local programs know (dispatch_c1)}}
%y = mg.dispatch %x to %ids2 order %order {count = 6 : i64} : (!x, !sbk_s_tp_i32, !order) -> !rows

// expected-error@+1 {{has an order of rows, which only local programs know (combine_c1)}}
%y = mg.combine %rows to %ids2 order %ids2 {count = 6 : i64} : (!rows, !sbk_s_tp_i32, !sbk_s_tp_i32) -> !x

// expected-error@+1 {{has an order of rows, which only local programs know (spread_c1)}}
%y = mg.spread %p to %ids2 order %order {count = 6 : i64} : (!p, !sbk_s_tp_i32, !order) -> !column

// expected-error@+1 {{has an order of rows, which only local programs know (collect_c1)}}
%y = mg.collect %column to %ids2 order %ids2 {count = 6 : i64} : (!column, !sbk_s_tp_i32, !sbk_s_tp_i32) -> !p

// expected-error@+1 {{rank 2 where the rule has 3 dimensions (rule_c1)}}
%y = mg.dispatch %x2 to %ids {count = 6 : i64} : (tensor<4x8xf32, #mg.layout<s, h>>, !ids) -> !ch

// expected-error@+1 {{dimension 'c' has size 24 over ["dp", "tp"]; expected 24 over ["tp", "dp"], as its parts have together (rule_c7)}}
%y = mg.dispatch %x3 to %ids3 {count = 6 : i64} : (tensor<4x2x8xf32, #mg.layout<s [tp], b [dp], h>>, tensor<4x2x3xi32, #mg.layout<s [tp], b [dp], k>>) -> tensor<24x8xf32, #mg.layout<c [dp, tp], h>>

// expected-error@+1 {{dimension 'c' has size 23 over []; expected 24 over [], as its parts have together (rule_c7)}}
%y = mg.dispatch %x4 to %ids4 {count = 6 : i64} : (!sbh, !sbk_i32) -> tensor<23x8xf32, #mg.layout<c, h>>

// expected-error@+1 {{result 0 is pending over []; its operands make it ["tp"] (rule_c5)}}
%y = mg.grouped_einsum_grad %rows, %b2 to %ids2 : (!rows, !cm_c_tp, !sbk_s_tp_i32) -> !ehm

// expected-error@+1 {{expected the experts first, and then the last dimensions of the rows (grouped_einsum_c1)}}
%y = mg.grouped_einsum %a2, %w to %ids4 : (!ch_24x8, tensor<8x6x5xf32, #mg.layout<h, e, m>>, !sbk_i32) -> !cm

// expected-error@+1 {{expected operands of one element type and a result of that type or f32 (grouped_einsum_c2)}}
%y = mg.grouped_einsum %a2, %w2 to %ids4 : (!ch_24x8, !ehm_bf16, !sbk_i32) -> !cm

// expected-error@+1 {{has an order of rows, which only local programs know (grouped_einsum_c3)}}
%y = mg.grouped_einsum %rows, %w3 to %ids2 order %n : (!rows, !ehm, !sbk_s_tp_i32, !e_i32) -> !cm_c_tp

// expected-error@+1 {{expected the experts first, and then the last dimensions of the rows (grouped_einsum_grad_c1)}}
%y = mg.grouped_einsum_grad %a2, %b3 to %ids4 : (!ch_24x8, !cm, !sbk_i32) -> tensor<6x5x9xf32, #mg.layout<e, m, g>>

// expected-error@+1 {{expected operands of one element type and a result of that type or f32 (grouped_einsum_grad_c2)}}
%y = mg.grouped_einsum_grad %a2, %b3 to %ids4 : (!ch_24x8, !cm, !sbk_i32) -> !ehm_bf16

// expected-error@+1 {{has an order of rows, which only local programs know (grouped_einsum_grad_c3)}}
%y = mg.grouped_einsum_grad %rows, %b2 to %ids2 order %n : (!rows, !cm_c_tp, !sbk_s_tp_i32, !e_i32) -> tensor<6x8x5xf32, #mg.layout<e, h, m, sum [tp]>>

// expected-error@+1 {{has counts of 4 experts, and matrices of 6 (grouped_einsum_c4)}}
%y = mg.grouped_einsum %a2, %w3 to %ids4 order %n2 : (!ch_24x8, !ehm, !sbk_i32, !n_i32) -> !cm

// expected-error@+1 {{has counts of 4 experts, and matrices of 6 (grouped_einsum_grad_c4)}}
%y = mg.grouped_einsum_grad %a2, %b3 to %ids4 order %n2 : (!ch_24x8, !cm, !sbk_i32, !n_i32) -> !ehm

// expected-error@+1 {{has an order of rows, which only local programs know (row_mask_c1)}}
%y = mg.row_mask %ids2 order %order {count = 6 : i64} : (!sbk_s_tp_i32, !order) -> !column

// Rows of two dimensions, one of which the rows that they are made of have too.
// expected-error@+1 {{expected the experts first, and then the last dimensions of the rows (grouped_einsum_c1)}}
%y = mg.grouped_einsum %a2, %w4 to %ids4 : (!ch_24x8, tensor<6x8x5x8xf32, #mg.layout<e, h, m, j>>, !sbk_i32) -> tensor<24x8x5xf32, #mg.layout<c, h, m>>

// expected-error@+1 {{dimension 'k' has sizes 3 and 2 (rule_c2)}}
%kept = mg.drop %ids4 by %w5 at %at {count = 6 : i64, capacity = 2 : i64, together = 1 : i64} : (!sbk_i32, tensor<4x2x2xf32, #mg.layout<s, b, k>>, !sb_i32) -> !sbk_i32

// expected-error@+1 {{has room for 2 choices of each of 6 experts, for the tokens of 3 sequences of 2; expected positive numbers, and sequences that divide the batch (drop_c1)}}
%kept = mg.drop %ids4 by %w6 at %at {count = 6 : i64, capacity = 2 : i64, together = 3 : i64} : (!sbk_i32, tensor<4x2x3xf32, #mg.layout<s, b, k>>, !sb_i32) -> !sbk_i32

// expected-error@+1 {{expected a list, and a number without dimensions (row_count_c1)}}
%a = mg.row_count %n3 : (tensor<4xi32, #mg.layout<e>>) -> tensor<4xi32, #mg.layout<e>>

module attributes {mg.mesh = #mg.mesh<ep = 2>} {
func.func @f(%ids: !ids, %rows: !ch, %n: !e_24_i32, %x: !sbh, %ids2: !sbk_i32, %n2: tensor<22xi32, #mg.layout<e>>,
    %a2: !ch_24x8, %w: tensor<6x8x5xf32, #mg.layout<e [ep], h, m>>, %z: tensor<48x8xf32, #mg.layout<c [ep], h>>) {
  // EACH
  return
}
}

// expected-error@+1 {{has room for 12 rows of 12 choices, 3 for a token, among 2 experts; expected 8 (group_c2)}}
%a, %b, %c = mg.group %ids over ["ep"] : (!ids) -> (!e_2_i32, !ids, !c_i32)

// Group axes.
// expected-error@+1 {{(mesh_c4)}}
%a, %b, %c = mg.group %ids over ["dp"] : (!ids) -> (!e_2_i32, !ids, !c_8_i32)

// expected-error@+1 {{exchanges rows over no axes (exchange_c3)}}
%a = mg.exchange %rows by %n over [] : (!ch, !e_24_i32) -> !ch_20x8

// expected-error@+1 {{exchange = ["ep"]; expected the axes that share out what places its rows (rule_c6)}}
%y = mg.dispatch %x to %ids2 {count = 6 : i64, exchange = ["ep"]} : (!sbh, !sbk_i32) -> !ch_48x8

// expected-error@+1 {{exchange = [1]; expected names of axes (rule_c6)}}
%y = mg.dispatch %x to %ids2 {count = 6 : i64, exchange = [1]} : (!sbh, !sbk_i32) -> !ch_48x8

// expected-error@+1 {{expected rows of the same type, if another number of them (exchange_c1)}}
%a = mg.exchange %rows by %n over ["ep"] : (!ch, !e_24_i32) -> tensor<20x9xf32, #mg.layout<c, h>>

// expected-error@+1 {{has 22 counts for 2 ranks; expected of each rank one for each expert of every rank (exchange_c2)}}
%a = mg.exchange %rows by %n2 over ["ep"] : (!ch, tensor<22xi32, #mg.layout<e>>) -> !ch_20x8

// Exchange axes.
// expected-error@+1 {{(mesh_c4)}}
%a = mg.exchange %rows by %n over ["tp"] back : (!ch, !e_24_i32) -> !ch_20x8

// Experts on two ranks: each has room for the rows that tokens may have there.
// expected-error@+1 {{dimension 'c' has size 24 over []; expected 48 over ["ep"], as its parts have together (rule_c7)}}
%y = mg.grouped_einsum %a2, %w to %ids2 : (!ch_24x8, tensor<6x8x5xf32, #mg.layout<e [ep], h, m>>, !sbk_i32) -> !cm

// expected-error@+1 {{result 0 is pending over []; its operands make it ["ep"] (rule_c5)}}
%y = mg.combine %z to %ids2 {count = 6 : i64, coordinates = {e = ["ep"]}} : (tensor<48x8xf32, #mg.layout<c [ep], h>>, !sbk_i32) -> !sbh

// expected-error@+1 {{has room for 8 rows of 12 choices, 3 for a token, among 2 experts; expected 6 (group_c2)}}
%a, %b, %c = mg.group %ids over ["ep"] {capacity = 3 : i64} : (!ids) -> (!e_2_i32, !ids, !c_8_i32)

module attributes {mg.mesh = #mg.mesh<tp = 2>} {
func.func @f(%ids: !sbk_s_tp_i32, %w: !p, %at: tensor<4x2xi32, #mg.layout<s [tp], b>>) {
  // EACH
  return
}
}

// The room of an expert depends on the whole sequence.
// expected-error@+1 {{(rule_c}}
%kept = mg.drop %ids by %w at %at {count = 6 : i64, capacity = 2 : i64, together = 1 : i64} : (!sbk_s_tp_i32, !p, tensor<4x2xi32, #mg.layout<s [tp], b>>) -> !sbk_s_tp_i32

module attributes {mg.mesh = #mg.mesh<dp = 2>} {
func.func @f(%x: tensor<4x2x8xf32, #mg.layout<s, b [dp], h>>, %ids: tensor<4x2x3xi32, #mg.layout<s, b [dp], k>>) {
  // EACH
  return
}
}

// Each of 4 experts has 3 rows of both sequences: at most 2 rows from one of the sequences, on each rank that has one.
// expected-error@+1 {{dimension 'c' has size 24 over ["dp"]; expected 16 over ["dp"], as its parts have together (rule_c7)}}
%y = mg.dispatch %x to %ids {count = 4 : i64, capacity = 3 : i64} : (tensor<4x2x8xf32, #mg.layout<s, b [dp], h>>, tensor<4x2x3xi32, #mg.layout<s, b [dp], k>>) -> tensor<24x8xf32, #mg.layout<c [dp], h>>
