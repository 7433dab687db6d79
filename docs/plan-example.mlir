// The program of docs/plan-format.md as phase import leaves it: 8 layers y = silu(W x) between an embedding and a head.
#sbh = #mg.layout<s, b, h>
#sbf = #mg.layout<s, b, f>
#sbv = #mg.layout<s, b, v>
#sb = #mg.layout<s, b>
module attributes {
    mg.mesh = #mg.mesh<pp = 2 : stage, dp = []>, mg.phase = "import", mg.placement = [{dimension = "b", axes = ["dp"]}],
    mg.model = {type = "small"},
    mg.training = #mg.training<sequence_length = 4, micro_batch_size = 1, global_batch_size = 8, microbatches = 8,
                               vocabulary = 16, schedule = "1f1b", loss_tile = 2>} {
  func.func @embed(%tokens: tensor<4x1xi32, #sb> {mg.data = "tokens"},
                   %w: tensor<16x16xf32, #mg.layout<v, h>> {mg.param = {tensor = "embed", aliases = [], part = "",
                     file_shape = array<i64: 16, 16>, grouping = array<i64: 1, 1>, offset = array<i64: 0, 0>,
                     valid = array<i64: 16, 16>, init = "normal", std = 2.0e-02 : f64}})
      -> tensor<4x1x16xf32, #sbh> attributes {mg.block} {
    %x = mg.embed %tokens, %w : (tensor<4x1xi32, #sb>, tensor<16x16xf32, #mg.layout<v, h>>) -> tensor<4x1x16xf32, #sbh>
    return %x : tensor<4x1x16xf32, #sbh>
  }
  func.func @layer(%x: tensor<4x1x16xf32, #sbh>,
                   %w: tensor<16x16xf32, #mg.layout<f, h>> {mg.param = {tensor = "layers.{}.weight", aliases = [],
                     part = "", file_shape = array<i64: 16, 16>, grouping = array<i64: 1, 1>,
                     offset = array<i64: 0, 0>, valid = array<i64: 16, 16>, init = "normal", std = 2.0e-02 : f64}})
      -> tensor<4x1x16xf32, #sbh> attributes {mg.block} {
    %u = mg.einsum %x, %w : (tensor<4x1x16xf32, #sbh>, tensor<16x16xf32, #mg.layout<f, h>>) -> tensor<4x1x16xf32, #sbf>
    %a = mg.silu %u : (tensor<4x1x16xf32, #sbf>) -> tensor<4x1x16xf32, #sbf>
    %r = mg.rename %a {from = "f", to = "h"} : (tensor<4x1x16xf32, #sbf>) -> tensor<4x1x16xf32, #sbh>
    return %r : tensor<4x1x16xf32, #sbh>
  }
  func.func @head(%x: tensor<4x1x16xf32, #sbh>, %labels: tensor<4x1xi32, #sb> {mg.data = "labels"},
                  %weights: tensor<4x1xf32, #sb> {mg.data = "loss_weights"},
                  %w: tensor<16x16xf32, #mg.layout<v, h>> {mg.param = {tensor = "head", aliases = [], part = "",
                    file_shape = array<i64: 16, 16>, grouping = array<i64: 1, 1>, offset = array<i64: 0, 0>,
                    valid = array<i64: 16, 16>, init = "normal", std = 2.0e-02 : f64}})
      -> (tensor<f32, #mg.layout<>> {mg.result = "loss_sum"}, tensor<f32, #mg.layout<>> {mg.result = "tokens"})
      attributes {mg.block} {
    %l = mg.einsum %x, %w : (tensor<4x1x16xf32, #sbh>, tensor<16x16xf32, #mg.layout<v, h>>) -> tensor<4x1x16xf32, #sbv>
    %loss, %lse = mg.cross_entropy %l, %labels, %weights {valid = 16 : i64}
      : (tensor<4x1x16xf32, #sbv>, tensor<4x1xi32, #sb>, tensor<4x1xf32, #sb>)
      -> (tensor<f32, #mg.layout<>>, tensor<4x1xf32, #sb>)
    %n = mg.sum %weights : (tensor<4x1xf32, #sb>) -> tensor<f32, #mg.layout<>>
    return %loss, %n : tensor<f32, #mg.layout<>>, tensor<f32, #mg.layout<>>
  }
  mg.chain {
    mg.instance @embed
    mg.instance @layer count 8
    mg.instance @head
  }
}
