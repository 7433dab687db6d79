// RUN: %mg-opt %s --mg-fuse | FileCheck %s --enable-var-scope
// A product between each collective and what needs it, if there is one that needs neither. The functions have what a backward function has of a linear layer.

!x = tensor<8x2x8xf32, #mg.layout<s, b, h>>
!part = tensor<4x2x8xf32, #mg.layout<s, b, h>>
!y = tensor<8x2x16xf32, #mg.layout<s, b, f>>
!w = tensor<8x16xf32, #mg.layout<h, f>>
!h = tensor<8xf32, #mg.layout<h>>
!sb = tensor<4x2xf32, #mg.layout<s, b>>

module attributes {mg.mesh = #mg.mesh<tp = 2>} {
// The weight's gradient is made while the input's is reduced.
// CHECK-LABEL: func.func @reduced.forward(
// CHECK:         %[[DX:.*]] = mg.einsum %{{.*}}, %{{.*}} : ({{.*}}<s, b, f>>, {{.*}}<h, f>>)
// CHECK-NEXT:    mg.all_reduce %[[DX]]
// CHECK-NEXT:    mg.kernel
// CHECK:         mg.einsum
// CHECK-NOT:     mg.all_reduce
func.func @reduced.forward(%dy: !y, %x: !x, %w: !w {mg.param = {tensor = "w"}})
    -> (!x, !w) attributes {mg.block = "reduced", mg.pass = "forward"} {
  %0 = mg.einsum %dy, %w : (!y, !w) -> !x
  %1 = mg.add %x, %x : (!x, !x) -> !x
  %2 = mg.einsum %1, %dy : (!x, !y) -> !w
  %3 = mg.all_reduce %0 over ["tp"] : !x -> !x
  return %3, %2 : !x, !w
}

// With sequence parallelism the weight's gradient needs the whole input, which is gathered in parallel with the other
// product.
// CHECK-LABEL: func.func @scattered.forward(
// CHECK:         mg.kernel
// CHECK:         mg.all_gather
// CHECK-NEXT:    %[[DX:.*]] = mg.einsum
// CHECK-NEXT:    mg.reduce_scatter %[[DX]]
// CHECK-NEXT:    mg.einsum
// CHECK-NEXT:    return
func.func @scattered.forward(%dy: !y, %x: !part, %w: !w {mg.param = {tensor = "w"}})
    -> (!part, !w) attributes {mg.block = "scattered", mg.pass = "forward"} {
  %0 = mg.einsum %dy, %w : (!y, !w) -> !x
  %1 = mg.add %x, %x : (!part, !part) -> !part
  %2 = mg.all_gather %1 over ["tp"] {dim = 0} : !part -> !x
  %3 = mg.einsum %2, %dy : (!x, !y) -> !w
  %4 = mg.reduce_scatter %0 over ["tp"] {dim = 0} : !x -> !part
  return %4, %3 : !part, !w
}

// An op that needs the reduction is not moved before the product that runs concurrently.
// CHECK-LABEL: func.func @chained.forward(
// CHECK:         mg.einsum
// CHECK-NEXT:    mg.reduce_scatter
// CHECK-NEXT:    mg.einsum
// CHECK-NEXT:    mg.kernel
// CHECK:         mg.all_gather
func.func @chained.forward(%dy: !y, %x: !x, %w: !w {mg.param = {tensor = "w"}})
    -> (!x, !w) attributes {mg.block = "chained", mg.pass = "forward"} {
  %0 = mg.einsum %dy, %w : (!y, !w) -> !x
  %1 = mg.einsum %x, %dy : (!x, !y) -> !w
  %2 = mg.reduce_scatter %0 over ["tp"] {dim = 0} : !x -> !part
  %3 = mg.add %2, %2 : (!part, !part) -> !part
  %4 = mg.all_gather %3 over ["tp"] {dim = 0} : !part -> !x
  return %4, %1 : !x, !w
}
}
