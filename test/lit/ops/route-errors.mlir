// One error per constraint of mg.route and mg.route_grad, and of their axis rules.
// RUN: %mg-opt %s -split-input-file -verify-diagnostics

func.func @score(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{score is 'tanh'; expected softmax, sigmoid, sqrtsoftplus or none (route_c1)}}
  %w, %i = mg.route %x {score = "tanh"} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @post(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{post is 'tanh'; expected gather, softmax or sigmoid (route_c2)}}
  %w, %i = mg.route %x {score = "none", post = "tanh"} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @two_divisors(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{epsilon and least are given; expected at most one (route_c3)}}
  %w, %i = mg.route %x {score = "sigmoid", epsilon = 0.0 : f64, least = 1.0 : f64} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @negative_epsilon(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{expected epsilon >= 0, least > 0 and scale other than 0, all finite (route_c3)}}
  %w, %i = mg.route %x {score = "sigmoid", epsilon = -1.0 : f64} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @least_of_zero(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{expected epsilon >= 0, least > 0 and scale other than 0, all finite (route_c3)}}
  %w, %i = mg.route %x {score = "sigmoid", least = 0.0 : f64} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @scale_of_zero(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{expected epsilon >= 0, least > 0 and scale other than 0, all finite (route_c3)}}
  %w, %i = mg.route %x {score = "sigmoid", scale = 0.0 : f64} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @infinite_scale(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{expected epsilon >= 0, least > 0 and scale other than 0, all finite (route_c3)}}
  %w, %i = mg.route %x {score = "sigmoid", scale = 0x7FF0000000000000 : f64} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

// Kernels have f32, in which this is 0.
func.func @least_below_f32(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{expected epsilon >= 0, least > 0 and scale other than 0, all finite (route_c3)}}
  %w, %i = mg.route %x {score = "sigmoid", least = 1.0e-60 : f64} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @uneven_groups(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{3 groups of 16 experts, 1 kept by the sum of their top 1; expected 1 to 32 groups of equal size, keptGroups in [1, groups], groupTop in [1, size] (route_c4)}}
  %w, %i = mg.route %x {score = "sigmoid", groups = 3 : i64} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @many_groups(%x: tensor<4x64xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{(route_c4)}}
  %w, %i = mg.route %x {score = "sigmoid", groups = 64 : i64} : (tensor<4x64xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @more_kept_than_groups(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{(route_c4)}}
  %w, %i = mg.route %x {score = "sigmoid", groups = 4 : i64, keptGroups = 5 : i64} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @top_of_more_than_a_group(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{4 groups of 16 experts, 1 kept by the sum of their top 5; expected 1 to 32 groups of equal size, keptGroups in [1, groups], groupTop in [1, size] (route_c4)}}
  %w, %i = mg.route %x {score = "sigmoid", groups = 4 : i64, groupTop = 5 : i64} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @too_few_kept(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{3 experts are chosen of 2 (route_c5)}}
  %w, %i = mg.route %x {score = "sigmoid", groups = 8 : i64} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @more_than_all(%x: tensor<4x2xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{3 experts are chosen of 2 (route_c5)}}
  %w, %i = mg.route %x {score = "sigmoid"} : (tensor<4x2xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @none_chosen(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{0 experts are chosen of 16 (route_c5)}}
  %w, %i = mg.route %x {score = "sigmoid"} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x0xf32, #mg.layout<s, k>>, tensor<4x0xi32, #mg.layout<s, k>>)
  return
}

// -----

// The choice needs all experts.
func.func @split_experts(%x: tensor<4x16xf32, #mg.layout<s, e [ep]>>) {
  // expected-error@+1 {{dimension 'e' must be whole but is split over ["ep"] (rule_c3)}}
  %w, %i = mg.route %x {score = "softmax"} : (tensor<4x16xf32, #mg.layout<s, e [ep]>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @split_choice(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{dimension 'k' must be whole but is split over ["tp"] (rule_c3)}}
  %w, %i = mg.route %x {score = "softmax"} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x4xf32, #mg.layout<s, k [tp]>>, tensor<4x4xi32, #mg.layout<s, k [tp]>>)
  return
}

// -----

func.func @pending_logits(%x: tensor<4x16xf32, #mg.layout<s, e, sum [tp]>>) {
  // expected-error@+1 {{where a complete value is needed (rule_c4)}}
  %w, %i = mg.route %x {score = "none"} : (tensor<4x16xf32, #mg.layout<s, e, sum [tp]>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @counts_differ(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{dimension 'k' has sizes 3 and 2 (rule_c2)}}
  %w, %i = mg.route %x {score = "softmax"} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x2xi32, #mg.layout<s, k>>)
  return
}

// -----

func.func @names_differ(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{letter k of the rule is bound to 'k' and to 'j' (rule_c1)}}
  %w, %i = mg.route %x {score = "softmax"} : (tensor<4x16xf32, #mg.layout<s, e>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, j>>)
  return
}

// -----

func.func @grad_score(%x: tensor<4x16xf32, #mg.layout<s, e>>, %i: tensor<4x3xi32, #mg.layout<s, k>>, %d: tensor<4x3xf32, #mg.layout<s, k>>) {
  // expected-error@+1 {{score is 'tanh'; expected softmax, sigmoid, sqrtsoftplus or none (route_grad_c1)}}
  %0 = mg.route_grad %x, %i, %d {score = "tanh"} : (tensor<4x16xf32, #mg.layout<s, e>>, tensor<4x3xi32, #mg.layout<s, k>>, tensor<4x3xf32, #mg.layout<s, k>>) -> tensor<4x16xf32, #mg.layout<s, e>>
  return
}

// -----

func.func @grad_post(%x: tensor<4x16xf32, #mg.layout<s, e>>, %i: tensor<4x3xi32, #mg.layout<s, k>>, %d: tensor<4x3xf32, #mg.layout<s, k>>) {
  // expected-error@+1 {{post is 'tanh'; expected gather, softmax or sigmoid (route_grad_c2)}}
  %0 = mg.route_grad %x, %i, %d {score = "none", post = "tanh"} : (tensor<4x16xf32, #mg.layout<s, e>>, tensor<4x3xi32, #mg.layout<s, k>>, tensor<4x3xf32, #mg.layout<s, k>>) -> tensor<4x16xf32, #mg.layout<s, e>>
  return
}

// -----

func.func @grad_divisors(%x: tensor<4x16xf32, #mg.layout<s, e>>, %i: tensor<4x3xi32, #mg.layout<s, k>>, %d: tensor<4x3xf32, #mg.layout<s, k>>) {
  // expected-error@+1 {{epsilon and least are given; expected at most one (route_grad_c3)}}
  %0 = mg.route_grad %x, %i, %d {score = "sigmoid", epsilon = 0.0 : f64, least = 1.0 : f64} : (tensor<4x16xf32, #mg.layout<s, e>>, tensor<4x3xi32, #mg.layout<s, k>>, tensor<4x3xf32, #mg.layout<s, k>>) -> tensor<4x16xf32, #mg.layout<s, e>>
  return
}

// -----

func.func @grad_pending(%x: tensor<4x16xf32, #mg.layout<s, e>>, %i: tensor<4x3xi32, #mg.layout<s, k>>, %d: tensor<4x3xf32, #mg.layout<s, k, sum [tp]>>) {
  // expected-error@+1 {{where a complete value is needed (rule_c4)}}
  %0 = mg.route_grad %x, %i, %d {score = "sigmoid"} : (tensor<4x16xf32, #mg.layout<s, e>>, tensor<4x3xi32, #mg.layout<s, k>>, tensor<4x3xf32, #mg.layout<s, k, sum [tp]>>) -> tensor<4x16xf32, #mg.layout<s, e>>
  return
}

// -----

func.func @no_probabilities(%x: tensor<4x16xf32, #mg.layout<s, e>>) {
  // expected-error@+1 {{score is 'none'; expected softmax, sigmoid or sqrtsoftplus (router_probabilities_c1)}}
  %p = mg.router_probabilities %x {score = "none"} : (tensor<4x16xf32, #mg.layout<s, e>>) -> tensor<4x16xf32, #mg.layout<s, e>>
  return
}

// -----

// The balance of a rank's own tokens does not type: neither factor of a product may be pending.
func.func @product_of_pending_sums(%x: tensor<2x16xf32, #mg.layout<b, e, sum [cp]>>) {
  // expected-error@+1 {{(rule_c4)}}
  %p = mg.mul %x, %x : (tensor<2x16xf32, #mg.layout<b, e, sum [cp]>>, tensor<2x16xf32, #mg.layout<b, e, sum [cp]>>) -> tensor<2x16xf32, #mg.layout<b, e, sum [cp]>>
  return
}

// -----

func.func @load_of_others(%x: tensor<4x16xf32, #mg.layout<s, e>>, %l: tensor<4xf32, #mg.layout<s>>) {
  // expected-error@+1 {{letter e of the rule is bound to 'e' and to 's'}}
  %w, %i = mg.route %x load %l {score = "sigmoid"} : (tensor<4x16xf32, #mg.layout<s, e>>, tensor<4xf32, #mg.layout<s>>) -> (tensor<4x3xf32, #mg.layout<s, k>>, tensor<4x3xi32, #mg.layout<s, k>>)
  return
}
