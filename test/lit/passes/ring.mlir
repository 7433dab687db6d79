// RUN: %mg-opt %s --mg-ring | FileCheck %s --enable-var-scope

!q = tensor<4x2x1x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<4x2x1x8xf32, #mg.layout<t, b, g, d>>
!l = tensor<4x2x1x2xf32, #mg.layout<s, b, g, r>>
!s = tensor<4x2xi32, #mg.layout<s, b>>
!t = tensor<4x2xi32, #mg.layout<t, b>>
!qb = tensor<4x2x1x2x8xbf16, #mg.layout<s, b, g, r, d>>
!kb = tensor<4x2x1x8xbf16, #mg.layout<t, b, g, d>>

module attributes {mg.mesh = #mg.mesh<cp = 2 : sequence, tp = 2>} {

// The own keys first; the next rank's arrive in one call, with their positions, and the two results are merged.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME:    %[[Q:[^:]*]]: {{.*}}, %[[K:[^:]*]]: tensor<{{[^,]*}}, #mg.layout<t, b, g, d>>, %[[V:[^:]*]]: tensor<{{[^,]*}}, #mg.layout<t, b, g, d>>, %[[P:[^:]*]]: {{.*}}, %[[T:[^:]*]]: tensor<4x2xi32, #mg.layout<t, b>>)
// CHECK:         %[[O0:.*]], %[[L0:.*]] = mg.attention %[[Q]], %[[K]], %[[V]], %[[P]], %[[T]] {queriesPerGroup = 2 : i64, scale = 1.000000e+00 : f64, window = 3 : i64} :
// CHECK-NEXT:    %[[KV:.*]] = mg.join %[[K]], %[[V]] along "n" {{.*}} -> tensor<4x2x1x2x8xf32, #mg.layout<t, b, g, n, d>>
// CHECK-NEXT:    %[[KV1:.*]] = mg.permute %[[KV]] over ["cp"]
// CHECK-NEXT:    %[[PARTS:.*]]:2 = mg.parts %[[KV1]] along "n"
// CHECK-NEXT:    %[[T1:.*]] = mg.permute %[[T]] over ["cp"] : tensor<4x2xi32
// CHECK-NEXT:    %[[O1:.*]], %[[L1:.*]] = mg.attention %[[Q]], %[[PARTS]]#0, %[[PARTS]]#1, %[[P]], %[[T1]] {queriesPerGroup = 2 : i64, scale = 1.000000e+00 : f64, window = 3 : i64} :
// CHECK-NEXT:    %[[O:.*]], %[[L:.*]] = mg.merge_attention %[[O0]], %[[L0]], %[[O1]], %[[L1]]
// CHECK-NEXT:    return %[[O]], %[[L]]
func.func @forward(%q: !q, %k: !k, %v: !k, %p: !s, %t: !t) -> (!q, !l) {
  %o, %lse = mg.attention %q, %k, %v, %p, %t {scale = 1.0, window = 3, queriesPerGroup = 2, ring = ["cp"]} : (!q, !k, !k, !s, !t) -> (!q, !l)
  return %o, %lse : !q, !l
}

// dk and dv of the keys that have arrived travel one hop more; the own part is added last, and each sum rounded then.
// CHECK-LABEL: func.func @backward(
// CHECK:         %[[DQ1:.*]], %[[DK1:.*]], %[[DV1:.*]] = mg.attention_grad {{.*}} -> (tensor<4x2x1x2x8xf32, {{.*}}>, tensor<4x2x1x8xf32, {{.*}}>, tensor<4x2x1x8xf32, {{.*}}>)
// CHECK-NEXT:    %[[SUM:.*]] = mg.join %[[DK1]], %[[DV1]] along "n"
// CHECK-NEXT:    %[[DQ0:.*]], %[[DK0:.*]], %[[DV0:.*]] = mg.attention_grad %arg0, %arg1, %arg2,
// CHECK-NEXT:    %[[HOME:.*]] = mg.permute %[[SUM]] over ["cp"]
// CHECK-NEXT:    %[[PARTS:.*]]:2 = mg.parts %[[HOME]] along "n"
// CHECK-DAG:     mg.accumulate %[[DQ1]], %[[DQ0]] {apart, signs = array<i64: 1, 1>} : {{.*}} -> tensor<4x2x1x2x8xbf16
// CHECK-DAG:     mg.accumulate %[[PARTS]]#0, %[[DK0]] {apart, signs = array<i64: 1, 1>} : {{.*}} -> tensor<4x2x1x8xbf16
// CHECK-DAG:     mg.accumulate %[[PARTS]]#1, %[[DV0]] {apart, signs = array<i64: 1, 1>} : {{.*}} -> tensor<4x2x1x8xbf16
// CHECK-NOT:     mg.permute
func.func @backward(%q: !qb, %k: !kb, %v: !kb, %o: !qb, %l: !l, %do: !qb, %p: !s, %t: !t) -> (!qb, !kb, !kb) {
  %dq, %dk, %dv = mg.attention_grad %q, %k, %v, %o, %l, %do, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = ["cp"]} : (!qb, !kb, !kb, !qb, !l, !qb, !s, !t) -> (!qb, !kb, !kb)
  return %dq, %dk, %dv : !qb, !kb, !kb
}

// Around four ranks keys make three hops, and so do the sums of their gradients; results are bf16 at the end alone.
// CHECK-LABEL: func.func @four_ranks(
// CHECK-COUNT-2: mg.merge_attention {{.*}} -> (tensor<4x2x1x2x8xf32
// CHECK:         mg.merge_attention {{.*}} -> (tensor<4x2x1x2x8xbf16
// CHECK-COUNT-3: mg.permute %{{.*}} : tensor<4x2x1x2x8xbf16, #mg.layout<t, b, g, n, d>>
// CHECK:         mg.permute %{{.*}} : tensor<4x2x1x2x8xf32, #mg.layout<t, b, g, n, d>>
// CHECK-NOT:     mg.permute %{{.*}} : tensor<4x2x1x2x8xbf16
// CHECK:         return
func.func @four_ranks(%q: !qb, %k: !kb, %v: !kb, %do: !qb, %p: !s, %t: !t) -> (!qb, !kb, !kb) {
  %o, %lse = mg.attention %q, %k, %v, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = ["cp", "tp"]} : (!qb, !kb, !kb, !s, !t) -> (!qb, !l)
  %dq, %dk, %dv = mg.attention_grad %q, %k, %v, %o, %lse, %do, %p, %t {scale = 1.0, queriesPerGroup = 2, ring = ["cp", "tp"]} : (!qb, !kb, !kb, !qb, !l, !qb, !s, !t) -> (!qb, !kb, !kb)
  return %dq, %dk, %dv : !qb, !kb, !kb
}

// Sinks join the rank's own keys, once.
// CHECK-LABEL: func.func @sinks(
// CHECK:         mg.attention {{.*}} sinks %arg5 {
// CHECK-NOT:     sinks
// CHECK:         mg.merge_attention
// CHECK:         return
func.func @sinks(%q: !q, %k: !k, %v: !k, %p: !s, %t: !t, %sinks: tensor<1x2xf32, #mg.layout<g, r>>) -> (!q, !l) {
  %o, %lse = mg.attention %q, %k, %v, %p, %t sinks %sinks {scale = 1.0, queriesPerGroup = 2, ring = ["cp"]} : (!q, !k, !k, !s, !t, tensor<1x2xf32, #mg.layout<g, r>>) -> (!q, !l)
  return %o, %lse : !q, !l
}

// Attention that has no ring stays as it is.
// CHECK-LABEL: func.func @alone(
// CHECK-NEXT:    mg.attention
// CHECK-NEXT:    return
func.func @alone(%q: !q, %k: !k, %p: !s, %t: !t) -> !q {
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, queriesPerGroup = 2} : (!q, !k, !k, !s, !t) -> (!q, !l)
  return %o : !q
}

// Where attention is not causal every step is there as well, with all that says what a query sees and how its scores are made.
// CHECK-LABEL: func.func @bidirectional(
// CHECK-COUNT-2: mg.attention {{.*}} starts %{{.*}} ends %{{.*}} {causal = false, queriesPerGroup = 2 : i64, scale = 1.000000e+00 : f64, slopes = array<f64: 5.000000e-01, 2.500000e-01>, softcap = 3.000000e+01 : f64}
// CHECK-COUNT-2: mg.attention_grad {{.*}} starts %{{.*}} ends %{{.*}} {causal = false, queriesPerGroup = 2 : i64, scale = 1.000000e+00 : f64, slopes = array<f64: 5.000000e-01, 2.500000e-01>, softcap = 3.000000e+01 : f64}
func.func @bidirectional(%q: !q, %k: !k, %v: !k, %do: !q, %p: !s, %t: !t, %starts: !s, %ends: !s) -> (!q, !k, !k) {
  %o, %lse = mg.attention %q, %k, %v, %p, %t starts %starts ends %ends {scale = 1.0, causal = false, softcap = 30.0, slopes = array<f64: 0.5, 0.25>, queriesPerGroup = 2, ring = ["cp"]} : (!q, !k, !k, !s, !t, !s, !s) -> (!q, !l)
  %dq, %dk, %dv = mg.attention_grad %q, %k, %v, %o, %lse, %do, %p, %t starts %starts ends %ends {scale = 1.0, causal = false, softcap = 30.0, slopes = array<f64: 0.5, 0.25>, queriesPerGroup = 2, ring = ["cp"]} : (!q, !k, !k, !q, !l, !q, !s, !t, !s, !s) -> (!q, !k, !k)
  return %dq, %dk, %dv : !q, !k, !k
}

// Every step has the table of biases, and the gradients of the steps are added up.
// CHECK-LABEL: func.func @biases(
// CHECK-COUNT-2: mg.attention {{.*}} bias %arg6 {biasMaxDistance = 20 : i64
// CHECK:         %{{.*}}, %{{.*}}, %{{.*}}, %[[N1:.*]] = mg.attention_grad {{.*}} bias %arg6
// CHECK:         %{{.*}}, %{{.*}}, %{{.*}}, %[[N0:.*]] = mg.attention_grad {{.*}} bias %arg6
// CHECK:         %[[N:.*]] = mg.accumulate %[[N1]], %[[N0]] {apart
// CHECK:         return {{.*}}, %[[N]] :
func.func @biases(%q: !q, %k: !k, %v: !k, %do: !q, %p: !s, %t: !t, %n: tensor<8x1x2xf32, #mg.layout<n, g, r>>) -> (!q, !k, tensor<8x1x2xf32, #mg.layout<n, g, r>>) {
  %o, %lse = mg.attention %q, %k, %v, %p, %t bias %n {scale = 1.0, biasMaxDistance = 20, queriesPerGroup = 2, ring = ["cp"]} : (!q, !k, !k, !s, !t, tensor<8x1x2xf32, #mg.layout<n, g, r>>) -> (!q, !l)
  %dq, %dk, %dv, %dn = mg.attention_grad %q, %k, %v, %o, %lse, %do, %p, %t bias %n {scale = 1.0, biasMaxDistance = 20, queriesPerGroup = 2, ring = ["cp"]} : (!q, !k, !k, !q, !l, !q, !s, !t, tensor<8x1x2xf32, #mg.layout<n, g, r>>) -> (!q, !k, !k, tensor<8x1x2xf32, #mg.layout<n, g, r>>)
  return %dq, %dk, %dn : !q, !k, tensor<8x1x2xf32, #mg.layout<n, g, r>>
}

}
