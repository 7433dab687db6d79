// Parameters and activations of bf16: what goes into a bucket is f32 from where it is summed, so that it is never rounded
// to bf16 in between.
// RUN: %mg-opt %s --mg-grad | FileCheck %s --enable-var-scope
// RUN: sed 's/gradient_dtype = f32/gradient_dtype = bf16/' %s | %mg-opt --mg-grad | FileCheck %s --check-prefix=SAME

!sh = tensor<4x8xbf16, #mg.layout<s, h>>
!sf = tensor<4x16xbf16, #mg.layout<s, f>>
!sg = tensor<4x16xbf16, #mg.layout<s, g>>
!sj = tensor<4x2x16xbf16, #mg.layout<s, j, f>>
!hf = tensor<8x16xbf16, #mg.layout<h, f>>
!h = tensor<8xbf16, #mg.layout<h>>
!f = tensor<16xbf16, #mg.layout<f>>
!s = tensor<4xf32, #mg.layout<s>>
!ids = tensor<4xi32, #mg.layout<s>>
!choices = tensor<3x1x2xi32, #mg.layout<s, b, k>>
!ch = tensor<6x8xbf16, #mg.layout<c, h>>
!cf = tensor<6x16xbf16, #mg.layout<c, f>>
!ehf = tensor<2x8x16xbf16, #mg.layout<e, h, f>>

module attributes {mg.training = #mg.training<split_backward = false, dtype = bf16, gradient_dtype = f32>} {

// A matrix product, a sum over rows and a norm's weights: their results alone are f32. Gradients of activations stay bf16.
// CHECK-LABEL: func.func @layer.backward(
// CHECK-SAME:    -> (tensor<4x8xbf16, #mg.layout<s, h>> {mg.result = "din"}, tensor<8xf32, #mg.layout<h>> {{.*}}, tensor<8x16xf32, #mg.layout<h, f>> {{.*}}, tensor<16xf32, #mg.layout<f>>
// CHECK:         mg.sum %{{.*}} : (tensor<4x16xbf16, #mg.layout<s, f>>) -> tensor<16xf32, #mg.layout<f>>
// CHECK:         mg.einsum %{{.*}} : (tensor<4x16xbf16, {{.*}}>, tensor<8x16xbf16, {{.*}}>) -> tensor<4x8xbf16
// CHECK:         mg.einsum %{{.*}} : (tensor<4x8xbf16, {{.*}}>, tensor<4x16xbf16, {{.*}}>) -> tensor<8x16xf32
// CHECK:         mg.rms_norm_grad {{.*}} -> tensor<4x8xbf16
// CHECK:         mg.rms_norm_weight_grad {{.*}} -> tensor<8xf32
// SAME-LABEL: func.func @layer.backward(
// SAME-NOT:     x16xf32
// SAME:         mg.sum %{{.*}} -> tensor<16xbf16, #mg.layout<f>>
// SAME:         mg.rms_norm_weight_grad {{.*}} -> tensor<8xbf16
func.func @layer(%x: !sh, %g: !h {mg.param = {tensor = "g"}}, %w: !hf {mg.param = {tensor = "w"}}, %b: !f {mg.param = {tensor = "b"}}) -> !sf attributes {mg.block} {
  %n, %rstd = mg.rms_norm %x gamma %g {epsilon = 1.0e-5} : (!sh, !h) -> (!sh, !s)
  %p = mg.einsum %n, %w : (!sh, !hf) -> !sf
  %y = mg.add %p, %b : (!sf, !f) -> !sf
  return %y : !sf
}

// A parameter used twice: both products are f32, and so is their sum.
// CHECK-LABEL: func.func @twice.backward(
// CHECK-DAG:     %[[A:.*]] = mg.einsum %{{.*}} : (tensor<4x8xbf16, {{.*}}>, tensor<4x16xbf16, {{.*}}>) -> tensor<8x16xf32
// CHECK-DAG:     %[[B:.*]] = mg.einsum %{{.*}} : (tensor<4x8xbf16, {{.*}}>, tensor<4x16xbf16, {{.*}}>) -> tensor<8x16xf32
// CHECK:         mg.accumulate %{{.*}}, %{{.*}} {{.*}} : (tensor<8x16xf32, {{.*}}>, tensor<8x16xf32, {{.*}}>) -> tensor<8x16xf32
// CHECK-NOT:     mg.cast
// CHECK:         return
func.func @twice(%x: !sh, %z: !sh, %w: !hf {mg.param = {tensor = "w"}}) -> (!sf, !sf) attributes {mg.block} {
  %a = mg.einsum %x, %w : (!sh, !hf) -> !sf
  %b = mg.einsum %z, %w : (!sh, !hf) -> !sf
  return %a, %b : !sf, !sf
}

// Sums over the rows of each expert.
// CHECK-LABEL: func.func @experts.backward(
// CHECK:         mg.grouped_einsum_grad %{{.*}} : (tensor<6x8xbf16, {{.*}}>, tensor<6x16xbf16, {{.*}}>, {{.*}}) -> tensor<2x8x16xf32
// CHECK-NOT:     mg.cast
// CHECK:         return
// SAME-LABEL: func.func @experts.backward(
// SAME:         mg.grouped_einsum_grad {{.*}} -> tensor<2x8x16xbf16
func.func @experts(%x: !ch, %ids: !choices {mg.data = "experts"}, %w: !ehf {mg.param = {tensor = "w"}}) -> !cf attributes {mg.block} {
  %y = mg.grouped_einsum %x, %w to %ids : (!ch, !ehf, !choices) -> !cf
  return %y : !cf
}

// Looked-up rows.
// CHECK-LABEL: func.func @embed.backward(
// CHECK:         mg.embed_grad %{{.*}} : (tensor<4xi32, {{.*}}>, tensor<4x16xbf16, {{.*}}>) -> tensor<8x16xf32
func.func @embed(%ids: !ids {mg.data = "tokens"}, %w: !hf {mg.param = {tensor = "w"}}) -> !sf attributes {mg.block} {
  %y = mg.embed %ids, %w : (!ids, !hf) -> !sf
  return %y : !sf
}

// A gradient that an activation has too keeps its type there; the parameter's is a cast of it.
// CHECK-LABEL: func.func @shared.backward(
// CHECK:         %[[G:.*]] = mg.gelu_grad {{.*}} -> tensor<4x16xbf16
// CHECK:         %[[C:.*]] = mg.cast %[[G]] : (tensor<4x16xbf16, {{.*}}>) -> tensor<4x16xf32
// CHECK:         return %[[G]], %[[C]]
func.func @shared(%x: !sf, %w: !sf {mg.param = {tensor = "w"}}) -> !sf attributes {mg.block} {
  %0 = mg.add %x, %w : (!sf, !sf) -> !sf
  %y = mg.gelu %0 {form = "tanh"} : (!sf) -> !sf
  return %y : !sf
}

// Joined gradients are joined in f32, and a gradient from outside is cast.
// CHECK-LABEL: func.func @parts.backward(
// CHECK-SAME:    %[[DA:[a-z0-9]+]]: tensor<4x16xbf16, #mg.layout<s, f>> {mg.arg = "dout"
// CHECK:         %[[A:.*]] = mg.cast %[[DA]] : {{.*}} -> tensor<4x16xf32
// CHECK:         mg.join %[[A]], %{{.*}} along "j" : (tensor<4x16xf32, {{.*}}>, tensor<4x16xf32, {{.*}}>) -> tensor<4x2x16xf32
func.func @parts(%w: !sj {mg.param = {tensor = "w"}}) -> (!sf, !sf) attributes {mg.block} {
  %a, %b = mg.parts %w along "j" : !sj -> (!sf, !sf)
  return %a, %b : !sf, !sf
}
}
