// RUN: %mg-opt %s --mg-memory | FileCheck %s --enable-var-scope
// RUN: sed 's/mg.target = "cuda:sm_90", //' %s | %mg-opt --mg-memory | FileCheck %s --check-prefix=ALONE --enable-var-scope
// What a collective reads that runs beside others stays until its result is used first; where it runs alone, until it has run.

!x = tensor<4x32xf32, #mg.layout<s, h>>
!t = tensor<4x32xf32, #mg.layout<t, h>>
!part = tensor<2x32xf32, #mg.layout<s, h>>
!tpart = tensor<2x32xf32, #mg.layout<t, h>>

module attributes {mg.target = "cuda:sm_90", mg.mesh = #mg.mesh<tp = 2>} {

// 512, 256, 512 and 512 bytes: what is gathered last takes the place of the source, but not what is made before the third
// kernel needs the reduction.
// CHECK-LABEL: func.func @beside.forward(
// CHECK-SAME:    mg.frame = 1280 : i64
// CHECK:         mg.kernel
// CHECK:         {mg.frame = array<i64: [[SOURCE:[0-9]+]]>}
// CHECK:         mg.reduce_scatter
// CHECK:         mg.kernel
// CHECK-NOT:     mg.frame = array<i64: [[SOURCE]]>
// CHECK:         mg.all_gather {{.*}}mg.frame = array<i64: [[SOURCE]]>
// ALONE-LABEL: func.func @beside.forward(
// ALONE:         mg.kernel
// ALONE:         {mg.frame = array<i64: [[SOURCE:[0-9]+]]>}
// ALONE:         mg.reduce_scatter
// ALONE:         mg.kernel
// ALONE:         {mg.frame = array<i64: [[SOURCE]]>}
func.func @beside.forward(%x: !x, %y: !tpart) -> (!x, !tpart) attributes {mg.block = "beside", mg.pass = "forward"} {
  %0 = mg.kernel {
    %a = mg.silu %x : (!x) -> !x
    mg.yield %a : !x
  } : !x
  %1 = mg.reduce_scatter %0 over ["tp"] {dim = 0} : !x -> !part
  %2 = mg.rename %1 {from = "s", to = "t"} : (!part) -> !tpart
  %3 = mg.kernel {
    %a = mg.silu %x : (!x) -> !x
    mg.yield %a : !x
  } : !x
  %4 = mg.kernel {
    %a = mg.add %2, %y : (!tpart, !tpart) -> !tpart
    mg.yield %a : !tpart
  } : !tpart
  %5 = mg.all_gather %3 over [] {dim = 0} : !x -> !x
  %6 = mg.kernel {
    %a = mg.add %5, %3 : (!x, !x) -> !x
    mg.yield %a : !x
  } : !x
  return %6, %4 : !x, !tpart
}
}
