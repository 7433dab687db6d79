// RUN: %mg-opt %s --mg-grad | FileCheck %s --enable-var-scope

!sh = tensor<4x8xf32, #mg.layout<s, h>>
!sf = tensor<4x16xf32, #mg.layout<s, f>>
!hf = tensor<8x16xf32, #mg.layout<h, f>>
!f = tensor<16xf32, #mg.layout<f>>

module attributes {mg.training = {split_backward = false}} {

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
}
