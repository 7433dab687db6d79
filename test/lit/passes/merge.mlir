// RUN: %mg-opt %s --mg-merge | FileCheck %s --enable-var-scope
// RUN: sed 's/"r", axes = \[\]/"r", axes = ["tp"]/' %s | %mg-opt --mg-merge | FileCheck %s --check-prefix=SPLIT
// RUN: sed 's/{mg.mesh/{mg.no_fusion, mg.mesh/' %s | %mg-opt --mg-merge | FileCheck %s --check-prefix=OFF

// Products of one value are merged, with all parts along a new dimension j: for queries, keys and values it stands
// between groups and head dimension, for gate and up in front.

!x = tensor<16x2x32xf32, #mg.layout<s, b, h>>
!q = tensor<16x2x4x2x8xf32, #mg.layout<s, b, g, r, d>>
!k = tensor<16x2x4x8xf32, #mg.layout<s, b, g, d>>
!f = tensor<16x2x64xf32, #mg.layout<s, b, f>>
!v = tensor<16x2x100xf32, #mg.layout<s, b, v>>
!wq = tensor<32x4x2x8xf32, #mg.layout<h, g, r, d>>
!wk = tensor<32x4x8xf32, #mg.layout<h, g, d>>
!wf = tensor<64x32xf32, #mg.layout<f, h>>
!wj = tensor<32x7xf32, #mg.layout<h, j>>
!j = tensor<16x2x7xf32, #mg.layout<s, b, j>>
!h = tensor<32xf32, #mg.layout<h>>
!sb = tensor<16x2xf32, #mg.layout<s, b>>
!wv = tensor<100x32xf32, #mg.layout<v, h>>
!b = tensor<4x8xf32, #mg.layout<g, d>>
!bd = tensor<8xf32, #mg.layout<d>>

module attributes {mg.mesh = #mg.mesh<tp = 2>, mg.placement = [{dimension = "g", axes = []}, {dimension = "r", axes = []}, {dimension = "f", axes = ["tp"]}]} {

// CHECK-LABEL: func.func @heads(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<16x2x32xf32
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<32x4x4x8xf32, #mg.layout<h, g, j, d>>
// CHECK-SAME:    {mg.param = {along = "j", parts = [{count = 2 : i64, file_shape = array<i64: 32, 96>, own = "r", part = "q", tensor = "qkv"}, {file_shape = array<i64: 32, 96>, part = "k", tensor = "qkv"}, {file_shape = array<i64: 32, 96>, part = "v", tensor = "qkv"}]}}) ->
// CHECK-NEXT:    %[[ALL:.*]] = mg.einsum %[[X]], %[[W]]
// CHECK-NEXT:    %[[PARTS:.*]]:3 = mg.parts %[[ALL]] along "j" : tensor<16x2x4x4x8xf32, #mg.layout<s, b, g, j, d>>
// CHECK-NEXT:    return %[[PARTS]]#0, %[[PARTS]]#1, %[[PARTS]]#2

// Where an axis splits the queries of a group, they would lie between the parts of two ranks: keys and values alone.
// SPLIT-LABEL: func.func @heads(
// SPLIT:         mg.einsum {{.*}} #mg.layout<h, g, r, d>>
// SPLIT-NEXT:    mg.einsum {{.*}} #mg.layout<h, j, g, d>>
// SPLIT-NEXT:    mg.parts

// OFF-LABEL: func.func @heads(
// OFF-COUNT-3: mg.einsum
// OFF-NOT:     mg.parts
func.func @heads(%x: !x, %wq: !wq {mg.param = {tensor = "qkv", part = "q", file_shape = array<i64: 32, 96>}},
                 %wk: !wk {mg.param = {tensor = "qkv", part = "k", file_shape = array<i64: 32, 96>}},
                 %wv: !wk {mg.param = {tensor = "qkv", part = "v", file_shape = array<i64: 32, 96>}})
    -> (!q, !k, !k) attributes {mg.block} {
  %q = mg.einsum %x, %wq : (!x, !wq) -> !q
  %k = mg.einsum %x, %wk : (!x, !wk) -> !k
  %v = mg.einsum %x, %wv : (!x, !wk) -> !k
  return %q, %k, %v : !q, !k, !k
}

// An axis may split f: each rank joins its own rows. The other product of another value stays.
// CHECK-LABEL: func.func @gate(
// CHECK-SAME:    tensor<2x64x32xf32, #mg.layout<j, f, h>>
// CHECK-NEXT:    %[[ALL:.*]] = mg.einsum {{.*}} -> tensor<16x2x2x64xf32, #mg.layout<s, b, j, f>>
// CHECK-NEXT:    mg.parts %[[ALL]] along "j"
// CHECK:         mg.mul
// CHECK-NEXT:    mg.einsum
func.func @gate(%x: !x, %gate: !wf {mg.param = {tensor = "gate"}}, %up: !wf {mg.param = {tensor = "up"}},
                %down: !wf {mg.param = {tensor = "down"}}) -> !x attributes {mg.block} {
  %g = mg.einsum %x, %gate : (!x, !wf) -> !f
  %u = mg.einsum %x, %up : (!x, !wf) -> !f
  %m = mg.mul %g, %u : (!f, !f) -> !f
  %y = mg.einsum %m, %down : (!f, !wf) -> !x
  return %y : !x
}

// Their biases are one parameter too, added before the parts are taken: the rows of the sum are whole.
// CHECK-LABEL: func.func @biases(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<16x2x32xf32
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<32x2x4x8xf32, #mg.layout<h, j, g, d>>
// CHECK-SAME:    %[[B:[a-z0-9]+]]: tensor<2x4x8xf32, #mg.layout<j, g, d>>
// CHECK-SAME:    {mg.param = {along = "j", parts = [{part = "k", tensor = "bias"}, {part = "v", tensor = "bias"}]}}) ->
// CHECK-NEXT:    %[[ALL:.*]] = mg.einsum %[[X]], %[[W]]
// CHECK-NEXT:    %[[SUM:.*]] = mg.add %[[ALL]], %[[B]]
// CHECK-NEXT:    %[[PARTS:.*]]:2 = mg.parts %[[SUM]] along "j"
// CHECK-NEXT:    return %[[PARTS]]#0, %[[PARTS]]#1
func.func @biases(%x: !x, %wk: !wk {mg.param = {tensor = "k0"}}, %wv: !wk {mg.param = {tensor = "v0"}},
                  %bk: !b {mg.param = {tensor = "bias", part = "k"}}, %bv: !b {mg.param = {tensor = "bias", part = "v"}})
    -> (!k, !k) attributes {mg.block} {
  %k = mg.einsum %x, %wk : (!x, !wk) -> !k
  %v = mg.einsum %x, %wv : (!x, !wk) -> !k
  %kb = mg.add %k, %bk : (!k, !b) -> !k
  %vb = mg.add %v, %bv : (!k, !b) -> !k
  return %kb, %vb : !k, !k
}

// Biases stay with the parts where one part has none, where a part is read by another op too, and where one is
// broadcast.
// CHECK-LABEL: func.func @some_biases(
// CHECK:         mg.parts
// CHECK-NEXT:    mg.add
// CHECK-NEXT:    return
func.func @some_biases(%x: !x, %wk: !wk {mg.param = {tensor = "k1"}}, %wv: !wk {mg.param = {tensor = "v1"}},
                       %bk: !b {mg.param = {tensor = "b1"}}) -> (!k, !k) attributes {mg.block} {
  %k = mg.einsum %x, %wk : (!x, !wk) -> !k
  %v = mg.einsum %x, %wv : (!x, !wk) -> !k
  %kb = mg.add %k, %bk : (!k, !b) -> !k
  return %kb, %v : !k, !k
}
// CHECK-LABEL: func.func @read_beside(
// CHECK:         mg.parts
// CHECK-NEXT:    mg.add
// CHECK-NEXT:    mg.add
func.func @read_beside(%x: !x, %wk: !wk {mg.param = {tensor = "k2"}}, %wv: !wk {mg.param = {tensor = "v2"}},
                       %bk: !b {mg.param = {tensor = "b2"}}, %bv: !b {mg.param = {tensor = "b3"}})
    -> (!k, !k, !k) attributes {mg.block} {
  %k = mg.einsum %x, %wk : (!x, !wk) -> !k
  %v = mg.einsum %x, %wv : (!x, !wk) -> !k
  %kb = mg.add %k, %bk : (!k, !b) -> !k
  %vb = mg.add %v, %bv : (!k, !b) -> !k
  return %kb, %vb, %k : !k, !k, !k
}
// CHECK-LABEL: func.func @broadcast(
// CHECK:         mg.parts
// CHECK-NEXT:    mg.add
// CHECK-NEXT:    mg.add
func.func @broadcast(%x: !x, %wk: !wk {mg.param = {tensor = "k4"}}, %wv: !wk {mg.param = {tensor = "v4"}},
                     %bk: !b {mg.param = {tensor = "b4"}}, %bv: !bd {mg.param = {tensor = "b5"}})
    -> (!k, !k) attributes {mg.block} {
  %k = mg.einsum %x, %wk : (!x, !wk) -> !k
  %v = mg.einsum %x, %wv : (!x, !wk) -> !k
  %kb = mg.add %k, %bk : (!k, !b) -> !k
  %vb = mg.add %v, %bv : (!k, !bd) -> !k
  return %kb, %vb : !k, !k
}

// A bias that another block uses too stays, and so do those next to it.
// CHECK-LABEL: func.func @tied_bias(
// CHECK:         mg.parts
// CHECK-NEXT:    mg.add
// CHECK-NEXT:    mg.add
func.func @tied_bias(%x: !x, %wk: !wk {mg.param = {tensor = "k6"}}, %wv: !wk {mg.param = {tensor = "v6"}},
                     %bk: !b {mg.param = {tensor = "b6"}}, %bv: !b {mg.param = {tensor = "tied_bias"}})
    -> (!k, !k) attributes {mg.block} {
  %k = mg.einsum %x, %wk : (!x, !wk) -> !k
  %v = mg.einsum %x, %wv : (!x, !wk) -> !k
  %kb = mg.add %k, %bk : (!k, !b) -> !k
  %vb = mg.add %v, %bv : (!k, !b) -> !k
  return %kb, %vb : !k, !k
}
// CHECK-LABEL: func.func @tied_bias_again(
func.func @tied_bias_again(%x: !k, %bv: !b {mg.param = {tensor = "tied_bias"}}) -> !k attributes {mg.block} {
  %y = mg.add %x, %bv : (!k, !b) -> !k
  return %y : !k
}

// The optimizer decays a joined parameter or does not: parts agree in that. Weights that it treats otherwise stay apart,
// biases stay with the parts.
// CHECK-LABEL: func.func @decay(
// CHECK-COUNT-2: mg.einsum
// CHECK-NOT:     mg.parts
// CHECK:         return
func.func @decay(%x: !x, %wk: !wk {mg.param = {tensor = "k7", file_shape = array<i64: 32, 32>}},
                 %wv: !wk {mg.param = {tensor = "v7", file_shape = array<i64: 1024>}}) -> (!k, !k) attributes {mg.block} {
  %k = mg.einsum %x, %wk : (!x, !wk) -> !k
  %v = mg.einsum %x, %wv : (!x, !wk) -> !k
  return %k, %v : !k, !k
}
// The tensors of a stack count: vectors do not decay.
// CHECK-LABEL: func.func @decay_of_stacks(
// CHECK-COUNT-2: mg.einsum
// CHECK-NOT:     mg.parts
// CHECK:         return
func.func @decay_of_stacks(%x: !x, %wk: !wk {mg.param = {tensor = "k9", file_shape = array<i64: 32, 32>}},
                           %wv: !wk {mg.param = {tensor = "v9.{#}", file_shape = array<i64: 32, 32>}}) -> (!k, !k) attributes {mg.block} {
  %k = mg.einsum %x, %wk : (!x, !wk) -> !k
  %v = mg.einsum %x, %wv : (!x, !wk) -> !k
  return %k, %v : !k, !k
}
// CHECK-LABEL: func.func @decay_of_biases(
// CHECK:         mg.parts
// CHECK-NEXT:    mg.add
// CHECK-NEXT:    mg.add
func.func @decay_of_biases(%x: !x, %wk: !wk {mg.param = {tensor = "k8"}}, %wv: !wk {mg.param = {tensor = "v8"}},
                           %bk: !b {mg.param = {tensor = "b8", file_shape = array<i64: 32>}},
                           %bv: !b {mg.param = {tensor = "b9", file_shape = array<i64: 4, 8>}})
    -> (!k, !k) attributes {mg.block} {
  %k = mg.einsum %x, %wk : (!x, !wk) -> !k
  %v = mg.einsum %x, %wv : (!x, !wk) -> !k
  %kb = mg.add %k, %bk : (!k, !b) -> !k
  %vb = mg.add %v, %bv : (!k, !b) -> !k
  return %kb, %vb : !k, !k
}

// A product that keeps nothing of its parameter stays; a model that has a dimension j gets another one.
// CHECK-LABEL: func.func @names(
// CHECK:         mg.einsum {{.*}} #mg.layout<h, j1, j>>
// CHECK-NEXT:    mg.parts %{{.*}} along "j1"
// CHECK:         mg.einsum {{.*}} -> tensor<16x2xf32
func.func @names(%x: !x, %a: !wj {mg.param = {tensor = "a"}}, %b: !wj {mg.param = {tensor = "b"}}, %c: !h {mg.param = {tensor = "c"}})
    -> (!j, !j, !sb) attributes {mg.block} {
  %y = mg.einsum %x, %a : (!x, !wj) -> !j
  %z = mg.einsum %x, %b : (!x, !wj) -> !j
  %s = mg.einsum %x, %c : (!x, !h) -> !sb
  return %y, %z, %s : !j, !j, !sb
}

// A parameter used in two places, or twice in one, has a place of its own; what shares no dimension but h, and is split,
// stays too.
// CHECK-LABEL: func.func @tied(
// CHECK-COUNT-3: mg.einsum
// CHECK-NOT:     mg.parts
func.func @tied(%x: !x, %a: !wf {mg.param = {tensor = "tied"}}, %b: !wf {mg.param = {tensor = "other"}},
                %c: !wv {mg.param = {tensor = "v"}}) -> (!f, !f, !v) attributes {mg.block} {
  %y = mg.einsum %x, %a : (!x, !wf) -> !f
  %z = mg.einsum %x, %b : (!x, !wf) -> !f
  %v = mg.einsum %x, %c : (!x, !wv) -> !v
  return %y, %z, %v : !f, !f, !v
}
// CHECK-LABEL: func.func @again(
// CHECK-NEXT:    mg.einsum
func.func @again(%x: !x, %a: !wf {mg.param = {tensor = "tied"}}) -> !f attributes {mg.block} {
  %y = mg.einsum %x, %a : (!x, !wf) -> !f
  return %y : !f
}
}
