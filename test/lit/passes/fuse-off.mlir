// RUN: %mg-opt %s --mg-fuse | FileCheck %s --enable-var-scope
// With mg.no_fusion (mgc compile --no-fusion) every row op is a kernel of its own.

!x = tensor<4x2x8xf32, #mg.layout<s, b, h>>
!sb = tensor<4x2xf32, #mg.layout<s, b>>
!h = tensor<8xf32, #mg.layout<h>>

module attributes {mg.mesh = #mg.mesh<>, mg.no_fusion} {
// CHECK-LABEL: func.func @norm.forward(
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.add
// CHECK-NEXT:      mg.yield
// CHECK:         mg.kernel {
// CHECK-NEXT:      mg.rms_norm
func.func @norm.forward(%x: !x, %y: !x, %g: !h {mg.param = {tensor = "g"}}) -> (!x, !x) attributes {mg.block = "norm", mg.pass = "forward"} {
  %0 = mg.add %x, %y : (!x, !x) -> !x
  %1, %2 = mg.rms_norm %0 gamma %g {epsilon = 1.0e-5 : f64} : (!x, !h) -> (!x, !sb)
  return %0, %1 : !x, !x
}
}
