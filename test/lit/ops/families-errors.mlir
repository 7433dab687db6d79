// Activations, attention, dropout, reshard and the chain.
// RUN: %mg-opt %s -split-input-file -verify-diagnostics

func.func @gelu_form(%x: tensor<4xf32, #mg.layout<h>>) {
  // expected-error@+1 {{form is 'exact'; expected erf, tanh or sigmoid (gelu_c1)}}
  %0 = mg.gelu %x {form = "exact"} : (tensor<4xf32, #mg.layout<h>>) -> tensor<4xf32, #mg.layout<h>>
  return
}

// -----

func.func @cos_sin_frequencies(%p: tensor<4x2xi32, #mg.layout<s, b>>) {
  // expected-error@+1 {{2 frequencies for a last dimension of 8; expected half of it (cos_sin_c1)}}
  %0 = mg.cos_sin %p {frequencies = array<f32: 1.0, 0.1>} : (tensor<4x2xi32, #mg.layout<s, b>>) -> tensor<4x2x8xf32, #mg.layout<s, b, d>>
  return
}

// -----

func.func @cos_sin_growth(%p: tensor<4x2xi32, #mg.layout<s, b>>) {
  // expected-error@+1 {{has growth = 1.000000e-01 and period = 0; expected both or neither (cos_sin_c2)}}
  %0 = mg.cos_sin %p {frequencies = array<f32: 1.0, 0.1>, growth = 0.1} : (tensor<4x2xi32, #mg.layout<s, b>>) -> tensor<4x2x4xf32, #mg.layout<s, b, d>>
  return
}

// -----

func.func @rope_odd(%x: tensor<4x2x7xf32, #mg.layout<s, b, d>>, %t: tensor<4x2x7xf32, #mg.layout<s, b, d>>) {
  // expected-error@+1 {{the last dimension of cosSin has 7 elements; expected an even number (rope_c1)}}
  %0 = mg.rope %x, %t : (tensor<4x2x7xf32, #mg.layout<s, b, d>>, tensor<4x2x7xf32, #mg.layout<s, b, d>>) -> tensor<4x2x7xf32, #mg.layout<s, b, d>>
  return
}

// -----

func.func @rope_of_other_tokens(%x: tensor<4x2x8xf32, #mg.layout<s, b, d>>, %t: tensor<4x2x8xf32, #mg.layout<t, b, d>>) {
  // expected-error@+1 {{the cosines and sines have a dimension "t", which x lacks (rope_c1)}}
  %0 = mg.rope %x, %t : (tensor<4x2x8xf32, #mg.layout<s, b, d>>, tensor<4x2x8xf32, #mg.layout<t, b, d>>) -> tensor<4x2x8xf32, #mg.layout<s, b, d>>
  return
}

// -----

func.func @rope_of_no_whole_rows(%x: tensor<4x2x10xf32, #mg.layout<s, b, d>>, %t: tensor<4x2x6xf32, #mg.layout<s, b, u>>) {
  // expected-error@+1 {{rotates 6 of 10 elements; expected all of them, or as many as are not interleaved and divide 20 (rope_c2)}}
  %0 = mg.rope %x, %t : (tensor<4x2x10xf32, #mg.layout<s, b, d>>, tensor<4x2x6xf32, #mg.layout<s, b, u>>) -> tensor<4x2x10xf32, #mg.layout<s, b, d>>
  return
}

// -----

func.func @rope_of_some_neighbours(%x: tensor<4x2x8xf32, #mg.layout<s, b, d>>, %t: tensor<4x2x4xf32, #mg.layout<s, b, u>>) {
  // expected-error@+1 {{rotates 4 interleaved of 8 elements; expected all of them, or as many as are not interleaved and divide 16 (rope_c2)}}
  %0 = mg.rope %x, %t {interleaved} : (tensor<4x2x8xf32, #mg.layout<s, b, d>>, tensor<4x2x4xf32, #mg.layout<s, b, u>>) -> tensor<4x2x8xf32, #mg.layout<s, b, d>>
  return
}

// -----

func.func @attention_dropout_without_samples(
    %q: tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>, %k: tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>,
    %p: tensor<4x2xi32, #mg.layout<s, b>>, %t: tensor<4x2xi32, #mg.layout<t, b>>) {
  // expected-error@+1 {{samples are given exactly when dropout > 0 (attention_c1)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, dropout = 0.1, queriesPerGroup = 2} : (tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>, tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>, tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>, tensor<4x2xi32, #mg.layout<s, b>>, tensor<4x2xi32, #mg.layout<t, b>>) -> (tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>, tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>)
  return
}

// -----

func.func @embed_padding(%ids: tensor<4x2xi32, #mg.layout<s, b>>, %t: tensor<16x8xf32, #mg.layout<v, h>>, %dy: tensor<4x2x8xf32, #mg.layout<s, b, h>>) {
  // expected-error@+1 {{padding = -1; expected 0 or more (embed_c1)}}
  %0 = mg.embed %ids, %t {padding = -1 : i64} : (tensor<4x2xi32, #mg.layout<s, b>>, tensor<16x8xf32, #mg.layout<v, h>>) -> tensor<4x2x8xf32, #mg.layout<s, b, h>>
  return
}

// -----

func.func @embed_offset(%ids: tensor<4x2xi32, #mg.layout<s, b>>, %t: tensor<16x8xf32, #mg.layout<v, h>>) {
  // expected-error@+1 {{offset = -1; expected 0 or more (embed_c1)}}
  %0 = mg.embed %ids, %t {offset = -1 : i64} : (tensor<4x2xi32, #mg.layout<s, b>>, tensor<16x8xf32, #mg.layout<v, h>>) -> tensor<4x2x8xf32, #mg.layout<s, b, h>>
  return
}

// -----

func.func @embed_grad_padding(%ids: tensor<4x2xi32, #mg.layout<s, b>>, %dy: tensor<4x2x8xf32, #mg.layout<s, b, h>>) {
  // expected-error@+1 {{padding = -2; expected 0 or more (embed_grad_c1)}}
  %0 = mg.embed_grad %ids, %dy {padding = -2 : i64} : (tensor<4x2xi32, #mg.layout<s, b>>, tensor<4x2x8xf32, #mg.layout<s, b, h>>) -> tensor<16x8xf32, #mg.layout<v, h>>
  return
}

// -----

func.func @dropout_probability(%x: tensor<4x2x8xf32, #mg.layout<s, b, h>>, %p: tensor<4x2xi32, #mg.layout<s, b>>, %i: tensor<2xi32, #mg.layout<b>>) {
  // expected-error@+1 {{expected 0 < p < 1 (dropout_c1)}}
  %0 = mg.dropout %x, %p, %i {p = 1.0, site = "mlp"} : (tensor<4x2x8xf32, #mg.layout<s, b, h>>, tensor<4x2xi32, #mg.layout<s, b>>, tensor<2xi32, #mg.layout<b>>) -> tensor<4x2x8xf32, #mg.layout<s, b, h>>
  return
}

// -----

func.func @reshard_of_names(%x: tensor<4x8xf32, #mg.layout<s, h>>) {
  // expected-error@+1 {{shape, element type and names must not change (reshard_c1)}}
  %0 = mg.reshard %x : tensor<4x8xf32, #mg.layout<s, h>> -> tensor<4x8xf32, #mg.layout<s, f [tp]>>
  return
}

// -----

func.func @reshard_to_itself(%x: tensor<4x8xf32, #mg.layout<s, h [tp]>>) {
  // expected-error@+1 {{the layouts are equal (reshard_c2)}}
  %0 = mg.reshard %x : tensor<4x8xf32, #mg.layout<s, h [tp]>> -> tensor<4x8xf32, #mg.layout<s, h [tp]>>
  return
}

// -----

func.func @block(%x: tensor<4xf32, #mg.layout<h>>) -> tensor<4xf32, #mg.layout<h>> attributes {mg.block} {
  return %x : tensor<4xf32, #mg.layout<h>>
}
mg.chain {
  // expected-error@+1 {{expected first >= 0, count >= 1 and first + count at most 65536 (instance_c2)}}
  mg.instance @block count 0
}

// -----

mg.chain {
  // expected-error@+1 {{is no function with mg.block (instance_c1)}}
  mg.instance @missing
}

// -----

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

// -----

func.func @only(%x: tensor<f32, #mg.layout<>> {mg.data = "loss_weights"}) -> (tensor<f32, #mg.layout<>> {mg.result = "loss_sum"}) attributes {mg.block} {
  return %x : tensor<f32, #mg.layout<>>
}
// expected-error@+1 {{0 instances return loss_sum and tokens; expected one (chain_c2)}}
mg.chain { mg.instance @only }

// -----

// expected-error@+1 {{0 instances return loss_sum and tokens; expected one (chain_c2)}}
mg.chain {}

// -----

!one = tensor<f32, #mg.layout<>>
func.func @head(%x: !one {mg.data = "loss_weights"}) -> (!one, !one {mg.result = "loss_sum"}, !one {mg.result = "tokens"}) attributes {mg.block} {
  return %x, %x, %x : !one, !one, !one
}
// expected-error@+1 {{ends with head, whose activations no instance takes (chain_c2)}}
mg.chain { mg.instance @head }

// -----

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

// -----

func.func @maximum_taken_for_sum(%x: tensor<4xf32, #mg.layout<s, max [tp]>>) {
  // expected-error@+1 {{axis "tp" is pending as another reduction than before; reduce it first (reshard_c3)}}
  %0 = mg.reshard %x : tensor<4xf32, #mg.layout<s, max [tp]>> -> tensor<4xf32, #mg.layout<s, sum [tp]>>
  return
}

// -----

// Zeros on all ranks but one are a sum's neutral elements, not a maximum's.
func.func @complete_demoted_to_maximum(%x: tensor<4xf32, #mg.layout<s>>) {
  // expected-error@+1 {{(reshard_c3)}}
  %0 = mg.reshard %x : tensor<4xf32, #mg.layout<s>> -> tensor<4xf32, #mg.layout<s, max [tp]>>
  return
}

// -----

!q = tensor<4x2x1x2x8xbf16, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
func.func @attention_of_two_types(%q: !q, %k: !k, %p: tensor<4x2xi32, #mg.layout<s, b>>, %t: tensor<4x2xi32, #mg.layout<t, b>>) {
  // expected-error@+1 {{has values of 'bf16' and of 'f32'; expected one element type for all but lse (attention_c2)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, tensor<4x2xi32, #mg.layout<s, b>>, tensor<4x2xi32, #mg.layout<t, b>>) -> (!q, !l)
  return
}

// -----

!q = tensor<4x2x1x2x8xbf16, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xbf16, #mg.layout<t, b, g, d>>
!dk = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
func.func @attention_gradients_of_another_type(%q: !q, %k: !k, %l: !l, %p: tensor<4x2xi32, #mg.layout<s, b>>, %t: tensor<4x2xi32, #mg.layout<t, b>>) {
  // expected-error@+1 {{has values of 'bf16' and of 'f32'; expected one element type for all but lse (attention_grad_c1)}}
  %dq, %dk, %dv = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, tensor<4x2xi32, #mg.layout<s, b>>, tensor<4x2xi32, #mg.layout<t, b>>) -> (!q, !dk, !dk)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s [cp], b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t [tp], b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s [cp], b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s [cp], b>>
!t = tensor<4x2xi32, #mg.layout<t [tp], b>>
func.func @attention_of_keys_split_otherwise(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t) {
  // expected-error@+1 {{has keys that are split over ["tp"] and queries over ["cp"]; expected whole keys, or keys split as the queries are (attention_c3)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, !s, !t) -> (!q, !l)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s [cp], b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t [tp], b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s [cp], b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s [cp], b>>
!t = tensor<4x2xi32, #mg.layout<t [tp], b>>
!dk = tensor<4x2x1x8xf32, #mg.layout<t [tp], b, g, d, sum [cp]>>
func.func @attention_gradients_of_keys_split_otherwise(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t) {
  // expected-error@+1 {{has keys that are split over ["tp"] and queries over ["cp"]; expected whole keys, or keys split as the queries are (attention_grad_c2)}}
  %dq, %dk, %dv = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t) -> (!q, !dk, !dk)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_of_a_ring_without_mesh(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t) {
  // expected-error@+1 {{has a ring in a module without mg.mesh (attention_c4)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = ["cp"]} : (!q, !k, !k, !s, !t) -> (!q, !l)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
module attributes {mg.mesh = #mg.mesh<cp = 2 : sequence>} {
func.func @attention_of_an_empty_ring(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t) {
  // expected-error@+1 {{has a ring over no axes; expected one or more, or none where keys are whole (attention_c4)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = []} : (!q, !k, !k, !s, !t) -> (!q, !l)
  return
}
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
module attributes {mg.mesh = #mg.mesh<cp = 2 : sequence>} {
func.func @attention_of_an_unknown_ring(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t) {
  // expected-error@+1 {{attention_c4: names the axis "tp", which is none of #mg.mesh<cp = 2 : sequence> (mesh_c4)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = ["tp"]} : (!q, !k, !k, !s, !t) -> (!q, !l)
  return
}
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
module attributes {mg.mesh = #mg.mesh<cp = 2 : sequence>} {
func.func @attention_gradients_of_an_unknown_ring(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t) {
  // expected-error@+1 {{attention_grad_c3: names the axis "cp" twice in ["cp", "cp"] (mesh_c4)}}
  %dq, %dk, %dv = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = ["cp", "cp"]} : (!q, !k, !k, !q, !l, !q, !s, !t) -> (!q, !k, !k)
  return
}
}

// -----

func.func @clamp_without_bounds(%x: tensor<4xf32, #mg.layout<h>>) {
  // expected-error@+1 {{expected one or both, finite, least below most (clamp_c1)}}
  %0 = mg.clamp %x : (tensor<4xf32, #mg.layout<h>>) -> tensor<4xf32, #mg.layout<h>>
  return
}

// -----

func.func @clamp_grad_bounds(%x: tensor<4xf32, #mg.layout<h>>) {
  // expected-error@+1 {{has the bounds 2.000000e+00 : f64 and 1.000000e+00 : f64; expected one or both, finite, least below most (clamp_grad_c1)}}
  %0 = mg.clamp_grad %x, %x {least = 2.0 : f64, most = 1.0 : f64} : (tensor<4xf32, #mg.layout<h>>, tensor<4xf32, #mg.layout<h>>) -> tensor<4xf32, #mg.layout<h>>
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @sinks_of_another_type(%q: !q, %k: !k, %p: !s, %t: !t, %sinks: tensor<1x2xbf16, #mg.layout<g, r>>) {
  // expected-error@+1 {{(attention_c2)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t sinks %sinks {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, !s, !t, tensor<1x2xbf16, #mg.layout<g, r>>) -> (!q, !l)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!h = tensor<4x2x1x2x8xbf16, #mg.layout<s, b, g, r, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
func.func @sink_grad_types(%o: !q, %do: !h, %l: !l, %sinks: tensor<1x2xf32, #mg.layout<g, r>>) {
  // expected-error@+1 {{has o of 'f32' and do of 'bf16'; expected one element type (sink_grad_c1)}}
  %0 = mg.sink_grad %o, %l, %do, %sinks : (!q, !l, !h, tensor<1x2xf32, #mg.layout<g, r>>) -> !l
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_of_a_negative_softcap(%q: !q, %k: !k, %p: !s, %t: !t) {
  // expected-error@+1 {{softcap = -1.000000e+00; expected a finite number above 0, or 0 for none (attention_c5)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, softcap = -1.0, queriesPerGroup = 2} : (!q, !k, !k, !s, !t) -> (!q, !l)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_of_too_few_slopes(%q: !q, %k: !k, %p: !s, %t: !t) {
  // expected-error@+1 {{has 1 slopes; expected none, or one for each of 2 query heads (attention_c6)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, slopes = array<f64: 0.5>, queriesPerGroup = 2} : (!q, !k, !k, !s, !t) -> (!q, !l)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_of_an_infinite_slope(%q: !q, %k: !k, %p: !s, %t: !t) {
  // expected-error@+1 {{slopes[1] = INF; expected finite numbers (attention_c6)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, slopes = array<f64: 0.5, 0x7FF0000000000000>, queriesPerGroup = 2} : (!q, !k, !k, !s, !t) -> (!q, !l)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_gradients_of_a_negative_softcap(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t) {
  // expected-error@+1 {{softcap = -1.000000e+00; expected a finite number above 0, or 0 for none (attention_grad_c4)}}
  %dq, %dk, %dv = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t {scale = 1.0, softcap = -1.0, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t) -> (!q, !k, !k)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_gradients_of_too_many_slopes(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t) {
  // expected-error@+1 {{has 3 slopes; expected none, or one for each of 2 query heads (attention_grad_c5)}}
  %dq, %dk, %dv = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t {scale = 1.0, slopes = array<f64: 0.5, 0.25, 0.125>, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t) -> (!q, !k, !k)
  return
}

// -----

// A rank of four has one group of two queries.
!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
module attributes {mg.mesh = #mg.mesh<tp = 4 : tensor>} {
func.func @attention_of_the_slopes_of_one_rank(%q: !q, %k: !k, %p: !s, %t: !t) {
  // expected-error@+1 {{has 2 slopes; expected none, or one for each of 8 query heads (attention_c6)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, slopes = array<f64: 0.5, 0.25>, queriesPerGroup = 2, coordinates = {g = ["tp"]}} : (!q, !k, !k, !s, !t) -> (!q, !l)
  return
}
}

// -----

func.func @rms_norm_offset(%x: tensor<4x8xf32, #mg.layout<s, h>>) {
  // expected-error@+1 {{has the offset 1.000000e+00 : f64; expected a finite one, and none without gamma (rms_norm_c1)}}
  %y, %r = mg.rms_norm %x {epsilon = 1.0e-5, offset = 1.0 : f64} : (tensor<4x8xf32, #mg.layout<s, h>>) -> (tensor<4x8xf32, #mg.layout<s, h>>, tensor<4xf32, #mg.layout<s>>)
  return
}

// -----

func.func @rms_norm_grad_offset(%x: tensor<4x8xf32, #mg.layout<s, h>>, %r: tensor<4xf32, #mg.layout<s>>, %g: tensor<8xf32, #mg.layout<h>>) {
  // expected-error@+1 {{has the offset 0x7FF0000000000000 : f64; expected a finite one, and none without gamma (rms_norm_grad_c1)}}
  %0 = mg.rms_norm_grad %x, %r, %x gamma %g {offset = 0x7FF0000000000000 : f64} : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<4xf32, #mg.layout<s>>, tensor<4x8xf32, #mg.layout<s, h>>, tensor<8xf32, #mg.layout<h>>) -> tensor<4x8xf32, #mg.layout<s, h>>
  return
}

// -----

func.func @layer_norm_offset(%x: tensor<4x8xf32, #mg.layout<s, h>>, %b: tensor<8xf32, #mg.layout<h>>) {
  // expected-error@+1 {{(layer_norm_c1)}}
  %y, %m, %r = mg.layer_norm %x beta %b {epsilon = 1.0e-5, offset = 1.0 : f64} : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<8xf32, #mg.layout<h>>) -> (tensor<4x8xf32, #mg.layout<s, h>>, tensor<4xf32, #mg.layout<s>>, tensor<4xf32, #mg.layout<s>>)
  return
}

// -----

func.func @layer_norm_grad_offset(%x: tensor<4x8xf32, #mg.layout<s, h>>, %r: tensor<4xf32, #mg.layout<s>>) {
  // expected-error@+1 {{(layer_norm_grad_c1)}}
  %0 = mg.layer_norm_grad %x, %r, %r, %x {offset = -1.0 : f64} : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<4xf32, #mg.layout<s>>, tensor<4xf32, #mg.layout<s>>, tensor<4x8xf32, #mg.layout<s, h>>) -> tensor<4x8xf32, #mg.layout<s, h>>
  return
}

// -----

// The term of beta is beta's, whether there is gamma or not.
func.func @layer_norm_beta_of_another_size(%x: tensor<4x8xf32, #mg.layout<s, h>>, %b: tensor<6xf32, #mg.layout<h>>) {
  // expected-error@+1 {{dimension 'h' has sizes 8 and 6 (rule_c2)}}
  %y, %m, %r = mg.layer_norm %x beta %b {epsilon = 1.0e-5} : (tensor<4x8xf32, #mg.layout<s, h>>, tensor<6xf32, #mg.layout<h>>) -> (tensor<4x8xf32, #mg.layout<s, h>>, tensor<4xf32, #mg.layout<s>>, tensor<4xf32, #mg.layout<s>>)
  return
}

// -----

func.func @relu_most(%x: tensor<4xf32, #mg.layout<h>>) {
  // expected-error@+1 {{has the slope 0.000000e+00 and most = -1.000000e+00 : f64; expected finite ones, most positive (relu_c1)}}
  %0 = mg.relu %x {most = -1.0 : f64} : (tensor<4xf32, #mg.layout<h>>) -> tensor<4xf32, #mg.layout<h>>
  return
}

// -----

func.func @relu_grad_slope(%x: tensor<4xf32, #mg.layout<h>>) {
  // expected-error@+1 {{(relu_grad_c1)}}
  %0 = mg.relu_grad %x, %x {slope = 0x7FF0000000000000 : f64} : (tensor<4xf32, #mg.layout<h>>, tensor<4xf32, #mg.layout<h>>) -> tensor<4xf32, #mg.layout<h>>
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_of_a_bias_without_a_distance(%q: !q, %k: !k, %p: !s, %t: !t, %n: tensor<32x1x2xf32, #mg.layout<n, g, r>>) {
  // expected-error@+1 {{biasMaxDistance = 0 with a bias; expected one above 0 with a bias alone (attention_c7)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t bias %n {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, !s, !t, tensor<32x1x2xf32, #mg.layout<n, g, r>>) -> (!q, !l)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_of_a_distance_without_a_bias(%q: !q, %k: !k, %p: !s, %t: !t, %n: tensor<32x1x2xf32, #mg.layout<n, g, r>>) {
  // expected-error@+1 {{biasMaxDistance = 128 without a bias; expected one above 0 with a bias alone (attention_c7)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, biasMaxDistance = 128, queriesPerGroup = 2} : (!q, !k, !k, !s, !t) -> (!q, !l)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_of_few_buckets(%q: !q, %k: !k, %p: !s, %t: !t, %n: tensor<3x1x2xf32, #mg.layout<n, g, r>>) {
  // expected-error@+1 {{has a bias of 3 buckets; expected 4 or more (attention_c7)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t bias %n {scale = 1.0, biasMaxDistance = 128, causal = false, queriesPerGroup = 2} : (!q, !k, !k, !s, !t, tensor<3x1x2xf32, #mg.layout<n, g, r>>) -> (!q, !l)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_of_a_short_distance(%q: !q, %k: !k, %p: !s, %t: !t, %n: tensor<32x1x2xf32, #mg.layout<n, g, r>>) {
  // expected-error@+1 {{has a bias of 32 buckets up to a distance of 16; expected a distance from 17 to 65536 (attention_c7)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t bias %n {scale = 1.0, biasMaxDistance = 16, queriesPerGroup = 2} : (!q, !k, !k, !s, !t, tensor<32x1x2xf32, #mg.layout<n, g, r>>) -> (!q, !l)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_of_a_bias_of_another_type(%q: !q, %k: !k, %p: !s, %t: !t, %n: tensor<32x1x2xbf16, #mg.layout<n, g, r>>) {
  // expected-error@+1 {{has values of 'f32' and of 'bf16'; expected one element type for all but lse (attention_c2)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t bias %n {scale = 1.0, biasMaxDistance = 128, queriesPerGroup = 2} : (!q, !k, !k, !s, !t, tensor<32x1x2xbf16, #mg.layout<n, g, r>>) -> (!q, !l)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_gradients_without_that_of_the_bias(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t, %n: tensor<32x1x2xf32, #mg.layout<n, g, r>>) {
  // expected-error@+1 {{has a bias and no dbias; expected both or neither (attention_grad_c6)}}
  %dq, %dk, %dv = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t bias %n {scale = 1.0, biasMaxDistance = 128, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t, tensor<32x1x2xf32, #mg.layout<n, g, r>>) -> (!q, !k, !k)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_gradients_of_no_bias(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t, %n: tensor<32x1x2xf32, #mg.layout<n, g, r>>) {
  // expected-error@+1 {{has dbias and no bias; expected both or neither (attention_grad_c6)}}
  %dq, %dk, %dv, %dn = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t) -> (!q, !k, !k, tensor<32x1x2xf32, #mg.layout<n, g, r>>)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_gradients_of_a_bias_without_a_distance(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t, %n: tensor<32x1x2xf32, #mg.layout<n, g, r>>) {
  // expected-error@+1 {{biasMaxDistance = 0 with a bias; expected one above 0 with a bias alone (attention_grad_c6)}}
  %dq, %dk, %dv, %dn = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t bias %n {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t, tensor<32x1x2xf32, #mg.layout<n, g, r>>) -> (!q, !k, !k, tensor<32x1x2xf32, #mg.layout<n, g, r>>)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
func.func @attention_gradients_of_a_long_distance(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t, %n: tensor<32x1x2xf32, #mg.layout<n, g, r>>) {
  // expected-error@+1 {{has a bias of 32 buckets up to a distance of 65537; expected a distance from 17 to 65536 (attention_grad_c6)}}
  %dq, %dk, %dv, %dn = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t bias %n {scale = 1.0, biasMaxDistance = 65537, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t, tensor<32x1x2xf32, #mg.layout<n, g, r>>) -> (!q, !k, !k, tensor<32x1x2xf32, #mg.layout<n, g, r>>)
  return
}

// -----

// Keys that travel around the ranks leave dq, dk and dv complete, and dbias a sum of each rank's queries.
!q = tensor<4x2x1x2x8xf32, #mg.layout<s [cp], b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t [cp], b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s [cp], b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s [cp], b>>
!t = tensor<4x2xi32, #mg.layout<t [cp], b>>
!n = tensor<32x1x2xf32, #mg.layout<n, g, r>>
!dn = tensor<32x1x2xf32, #mg.layout<n, g, r, sum [cp]>>
func.func @attention_gradients_of_a_bias_and_a_ring(%q: !q, %k: !k, %l: !l, %p: !s, %t: !t, %n: !n) {
  %dq, %dk, %dv, %dn = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t bias %n {scale = 1.0, biasMaxDistance = 128, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t, !n) -> (!q, !k, !k, !dn)
  // expected-error@+1 {{result 3 is pending over []; its operands make it ["cp"] (rule_c5)}}
  %eq, %ek, %ev, %en = mg.attention_grad %q, %k, %k, %q, %l, %q, %p, %t bias %n {scale = 1.0, biasMaxDistance = 128, queriesPerGroup = 2} : (!q, !k, !k, !q, !l, !q, !s, !t, !n) -> (!q, !k, !k, !n)
  return
}

// -----

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
!n = tensor<32x1x2xf32, #mg.layout<n [tp], g, r>>
func.func @attention_of_split_buckets(%q: !q, %k: !k, %p: !s, %t: !t, %n: !n) {
  // expected-error@+1 {{dimension 'n' must be whole but is split over ["tp"] (rule_c3)}}
  %o, %lse = mg.attention %q, %k, %k, %p, %t bias %n {scale = 1.0, biasMaxDistance = 128, queriesPerGroup = 2} : (!q, !k, !k, !s, !t, !n) -> (!q, !l)
  return
}
