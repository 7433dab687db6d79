// RUN: %mg-opt %s --mg-shard | FileCheck %s --enable-var-scope

!sbh = tensor<16x4x8xf32, #mg.layout<s, b, h>>
!sbf = tensor<16x4x32xf32, #mg.layout<s, b, f>>
!sbd = tensor<16x4x8xf32, #mg.layout<s, b, d>>
!sbjd = tensor<16x4x2x8xf32, #mg.layout<s, b, j, d>>
!wd = tensor<32x8xf32, #mg.layout<f, d>>
!we = tensor<2x8x8xf32, #mg.layout<j, d, e>>
!sbe = tensor<16x4x8xf32, #mg.layout<s, b, e>>

module attributes {mg.mesh = #mg.mesh<dp = 2 : data, tp = 2>, mg.training = #mg.training<split_backward = false>,
  mg.placement = [{dimension = "b", axes = ["dp"]}, {dimension = "f", axes = ["tp"]}, {dimension = "v", axes = ["tp"]},
                  {dimension = "s", axes = ["tp"], with = "h", yields}, {dimension = "s", axes = [], ops = ["relocate"]},
                  {dimension = "s", axes = [], ops = ["add"], tag = "placed"},
                  {dimension = "t", axes = ["tp"], with = "h", yields}, {dimension = "t", axes = ["tp"], ops = ["relocate"]}]} {

// Sequence parallelism: s is gathered before the column-parallel product.
// CHECK-LABEL: func.func @column_parallel(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<16x4x8xf32, #mg.layout<s [tp], b [dp], h>>
// CHECK-SAME:    tensor<8x32xf32, #mg.layout<h, f [tp]>>
// CHECK:         %[[G:.*]] = mg.reshard %[[X]] : {{.*}} -> tensor<16x4x8xf32, #mg.layout<s, b [dp], h>>
// CHECK:         mg.einsum %[[G]], {{.*}} -> tensor<16x4x32xf32, #mg.layout<s, b [dp], f [tp]>>
func.func @column_parallel(%x: !sbh, %w: tensor<8x32xf32, #mg.layout<h, f>> {mg.param = {tensor = "w"}}) -> !sbf attributes {mg.block = "column_parallel", mg.pass = "forward"} {
  %y = mg.einsum %x, %w : (!sbh, tensor<8x32xf32, #mg.layout<h, f>>) -> !sbf
  return %y : !sbf
}

// The row-parallel product is pending over tp; the block's end takes it complete and split over s.
// CHECK-LABEL: func.func @row_parallel(
// CHECK:         %[[Y:.*]] = mg.einsum {{.*}} -> tensor<16x4x8xf32, #mg.layout<s, b [dp], h, sum [tp]>>
// CHECK:         %[[R:.*]] = mg.reshard %[[Y]] : {{.*}} -> tensor<16x4x8xf32, #mg.layout<s [tp], b [dp], h>>
// CHECK:         return %[[R]]
func.func @row_parallel(%x: !sbf, %w: tensor<32x8xf32, #mg.layout<f, h>> {mg.param = {tensor = "w"}}) -> !sbh attributes {mg.block = "row_parallel", mg.pass = "forward"} {
  %y = mg.einsum %x, %w : (!sbf, tensor<32x8xf32, #mg.layout<f, h>>) -> !sbh
  return %y : !sbh
}

// A bias is not added before the reduction: it would be counted once per rank.
// CHECK-LABEL: func.func @bias_after_row_parallel(
// CHECK:         %[[Y:.*]] = mg.einsum
// CHECK:         %[[R:.*]] = mg.reshard %[[Y]]
// CHECK:         mg.add %[[R]], %{{.*}} -> tensor<16x4x8xf32, #mg.layout<s [tp], b [dp], h>>
func.func @bias_after_row_parallel(%x: !sbf, %w: tensor<32x8xf32, #mg.layout<f, h>> {mg.param = {tensor = "w"}},
    %b: tensor<8xf32, #mg.layout<h>> {mg.param = {tensor = "b"}}) -> !sbh attributes {mg.block = "bias", mg.pass = "forward"} {
  %y = mg.einsum %x, %w : (!sbf, tensor<32x8xf32, #mg.layout<f, h>>) -> !sbh
  %z = mg.add %y, %b : (!sbh, tensor<8xf32, #mg.layout<h>>) -> !sbh
  return %z : !sbh
}

// Positions of another sequence that the ranks share: each looks up its own, and the sum of what they find is pending until it
// meets the embedding's, which is pending alike.
// CHECK-LABEL: func.func @relocated(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<16x4x8xf32, #mg.layout<t [tp], b [dp], h>>
// CHECK:         %[[Y:.*]] = mg.relocate %[[X]], {{.*}} -> tensor<16x4x8xf32, #mg.layout<s, b [dp], h, sum [tp]>>
// CHECK:         %[[E:.*]] = mg.embed {{.*}} -> tensor<16x4x8xf32, #mg.layout<s, b [dp], h, sum [tp]>>
// CHECK:         %[[S:.*]] = mg.add %[[E]], %[[Y]] {{.*}} -> tensor<16x4x8xf32, #mg.layout<s, b [dp], h, sum [tp]>>
// CHECK:         mg.reshard %[[S]] : {{.*}} -> tensor<16x4x8xf32, #mg.layout<s [tp], b [dp], h>>
func.func @relocated(%x: tensor<16x4x8xf32, #mg.layout<t, b, h>>, %ids: tensor<16x4xi32, #mg.layout<s, b>> {mg.data = "tokens"},
    %places: tensor<16x4xi32, #mg.layout<s, b>> {mg.data = "image_places"}, %sources: tensor<16x4xi32, #mg.layout<t, b>> {mg.data = "encoder.image_places"},
    %w: tensor<32x8xf32, #mg.layout<v, h>> {mg.param = {tensor = "w"}}) -> !sbh attributes {mg.block = "relocated", mg.pass = "forward"} {
  %y = mg.relocate %x, %places, %sources : (tensor<16x4x8xf32, #mg.layout<t, b, h>>, tensor<16x4xi32, #mg.layout<s, b>>, tensor<16x4xi32, #mg.layout<t, b>>) -> !sbh
  %e = mg.embed %ids, %w : (tensor<16x4xi32, #mg.layout<s, b>>, tensor<32x8xf32, #mg.layout<v, h>>) -> !sbh
  %s = mg.add %e, %y {mg.tag = "placed"} : (!sbh, !sbh) -> !sbh
  return %s : !sbh
}

// Gradients stay pending: over the data ranks, and over tp where s is split by it.
// CHECK-LABEL: func.func @gradients_pending(
// CHECK-SAME:    tensor<8xf32, #mg.layout<h, sum [dp, tp]>> {{{.*}}mg.result = "grad"}
// CHECK:         mg.sum {{.*}} -> tensor<8xf32, #mg.layout<h, sum [dp, tp]>>
// CHECK-NOT:     mg.reshard
func.func @gradients_pending(%dy: !sbh {mg.arg = "dout", mg.index = 0 : i64}) -> (tensor<8xf32, #mg.layout<h>> {mg.param = {tensor = "b"}, mg.result = "grad"})
    attributes {mg.block = "bias", mg.pass = "backward"} {
  %db = mg.sum %dy : (!sbh) -> tensor<8xf32, #mg.layout<h>>
  return %db : tensor<8xf32, #mg.layout<h>>
}

// Cross-entropy over a split vocabulary: a maximum, a sum and a pick are reduced, never the logits.
// CHECK-LABEL: func.func @parallel_loss(
// CHECK:         %[[MAX:.*]] = mg.max {{.*}} -> tensor<16x4xf32, #mg.layout<s, b [dp], max [tp]>>
// CHECK:         mg.reshard %[[MAX]]
// CHECK:         mg.sum_exp {{.*}} -> tensor<16x4xf32, #mg.layout<s, b [dp], sum [tp]>>
// CHECK:         mg.pick {{.*}} -> tensor<16x4xf32, #mg.layout<s, b [dp], sum [tp]>>
// CHECK-NOT:     tensor<16x4x128xf32, #mg.layout<s, b [dp], v>>
func.func @parallel_loss(%x: tensor<16x4x128xf32, #mg.layout<s, b, v>>, %labels: tensor<16x4xi32, #mg.layout<s, b>> {mg.data = "labels"},
    %weights: tensor<16x4xf32, #mg.layout<s, b>> {mg.data = "loss_weights"}) -> (tensor<f32, #mg.layout<>> {mg.result = "loss_sum"}) attributes {mg.block = "loss", mg.pass = "forward"} {
  %loss, %lse = mg.cross_entropy %x, %labels, %weights {valid = 100} : (tensor<16x4x128xf32, #mg.layout<s, b, v>>, tensor<16x4xi32, #mg.layout<s, b>>, tensor<16x4xf32, #mg.layout<s, b>>) -> (tensor<f32, #mg.layout<>>, tensor<16x4xf32, #mg.layout<s, b>>)
  return %loss : tensor<f32, #mg.layout<>>
}

// A pending maximum passes nothing, linear or not: it is reduced as a maximum where it is used.
// CHECK-LABEL: func.func @scaled_maximum(
// CHECK:         %[[MAX:.*]] = mg.max {{.*}} -> tensor<16x4xf32, #mg.layout<s, b [dp], max [tp]>>
// CHECK:         %[[DONE:.*]] = mg.reshard %[[MAX]] : {{.*}} -> tensor<16x4xf32, #mg.layout<s, b [dp]>>
// CHECK:         mg.scale %[[DONE]] {{.*}} -> tensor<16x4xf32, #mg.layout<s, b [dp]>>
func.func @scaled_maximum(%x: tensor<16x4x128xf32, #mg.layout<s, b, v>>) -> tensor<16x4xf32, #mg.layout<s, b>> attributes {mg.block = "scaled", mg.pass = "forward"} {
  %m = mg.max %x {valid = 100} : (tensor<16x4x128xf32, #mg.layout<s, b, v>>) -> tensor<16x4xf32, #mg.layout<s, b>>
  %y = mg.scale %m {factor = 2.0} : (tensor<16x4xf32, #mg.layout<s, b>>) -> tensor<16x4xf32, #mg.layout<s, b>>
  return %y : tensor<16x4xf32, #mg.layout<s, b>>
}

// Nor does a sum of maxima, or a result that may stay pending, take it for a sum.
// CHECK-LABEL: func.func @accumulated_maximum(
// CHECK-SAME:    -> (tensor<16x4xf32, #mg.layout<s, b [dp]>> {mg.result = "grad"}, tensor<16x4xf32, #mg.layout<s, b [dp]>> {mg.result = "grad"})
// CHECK:         %[[MAX:.*]] = mg.max
// CHECK:         %[[DONE:.*]] = mg.reshard %[[MAX]] : {{.*}} -> tensor<16x4xf32, #mg.layout<s, b [dp]>>
// CHECK:         mg.accumulate %[[DONE]], %[[DONE]]
func.func @accumulated_maximum(%x: tensor<16x4x128xf32, #mg.layout<s, b, v>>)
    -> (tensor<16x4xf32, #mg.layout<s, b>> {mg.result = "grad"}, tensor<16x4xf32, #mg.layout<s, b>> {mg.result = "grad"}) attributes {mg.block = "accumulated", mg.pass = "forward"} {
  %m = mg.max %x {valid = 100} : (tensor<16x4x128xf32, #mg.layout<s, b, v>>) -> tensor<16x4xf32, #mg.layout<s, b>>
  %y = mg.accumulate %m, %m {signs = array<i64: 1, 1>} : (tensor<16x4xf32, #mg.layout<s, b>>, tensor<16x4xf32, #mg.layout<s, b>>) -> tensor<16x4xf32, #mg.layout<s, b>>
  return %y, %m : tensor<16x4xf32, #mg.layout<s, b>>, tensor<16x4xf32, #mg.layout<s, b>>
}

// A sum passes all operands of a join together where what they make goes on through a linear use: one reduction, at the end.
// CHECK-LABEL: func.func @joined(
// CHECK:         %[[K:.*]] = mg.einsum
// CHECK-NEXT:    %[[V:.*]] = mg.einsum
// CHECK-NEXT:    %[[J:.*]] = mg.join %[[K]], %[[V]] {{.*}} -> tensor<16x4x2x8xf32, #mg.layout<s, b [dp], j, d, sum [tp]>>
// CHECK-NEXT:    mg.einsum %[[J]]
// CHECK-NEXT:    mg.reshard
// CHECK-NEXT:    return
func.func @joined(%dy: !sbf, %wk: !wd {mg.param = {tensor = "k"}}, %wv: !wd {mg.param = {tensor = "v"}}, %w: !we {mg.param = {tensor = "w"}}) -> !sbe
    attributes {mg.block = "joined", mg.pass = "forward"} {
  %k = mg.einsum %dy, %wk : (!sbf, !wd) -> !sbd
  %v = mg.einsum %dy, %wv : (!sbf, !wd) -> !sbd
  %j = mg.join %k, %v along "j" : (!sbd, !sbd) -> !sbjd
  %x = mg.einsum %j, %w : (!sbjd, !we) -> !sbe
  return %x : !sbe
}

// The operand that is complete is demoted.
// CHECK-LABEL: func.func @joined_with_complete(
// CHECK:         %[[K:.*]] = mg.einsum
// CHECK-NEXT:    %[[V:.*]] = mg.reshard %{{.*}} -> tensor<16x4x8xf32, #mg.layout<s, b [dp], d, sum [tp]>>
// CHECK-NEXT:    mg.join %[[K]], %[[V]]
// CHECK-NEXT:    mg.einsum
// CHECK-NEXT:    mg.reshard
// CHECK-NEXT:    return
func.func @joined_with_complete(%dy: !sbf, %v: !sbd, %wk: !wd {mg.param = {tensor = "k"}}, %w: !we {mg.param = {tensor = "w"}}) -> !sbe
    attributes {mg.block = "complete", mg.pass = "forward"} {
  %k = mg.einsum %dy, %wk : (!sbf, !wd) -> !sbd
  %j = mg.join %k, %v along "j" : (!sbd, !sbd) -> !sbjd
  %x = mg.einsum %j, %w : (!sbjd, !we) -> !sbe
  return %x : !sbe
}

// Where it goes no further and one is complete, the other is reduced by itself.
// CHECK-LABEL: func.func @joined_and_used(
// CHECK:         %[[K:.*]] = mg.einsum
// CHECK-NEXT:    %[[R:.*]] = mg.reshard %[[K]] : {{.*}} -> tensor<16x4x8xf32, #mg.layout<s, b [dp], d>>
// CHECK-NEXT:    mg.join %[[R]], %{{.*}}
func.func @joined_and_used(%dy: !sbf, %v: !sbd, %wk: !wd {mg.param = {tensor = "k"}}) -> !sbjd
    attributes {mg.block = "used", mg.pass = "forward"} {
  %k = mg.einsum %dy, %wk : (!sbf, !wd) -> !sbd
  %j = mg.join %k, %v along "j" : (!sbd, !sbd) -> !sbjd
  %a = mg.silu %j : (!sbjd) -> !sbjd
  return %a : !sbjd
}
}
