// A schedule that splits the backward pass: @B.input gives the input's gradient and what @B.weight needs for the
// weights' gradients.
// RUN: %mg-opt %s --mg-grad | FileCheck %s --enable-var-scope

!sh = tensor<4x8xf32, #mg.layout<s, h>>
!sf = tensor<4x16xf32, #mg.layout<s, f>>
!hf = tensor<8x16xf32, #mg.layout<h, f>>

module attributes {mg.training = #mg.training<split_backward = true>} {
// CHECK-NOT:   @mlp.backward
// CHECK-LABEL: func.func @mlp.weight(
// CHECK-SAME:    %[[DZ:[a-z0-9]+]]: tensor<4x16xf32, #mg.layout<s, f>> {mg.arg = "split", mg.index = 0 : i64}
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x8xf32, #mg.layout<s, h>> {mg.arg = "saved"
// CHECK:         %[[DW:.*]] = mg.einsum %[[X]], %[[DZ]]
// CHECK:         return %[[DW]]
// CHECK-LABEL: func.func @mlp.input(
// CHECK-SAME:    {mg.result = "din"}
// CHECK-SAME:    {mg.result = "split"}
// CHECK:         %[[DZ:.*]] = mg.gelu_grad
// CHECK:         %[[DX:.*]] = mg.einsum %[[DZ]], %
// CHECK:         return %[[DX]], %[[DZ]]
func.func @mlp(%x: !sh, %w: !hf {mg.param = {tensor = "w"}}) -> !sf attributes {mg.block} {
  %y = mg.einsum %x, %w : (!sh, !hf) -> !sf
  %a = mg.gelu %y {form = "tanh"} : (!sf) -> !sf
  return %a : !sf
}
// A loss has no weight half: its input half returns all gradients, for the logits are not kept.
// CHECK-NOT:   @loss.weight
// CHECK-LABEL: func.func @loss.input(
// CHECK-SAME:    {mg.param = {tensor = "e"}, mg.result = "grad"}
// CHECK-SAME:    {mg.result = "loss_sum"}
func.func @loss(%x: !sh, %e: tensor<128x8xf32, #mg.layout<v, h>> {mg.param = {tensor = "e"}},
                %labels: tensor<4xi32, #mg.layout<s>> {mg.data = "labels"}, %weights: tensor<4xf32, #mg.layout<s>> {mg.data = "loss_weights"})
    -> (tensor<f32, #mg.layout<>> {mg.result = "loss_sum"}) attributes {mg.block} {
  %y = mg.einsum %x, %e : (!sh, tensor<128x8xf32, #mg.layout<v, h>>) -> tensor<4x128xf32, #mg.layout<s, v>>
  %loss, %lse = mg.cross_entropy %y, %labels, %weights {valid = 100} : (tensor<4x128xf32, #mg.layout<s, v>>, tensor<4xi32, #mg.layout<s>>, tensor<4xf32, #mg.layout<s>>) -> (tensor<f32, #mg.layout<>>, tensor<4xf32, #mg.layout<s>>)
  return %loss : tensor<f32, #mg.layout<>>
}
}
