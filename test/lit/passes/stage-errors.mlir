// RUN: %mg-opt %s --mg-stage -split-input-file -verify-diagnostics

// expected-error@+1 {{mg.training: virtual_stages = 0; expected at least 1}}
module attributes {mg.mesh = #mg.mesh<>, mg.training = #mg.training<virtual_stages = 0>} {
}

// -----

// expected-error@+1 {{0 layers do not fill 2 stages x 9223372036854775807 virtual stages; at most 0 chunks}}
module attributes {mg.mesh = #mg.mesh<pp = 2 : stage>, mg.training = #mg.training<virtual_stages = 9223372036854775807>} {
func.func @head.forward() -> (tensor<f32, #mg.layout<>> {mg.result = "loss_sum"}, tensor<f32, #mg.layout<>> {mg.result = "tokens"})
    attributes {mg.block = "head", mg.pass = "forward"} {
  %0 = mg.zero : tensor<f32, #mg.layout<>>
  return %0, %0 : tensor<f32, #mg.layout<>>, tensor<f32, #mg.layout<>>
}
mg.chain { mg.instance @head }
}

// -----

!i = tensor<4xi32, #mg.layout<s>>

module attributes {mg.mesh = #mg.mesh<>} {
// expected-error@+1 {{argument 0: mg.data is 'segment_ids'; expected one of tokens, labels, loss_weights, positions, key_positions, samples}}
func.func @embed.forward(%ids: !i {mg.data = "segment_ids"}) attributes {mg.block = "embed", mg.pass = "forward"} { return }
}
