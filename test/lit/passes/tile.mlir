// RUN: %mg-opt %s --mg-tile | FileCheck %s --enable-var-scope --check-prefixes=CHECK,PARTS
// RUN: sed s/loss_tile\ =\ 4/loss_tile\ =\ 8/ %s | %mg-opt --mg-tile | FileCheck %s --enable-var-scope --check-prefixes=CHECK,WHOLE
// RUN: sed s/loss_tile\ =\ 4/loss_tile\ =\ 1/\;s/\<4x2/\<8192x2/ %s | %mg-opt --mg-tile | FileCheck %s --check-prefix=MANY
// RUN: sed s/loss_tile\ =\ 4/loss_tile\ =\ 6/\;s/\<4x2/\<127x1/ %s | %mg-opt --mg-tile | FileCheck %s --check-prefix=PRIME
// RUN: sed s/loss_tile\ =\ 4/loss_tile\ =\ 1/\;s/\<4x2/\<10006x1/ %s | %mg-opt --mg-tile | FileCheck %s --check-prefix=LEAST
// The loss of 4 x 2 tokens. With loss_tile = 4 there are two parts; with 8, one: no tile. Of 8192 x 2 tokens there are no
// more parts than 1024.
// MANY: mg.tile 1024 of
// A part of a sixth of loss_tile would be too small, and 5003 parts too many.
// PRIME-NOT: mg.tile
// LEAST: mg.tile 2 of

!x = tensor<4x2x8xf32, #mg.layout<s, b, h>>
!y = tensor<4x2x128xf32, #mg.layout<s, b, v>>
!i = tensor<4x2xi32, #mg.layout<s, b>>
!r = tensor<4x2xf32, #mg.layout<s, b>>
!w = tensor<128x8xf32, #mg.layout<v, h>>
!one = tensor<f32, #mg.layout<>>

module attributes {mg.mesh = #mg.mesh<tp = 2>, mg.training = #mg.training<loss_tile = 4>} {

// CHECK-LABEL: func.func @head.forward(
func.func @head.forward(%x: !x, %w: !w {mg.param = {tensor = "w"}}, %labels: !i {mg.data = "labels"},
                        %weights: !r {mg.data = "loss_weights"}) -> (!x {mg.result = "saved"})
    attributes {mg.block = "head", mg.pass = "forward"} {
  return %x : !x
}

// The logits, their gradient and all between them are in the tile; the loss, which only depends on it, comes after, and so
// does a collective over the tiled dimension. The gradient of the weights is the sum over the parts.
// CHECK-LABEL: func.func @head.backward(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: {{.*}}mg.arg = "saved"
// WHOLE-NOT:     mg.tile
// PARTS:         %[[T:.*]]:4 = mg.tile 2 of %[[X]], %{{.*}}, %{{.*}} :
// PARTS-SAME:      -> (tensor<4x2xf32, {{.*}}>, tensor<4x2xf32, {{.*}}>, tensor<4x2x8xf32, {{.*}}>, tensor<128x8xf32, {{.*}}>)
// PARTS-NEXT:    ^bb0(%[[XI:.*]]: tensor<2x2x8xf32, {{.*}}>, %{{.*}}: tensor<2x2xi32, {{.*}}>, %{{.*}}: tensor<2x2xf32, {{.*}}>):
// PARTS-NEXT:      %[[Y:.*]] = mg.einsum %[[XI]], %{{.*}} -> tensor<2x2x128xf32
// PARTS-NEXT:      %[[M:.*]] = mg.max %[[Y]]
// PARTS-NEXT:      %[[A:.*]] = mg.all_reduce %[[M]] over ["tp"]
// PARTS:           mg.sum_exp %[[Y]], %[[A]]
// PARTS:           %[[DY:.*]] = mg.cross_entropy_grad %[[Y]]
// PARTS-NEXT:      %[[DX:.*]] = mg.einsum %[[DY]], %{{.*}} -> tensor<2x2x8xf32
// PARTS-NEXT:      %[[DW:.*]] = mg.einsum %[[XI]], %[[DY]] {{.*}} -> tensor<128x8xf32
// PARTS-NEXT:      mg.yield %{{.*}}, %{{.*}}, %[[DX]], %[[DW]]
// PARTS:         mg.einsum %{{.*}}, %[[T]]#0
// PARTS:         %[[DX:.*]] = mg.all_gather %[[T]]#2
// PARTS:         return %{{.*}}, %[[T]]#3, %{{.*}}, %{{.*}}
func.func @head.backward(%x: !x {mg.arg = "saved", mg.index = 0 : i64}, %labels: !i {mg.data = "labels"},
                         %weights: !r {mg.data = "loss_weights"}, %w: !w {mg.param = {tensor = "w"}})
    -> (!x {mg.result = "din"}, !w {mg.param = {tensor = "w"}, mg.result = "grad"}, !one {mg.result = "loss_sum"},
        !one {mg.result = "tokens"}) attributes {mg.block = "head", mg.pass = "backward"} {
  %y = mg.einsum %x, %w : (!x, !w) -> !y
  %max = mg.max %y {valid = 100 : i64} : (!y) -> !r
  %most = mg.all_reduce %max over ["tp"] {reduction = "max"} : !r -> !r
  %sum = mg.sum_exp %y, %most {valid = 100 : i64} : (!y, !r) -> !r
  %lse = mg.log_sum_exp %most, %sum : (!r, !r) -> !r
  %picked = mg.pick %y, %labels : (!y, !i) -> !r
  %first = mg.einsum %weights, %lse : (!r, !r) -> !one
  %second = mg.einsum %weights, %picked : (!r, !r) -> !one
  %loss = mg.accumulate %first, %second {signs = array<i64: 1, -1>} : (!one, !one) -> !one
  %tokens = mg.sum %weights : (!r) -> !one
  %dy = mg.cross_entropy_grad %y, %lse, %labels, %weights {valid = 100 : i64} : (!y, !r, !i, !r) -> !y
  %dx = mg.einsum %dy, %w : (!y, !w) -> !x
  %part = mg.all_gather %dx over [] {dim = 0 : i64} : !x -> !x
  %dw = mg.einsum %x, %dy : (!x, !y) -> !w
  return %part, %dw, %loss, %tokens : !x, !w, !one, !one
}

// A collective over the tiled dimension stands between the largest values: nothing is tiled.
// CHECK-LABEL: func.func @gathered.forward(
func.func @gathered.forward(%x: !x, %w: !w {mg.param = {tensor = "w"}}) -> (!x {mg.result = "saved"})
    attributes {mg.block = "gathered", mg.pass = "forward"} {
  return %x : !x
}
// CHECK-LABEL: func.func @gathered.backward(
// CHECK-NOT:     mg.tile
func.func @gathered.backward(%x: !x {mg.arg = "saved", mg.index = 0 : i64}, %w: !w {mg.param = {tensor = "w"}})
    -> (!x {mg.result = "din"}, !w {mg.param = {tensor = "w"}, mg.result = "grad"}, !one {mg.result = "loss_sum"},
        !one {mg.result = "tokens"}) attributes {mg.block = "gathered", mg.pass = "backward"} {
  %y = mg.einsum %x, %w : (!x, !w) -> !y
  %z = mg.all_gather %y over [] {dim = 0 : i64} : !y -> !y
  %dx = mg.einsum %z, %w : (!y, !w) -> !x
  %dw = mg.einsum %x, %z : (!x, !y) -> !w
  %loss = mg.sum %x : (!x) -> !one
  return %dx, %dw, %loss, %loss : !x, !w, !one, !one
}
}
