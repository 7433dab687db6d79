// RUN: %mg-opt %s --mg-fuse-epilogues | FileCheck %s --enable-var-scope
// RUN: %mg-opt %s --mg-fuse-epilogues --mg-fuse | FileCheck %s --check-prefix=FUSED
// RUN: sed 's/mg.target = "cuda:sm_90", //' %s | %mg-opt --mg-fuse-epilogues | FileCheck %s --check-prefix=OFF
// RUN: sed 's/mg.mesh/mg.no_fusion, mg.mesh/' %s | %mg-opt --mg-fuse-epilogues | FileCheck %s --check-prefix=OFF
// On targets whose products have epilogues: a bias, where no row op reads the product's result anyway.
// OFF-NOT: mg.linear

!x = tensor<4x2x8xf32, #mg.layout<s, b, h>>
!y = tensor<4x2x16xf32, #mg.layout<s, b, f>>
!half = tensor<4x2x16xbf16, #mg.layout<s, b, f>>
!part = tensor<2x2x16xf32, #mg.layout<s, b, f>>
!w = tensor<8x16xf32, #mg.layout<h, f>>
!wt = tensor<16x8xf32, #mg.layout<f, h>>
!f = tensor<16xf32, #mg.layout<f>>
!s = tensor<4xf32, #mg.layout<s>>
!bf = tensor<2x16xf32, #mg.layout<b, f>>

module attributes {mg.target = "cuda:sm_90", mg.mesh = #mg.mesh<tp = 2>} {
// CHECK-LABEL: func.func @bias.forward(
// CHECK-NEXT:    %[[Y:.*]] = mg.linear %{{.*}}, %{{.*}}, %{{.*}} : {{.*}} -> tensor<4x2x16xf32, {{.*}}>
// CHECK-NEXT:    mg.einsum %[[Y]]
// CHECK-NEXT:    return %{{.*}}, %[[Y]]
func.func @bias.forward(%x: !x, %w: !w {mg.param = {tensor = "w"}}, %b: !f {mg.param = {tensor = "b"}},
                        %v: !wt {mg.param = {tensor = "v"}})
    -> (!x, !y {mg.result = "saved"}) attributes {mg.block = "bias", mg.pass = "forward"} {
  %0 = mg.einsum %x, %w : (!x, !w) -> !y
  %1 = mg.add %0, %b : (!y, !f) -> !y
  %2 = mg.einsum %1, %v : (!y, !wt) -> !x
  return %2, %1 : !x, !y
}

// The product may have its operands swapped.
// CHECK-LABEL: func.func @swapped.forward(
// CHECK-NEXT:    mg.linear
func.func @swapped.forward(%x: !x, %w: !w {mg.param = {tensor = "w"}}, %b: !f {mg.param = {tensor = "b"}})
    -> !y attributes {mg.block = "swapped", mg.pass = "forward"} {
  %0 = mg.einsum %w, %x : (!w, !x) -> !y
  %1 = mg.add %0, %b : (!y, !f) -> !y
  return %1 : !y
}

// A kernel reads the product's result anyway: the residual sum.
// CHECK-LABEL: func.func @residual.forward(
// CHECK-NOT:     mg.linear
// FUSED-LABEL: func.func @residual.forward(
// FUSED:         mg.einsum
// FUSED-NEXT:    mg.kernel {
// FUSED-NEXT:      mg.add
// FUSED-NEXT:      mg.add
func.func @residual.forward(%x: !x, %r: !y, %w: !w {mg.param = {tensor = "w"}}, %b: !f {mg.param = {tensor = "b"}})
    -> !y attributes {mg.block = "residual", mg.pass = "forward"} {
  %0 = mg.einsum %x, %w : (!x, !w) -> !y
  %1 = mg.add %0, %b : (!y, !f) -> !y
  %2 = mg.add %1, %r : (!y, !y) -> !y
  return %2 : !y
}

// A kernel reads the product's result anyway: the activation's, which adds the bias.
// CHECK-LABEL: func.func @activation_read.forward(
// CHECK-NOT:     mg.linear
// FUSED-LABEL: func.func @activation_read.forward(
// FUSED:         mg.einsum
// FUSED-NEXT:    mg.kernel {
// FUSED-NEXT:      mg.add
// FUSED-NEXT:      mg.gelu
func.func @activation_read.forward(%x: !x, %w: !w {mg.param = {tensor = "w"}}, %b: !f {mg.param = {tensor = "b"}},
                                   %v: !wt {mg.param = {tensor = "v"}})
    -> (!x, !y {mg.result = "saved"}) attributes {mg.block = "activation_read", mg.pass = "forward"} {
  %0 = mg.einsum %x, %w : (!x, !w) -> !y
  %1 = mg.add %0, %b : (!y, !f) -> !y
  %2 = mg.gelu %1 {form = "tanh"} : (!y) -> !y
  %3 = mg.einsum %2, %v : (!y, !wt) -> !x
  return %3, %1 : !x, !y
}

// The product itself is needed.
// CHECK-LABEL: func.func @product_kept.forward(
// CHECK-NOT:     mg.linear
func.func @product_kept.forward(%x: !x, %w: !w {mg.param = {tensor = "w"}}, %b: !f {mg.param = {tensor = "b"}})
    -> (!y, !y) attributes {mg.block = "product_kept", mg.pass = "forward"} {
  %0 = mg.einsum %x, %w : (!x, !w) -> !y
  %1 = mg.add %0, %b : (!y, !f) -> !y
  return %0, %1 : !y, !y
}

// A bias after the sum over tensor ranks.
// CHECK-LABEL: func.func @reduced.forward(
// CHECK-NOT:     mg.linear
func.func @reduced.forward(%x: !x, %w: !w {mg.param = {tensor = "w"}}, %b: !f {mg.param = {tensor = "b"}})
    -> !part attributes {mg.block = "reduced", mg.pass = "forward"} {
  %0 = mg.einsum %x, %w : (!x, !w) -> !y
  %1 = mg.reduce_scatter %0 over ["tp"] {dim = 0} : !y -> !part
  %2 = mg.add %1, %b : (!part, !f) -> !part
  return %2 : !part
}

// No epilogue: the added value is no parameter, lacks the columns, or is of the rows.
// CHECK-LABEL: func.func @activation.forward(
// CHECK-NOT:     mg.linear
func.func @activation.forward(%x: !x, %w: !w {mg.param = {tensor = "w"}}, %b: !f)
    -> !y attributes {mg.block = "activation", mg.pass = "forward"} {
  %0 = mg.einsum %x, %w : (!x, !w) -> !y
  %1 = mg.add %0, %b : (!y, !f) -> !y
  return %1 : !y
}

// CHECK-LABEL: func.func @wider.forward(
// CHECK-NOT:     mg.linear
func.func @wider.forward(%x: !x, %w: !w {mg.param = {tensor = "w"}}, %b: !bf {mg.param = {tensor = "b"}})
    -> !y attributes {mg.block = "wider", mg.pass = "forward"} {
  %0 = mg.einsum %x, %w : (!x, !w) -> !y
  %1 = mg.add %0, %b : (!y, !bf) -> !y
  return %1 : !y
}

// CHECK-LABEL: func.func @rows.forward(
// CHECK-NOT:     mg.linear
func.func @rows.forward(%x: !x, %w: !w {mg.param = {tensor = "w"}}, %b: !s {mg.param = {tensor = "b"}})
    -> !y attributes {mg.block = "rows", mg.pass = "forward"} {
  %0 = mg.einsum %x, %w : (!x, !w) -> !y
  %1 = mg.add %0, %b : (!y, !s) -> !y
  return %1 : !y
}

// The sum is rounded to another type.
// CHECK-LABEL: func.func @types.forward(
// CHECK-NOT:     mg.linear
func.func @types.forward(%x: !x, %w: !w {mg.param = {tensor = "w"}}, %b: !f {mg.param = {tensor = "b"}})
    -> !half attributes {mg.block = "types", mg.pass = "forward"} {
  %0 = mg.einsum %x, %w : (!x, !w) -> !y
  %1 = mg.add %0, %b : (!y, !f) -> !half
  return %1 : !half
}
}
