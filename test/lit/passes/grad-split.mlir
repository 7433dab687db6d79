// A schedule that splits the backward pass: @B.input gives the input's gradient and what @B.weight needs for the
// weights' gradients.
// RUN: %mg-opt %s --mg-grad | FileCheck %s --enable-var-scope

!sh = tensor<4x8xf32, #mg.layout<s, h>>
!sf = tensor<4x16xf32, #mg.layout<s, f>>
!hf = tensor<8x16xf32, #mg.layout<h, f>>

module attributes {mg.training = {split_backward = true}} {
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
}
