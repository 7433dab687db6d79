// A router in the passes: its gradient, the types of its values, its kernel.
// RUN: %mg-opt %s --mg-grad | FileCheck %s --enable-var-scope --check-prefix=GRAD
// RUN: %mg-opt %s --mg-grad --mg-shard | FileCheck %s --enable-var-scope --check-prefix=SHARD
// RUN: %mg-opt %s --mg-grad --mg-shard --mg-local | sed 's/mg.phase = "local", //' | %mg-opt --mg-fuse | FileCheck %s --enable-var-scope --check-prefix=FUSE

!x = tensor<16x4x8xf32, #mg.layout<s, b, h>>
!w = tensor<8x6xf32, #mg.layout<h, e>>
!b = tensor<6xf32, #mg.layout<e>>
!logits = tensor<16x4x6xf32, #mg.layout<s, b, e>>
!weights = tensor<16x4x6xf32, #mg.layout<s, b, k>>
!experts = tensor<16x4x6xi32, #mg.layout<s, b, k>>

module attributes {mg.mesh = #mg.mesh<dp = 2 : data, tp = 2>, mg.training = #mg.training<split_backward = false>,
  mg.placement = [{dimension = "b", axes = ["dp"]}, {dimension = "s", axes = ["tp"], with = "h", yields},
                  {dimension = "s", axes = ["tp"], with = "e", yields}]} {

// The experts are saved, though backward could choose them again of what it has and they take no less memory: logits that
// were rounded when they were saved could choose others. The load stands in the place of the bias' gradient.
// GRAD-LABEL: func.func @router.forward(
// GRAD:         %[[L:.*]] = mg.einsum
// GRAD:         %[[W:.*]], %[[I:.*]] = mg.route %[[L]], %{{.*}}
// GRAD:         return %[[W]], %[[I]], %[[L]], %[[I]], %
// GRAD-LABEL: func.func @router.backward(
// GRAD-SAME:    %[[DW:[a-z0-9]+]]: tensor<16x4x6xf32, #mg.layout<s, b, k>> {mg.arg = "dout"
// GRAD-SAME:    %[[L:[a-z0-9]+]]: tensor<16x4x6xf32, #mg.layout<s, b, e>> {mg.arg = "saved"
// GRAD-SAME:    %[[I:[a-z0-9]+]]: tensor<16x4x6xi32, #mg.layout<s, b, k>> {mg.arg = "saved"
// GRAD-NOT:     mg.route %
// GRAD:         %[[DL:.*]] = mg.route_grad %[[L]], %[[I]], %[[DW]] {epsilon = 0.000000e+00 : f64, score = "sigmoid"}
// GRAD-DAG:     mg.einsum %[[DL]], %
// GRAD-DAG:     %[[HOT:.*]] = mg.multi_hot %[[I]] : {{.*}} -> tensor<16x4x6xf32
// GRAD-DAG:     mg.sum %[[HOT]] : {{.*}} -> tensor<6xf32
// GRAD-DAG:     mg.einsum %{{.*}}, %[[DL]]

// Logits are split as their tokens are, weights and experts too; the weight's gradient is pending over all that split tokens.
// SHARD-LABEL: func.func @router.forward(
// SHARD:         mg.route %{{.*}} : (tensor<16x4x6xf32, #mg.layout<s [tp], b [dp], e>>, tensor<6xf32, #mg.layout<e>>) -> (tensor<16x4x6xf32, #mg.layout<s [tp], b [dp], k>>, tensor<16x4x6xi32, #mg.layout<s [tp], b [dp], k>>)
// SHARD-LABEL: func.func @router.backward(
// SHARD:         mg.route_grad %{{.*}} -> tensor<16x4x6xf32, #mg.layout<s [tp], b [dp], e>>
// SHARD-DAG:     mg.einsum %{{.*}} -> tensor<8x6xf32, #mg.layout<h, e, sum [{{.*}}]>>
// SHARD-DAG:     mg.sum %{{.*}} -> tensor<6xf32, #mg.layout<e, sum [dp, tp]>>

// FUSE-LABEL: func.func @router.forward(
// FUSE:         mg.kernel {
// FUSE-NEXT:      mg.route
// FUSE-LABEL: func.func @router.backward(
// FUSE:         mg.kernel {
// FUSE-NEXT:      mg.route_grad
func.func @router(%x: !x, %w: !w {mg.param = {tensor = "w"}}, %b: !b {mg.param = {tensor = "b"}}) -> (!weights, !experts) attributes {mg.block} {
  %l = mg.einsum %x, %w : (!x, !w) -> !logits
  %g, %i = mg.route %l, %b {score = "sigmoid", epsilon = 0.0 : f64} : (!logits, !b) -> (!weights, !experts)
  return %g, %i : !weights, !experts
}

// A counter has the load for a gradient too. Forward routes as without it: the operand is gone, the argument is read by nothing.
// GRAD-LABEL: func.func @counted.forward(
// GRAD-SAME:    %[[COUNTER:[a-z0-9]+]]: tensor<6xf32, #mg.layout<e>> {mg.param = {counts, mean_load = 6.400000e+01 : f64, tensor = "w.load"}}
// GRAD-NOT:     %[[COUNTER]]
// GRAD:         mg.route %{{[0-9]+}} {score = "softmax"} : (tensor<16x4x6xf32, #mg.layout<s, b, e>>) -> (
// GRAD-NOT:     %[[COUNTER]]
// GRAD-LABEL: func.func @counted.backward(
// GRAD-NOT:     "w.load"
// GRAD-SAME:    %[[I:[a-z0-9]+]]: tensor<16x4x6xi32, #mg.layout<s, b, k>> {mg.arg = "saved"
// GRAD:         %[[HOT:.*]] = mg.multi_hot %[[I]] : {{.*}} -> tensor<16x4x6xf32
// GRAD-NEXT:    %[[LOAD:.*]] = mg.sum %[[HOT]] : {{.*}} -> tensor<6xf32
// GRAD:         return {{.*}}%[[LOAD]]

// SHARD-LABEL: func.func @counted.backward(
// SHARD:         mg.sum %{{.*}} -> tensor<6xf32, #mg.layout<e, sum [dp, tp]>>
func.func @counted(%x: !x, %w: !w {mg.param = {tensor = "w"}}, %l: !b {mg.param = {tensor = "w.load", mean_load = 64.0 : f64, counts}}) -> (!weights, !experts) attributes {mg.block} {
  %u = mg.einsum %x, %w : (!x, !w) -> !logits
  %g, %i = mg.route %u load %l {score = "softmax"} : (!logits, !b) -> (!weights, !experts)
  return %g, %i : !weights, !experts
}

}
