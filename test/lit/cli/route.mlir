// A program with a router: pipelined, where experts are saved as integers and sent between tasks, and on two data ranks it
// trains alike; for a GPU its kernels are PTX.
// RUN: sed 's/dp = 2 : data, pp = \[\]/pp = 2 : stage, dp = []/; s/microbatches = 4/microbatches = 8/; s/x2x/x1x/g; s/tensor<4x2xf32/tensor<4x1xf32/; s/tensor<4x2xi32/tensor<4x1xi32/' %s > %t.pp.mlir
// RUN: %mgc compile %s -o %t.dp
// RUN: %mgc compile %t.pp.mlir -o %t.pp
// RUN: (%mgrun %t.dp --mock-data --train-iters 3 --poison; %mgrun %t.pp --mock-data --train-iters 3 --poison) | FileCheck %s --enable-var-scope
// CHECK:      3 steps: loss [[FIRST:[0-9.]+]] -> [[LAST:[0-9.]+]],
// CHECK-NEXT: 3 steps: loss [[FIRST]] -> [[LAST]],
// RUN: sed 's/mg.model = /mg.target = "cuda:sm_90", mg.model = /' %s > %t.gpu.mlir
// RUN: %mgc compile %t.gpu.mlir -o %t.gpu
// RUN: FileCheck %s --check-prefix=PTX < %t.gpu/kernels/sm_90.ptx
// PTX-DAG: .entry k{{[0-9]+}}_route(
// PTX-DAG: .entry k{{[0-9]+}}_route_grad(

#sbh = #mg.layout<s, b, h>
#sbf = #mg.layout<s, b, f>
#sbk = #mg.layout<s, b, k>
#sbv = #mg.layout<s, b, v>
#sb = #mg.layout<s, b>
module attributes {
    mg.mesh = #mg.mesh<dp = 2 : data, pp = []>, mg.phase = "import", mg.placement = [{dimension = "b", axes = ["dp"]}],
    mg.model = {type = "small"},
    mg.training = #mg.training<sequence_length = 4, micro_batch_size = 1, global_batch_size = 8, microbatches = 4, vocabulary = 16,
                   schedule = "1f1b", virtual_stages = 1, zero = 0, loss_tile = 2, sequence_parallel = false,
                   split_backward = false, dtype = f32, gradient_dtype = f32>} {
  func.func @embed(%tokens: tensor<4x2xi32, #sb> {mg.data = "tokens"},
                   %w: tensor<16x16xf32, #mg.layout<v, h>> {mg.param = {tensor = "embed", aliases = [], part = "",
                     file_shape = array<i64: 16, 16>, grouping = array<i64: 1, 1>, offset = array<i64: 0, 0>,
                     valid = array<i64: 16, 16>, init = "normal", std = 2.0e-02 : f64}})
      -> tensor<4x2x16xf32, #sbh> attributes {mg.block} {
    %x = mg.embed %tokens, %w : (tensor<4x2xi32, #sb>, tensor<16x16xf32, #mg.layout<v, h>>) -> tensor<4x2x16xf32, #sbh>
    return %x : tensor<4x2x16xf32, #sbh>
  }
  func.func @layer(%x: tensor<4x2x16xf32, #sbh>,
                   %w: tensor<16x16xf32, #mg.layout<f, h>> {mg.param = {tensor = "layers.{}.weight", aliases = [],
                     part = "", file_shape = array<i64: 16, 16>, grouping = array<i64: 1, 1>,
                     offset = array<i64: 0, 0>, valid = array<i64: 16, 16>, init = "normal", std = 2.0e-01 : f64}},
                   %o: tensor<4x16xf32, #mg.layout<k, h>> {mg.param = {tensor = "layers.{}.out", aliases = [],
                     part = "", file_shape = array<i64: 4, 16>, grouping = array<i64: 1, 1>,
                     offset = array<i64: 0, 0>, valid = array<i64: 4, 16>, init = "normal", std = 5.0e-01 : f64}})
      -> tensor<4x2x16xf32, #sbh> attributes {mg.block} {
    %u = mg.einsum %x, %w : (tensor<4x2x16xf32, #sbh>, tensor<16x16xf32, #mg.layout<f, h>>) -> tensor<4x2x16xf32, #sbf>
    %g, %i = mg.route %u {score = "sigmoid", groups = 4 : i64, keptGroups = 2 : i64, groupTop = 2 : i64, epsilon = 0.0 : f64} : (tensor<4x2x16xf32, #sbf>) -> (tensor<4x2x4xf32, #sbk>, tensor<4x2x4xi32, #sbk>)
    %z = mg.einsum %g, %o : (tensor<4x2x4xf32, #sbk>, tensor<4x16xf32, #mg.layout<k, h>>) -> tensor<4x2x16xf32, #sbh>
    %r = mg.add %x, %z : (tensor<4x2x16xf32, #sbh>, tensor<4x2x16xf32, #sbh>) -> tensor<4x2x16xf32, #sbh>
    return %r : tensor<4x2x16xf32, #sbh>
  }
  func.func @head(%x: tensor<4x2x16xf32, #sbh>, %labels: tensor<4x2xi32, #sb> {mg.data = "labels"},
                  %weights: tensor<4x2xf32, #sb> {mg.data = "loss_weights"},
                  %w: tensor<16x16xf32, #mg.layout<v, h>> {mg.param = {tensor = "head", aliases = [], part = "",
                    file_shape = array<i64: 16, 16>, grouping = array<i64: 1, 1>, offset = array<i64: 0, 0>,
                    valid = array<i64: 16, 16>, init = "normal", std = 2.0e-02 : f64}})
      -> (tensor<f32, #mg.layout<>> {mg.result = "loss_sum"}, tensor<f32, #mg.layout<>> {mg.result = "tokens"})
      attributes {mg.block} {
    %l = mg.einsum %x, %w : (tensor<4x2x16xf32, #sbh>, tensor<16x16xf32, #mg.layout<v, h>>) -> tensor<4x2x16xf32, #sbv>
    %loss, %lse = mg.cross_entropy %l, %labels, %weights {valid = 16 : i64}
      : (tensor<4x2x16xf32, #sbv>, tensor<4x2xi32, #sb>, tensor<4x2xf32, #sb>)
      -> (tensor<f32, #mg.layout<>>, tensor<4x2xf32, #sb>)
    %n = mg.sum %weights : (tensor<4x2xf32, #sb>) -> tensor<f32, #mg.layout<>>
    return %loss, %n : tensor<f32, #mg.layout<>>, tensor<f32, #mg.layout<>>
  }
  mg.chain {
    mg.instance @embed
    mg.instance @layer count 8
    mg.instance @head
  }
}
