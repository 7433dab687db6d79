// Policies of recomputation: RUN lines of the granularities on one layer, of a product, a choice, two products of a
// module "mlp" and a norm behind it.
// RUN: sed 's/POLICY/recompute_granularity = "none"/' %s | %mg-opt --mg-grad | FileCheck %s --check-prefix=NONE
// RUN: sed 's/POLICY/zero = 0/' %s | %mg-opt --mg-grad | FileCheck %s --check-prefix=STANDARD
// RUN: sed 's/POLICY/recompute_granularity = "selective", recompute_modules = ["mlp"]/' %s | %mg-opt --mg-grad | FileCheck %s --check-prefix=MLP
// RUN: sed 's/POLICY/recompute_granularity = "full", recompute_num_layers = 1/' %s | %mg-opt --mg-grad | FileCheck %s --check-prefix=FULL
// RUN: sed 's/POLICY/recompute_granularity = "full", recompute_num_layers = 1, recompute_method = "block"/' %s | %mg-opt --mg-grad | FileCheck %s --check-prefix=BLOCK

!sh = tensor<4x8xf32, #mg.layout<s, h>>
!sf = tensor<4x16xf32, #mg.layout<s, f>>
!hf = tensor<8x16xf32, #mg.layout<h, f>>
!fh = tensor<16x8xf32, #mg.layout<f, h>>
!h = tensor<8xf32, #mg.layout<h>>
!s = tensor<4xf32, #mg.layout<s>>

// All that backward reads is saved: the activation of the module, the norm's statistic and its input.
// NONE-LABEL: func.func @layer.forward(
// NONE-SAME:    %[[X:[a-z0-9]+]]: tensor<4x8xf32
// NONE:         %[[A:.*]] = mg.einsum %[[X]]
// NONE:         %[[B:.*]] = mg.gelu %[[A]]
// NONE:         %[[C:.*]] = mg.einsum %[[B]]
// NONE:         %[[Y:.*]], %[[R:.*]] = mg.rms_norm %[[C]]
// NONE:         return %{{.*}}, %[[C]], %[[R]], %[[B]], %[[A]], %[[X]]
// NONE-LABEL: func.func @layer.backward(
// NONE-NOT:     mg.gelu %
// NONE-NOT:     mg.modules

// STANDARD-LABEL: func.func @layer.forward(
// STANDARD-SAME:    %[[X:[a-z0-9]+]]: tensor<4x8xf32
// STANDARD:         %[[A:.*]] = mg.einsum %[[X]]
// STANDARD:         %[[C:.*]] = mg.einsum %{{.*}}
// STANDARD:         %[[Y:.*]], %[[R:.*]] = mg.rms_norm %[[C]]
// STANDARD:         return %{{.*}}, %[[C]], %[[R]], %[[A]], %[[X]]
// STANDARD-LABEL: func.func @layer.backward(
// STANDARD-SAME:    %[[A:[a-z0-9]+]]: tensor<4x16xf32, #mg.layout<s, f>> {mg.arg = "saved", mg.index = 2
// STANDARD:         mg.gelu %[[A]]

// Values that enter the module or leave it are saved; its last product, which only readers outside need, is not made again.
// MLP-LABEL: func.func @layer.forward(
// MLP-SAME:    %[[X:[a-z0-9]+]]: tensor<4x8xf32
// MLP:         %[[C:.*]] = mg.einsum %{{.*}} : (tensor<4x16xf32
// MLP:         %[[Y:.*]], %[[R:.*]] = mg.rms_norm %[[C]]
// MLP:         return %{{.*}}, %[[C]], %[[R]], %[[X]] :
// MLP-LABEL: func.func @layer.backward(
// MLP-SAME:    %[[X:[a-z0-9]+]]: tensor<4x8xf32, #mg.layout<s, h>> {mg.arg = "saved", mg.index = 2
// MLP:         %[[A:.*]] = mg.einsum %[[X]], %{{.*}} : (tensor<4x8xf32, {{.*}}>, tensor<8x16xf32
// MLP:         mg.gelu %[[A]]
// MLP-NOT:     mg.einsum {{.*}} : (tensor<4x16xf32, {{.*}}>, tensor<16x8xf32

// The layer saves its argument alone.
// FULL-LABEL: func.func @layer.forward(
// FULL-SAME:    %[[X:[a-z0-9]+]]: tensor<4x8xf32
// FULL:         return %{{.*}}, %[[X]] :
// FULL-LABEL: func.func @layer.backward(
// FULL-SAME:    %[[X:[a-z0-9]+]]: tensor<4x8xf32, #mg.layout<s, h>> {mg.arg = "saved", mg.index = 0
// FULL-NOT:     mg.arg = "saved"
// FULL:         %[[A:.*]] = mg.einsum %[[X]]
// FULL:         %[[B:.*]] = mg.gelu %[[A]]
// FULL:         %[[C:.*]] = mg.einsum %[[B]]
// FULL:         mg.rms_norm %[[C]]

// A block of two policies has functions for both; what is no layer has one.
// BLOCK: func.func @layer.forward({{.*}} attributes {mg.block = "layer", mg.pass = "forward", mg.stack = "decoder"}
// BLOCK: func.func @layer.backward({{.*}} attributes {mg.block = "layer", mg.pass = "backward"}
// BLOCK: func.func @layer.full.forward({{.*}} attributes {mg.block = "layer.full", mg.pass = "forward", mg.policy = "full", mg.stack = "decoder", mg.variant_of = "layer"}
// BLOCK: func.func @layer.full.backward({{.*}} attributes {mg.block = "layer.full", mg.pass = "backward", mg.policy = "full"}
// BLOCK: func.func @bridge.forward
// BLOCK: func.func @bridge.backward
// BLOCK-NOT: @bridge.full
module attributes {mg.training = #mg.training<POLICY>} {
func.func @layer(%x: !sh, %w: !hf {mg.param = {tensor = "w"}}, %v: !fh {mg.param = {tensor = "v"}}, %g: !h {mg.param = {tensor = "g"}}) -> !sh attributes {mg.block, mg.stack = "decoder"} {
  %a = mg.einsum %x, %w {mg.modules = ["mlp"]} : (!sh, !hf) -> !sf
  %b = mg.gelu %a {form = "tanh", mg.modules = ["mlp"]} : (!sf) -> !sf
  %c = mg.einsum %b, %v {mg.modules = ["mlp"]} : (!sf, !fh) -> !sh
  %n, %r = mg.rms_norm %c gamma %g {epsilon = 1.0e-05 : f64} : (!sh, !h) -> (!sh, !s)
  %y = mg.add %x, %n : (!sh, !sh) -> !sh
  return %y : !sh
}
func.func @bridge(%x: !sh, %w: !hf {mg.param = {tensor = "u"}}) -> !sf attributes {mg.block} {
  %a = mg.einsum %x, %w : (!sh, !hf) -> !sf
  return %a : !sf
}
}
