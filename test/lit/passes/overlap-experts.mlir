// RUN: %mg-opt %s --mg-fuse | FileCheck %s --enable-var-scope
// Exchanges of rows overlap the products of a shared expert, and dw comes after them; einsums stand for products of
// groups.

!x = tensor<4x2x8xf32, #mg.layout<s, b, h>>
!part = tensor<2x2x8xf32, #mg.layout<s, b, h>>
!y = tensor<4x2x6xf32, #mg.layout<s, b, f>>
!own = tensor<8x8xf32, #mg.layout<c, h>>
!rows = tensor<16x8xf32, #mg.layout<c, h>>
!big = tensor<32x8xf32, #mg.layout<c, h>>
!bigf = tensor<32x6xf32, #mg.layout<c, f>>
!py = tensor<2x2x6xf32, #mg.layout<s, b, f>>
!inner = tensor<16x6xf32, #mg.layout<c, f>>
!w = tensor<8x6xf32, #mg.layout<h, f>>
!n = tensor<4xi32, #mg.layout<e>>
!all = tensor<8xi32, #mg.layout<e>>

module attributes {mg.mesh = #mg.mesh<dp = 2 : data, tp = 2>} {
// The shared expert's first product overlaps the exchange there, its second the exchange back.
// CHECK-LABEL: func.func @shared.forward(
// CHECK:         %[[ROWS:.*]] = mg.exchange %arg1
// CHECK-NEXT:    %[[UP:.*]] = mg.einsum %arg0, %arg3
// CHECK-NEXT:    %[[ACT:.*]] = mg.kernel
// CHECK-NEXT:      mg.mul %[[UP]]
// CHECK:         mg.einsum %[[ROWS]]
// CHECK:         mg.exchange {{.*}} back
// CHECK-NEXT:    mg.einsum %[[ACT]]
// CHECK-NEXT:    return
func.func @shared.forward(%x: !x, %own: !own, %n: !n, %w: !w {mg.param = {tensor = "w"}}) -> (!own, !x)
    attributes {mg.block = "shared", mg.pass = "forward"} {
  %all = mg.all_gather %n over ["dp"] {dim = 0} : !n -> !all
  %rows = mg.exchange %own by %all over ["dp"] : (!own, !all) -> !rows
  %inner = mg.einsum %rows, %w : (!rows, !w) -> !inner
  %z = mg.einsum %inner, %w : (!inner, !w) -> !rows
  %back = mg.exchange %z by %all over ["dp"] back : (!rows, !all) -> !own
  %up = mg.einsum %x, %w : (!x, !w) -> !y
  %act = mg.mul %up, %up : (!y, !y) -> !y
  %down = mg.einsum %act, %w : (!y, !w) -> !x
  return %back, %down : !own, !x
}

// The operand of the first product is gathered before the exchange; after it, it would wait on their stream.
// CHECK-LABEL: func.func @gathered.forward(
// CHECK:         mg.all_gather %arg2
// CHECK-NEXT:    %[[X:.*]] = mg.all_gather %arg0
// CHECK-NEXT:    %[[ROWS:.*]] = mg.exchange %arg1
// CHECK-NEXT:    mg.einsum %[[X]]
// CHECK-NEXT:    mg.einsum %[[ROWS]]
func.func @gathered.forward(%x: !part, %own: !own, %n: !n, %w: !w {mg.param = {tensor = "w"}}) -> (!own, !part)
    attributes {mg.block = "gathered", mg.pass = "forward"} {
  %all = mg.all_gather %n over ["dp"] {dim = 0} : !n -> !all
  %rows = mg.exchange %own by %all over ["dp"] : (!own, !all) -> !rows
  %inner = mg.einsum %rows, %w : (!rows, !w) -> !inner
  %z = mg.einsum %inner, %w : (!inner, !w) -> !rows
  %back = mg.exchange %z by %all over ["dp"] back : (!rows, !all) -> !own
  %whole = mg.all_gather %x over ["tp"] {dim = 0} : !part -> !x
  %up = mg.einsum %whole, %w : (!x, !w) -> !y
  %down = mg.einsum %up, %w : (!y, !w) -> !x
  %y = mg.reduce_scatter %down over ["tp"] {dim = 0} : !x -> !part
  return %back, %y : !own, !part
}

// Both exchanges there move to the front, with the products of the shared expert behind them; dx goes back in front of
// the dw whose rows came last, and behind the other.
// CHECK-LABEL: func.func @grads.forward(
// CHECK:         %[[DY:.*]] = mg.exchange %arg1
// CHECK-NEXT:    %[[X:.*]] = mg.exchange %arg2
// CHECK-NEXT:    mg.einsum %arg0, %arg4
// CHECK-NEXT:    %[[DA:.*]] = mg.einsum %[[DY]], %arg4
// CHECK-NEXT:    %[[Z:.*]] = mg.rename
// CHECK-NEXT:    mg.einsum %[[DY]], %[[Z]]
// CHECK-NEXT:    %[[DX:.*]] = mg.einsum %[[DA]], %arg4
// CHECK-NEXT:    mg.exchange %[[DX]] {{.*}} back
// CHECK-NEXT:    mg.einsum %[[X]], %[[DA]]
// CHECK-NEXT:    return
func.func @grads.forward(%dy: !x, %ownDy: !own, %ownX: !own, %n: !n, %w: !w {mg.param = {tensor = "w"}}, %z: !rows)
    -> (!y, tensor<8x8xf32, #mg.layout<h, i>>, !own, !w) attributes {mg.block = "grads", mg.pass = "forward"} {
  %all = mg.all_gather %n over ["dp"] {dim = 0} : !n -> !all
  %shared = mg.einsum %dy, %w : (!x, !w) -> !y
  %rows = mg.exchange %ownDy by %all over ["dp"] : (!own, !all) -> !rows
  %da = mg.einsum %rows, %w : (!rows, !w) -> !inner
  %zi = mg.rename %z {from = "h", to = "i"} : (!rows) -> tensor<16x8xf32, #mg.layout<c, i>>
  %dw = mg.einsum %rows, %zi : (!rows, tensor<16x8xf32, #mg.layout<c, i>>) -> tensor<8x8xf32, #mg.layout<h, i>>
  %again = mg.exchange %ownX by %all over ["dp"] : (!own, !all) -> !rows
  %dv = mg.einsum %again, %da : (!rows, !inner) -> !w
  %dx = mg.einsum %da, %w : (!inner, !w) -> !rows
  %back = mg.exchange %dx by %all over ["dp"] back : (!rows, !all) -> !own
  return %shared, %dw, %back, %dv : !y, tensor<8x8xf32, #mg.layout<h, i>>, !own, !w
}

// An op that a collective between the exchange and its first user reads stays where it is.
// CHECK-LABEL: func.func @read_before.forward(
// CHECK:         mg.exchange %arg1
// CHECK-NEXT:    %[[D:.*]] = mg.kernel
// CHECK:         mg.all_gather %[[D]]
// CHECK-NEXT:    mg.einsum %[[D]], %arg3
// CHECK:         mg.exchange {{.*}} back
func.func @read_before.forward(%x: !part, %own: !own, %n: !n, %w: !w {mg.param = {tensor = "w"}})
    -> (!own, !x, !py) attributes {mg.block = "read_before", mg.pass = "forward"} {
  %all = mg.all_gather %n over ["dp"] {dim = 0} : !n -> !all
  %rows = mg.exchange %own by %all over ["dp"] : (!own, !all) -> !rows
  %d = mg.mul %x, %x : (!part, !part) -> !part
  %whole = mg.all_gather %d over ["tp"] {dim = 0} : !part -> !x
  %inner = mg.einsum %rows, %w : (!rows, !w) -> !inner
  %z = mg.einsum %inner, %w : (!inner, !w) -> !rows
  %back = mg.exchange %z by %all over ["dp"] back : (!rows, !all) -> !own
  %up = mg.einsum %d, %w : (!part, !w) -> !py
  return %back, %whole, %up : !own, !x, !py
}

// A gather of another exchange's result stays after that exchange.
// CHECK-LABEL: func.func @of_another.forward(
// CHECK:         %[[FIRST:.*]] = mg.exchange %arg0
// CHECK:         mg.all_gather %[[FIRST]]
func.func @of_another.forward(%a: !own, %own: !own, %n: !n, %w: !w {mg.param = {tensor = "w"}}) -> (!own, !bigf)
    attributes {mg.block = "of_another", mg.pass = "forward"} {
  %all = mg.all_gather %n over ["dp"] {dim = 0} : !n -> !all
  %first = mg.exchange %a by %all over ["dp"] : (!own, !all) -> !rows
  %rows = mg.exchange %own by %all over ["dp"] : (!own, !all) -> !rows
  %inner = mg.einsum %rows, %w : (!rows, !w) -> !inner
  %z = mg.einsum %inner, %w : (!inner, !w) -> !rows
  %back = mg.exchange %z by %all over ["dp"] back : (!rows, !all) -> !own
  %whole = mg.all_gather %first over ["tp"] {dim = 0} : !rows -> !big
  %up = mg.einsum %whole, %w : (!big, !w) -> !bigf
  return %back, %up : !own, !bigf
}
}
