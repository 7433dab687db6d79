// RUN: %mg-opt %s --mg-grad | FileCheck %s --enable-var-scope

!sh = tensor<4x8xf32, #mg.layout<s, h>>
!sf = tensor<4x16xf32, #mg.layout<s, f>>
!hf = tensor<8x16xf32, #mg.layout<h, f>>
!fh = tensor<16x8xf32, #mg.layout<f, h>>
!f = tensor<16xf32, #mg.layout<f>>

module attributes {mg.training = #mg.training<split_backward = false>} {

// A frozen weight has no gradient, and nothing is saved for one.
// CHECK-LABEL: func.func @product.forward(
// CHECK:         return %{{[^,]*}} :
// CHECK-LABEL: func.func @product.backward(
// CHECK-SAME:    %[[DY:[a-z0-9]+]]: tensor<4x16xf32, {{[^%]*}}mg.arg = "dout"{{[^%]*}}, %[[W:[a-z0-9]+]]: tensor<8x16xf32, #mg.layout<h, f>> {mg.param = {frozen, tensor = "w"}})
// CHECK-SAME:    -> (tensor<4x8xf32, #mg.layout<s, h>> {mg.result = "din"})
// CHECK-NEXT:    %[[DX:.*]] = mg.einsum %[[DY]], %[[W]]
// CHECK-NEXT:    return %[[DX]]
func.func @product(%x: !sh, %w: !hf {mg.param = {tensor = "w", frozen}}) -> !sf attributes {mg.block} {
  %y = mg.einsum %x, %w : (!sh, !hf) -> !sf
  return %y : !sf
}

// A trained bias of a frozen matrix.
// CHECK-LABEL: func.func @bias.backward(
// CHECK-NOT:     mg.arg = "saved"
// CHECK:         %[[DB:.*]] = mg.sum
// CHECK:         %[[DX:.*]] = mg.einsum
// CHECK:         return %[[DX]], %[[DB]]
func.func @bias(%x: !sh, %w: !hf {mg.param = {tensor = "w", frozen}}, %b: !f {mg.param = {tensor = "b"}}) -> !sf
    attributes {mg.block} {
  %p = mg.einsum %x, %w : (!sh, !hf) -> !sf
  %y = mg.add %p, %b : (!sf, !f) -> !sf
  return %y : !sf
}

// Before the trained matrix nothing is needed: what goes into its product is saved, and no gradient is made of it.
// CHECK-LABEL: func.func @leaf.forward(
// CHECK-SAME:    {mg.frozen}
// CHECK:         %[[G:.*]] = mg.gelu
// CHECK:         %[[Y:.*]] = mg.einsum %[[G]]
// CHECK:         return %[[Y]], %[[G]]
// CHECK-LABEL: func.func @leaf.backward(
// CHECK-SAME:    %[[DY:[a-z0-9]+]]: tensor<4x8xf32, {{[^%]*}}mg.arg = "dout"{{[^%]*}}, %[[G:[a-z0-9]+]]: tensor<4x16xf32, {{[^%]*}}mg.arg = "saved", mg.index = 0 : i64})
// CHECK-SAME:    -> (tensor<16x8xf32, #mg.layout<f, h>> {mg.param = {tensor = "d"}, mg.result = "grad"})
// CHECK-NEXT:    %[[DW:.*]] = mg.einsum %[[G]], %[[DY]]
// CHECK-NEXT:    return %[[DW]]
func.func @leaf(%x: !sh {mg.frozen}, %w: !hf {mg.param = {tensor = "u", frozen}}, %v: !fh {mg.param = {tensor = "d"}})
    -> !sh attributes {mg.block} {
  %p = mg.einsum %x, %w : (!sh, !hf) -> !sf
  %g = mg.gelu %p {form = "tanh"} : (!sf) -> !sf
  %y = mg.einsum %g, %v : (!sf, !fh) -> !sh
  return %y : !sh
}

// Nothing is trained up to here: backward does nothing.
// CHECK-LABEL: func.func @before.forward(
// CHECK:         return %{{[^,]*}} :
// CHECK-LABEL: func.func @before.backward()
// CHECK-NEXT:    return
func.func @before(%x: !sh {mg.frozen}, %w: !hf {mg.param = {tensor = "t", frozen}}) -> !sf attributes {mg.block} {
  %y = mg.einsum %x, %w : (!sh, !hf) -> !sf
  return %y : !sf
}
}
