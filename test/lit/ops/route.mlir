// Routers are printed as they are read; what is not said is not printed.
// RUN: %mg-opt %s | FileCheck %s
// RUN: %mg-opt %s | %mg-opt | FileCheck %s

!logits = tensor<4x2x16xf32, #mg.layout<s, b, e>>
!bias = tensor<16xf32, #mg.layout<e>>
!weights = tensor<4x2x3xf32, #mg.layout<s, b, k>>
!experts = tensor<4x2x3xi32, #mg.layout<s, b, k>>

// CHECK-LABEL: func.func @plain(
// CHECK: mg.route %arg0 {epsilon = 0.000000e+00 : f64, score = "softmax"} : (tensor<4x2x16xf32, #mg.layout<s, b, e>>) -> (tensor<4x2x3xf32, #mg.layout<s, b, k>>, tensor<4x2x3xi32, #mg.layout<s, b, k>>)
func.func @plain(%x: !logits) -> (!weights, !experts) {
  %w, %i = mg.route %x {score = "softmax", epsilon = 0.0 : f64} : (!logits) -> (!weights, !experts)
  return %w, %i : !weights, !experts
}

// CHECK-LABEL: func.func @groups(
// CHECK: mg.route %arg0, %arg1 {groupTop = 2 : i64, groups = 4 : i64, keptGroups = 2 : i64, least = 1.250000e-01 : f64, scale = 2.500000e+00 : f64, score = "sigmoid"} : (
func.func @groups(%x: !logits, %b: !bias) -> (!weights, !experts) {
  %w, %i = mg.route %x, %b {score = "sigmoid", groups = 4 : i64, keptGroups = 2 : i64, groupTop = 2 : i64, least = 0.125 : f64, scale = 2.5 : f64} : (!logits, !bias) -> (!weights, !experts)
  return %w, %i : !weights, !experts
}

// CHECK-LABEL: func.func @counted(
// CHECK: mg.route %arg0 load %arg1 {score = "softmax"} : (tensor<4x2x16xf32, #mg.layout<s, b, e>>, tensor<16xf32, #mg.layout<e>>) -> (
func.func @counted(%x: !logits, %l: !bias) -> (!weights, !experts) {
  %w, %i = mg.route %x load %l {score = "softmax"} : (!logits, !bias) -> (!weights, !experts)
  return %w, %i : !weights, !experts
}

// Tokens that are split are routed where they are: no dimension of theirs is touched.
// CHECK-LABEL: func.func @split_tokens(
// CHECK: mg.route %arg0 {post = "sigmoid", score = "none"}
func.func @split_tokens(%x: tensor<4x2x16xbf16, #mg.layout<s [cp, tp], b [dp], e>>) {
  %w, %i = mg.route %x {score = "none", post = "sigmoid"} : (tensor<4x2x16xbf16, #mg.layout<s [cp, tp], b [dp], e>>) -> (tensor<4x2x1xf32, #mg.layout<s [cp, tp], b [dp], k>>, tensor<4x2x1xi32, #mg.layout<s [cp, tp], b [dp], k>>)
  return
}

// CHECK-LABEL: func.func @gradient(
// CHECK: mg.route_grad %arg0, %arg1, %arg2 {post = "softmax", score = "none"} : (
func.func @gradient(%x: !logits, %i: !experts, %dw: !weights) -> !logits {
  %dx = mg.route_grad %x, %i, %dw {score = "none", post = "softmax"} : (!logits, !experts, !weights) -> !logits
  return %dx : !logits
}
