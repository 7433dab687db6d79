// Terms of the loss that a layer adds (docs/experts.md, Balance): their gradients, and the sums that types complete.
// RUN: %mg-opt %s --mg-grad | FileCheck %s --enable-var-scope --check-prefix=GRAD
// RUN: %mg-opt %s --mg-grad --mg-shard | FileCheck %s --enable-var-scope --check-prefix=SHARD

!x = tensor<16x4x8xf32, #mg.layout<s, b, h>>
!w = tensor<8x6xf32, #mg.layout<h, e>>
!each = tensor<16x4x6xf32, #mg.layout<s, b, e>>
!token = tensor<16x4xf32, #mg.layout<s, b>>
!of = tensor<4x6xf32, #mg.layout<b, e>>
!weights = tensor<16x4x2xf32, #mg.layout<s, b, k>>
!experts = tensor<16x4x2xi32, #mg.layout<s, b, k>>
!scalar = tensor<f32, #mg.layout<>>

module attributes {mg.mesh = #mg.mesh<dp = 2 : data, cp = 2 : sequence, tp = 2>, mg.training = #mg.training<split_backward = false>,
  mg.placement = [{dimension = "b", axes = ["dp"]}, {dimension = "s", axes = ["cp"]},
                  {dimension = "s", axes = ["tp"], with = "h", yields}, {dimension = "s", axes = ["tp"], with = "e", yields},
                  {dimension = "s", axes = ["tp"], with = "k", yields}]} {

// Forward returns the terms with the activation; backward begins with the tokens of the step, which it reads as data.
// GRAD-LABEL: func.func @layer.forward(
// GRAD-SAME:    {mg.result = "seq_aux_loss"}
// GRAD-SAME:    {mg.result = "z_loss"}
// GRAD:         mg.loss_term %{{.*}}, %{{.*}} {scale = 1.000000e-03 : f64}
// GRAD-LABEL: func.func @layer.backward(
// GRAD-SAME:    %[[COUNT:[a-z0-9]+]]: tensor<4x6xf32, #mg.layout<b, e>> {mg.arg = "saved"
// GRAD-SAME:    %[[N:[a-z0-9]+]]: tensor<f32, #mg.layout<>> {mg.data = "step_tokens"}
// GRAD-NOT:     mg.loss_term
// GRAD-DAG:     %[[Z:.*]] = mg.scale %[[N]] {factor = 2.000000e-03 : f64}
// GRAD-DAG:     %[[DZ:.*]] = mg.broadcast %[[Z]]
// GRAD-DAG:     mg.router_z_grad %{{.*}}, %[[DZ]]
// GRAD-DAG:     %[[A:.*]] = mg.scale %[[N]] {factor = 1.000000e-03 : f64}
// GRAD-DAG:     %[[DA:.*]] = mg.broadcast %[[A]] : (tensor<f32, #mg.layout<>>) -> tensor<4x6xf32, #mg.layout<b, e>>
// GRAD-DAG:     %[[DP:.*]] = mg.mul %[[DA]], %[[COUNT]]
// GRAD-DAG:     %[[D:.*]] = mg.broadcast %[[DP]]
// GRAD-DAG:     mg.router_probabilities_grad %{{.*}}, %[[D]] {score = "softmax"}

// Both sums over the tokens of a sequence are complete, in one collective, where they are multiplied; the terms are pending
// over what their own sums are split by, and nothing else.
// SHARD-LABEL: func.func @layer.forward(
// SHARD:         mg.sum %{{.*}} -> tensor<4x6xf32, #mg.layout<b [dp], e, sum [cp, tp]>>
// SHARD:         mg.sum %{{.*}} -> tensor<4x6xf32, #mg.layout<b [dp], e, sum [cp, tp]>>
// SHARD:         mg.join
// SHARD-NEXT:    mg.reshard %{{.*}} : tensor<4x2x6xf32, #mg.layout<b [dp], n, e, sum [cp, tp]>> -> tensor<4x2x6xf32, #mg.layout<b [dp], n, e>>
// SHARD-NEXT:    mg.parts
// SHARD:         mg.mul %{{.*}} -> tensor<4x6xf32, #mg.layout<b [dp], e>>
// SHARD:         %[[AUX:.*]] = mg.loss_term %{{.*}} -> tensor<f32, #mg.layout<sum [dp]>>
// SHARD:         %[[Z:.*]] = mg.loss_term %{{.*}} -> tensor<f32, #mg.layout<sum [dp, cp]>>
// SHARD:         return %[[AUX]], %[[Z]], %
func.func @layer(%x: !x, %n: !scalar {mg.data = "step_tokens"}, %w: !w {mg.param = {tensor = "w"}})
    -> (!scalar {mg.result = "seq_aux_loss"}, !scalar {mg.result = "z_loss"}, !weights) attributes {mg.block} {
  %l = mg.einsum %x, %w : (!x, !w) -> !each
  %g, %i = mg.route %l {score = "softmax"} : (!each) -> (!weights, !experts)
  %hot = mg.multi_hot %i : (!experts) -> !each
  %p = mg.router_probabilities %l {score = "softmax"} : (!each) -> !each
  %count = mg.sum %hot : (!each) -> !of
  %mean = mg.sum %p : (!each) -> !of
  %product = mg.mul %mean, %count : (!of, !of) -> !of
  %all = mg.sum %product : (!of) -> !scalar
  %aux = mg.loss_term %all, %n {scale = 1.0e-3 : f64} : (!scalar, !scalar) -> !scalar
  %z = mg.router_z %l : (!each) -> !token
  %zs = mg.sum %z : (!token) -> !scalar
  %zloss = mg.loss_term %zs, %n {scale = 2.0e-3 : f64} : (!scalar, !scalar) -> !scalar
  return %aux, %zloss, %g : !scalar, !scalar, !weights
}
}
