// Activations, attention, dropout, reshard and the chain.
// RUN: %each %s > %t && %mg-opt %t -split-input-file -verify-diagnostics

!h = tensor<4xf32, #mg.layout<h>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!sbd = tensor<4x2x8xf32, #mg.layout<s, b, d>>
!sbh = tensor<4x2x8xf32, #mg.layout<s, b, h>>
!vh = tensor<16x8xf32, #mg.layout<v, h>>
!sh = tensor<4x8xf32, #mg.layout<s, h>>
!s_max_tp = tensor<4xf32, #mg.layout<s, max [tp]>>
!s_4 = tensor<4xf32, #mg.layout<s>>
!h_8 = tensor<8xf32, #mg.layout<h>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!sbgrd_bf16 = tensor<4x2x1x2x8xbf16, #mg.layout<s, b, g, r, d>>
!sbgrd_s_cp = tensor<4x2x1x2x8xf32, #mg.layout<s [cp], b, g, r, d>>
!sb_s_cp_i32 = tensor<4x2xi32, #mg.layout<s [cp], b>>
!tbgd_t_tp = tensor<4x2x1x8xf32, #mg.layout<t [tp], b, g, d>>
!sbgr_s_cp = tensor<4x2x1x2xf32, #mg.layout<s [cp], b, g, r>>
!tb_t_tp_i32 = tensor<4x2xi32, #mg.layout<t [tp], b>>
!n = tensor<32x1x2xf32, #mg.layout<n, g, r>>

func.func @f(%x: !h, %p: !s, %x2: tensor<4x2x7xf32, #mg.layout<s, b, d>>, %t: tensor<4x2x7xf32, #mg.layout<s, b, d>>,
    %x3: !sbd, %t2: tensor<4x2x8xf32, #mg.layout<t, b, d>>, %x4: tensor<4x2x10xf32, #mg.layout<s, b, d>>,
    %t3: tensor<4x2x6xf32, #mg.layout<s, b, u>>, %t4: tensor<4x2x4xf32, #mg.layout<s, b, u>>, %t5: !vh, %dy: !sbh,
    %i: tensor<2xi32, #mg.layout<b>>, %x5: !sh, %x6: tensor<4x8xf32, #mg.layout<s, h [tp]>>, %x7: !s_max_tp, %x8: !s_4,
    %g: !h_8, %b: tensor<6xf32, #mg.layout<h>>) {
  // EACH
  return
}

// expected-error@+1 {{form is 'exact'; expected erf, tanh or sigmoid (gelu_c1)}}
%0 = mg.gelu %x {form = "exact"} : (!h) -> !h

// expected-error@+1 {{2 frequencies for a last dimension of 8; expected half of it (cos_sin_c1)}}
%0 = mg.cos_sin %p {frequencies = array<f32: 1.0, 0.1>} : (!s) -> !sbd

// expected-error@+1 {{has growth = 1.000000e-01 and period = 0; expected both or neither (cos_sin_c2)}}
%0 = mg.cos_sin %p {frequencies = array<f32: 1.0, 0.1>, growth = 0.1} : (!s) -> tensor<4x2x4xf32, #mg.layout<s, b, d>>

// expected-error@+1 {{the last dimension of cosSin has 7 elements; expected an even number (rope_c1)}}
%0 = mg.rope %x2, %t : (tensor<4x2x7xf32, #mg.layout<s, b, d>>, tensor<4x2x7xf32, #mg.layout<s, b, d>>) -> tensor<4x2x7xf32, #mg.layout<s, b, d>>

// expected-error@+1 {{the cosines and sines have a dimension "t", which x lacks (rope_c1)}}
%0 = mg.rope %x3, %t2 : (!sbd, tensor<4x2x8xf32, #mg.layout<t, b, d>>) -> !sbd

// expected-error@+1 {{rotates 6 of 10 elements; expected all of them, or as many as are not interleaved and divide 20 (rope_c2)}}
%0 = mg.rope %x4, %t3 : (tensor<4x2x10xf32, #mg.layout<s, b, d>>, tensor<4x2x6xf32, #mg.layout<s, b, u>>) -> tensor<4x2x10xf32, #mg.layout<s, b, d>>

// expected-error@+1 {{rotates 4 interleaved of 8 elements; expected all of them, or as many as are not interleaved and divide 16 (rope_c2)}}
%0 = mg.rope %x3, %t4 {interleaved} : (!sbd, tensor<4x2x4xf32, #mg.layout<s, b, u>>) -> !sbd

// expected-error@+1 {{padding = -1; expected 0 or more (embed_c1)}}
%0 = mg.embed %p, %t5 {padding = -1 : i64} : (!s, !vh) -> !sbh

// expected-error@+1 {{offset = -1; expected 0 or more (embed_c1)}}
%0 = mg.embed %p, %t5 {offset = -1 : i64} : (!s, !vh) -> !sbh

// expected-error@+1 {{padding = -2; expected 0 or more (embed_grad_c1)}}
%0 = mg.embed_grad %p, %dy {padding = -2 : i64} : (!s, !sbh) -> !vh

// Dropout probability.
// expected-error@+1 {{expected 0 < p < 1 (dropout_c1)}}
%0 = mg.dropout %dy, %p, %i {p = 1.0, site = "mlp"} : (!sbh, !s, tensor<2xi32, #mg.layout<b>>) -> !sbh

// expected-error@+1 {{shape, element type and names must not change (reshard_c1)}}
%0 = mg.reshard %x5 : !sh -> tensor<4x8xf32, #mg.layout<s, f [tp]>>

// expected-error@+1 {{the layouts are equal (reshard_c2)}}
%0 = mg.reshard %x6 : tensor<4x8xf32, #mg.layout<s, h [tp]>> -> tensor<4x8xf32, #mg.layout<s, h [tp]>>

// expected-error@+1 {{axis "tp" is pending as another reduction than before; reduce it first (reshard_c3)}}
%0 = mg.reshard %x7 : !s_max_tp -> tensor<4xf32, #mg.layout<s, sum [tp]>>

// Zeros on all ranks but one are a sum's neutral elements, not a maximum's.
// expected-error@+1 {{(reshard_c3)}}
%0 = mg.reshard %x8 : !s_4 -> !s_max_tp

// expected-error@+1 {{expected one or both, finite, least below most (clamp_c1)}}
%0 = mg.clamp %x : (!h) -> !h

// expected-error@+1 {{has the bounds 2.000000e+00 : f64 and 1.000000e+00 : f64; expected one or both, finite, least below most (clamp_grad_c1)}}
%0 = mg.clamp_grad %x, %x {least = 2.0 : f64, most = 1.0 : f64} : (!h, !h) -> !h

// expected-error@+1 {{has the offset 1.000000e+00 : f64; expected a finite one, and none without gamma (rms_norm_c1)}}
%y, %r = mg.rms_norm %x5 {epsilon = 1.0e-5, offset = 1.0 : f64} : (!sh) -> (!sh, !s_4)

// expected-error@+1 {{has the offset 0x7FF0000000000000 : f64; expected a finite one, and none without gamma (rms_norm_grad_c1)}}
%0 = mg.rms_norm_grad %x5, %x8, %x5 gamma %g {offset = 0x7FF0000000000000 : f64} : (!sh, !s_4, !sh, !h_8) -> !sh

// Layer norm offset.
// expected-error@+1 {{(layer_norm_c1)}}
%y, %m, %r = mg.layer_norm %x5 beta %g {epsilon = 1.0e-5, offset = 1.0 : f64} : (!sh, !h_8) -> (!sh, !s_4, !s_4)

// Layer norm grad offset.
// expected-error@+1 {{(layer_norm_grad_c1)}}
%0 = mg.layer_norm_grad %x5, %x8, %x8, %x5 {offset = -1.0 : f64} : (!sh, !s_4, !s_4, !sh) -> !sh

// The term of beta is beta's, whether there is gamma or not.
// expected-error@+1 {{dimension 'h' has sizes 8 and 6 (rule_c2)}}
%y, %m, %r = mg.layer_norm %x5 beta %b {epsilon = 1.0e-5} : (!sh, tensor<6xf32, #mg.layout<h>>) -> (!sh, !s_4, !s_4)

// expected-error@+1 {{has the slope 0.000000e+00 and most = -1.000000e+00 : f64; expected finite ones, most positive (relu_c1)}}
%0 = mg.relu %x {most = -1.0 : f64} : (!h) -> !h

// Relu grad slope.
// expected-error@+1 {{(relu_grad_c1)}}
%0 = mg.relu_grad %x, %x {slope = 0x7FF0000000000000 : f64} : (!h, !h) -> !h

func.func @f(%q: !q, %k: !k, %p: !s, %t: !t, %q2: !sbgrd_bf16, %k2: tensor<4x2x1x8xbf16, #mg.layout<t, b, g, d>>,
    %l: !l, %q3: !sbgrd_s_cp, %k3: !tbgd_t_tp, %p2: !sb_s_cp_i32, %t2: !tb_t_tp_i32, %l2: !sbgr_s_cp,
    %sinks: tensor<1x2xbf16, #mg.layout<g, r>>, %sinks2: tensor<1x2xf32, #mg.layout<g, r>>, %n: !n,
    %n2: tensor<3x1x2xf32, #mg.layout<n, g, r>>, %n3: tensor<32x1x2xbf16, #mg.layout<n, g, r>>,
    %k4: tensor<4x2x1x8xf32, #mg.layout<t [cp], b, g, d>>, %t3: tensor<4x2xi32, #mg.layout<t [cp], b>>,
    %n4: tensor<32x1x2xf32, #mg.layout<n [tp], g, r>>) {
  // EACH
  return
}

// expected-error@+1 {{samples are given exactly when dropout > 0 (attention_c1)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, dropout = 0.1, queriesPerGroup = 2} : (!q, !k, !k, !s, !t) -> (!q, !l)

// expected-error@+1 {{has values of 'bf16' and of 'f32'; expected one element type for all but lse (attention_c2)}}
%o, %lse = mg.attention %q2, %k, %k, %p, %t {scale = 1.0, queriesPerGroup = 2} : (!sbgrd_bf16, !k, !k, !s, !t) -> (!sbgrd_bf16, !l)

// expected-error@+1 {{has values of 'bf16' and of 'f32'; expected one element type for all but lse (attention_grad_c1)}}
%dq, %dk, %dv = mg.attention_grad %q2, %k2, %k2, %q2, %l, %q2, %p, %t {scale = 1.0, queriesPerGroup = 2} : (!sbgrd_bf16, tensor<4x2x1x8xbf16, #mg.layout<t, b, g, d>>, tensor<4x2x1x8xbf16, #mg.layout<t, b, g, d>>, !sbgrd_bf16, !l, !sbgrd_bf16, !s, !t) -> (!sbgrd_bf16, !k, !k)

// expected-error@+1 {{has keys that are split over ["tp"] and queries over ["cp"]; expected whole keys, or keys split as the queries are (attention_c3)}}
%o, %lse = mg.attention %q3, %k3, %k3, %p2, %t2 {scale = 1.0, queriesPerGroup = 2} : (!sbgrd_s_cp, !tbgd_t_tp, !tbgd_t_tp, !sb_s_cp_i32, !tb_t_tp_i32) -> (!sbgrd_s_cp, !sbgr_s_cp)

// expected-error@+1 {{has keys that are split over ["tp"] and queries over ["cp"]; expected whole keys, or keys split as the queries are (attention_grad_c2)}}
%dq, %dk, %dv = mg.attention_grad %q3, %k3, %k3, %q3, %l2, %q3, %p2, %t2 {scale = 1.0, queriesPerGroup = 2} : (!sbgrd_s_cp, !tbgd_t_tp, !tbgd_t_tp, !sbgrd_s_cp, !sbgr_s_cp, !sbgrd_s_cp, !sb_s_cp_i32, !tb_t_tp_i32) -> (!sbgrd_s_cp, tensor<4x2x1x8xf32, #mg.layout<t [tp], b, g, d, sum [cp]>>, tensor<4x2x1x8xf32, #mg.layout<t [tp], b, g, d, sum [cp]>>)

// expected-error@+1 {{has a ring in a module without mg.mesh (attention_c4)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = ["cp"]} : (!q, !k, !k, !s, !t) -> (!q, !l)

// Sinks of another type.
// expected-error@+1 {{(attention_c2)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t sinks %sinks {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, !s, !t, tensor<1x2xbf16, #mg.layout<g, r>>) -> (!q, !l)

// expected-error@+1 {{has o of 'f32' and do of 'bf16'; expected one element type (sink_grad_c1)}}
%0 = mg.sink_grad %q, %l, %q2, %sinks2 : (!q, !l, !sbgrd_bf16, tensor<1x2xf32, #mg.layout<g, r>>) -> !l

// expected-error@+1 {{softcap = -1.000000e+00; expected a finite number above 0, or 0 for none (attention_c5)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, softcap = -1.0, queriesPerGroup = 2} : (!q, !k, !k, !s, !t) -> (!q, !l)

// expected-error@+1 {{has 1 slopes; expected none, or one for each of 2 query heads (attention_c6)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, slopes = array<f64: 0.5>, queriesPerGroup = 2} : (!q, !k, !k, !s, !t) -> (!q, !l)

// expected-error@+1 {{slopes[1] = INF; expected finite numbers (attention_c6)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, slopes = array<f64: 0.5, 0x7FF0000000000000>, queriesPerGroup = 2} : (!q, !k, !k, !s, !t) -> (!q, !l)

// expected-error@+1 {{softcap = -1.000000e+00; expected a finite number above 0, or 0 for none (attention_grad_c4)}}
%dq, %dk, %dv = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t {scale = 1.0, softcap = -1.0, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t) -> (!q, !k, !k)

// expected-error@+1 {{has 3 slopes; expected none, or one for each of 2 query heads (attention_grad_c5)}}
%dq, %dk, %dv = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t {scale = 1.0, slopes = array<f64: 0.5, 0.25, 0.125>, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t) -> (!q, !k, !k)

// expected-error@+1 {{biasMaxDistance = 0 with a bias; expected one above 0 with a bias alone (attention_c7)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t bias %n {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, !s, !t, !n) -> (!q, !l)

// expected-error@+1 {{biasMaxDistance = 128 without a bias; expected one above 0 with a bias alone (attention_c7)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, biasMaxDistance = 128, queriesPerGroup = 2} : (!q, !k, !k, !s, !t) -> (!q, !l)

// expected-error@+1 {{has a bias of 3 buckets; expected 4 or more (attention_c7)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t bias %n2 {scale = 1.0, biasMaxDistance = 128, causal = false, queriesPerGroup = 2} : (!q, !k, !k, !s, !t, tensor<3x1x2xf32, #mg.layout<n, g, r>>) -> (!q, !l)

// expected-error@+1 {{has a bias of 32 buckets up to a distance of 16; expected a distance from 17 to 65536 (attention_c7)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t bias %n {scale = 1.0, biasMaxDistance = 16, queriesPerGroup = 2} : (!q, !k, !k, !s, !t, !n) -> (!q, !l)

// expected-error@+1 {{has values of 'f32' and of 'bf16'; expected one element type for all but lse (attention_c2)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t bias %n3 {scale = 1.0, biasMaxDistance = 128, queriesPerGroup = 2} : (!q, !k, !k, !s, !t, tensor<32x1x2xbf16, #mg.layout<n, g, r>>) -> (!q, !l)

// expected-error@+1 {{has a bias and no dbias; expected both or neither (attention_grad_c6)}}
%dq, %dk, %dv = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t bias %n {scale = 1.0, biasMaxDistance = 128, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t, !n) -> (!q, !k, !k)

// expected-error@+1 {{has dbias and no bias; expected both or neither (attention_grad_c6)}}
%dq, %dk, %dv, %dn = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t) -> (!q, !k, !k, !n)

// expected-error@+1 {{biasMaxDistance = 0 with a bias; expected one above 0 with a bias alone (attention_grad_c6)}}
%dq, %dk, %dv, %dn = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t bias %n {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t, !n) -> (!q, !k, !k, !n)

// expected-error@+1 {{has a bias of 32 buckets up to a distance of 65537; expected a distance from 17 to 65536 (attention_grad_c6)}}
%dq, %dk, %dv, %dn = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t bias %n {scale = 1.0, biasMaxDistance = 65537, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t, !n) -> (!q, !k, !k, !n)

// Keys that travel around the ranks leave dq, dk and dv complete, and dbias a sum of each rank's queries.
%dq, %dk, %dv, %dn = mg.attention_grad %q3, %k4, %k4, %q3, %l2, %q3, %p2, %t3 bias %n {scale = 1.0, biasMaxDistance = 128, queriesPerGroup = 2} : (!sbgrd_s_cp, tensor<4x2x1x8xf32, #mg.layout<t [cp], b, g, d>>, tensor<4x2x1x8xf32, #mg.layout<t [cp], b, g, d>>, !sbgrd_s_cp, !sbgr_s_cp, !sbgrd_s_cp, !sb_s_cp_i32, tensor<4x2xi32, #mg.layout<t [cp], b>>, !n) -> (!sbgrd_s_cp, tensor<4x2x1x8xf32, #mg.layout<t [cp], b, g, d>>, tensor<4x2x1x8xf32, #mg.layout<t [cp], b, g, d>>, tensor<32x1x2xf32, #mg.layout<n, g, r, sum [cp]>>)
// expected-error@+1 {{result 3 is pending over []; its operands make it ["cp"] (rule_c5)}}
%eq, %ek, %ev, %en = mg.attention_grad %q3, %k4, %k4, %q3, %l2, %q3, %p2, %t3 bias %n {scale = 1.0, biasMaxDistance = 128, queriesPerGroup = 2} : (!sbgrd_s_cp, tensor<4x2x1x8xf32, #mg.layout<t [cp], b, g, d>>, tensor<4x2x1x8xf32, #mg.layout<t [cp], b, g, d>>, !sbgrd_s_cp, !sbgr_s_cp, !sbgrd_s_cp, !sb_s_cp_i32, tensor<4x2xi32, #mg.layout<t [cp], b>>, !n) -> (!sbgrd_s_cp, tensor<4x2x1x8xf32, #mg.layout<t [cp], b, g, d>>, tensor<4x2x1x8xf32, #mg.layout<t [cp], b, g, d>>, !n)

// expected-error@+1 {{dimension 'n' must be whole but is split over ["tp"] (rule_c3)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t bias %n4 {scale = 1.0, biasMaxDistance = 128, queriesPerGroup = 2} : (!q, !k, !k, !s, !t, tensor<32x1x2xf32, #mg.layout<n [tp], g, r>>) -> (!q, !l)

module attributes {mg.mesh = #mg.mesh<cp = 2 : sequence>} {
func.func @f(%q: !q, %k: !k, %p: !s, %t: !t, %l: !l) {
  // EACH
  return
}
}

// expected-error@+1 {{has a ring over no axes; expected one or more, or none where keys are whole (attention_c4)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = []} : (!q, !k, !k, !s, !t) -> (!q, !l)

// expected-error@+1 {{attention_c4: names the axis "tp", which is none of #mg.mesh<cp = 2 : sequence> (mesh_c4)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = ["tp"]} : (!q, !k, !k, !s, !t) -> (!q, !l)

// expected-error@+1 {{attention_grad_c3: names the axis "cp" twice in ["cp", "cp"] (mesh_c4)}}
%dq, %dk, %dv = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = ["cp", "cp"]} : (!q, !k, !k, !q, !l, !q, !s, !t) -> (!q, !k, !k)

module attributes {mg.mesh = #mg.mesh<tp = 4 : tensor>} {
func.func @f(%q: !q, %k: !k, %p: !s, %t: !t) {
  // EACH
  return
}
}

// A rank of four has one group of two queries.
// expected-error@+1 {{has 2 slopes; expected none, or one for each of 8 query heads (attention_c6)}}
%o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, slopes = array<f64: 0.5, 0.25>, queriesPerGroup = 2, coordinates = {g = ["tp"]}} : (!q, !k, !k, !s, !t) -> (!q, !l)

// EACH

func.func @block(%x: tensor<4xf32, #mg.layout<h>>) -> tensor<4xf32, #mg.layout<h>> attributes {mg.block} {
  return %x : tensor<4xf32, #mg.layout<h>>
}
mg.chain {
  // expected-error@+1 {{expected first >= 0, count >= 1 and first + count at most 65536 (instance_c2)}}
  mg.instance @block count 0
}

mg.chain {
  // expected-error@+1 {{is no function with mg.block (instance_c1)}}
  mg.instance @missing
}

func.func @first(%x: tensor<4xf32, #mg.layout<s>> {mg.data = "loss_weights"}) -> tensor<4xf32, #mg.layout<s>> attributes {mg.block} {
  return %x : tensor<4xf32, #mg.layout<s>>
}
func.func @second(%x: tensor<8xf32, #mg.layout<s>>) -> tensor<8xf32, #mg.layout<s>> attributes {mg.block} {
  return %x : tensor<8xf32, #mg.layout<s>>
}
mg.chain {
  mg.instance @first
  // expected-error@+1 {{activations do not fit the results of the instance before (chain_c1)}}
  mg.instance @second
}

func.func @only(%x: tensor<f32, #mg.layout<>> {mg.data = "loss_weights"}) -> (tensor<f32, #mg.layout<>> {mg.result = "loss_sum"}) attributes {mg.block} {
  return %x : tensor<f32, #mg.layout<>>
}
// expected-error@+1 {{0 instances return loss_sum and tokens; expected one (chain_c2)}}
mg.chain { mg.instance @only }

// expected-error@+1 {{0 instances return loss_sum and tokens; expected one (chain_c2)}}
mg.chain {}

!one = tensor<f32, #mg.layout<>>
func.func @head(%x: !one {mg.data = "loss_weights"}) -> (!one, !one {mg.result = "loss_sum"}, !one {mg.result = "tokens"}) attributes {mg.block} {
  return %x, %x, %x : !one, !one, !one
}
// expected-error@+1 {{ends with head, whose activations no instance takes (chain_c2)}}
mg.chain { mg.instance @head }

!one = tensor<f32, #mg.layout<>>
func.func @head(%w: !one {mg.data = "loss_weights"}) -> (!one, !one {mg.result = "loss_sum"}, !one {mg.result = "tokens"}) attributes {mg.block} {
  return %w, %w, %w : !one, !one, !one
}
func.func @again(%x: !one) -> (!one {mg.result = "loss_sum"}, !one {mg.result = "tokens"}) attributes {mg.block} {
  return %x, %x : !one, !one
}
// expected-error@+1 {{2 instances return loss_sum and tokens; expected one (chain_c2)}}
mg.chain {
  mg.instance @head
  mg.instance @again
}
