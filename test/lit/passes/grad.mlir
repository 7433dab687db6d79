// RUN: %mg-opt %s --mg-grad | FileCheck %s --enable-var-scope

!sh = tensor<4x8xf32, #mg.layout<s, h>>
!sf = tensor<4x16xf32, #mg.layout<s, f>>
!hf = tensor<8x16xf32, #mg.layout<h, f>>
!f = tensor<16xf32, #mg.layout<f>>

module attributes {mg.training = #mg.training<split_backward = false>} {

// The gradient of a product is two products; forward saves the operand that the weights' gradient needs.
// CHECK-LABEL: func.func @product.forward(
// CHECK-SAME:    %[[X:.*]]: tensor<4x8xf32, #mg.layout<s, h>>, %[[W:.*]]: tensor<8x16xf32
// CHECK:         %[[Y:.*]] = mg.einsum %[[X]], %[[W]]
// CHECK:         return %[[Y]], %[[X]]
// CHECK-LABEL: func.func @product.backward(
// CHECK-SAME:    %[[DY:.*]]: tensor<4x16xf32, #mg.layout<s, f>> {mg.arg = "dout", mg.index = 0 : i64}
// CHECK-SAME:    %[[X:.*]]: tensor<4x8xf32, #mg.layout<s, h>> {mg.arg = "saved", mg.index = 0 : i64}
// CHECK-SAME:    %[[W:.*]]: tensor<8x16xf32, #mg.layout<h, f>> {mg.param = {tensor = "w"}}
// CHECK-SAME:    {mg.result = "din"}
// CHECK-SAME:    {mg.param = {tensor = "w"}, mg.result = "grad"}
// CHECK-DAG:     %[[DX:.*]] = mg.einsum %[[DY]], %[[W]]
// CHECK-DAG:     %[[DW:.*]] = mg.einsum %[[X]], %[[DY]]
// CHECK:         return %[[DX]], %[[DW]]
func.func @product(%x: !sh, %w: !hf {mg.param = {tensor = "w"}}) -> !sf attributes {mg.block} {
  %y = mg.einsum %x, %w : (!sh, !hf) -> !sf
  return %y : !sf
}

// A broadcast bias gets the sum over the dimensions it lacks; nothing is saved.
// CHECK-LABEL: func.func @bias.backward(
// CHECK-SAME:    %[[DY:[a-z0-9]+]]: tensor<4x16xf32, #mg.layout<s, f>> {mg.arg = "dout"
// CHECK-NOT:     mg.arg = "saved"
// CHECK:         %[[DB:.*]] = mg.sum %[[DY]]
// CHECK:         return %[[DY]], %[[DB]]
func.func @bias(%x: !sf, %b: !f {mg.param = {tensor = "b"}}) -> !sf attributes {mg.block} {
  %y = mg.add %x, %b : (!sf, !f) -> !sf
  return %y : !sf
}

// A relocated value gets its cotangent at its sources, which only backward reads.
// CHECK-LABEL: func.func @relocated.forward(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<6x2x8xf32, #mg.layout<t, b, h>>
// CHECK-SAME:    %[[PLACES:[a-z0-9]+]]: tensor<4x2xi32, #mg.layout<s, b>> {mg.data = "image_places"}
// CHECK:         mg.relocate %[[X]], %[[PLACES]] : (
// CHECK-LABEL: func.func @relocated.backward(
// CHECK-SAME:    %[[DY:[a-z0-9]+]]: tensor<4x2x8xf32, #mg.layout<s, b, h>> {mg.arg = "dout"
// CHECK-SAME:    %[[SOURCES:[a-z0-9]+]]: tensor<6x2xi32, #mg.layout<t, b>> {mg.data = "encoder.image_places"}
// CHECK:         %[[DX:.*]] = mg.relocate %[[DY]], %[[SOURCES]] : {{.*}} -> tensor<6x2x8xf32, #mg.layout<t, b, h>>
// CHECK:         return %[[DX]]
func.func @relocated(%x: tensor<6x2x8xf32, #mg.layout<t, b, h>>, %places: tensor<4x2xi32, #mg.layout<s, b>> {mg.data = "image_places"},
    %sources: tensor<6x2xi32, #mg.layout<t, b>> {mg.data = "encoder.image_places"}) -> tensor<4x2x8xf32, #mg.layout<s, b, h>> attributes {mg.block} {
  %y = mg.relocate %x, %places, %sources : (tensor<6x2x8xf32, #mg.layout<t, b, h>>, tensor<4x2xi32, #mg.layout<s, b>>, tensor<6x2xi32, #mg.layout<t, b>>) -> tensor<4x2x8xf32, #mg.layout<s, b, h>>
  return %y : tensor<4x2x8xf32, #mg.layout<s, b, h>>
}

// The cotangents of a value used twice are one accumulate.
// CHECK-LABEL: func.func @residual.backward(
// CHECK-SAME:    %[[DY:[a-z0-9]+]]: tensor<4x16xf32, #mg.layout<s, f>> {mg.arg = "dout"
// CHECK:         %[[G:.*]] = mg.gelu_grad
// CHECK:         %[[DX:.*]] = mg.accumulate %[[DY]], %[[G]] {signs = array<i64: 1, 1>}
// CHECK:         return %[[DX]]
func.func @residual(%x: !sf) -> !sf attributes {mg.block} {
  %a = mg.gelu %x {form = "tanh"} : (!sf) -> !sf
  %y = mg.add %x, %a : (!sf, !sf) -> !sf
  return %y : !sf
}

// Row ops on values that backward has anyway are recomputed: only x and the two matrix products are saved, neither the
// norm of x nor its mean, neither silu(a) nor silu(a) * b.
// CHECK-LABEL: func.func @again.forward(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x8xf32, #mg.layout<s, h>>
// CHECK:         return %{{.*}}, %[[A:.*]], %[[B:.*]], %[[X]] :
// CHECK-LABEL: func.func @again.backward(
// CHECK-SAME:    %{{.*}}: tensor<4x8xf32, {{.*}}mg.arg = "dout"{{.*}}, %[[A:[a-z0-9]+]]: tensor<4x16xf32, {{[^%]*}}mg.arg = "saved", mg.index = 0 : i64}, %[[B:[a-z0-9]+]]: tensor<4x16xf32, {{[^%]*}}mg.arg = "saved", mg.index = 1 : i64}, %[[X:[a-z0-9]+]]: tensor<4x8xf32, {{[^%]*}}mg.arg = "saved", mg.index = 2 : i64}
// CHECK-NOT:     mg.index = 3
// CHECK:         %[[S:.*]] = mg.silu %[[A]]
// CHECK-NEXT:    %[[SB:.*]] = mg.mul %[[S]], %[[B]]
// CHECK-NEXT:    mg.einsum %[[SB]], %
// CHECK:         %[[N:[a-z0-9]+]], %[[R:.*]] = mg.rms_norm %[[X]]
// CHECK:         mg.einsum %[[N]], %
// CHECK:         mg.rms_norm_grad %[[X]], %[[R]], %{{.*}} gamma %
func.func @again(%x: !sh, %g: tensor<8xf32, #mg.layout<h>> {mg.param = {tensor = "g"}}, %v: !hf {mg.param = {tensor = "v"}},
                 %w: !hf {mg.param = {tensor = "w"}}, %u: tensor<16x8xf32, #mg.layout<f, h>> {mg.param = {tensor = "u"}}) -> !sh attributes {mg.block} {
  %n, %r = mg.rms_norm %x gamma %g {epsilon = 1.0e-5 : f64} : (!sh, tensor<8xf32, #mg.layout<h>>) -> (!sh, tensor<4xf32, #mg.layout<s>>)
  %a = mg.einsum %n, %v : (!sh, !hf) -> !sf
  %b = mg.einsum %n, %w : (!sh, !hf) -> !sf
  %s = mg.silu %a : (!sf) -> !sf
  %m = mg.mul %s, %b : (!sf, !sf) -> !sf
  %y = mg.einsum %m, %u : (!sf, tensor<16x8xf32, #mg.layout<f, h>>) -> !sh
  return %y : !sh
}

// A norm has gradients for the weights that it has: the first for beta, the second for gamma, whose offset only dx depends on.
// CHECK-LABEL: func.func @norms.backward(
// CHECK:         %[[DN:[0-9]+]] = mg.rms_norm_grad %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %[[DY:[a-z0-9]+]] gamma %{{[a-z0-9]+}} {offset = 1.000000e+00 : f64} :
// CHECK:         mg.rms_norm_weight_grad %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %[[DY]] :
// CHECK:         mg.layer_norm_grad %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %[[DN]] :
// CHECK-NOT:     mg.layer_norm_weight_grad
// CHECK:         mg.sum %[[DN]] :
func.func @norms(%x: !sh, %g: tensor<8xf32, #mg.layout<h>> {mg.param = {tensor = "g"}}, %b: tensor<8xf32, #mg.layout<h>> {mg.param = {tensor = "b"}})
    -> !sh attributes {mg.block} {
  %n, %mean, %rstd = mg.layer_norm %x beta %b {epsilon = 1.0e-5 : f64} : (!sh, tensor<8xf32, #mg.layout<h>>) -> (!sh, tensor<4xf32, #mg.layout<s>>, tensor<4xf32, #mg.layout<s>>)
  %y, %r = mg.rms_norm %n gamma %g {epsilon = 1.0e-5 : f64, offset = 1.0 : f64} : (!sh, tensor<8xf32, #mg.layout<h>>) -> (!sh, tensor<4xf32, #mg.layout<s>>)
  return %y : !sh
}

// The loss is seeded with one and waits for nothing: it is computed where its gradient is, and forward keeps only what
// it was given.
// CHECK-LABEL: func.func @loss.forward(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x128xf32, #mg.layout<s, v>>
// CHECK-SAME:    -> (tensor<4x128xf32, #mg.layout<s, v>> {mg.result = "saved"})
// CHECK-NEXT:    return %[[X]]
// CHECK-LABEL: func.func @loss.backward(
// CHECK-NOT:     mg.arg = "dout"
// CHECK-SAME:    -> (tensor<4x128xf32, #mg.layout<s, v>> {mg.result = "din"}, tensor<f32, #mg.layout<>> {mg.result = "loss_sum"})
// CHECK:         %[[LOSS:.*]], %[[LSE:.*]] = mg.cross_entropy
// CHECK:         %[[DX:.*]] = mg.cross_entropy_grad %{{.*}}, %[[LSE]]
// CHECK:         return %[[DX]], %[[LOSS]]
func.func @loss(%x: tensor<4x128xf32, #mg.layout<s, v>>, %labels: tensor<4xi32, #mg.layout<s>> {mg.data = "labels"},
                %weights: tensor<4xf32, #mg.layout<s>> {mg.data = "loss_weights"})
    -> (tensor<f32, #mg.layout<>> {mg.result = "loss_sum"}) attributes {mg.block} {
  %loss, %lse = mg.cross_entropy %x, %labels, %weights {valid = 100} : (tensor<4x128xf32, #mg.layout<s, v>>, tensor<4xi32, #mg.layout<s>>, tensor<4xf32, #mg.layout<s>>) -> (tensor<f32, #mg.layout<>>, tensor<4xf32, #mg.layout<s>>)
  return %loss : tensor<f32, #mg.layout<>>
}

// A block that has a loss and gives an activation: forward has what the activation needs, backward the rest, with the
// gradient of the loss and what comes from behind.
// CHECK-LABEL: func.func @head.forward(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x8xf32, #mg.layout<s, h>>
// CHECK-SAME:    -> (tensor<4x8xf32, #mg.layout<s, h>>, tensor<4x8xf32, #mg.layout<s, h>> {mg.result = "saved"})
// CHECK-NEXT:    %[[Y:.*]] = mg.silu %[[X]]
// CHECK-NEXT:    return %[[Y]], %[[X]]
// CHECK-LABEL: func.func @head.backward(
// CHECK-SAME:    %[[DY:[a-z0-9]+]]: tensor<4x8xf32, #mg.layout<s, h>> {mg.arg = "dout"
// CHECK-SAME:    -> (tensor<4x8xf32, #mg.layout<s, h>> {mg.result = "din"}, tensor<128x8xf32, #mg.layout<v, h>> {mg.param = {tensor = "w"}, mg.result = "grad"}, tensor<f32, #mg.layout<>> {mg.result = "loss_sum"})
// CHECK:         mg.silu
// CHECK:         %[[LOSS:.*]], %[[LSE:.*]] = mg.cross_entropy
// CHECK:         %[[DL:.*]] = mg.cross_entropy_grad %{{.*}}, %[[LSE]]
// CHECK:         %[[OWN:.*]] = mg.einsum %[[DL]]
// CHECK:         %[[SUM:.*]] = mg.accumulate %[[DY]], %[[OWN]] {signs = array<i64: 1, 1>}
// CHECK:         mg.silu_grad %{{.*}}, %[[SUM]]
func.func @head(%x: !sh, %labels: tensor<4xi32, #mg.layout<s>> {mg.data = "labels"},
                %weights: tensor<4xf32, #mg.layout<s>> {mg.data = "loss_weights"},
                %w: tensor<128x8xf32, #mg.layout<v, h>> {mg.param = {tensor = "w"}})
    -> (!sh, tensor<f32, #mg.layout<>> {mg.result = "loss_sum"}) attributes {mg.block} {
  %y = mg.silu %x : (!sh) -> !sh
  %l = mg.einsum %y, %w : (!sh, tensor<128x8xf32, #mg.layout<v, h>>) -> tensor<4x128xf32, #mg.layout<s, v>>
  %loss, %lse = mg.cross_entropy %l, %labels, %weights {valid = 100} : (tensor<4x128xf32, #mg.layout<s, v>>, tensor<4xi32, #mg.layout<s>>, tensor<4xf32, #mg.layout<s>>) -> (tensor<f32, #mg.layout<>>, tensor<4xf32, #mg.layout<s>>)
  return %y, %loss : !sh, tensor<f32, #mg.layout<>>
}

// A cross-entropy that is a term of the loss: its cotangent is on the weights of the tokens.
// CHECK-LABEL: func.func @term.forward(
// CHECK-NOT:     mg.cross_entropy
// CHECK-LABEL: func.func @term.backward(
// CHECK-SAME:    %[[N:[a-z0-9]+]]: tensor<f32, #mg.layout<>> {mg.data = "step_tokens"}
// CHECK-SAME:    {mg.result = "mtp_loss"}
// CHECK:         %[[LOSS:.*]], %[[LSE:.*]] = mg.cross_entropy %{{.*}}, %{{.*}}, %[[SHARES:[a-z0-9]+]] {
// CHECK:         mg.loss_term %[[LOSS]], %[[N]]
// CHECK:         %[[D:.*]] = mg.scale %[[N]] {factor = 1.000000e-01 : f64}
// CHECK:         %[[S:.*]] = mg.mul %[[SHARES]], %[[D]]
// CHECK:         mg.cross_entropy_grad %{{.*}}, %[[LSE]], %{{.*}}, %[[S]] {valid = 100
func.func @term(%x: tensor<4x128xf32, #mg.layout<s, v>>, %labels: tensor<4xi32, #mg.layout<s>> {mg.data = "labels+1"},
                %shares: tensor<4xf32, #mg.layout<s>> {mg.data = "loss_shares+1"},
                %n: tensor<f32, #mg.layout<>> {mg.data = "step_tokens"})
    -> (tensor<f32, #mg.layout<>> {mg.result = "mtp_loss"}) attributes {mg.block} {
  %loss, %lse = mg.cross_entropy %x, %labels, %shares {valid = 100} : (tensor<4x128xf32, #mg.layout<s, v>>, tensor<4xi32, #mg.layout<s>>, tensor<4xf32, #mg.layout<s>>) -> (tensor<f32, #mg.layout<>>, tensor<4xf32, #mg.layout<s>>)
  %term = mg.loss_term %loss, %n {scale = 0.1} : (tensor<f32, #mg.layout<>>, tensor<f32, #mg.layout<>>) -> tensor<f32, #mg.layout<>>
  return %term : tensor<f32, #mg.layout<>>
}
// Attention's gradient has all that says what a query sees and how its scores are made.
// CHECK-LABEL: func.func @attention.backward(
// CHECK:         mg.attention_grad {{.*}} starts %{{.*}} ends %{{.*}} {causal = false, queriesPerGroup = 2 : i64, scale = 1.000000e+00 : f64, slopes = array<f64: 5.000000e-01, 2.500000e-01>, softcap = 3.000000e+01 : f64, window = 3 : i64}
func.func @attention(%q: tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>, %k: tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>> {mg.param = {tensor = "k"}},
                     %p: tensor<4x2xi32, #mg.layout<s, b>> {mg.data = "positions"}, %t: tensor<4x2xi32, #mg.layout<t, b>> {mg.data = "key_positions"},
                     %starts: tensor<4x2xi32, #mg.layout<s, b>> {mg.data = "document_starts"}) -> tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>> attributes {mg.block} {
  %o, %lse = mg.attention %q, %k, %k, %p, %t starts %starts ends %p {scale = 1.0, window = 3, causal = false, softcap = 30.0, slopes = array<f64: 0.5, 0.25>, queriesPerGroup = 2} : (tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>, tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>, tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>, tensor<4x2xi32, #mg.layout<s, b>>, tensor<4x2xi32, #mg.layout<t, b>>, tensor<4x2xi32, #mg.layout<s, b>>, tensor<4x2xi32, #mg.layout<s, b>>) -> (tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>, tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>)
  return %o : tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
}

// The table of biases is a parameter, and its gradient one more result.
// CHECK-LABEL: func.func @biases.backward(
// CHECK:         %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]], %[[DBIAS:.*]] = mg.attention_grad {{.*}} bias %{{.*}} {biasMaxDistance = 20 : i64, queriesPerGroup = 2 : i64, scale = 1.000000e+00 : f64}
// CHECK:         return {{.*}}%[[DBIAS]]
func.func @biases(%q: tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>, %k: tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>> {mg.param = {tensor = "k"}}, %n: tensor<8x1x2xf32, #mg.layout<n, g, r>> {mg.param = {tensor = "n"}},
                  %p: tensor<4x2xi32, #mg.layout<s, b>> {mg.data = "positions"}, %t: tensor<4x2xi32, #mg.layout<t, b>> {mg.data = "key_positions"}) -> tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>> attributes {mg.block} {
  %o, %lse = mg.attention %q, %k, %k, %p, %t bias %n {scale = 1.0, biasMaxDistance = 20, queriesPerGroup = 2} : (tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>, tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>, tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>, tensor<4x2xi32, #mg.layout<s, b>>, tensor<4x2xi32, #mg.layout<t, b>>, tensor<8x1x2xf32, #mg.layout<n, g, r>>) -> (tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>, tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>)
  return %o : tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
}

}
