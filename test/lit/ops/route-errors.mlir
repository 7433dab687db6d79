// One error per constraint of mg.route and mg.route_grad, and of their axis rules.
// RUN: %each %s > %t && %mg-opt %t -split-input-file -verify-diagnostics

!se = tensor<4x16xf32, #mg.layout<s, e>>
!sk_i32 = tensor<4x3xi32, #mg.layout<s, k>>
!sk = tensor<4x3xf32, #mg.layout<s, k>>

func.func @f(%x: !se, %x2: tensor<4x64xf32, #mg.layout<s, e>>, %x3: tensor<4x2xf32, #mg.layout<s, e>>,
    %x4: tensor<4x16xf32, #mg.layout<s, e [ep]>>, %x5: tensor<4x16xf32, #mg.layout<s, e, sum [tp]>>, %i2: !sk_i32,
    %d: !sk, %d2: tensor<4x3xf32, #mg.layout<s, k, sum [tp]>>, %x6: tensor<2x16xf32, #mg.layout<b, e, sum [cp]>>,
    %l: tensor<4xf32, #mg.layout<s>>) {
  // EACH
  return
}

// expected-error@+1 {{score is 'tanh'; expected softmax, sigmoid, sqrtsoftplus or none (route_c1)}}
%w, %i = mg.route %x {score = "tanh"} : (!se) -> (!sk, !sk_i32)

// expected-error@+1 {{post is 'tanh'; expected gather, softmax or sigmoid (route_c2)}}
%w, %i = mg.route %x {score = "none", post = "tanh"} : (!se) -> (!sk, !sk_i32)

// expected-error@+1 {{epsilon and least are given; expected at most one (route_c3)}}
%w, %i = mg.route %x {score = "sigmoid", epsilon = 0.0 : f64, least = 1.0 : f64} : (!se) -> (!sk, !sk_i32)

// expected-error@+1 {{expected epsilon >= 0, least > 0 and scale other than 0, all finite (route_c3)}}
%w, %i = mg.route %x {score = "sigmoid", epsilon = -1.0 : f64} : (!se) -> (!sk, !sk_i32)

// expected-error@+1 {{expected epsilon >= 0, least > 0 and scale other than 0, all finite (route_c3)}}
%w, %i = mg.route %x {score = "sigmoid", least = 0.0 : f64} : (!se) -> (!sk, !sk_i32)

// expected-error@+1 {{expected epsilon >= 0, least > 0 and scale other than 0, all finite (route_c3)}}
%w, %i = mg.route %x {score = "sigmoid", scale = 0.0 : f64} : (!se) -> (!sk, !sk_i32)

// expected-error@+1 {{expected epsilon >= 0, least > 0 and scale other than 0, all finite (route_c3)}}
%w, %i = mg.route %x {score = "sigmoid", scale = 0x7FF0000000000000 : f64} : (!se) -> (!sk, !sk_i32)

// Kernels have f32, in which this is 0.
// expected-error@+1 {{expected epsilon >= 0, least > 0 and scale other than 0, all finite (route_c3)}}
%w, %i = mg.route %x {score = "sigmoid", least = 1.0e-60 : f64} : (!se) -> (!sk, !sk_i32)

// expected-error@+1 {{3 groups of 16 experts, 1 kept by the sum of their top 1; expected 1 to 32 groups of equal size, keptGroups in [1, groups], groupTop in [1, size] (route_c4)}}
%w, %i = mg.route %x {score = "sigmoid", groups = 3 : i64} : (!se) -> (!sk, !sk_i32)

// Many groups.
// expected-error@+1 {{(route_c4)}}
%w, %i = mg.route %x2 {score = "sigmoid", groups = 64 : i64} : (tensor<4x64xf32, #mg.layout<s, e>>) -> (!sk, !sk_i32)

// More kept than groups.
// expected-error@+1 {{(route_c4)}}
%w, %i = mg.route %x {score = "sigmoid", groups = 4 : i64, keptGroups = 5 : i64} : (!se) -> (!sk, !sk_i32)

// expected-error@+1 {{4 groups of 16 experts, 1 kept by the sum of their top 5; expected 1 to 32 groups of equal size, keptGroups in [1, groups], groupTop in [1, size] (route_c4)}}
%w, %i = mg.route %x {score = "sigmoid", groups = 4 : i64, groupTop = 5 : i64} : (!se) -> (!sk, !sk_i32)

// expected-error@+1 {{3 experts are chosen of 2 (route_c5)}}
%w, %i = mg.route %x {score = "sigmoid", groups = 8 : i64} : (!se) -> (!sk, !sk_i32)

// expected-error@+1 {{3 experts are chosen of 2 (route_c5)}}
%w, %i = mg.route %x3 {score = "sigmoid"} : (tensor<4x2xf32, #mg.layout<s, e>>) -> (!sk, !sk_i32)

// expected-error@+1 {{0 experts are chosen of 16 (route_c5)}}
%w, %i = mg.route %x {score = "sigmoid"} : (!se) -> (tensor<4x0xf32, #mg.layout<s, k>>, tensor<4x0xi32, #mg.layout<s, k>>)

// The choice needs all experts.
// expected-error@+1 {{dimension 'e' must be whole but is split over ["ep"] (rule_c3)}}
%w, %i = mg.route %x4 {score = "softmax"} : (tensor<4x16xf32, #mg.layout<s, e [ep]>>) -> (!sk, !sk_i32)

// expected-error@+1 {{dimension 'k' must be whole but is split over ["tp"] (rule_c3)}}
%w, %i = mg.route %x {score = "softmax"} : (!se) -> (tensor<4x4xf32, #mg.layout<s, k [tp]>>, tensor<4x4xi32, #mg.layout<s, k [tp]>>)

// expected-error@+1 {{where a complete value is needed (rule_c4)}}
%w, %i = mg.route %x5 {score = "none"} : (tensor<4x16xf32, #mg.layout<s, e, sum [tp]>>) -> (!sk, !sk_i32)

// expected-error@+1 {{dimension 'k' has sizes 3 and 2 (rule_c2)}}
%w, %i = mg.route %x {score = "softmax"} : (!se) -> (!sk, tensor<4x2xi32, #mg.layout<s, k>>)

// expected-error@+1 {{letter k of the rule is bound to 'k' and to 'j' (rule_c1)}}
%w, %i = mg.route %x {score = "softmax"} : (!se) -> (!sk, tensor<4x3xi32, #mg.layout<s, j>>)

// expected-error@+1 {{score is 'tanh'; expected softmax, sigmoid, sqrtsoftplus or none (route_grad_c1)}}
%0 = mg.route_grad %x, %i2, %d {score = "tanh"} : (!se, !sk_i32, !sk) -> !se

// expected-error@+1 {{post is 'tanh'; expected gather, softmax or sigmoid (route_grad_c2)}}
%0 = mg.route_grad %x, %i2, %d {score = "none", post = "tanh"} : (!se, !sk_i32, !sk) -> !se

// expected-error@+1 {{epsilon and least are given; expected at most one (route_grad_c3)}}
%0 = mg.route_grad %x, %i2, %d {score = "sigmoid", epsilon = 0.0 : f64, least = 1.0 : f64} : (!se, !sk_i32, !sk) -> !se

// expected-error@+1 {{where a complete value is needed (rule_c4)}}
%0 = mg.route_grad %x, %i2, %d2 {score = "sigmoid"} : (!se, !sk_i32, tensor<4x3xf32, #mg.layout<s, k, sum [tp]>>) -> !se

// expected-error@+1 {{score is 'none'; expected softmax, sigmoid or sqrtsoftplus (router_probabilities_c1)}}
%p = mg.router_probabilities %x {score = "none"} : (!se) -> !se

// The balance of a rank's own tokens does not type: neither factor of a product may be pending.
// expected-error@+1 {{(rule_c4)}}
%p = mg.mul %x6, %x6 : (tensor<2x16xf32, #mg.layout<b, e, sum [cp]>>, tensor<2x16xf32, #mg.layout<b, e, sum [cp]>>) -> tensor<2x16xf32, #mg.layout<b, e, sum [cp]>>

// expected-error@+1 {{letter e of the rule is bound to 'e' and to 's'}}
%w, %i = mg.route %x load %l {score = "sigmoid"} : (!se, tensor<4xf32, #mg.layout<s>>) -> (!sk, !sk_i32)
