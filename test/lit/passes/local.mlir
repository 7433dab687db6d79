// RUN: %mg-opt %s --mg-local | FileCheck %s --enable-var-scope

module attributes {mg.mesh = #mg.mesh<dp = 2 : data, tp = 2>, mg.placement = [], mg.training = #mg.training<split_backward = false>} {

// Arguments have the shape of a rank's block and keep their global type.
// CHECK-LABEL: func.func @shapes(
// CHECK-SAME:    tensor<8x2x8xf32, #mg.layout<s, b, h>> {mg.type = tensor<16x4x8xf32, #mg.layout<s [tp], b [dp], h>>}
func.func @shapes(%x: tensor<16x4x8xf32, #mg.layout<s [tp], b [dp], h>>) attributes {mg.block = "a", mg.pass = "forward"} {
  return
}

// CHECK-LABEL: func.func @gather(
// CHECK:         mg.all_gather %{{.*}} over ["tp"] {dim = 0 : i64} : tensor<8x8xf32, #mg.layout<s, h>> -> tensor<16x8xf32, #mg.layout<s, h>>
func.func @gather(%x: tensor<16x8xf32, #mg.layout<s [tp], h>>) -> tensor<16x8xf32, #mg.layout<s, h>> attributes {mg.block = "b", mg.pass = "forward"} {
  %0 = mg.reshard %x : tensor<16x8xf32, #mg.layout<s [tp], h>> -> tensor<16x8xf32, #mg.layout<s, h>>
  return %0 : tensor<16x8xf32, #mg.layout<s, h>>
}

// CHECK-LABEL: func.func @slice(
// CHECK:         mg.slice %{{.*}} over ["tp"] {dim = 1 : i64} : tensor<16x8xf32, #mg.layout<s, h>> -> tensor<16x4xf32, #mg.layout<s, h>>
func.func @slice(%x: tensor<16x8xf32, #mg.layout<s, h>>) -> tensor<16x8xf32, #mg.layout<s, h [tp]>> attributes {mg.block = "c", mg.pass = "forward"} {
  %0 = mg.reshard %x : tensor<16x8xf32, #mg.layout<s, h>> -> tensor<16x8xf32, #mg.layout<s, h [tp]>>
  return %0 : tensor<16x8xf32, #mg.layout<s, h [tp]>>
}

// CHECK-LABEL: func.func @reduce(
// CHECK:         mg.all_reduce %{{.*}} over ["tp"] : tensor<16x8xf32
func.func @reduce(%x: tensor<16x8xf32, #mg.layout<s, h, sum [tp]>>) -> tensor<16x8xf32, #mg.layout<s, h>> attributes {mg.block = "d", mg.pass = "forward"} {
  %0 = mg.reshard %x : tensor<16x8xf32, #mg.layout<s, h, sum [tp]>> -> tensor<16x8xf32, #mg.layout<s, h>>
  return %0 : tensor<16x8xf32, #mg.layout<s, h>>
}

// A reduction whose result is split by the same axis is one reduce-scatter, not a reduction and a slice.
// CHECK-LABEL: func.func @reduce_to_split(
// CHECK-NOT:     mg.all_reduce
// CHECK:         mg.reduce_scatter %{{.*}} over ["tp"] {dim = 0 : i64} : tensor<16x8xf32, #mg.layout<s, h>> -> tensor<8x8xf32, #mg.layout<s, h>>
// CHECK-NEXT:    return
func.func @reduce_to_split(%x: tensor<16x8xf32, #mg.layout<s, h, sum [tp]>>) -> tensor<16x8xf32, #mg.layout<s [tp], h>> attributes {mg.block = "e", mg.pass = "forward"} {
  %0 = mg.reshard %x : tensor<16x8xf32, #mg.layout<s, h, sum [tp]>> -> tensor<16x8xf32, #mg.layout<s [tp], h>>
  return %0 : tensor<16x8xf32, #mg.layout<s [tp], h>>
}

// An axis that goes from one dimension to another is one all-to-all.
// CHECK-LABEL: func.func @transpose_split(
// CHECK:         mg.all_to_all %{{.*}} over ["tp"] {concat = 0 : i64, split = 1 : i64} : tensor<8x8xf32, #mg.layout<s, h>> -> tensor<16x4xf32, #mg.layout<s, h>>
// CHECK-NEXT:    return
func.func @transpose_split(%x: tensor<16x8xf32, #mg.layout<s [tp], h>>) -> tensor<16x8xf32, #mg.layout<s, h [tp]>> attributes {mg.block = "f", mg.pass = "forward"} {
  %0 = mg.reshard %x : tensor<16x8xf32, #mg.layout<s [tp], h>> -> tensor<16x8xf32, #mg.layout<s, h [tp]>>
  return %0 : tensor<16x8xf32, #mg.layout<s, h [tp]>>
}

// CHECK-LABEL: func.func @reduce_maximum(
// CHECK:         mg.all_reduce %{{.*}} over ["tp"] {reduction = "max"}
func.func @reduce_maximum(%x: tensor<16xf32, #mg.layout<s, max [tp]>>) -> tensor<16xf32, #mg.layout<s>> attributes {mg.block = "g", mg.pass = "forward"} {
  %0 = mg.reshard %x : tensor<16xf32, #mg.layout<s, max [tp]>> -> tensor<16xf32, #mg.layout<s>>
  return %0 : tensor<16xf32, #mg.layout<s>>
}

// An op that compares ids with its block of rows says which axes tell it where the block begins.
// CHECK-LABEL: func.func @coordinates(
// CHECK:         mg.embed {{.*}} {coordinates = {v = ["tp"]}} : (tensor<16xi32, #mg.layout<s>>, tensor<64x8xf32, #mg.layout<v, h>>)
func.func @coordinates(%ids: tensor<16xi32, #mg.layout<s>> {mg.data = "tokens"}, %table: tensor<128x8xf32, #mg.layout<v [tp], h>> {mg.param = {tensor = "e"}})
    -> tensor<16x8xf32, #mg.layout<s, h>> attributes {mg.block = "h", mg.pass = "forward"} {
  %0 = mg.embed %ids, %table : (tensor<16xi32, #mg.layout<s>>, tensor<128x8xf32, #mg.layout<v [tp], h>>) -> tensor<16x8xf32, #mg.layout<s, h, sum [tp]>>
  %1 = mg.reshard %0 : tensor<16x8xf32, #mg.layout<s, h, sum [tp]>> -> tensor<16x8xf32, #mg.layout<s, h>>
  return %1 : tensor<16x8xf32, #mg.layout<s, h>>
}

// So does one whose table came from a reshard.
// CHECK-LABEL: func.func @coordinates_of_resharded(
// CHECK:         %[[T:.*]] = mg.all_gather %{{.*}} over ["dp"] {dim = 1
// CHECK:         mg.embed %{{.*}}, %[[T]] {coordinates = {v = ["tp"]}}
func.func @coordinates_of_resharded(%ids: tensor<16xi32, #mg.layout<s>> {mg.data = "tokens"}, %table: tensor<128x8xf32, #mg.layout<v [tp], h [dp]>> {mg.param = {tensor = "e"}})
    -> tensor<16x8xf32, #mg.layout<s, h>> attributes {mg.block = "i", mg.pass = "forward"} {
  %0 = mg.reshard %table : tensor<128x8xf32, #mg.layout<v [tp], h [dp]>> -> tensor<128x8xf32, #mg.layout<v [tp], h>>
  %1 = mg.embed %ids, %0 : (tensor<16xi32, #mg.layout<s>>, tensor<128x8xf32, #mg.layout<v [tp], h>>) -> tensor<16x8xf32, #mg.layout<s, h, sum [tp]>>
  %2 = mg.reshard %1 : tensor<16x8xf32, #mg.layout<s, h, sum [tp]>> -> tensor<16x8xf32, #mg.layout<s, h>>
  return %2 : tensor<16x8xf32, #mg.layout<s, h>>
}

// Keys that are split as the queries are travel: attention names the ranks of the ring.
// CHECK-LABEL: func.func @ring(
// CHECK:         mg.attention {{.*}} {coordinates = {g = ["tp"]}, queriesPerGroup = 1 : i64, ring = ["dp"], scale = 1.000000e+00 : f64} : (tensor<8x1x2x1x8xf32, {{.*}}>, tensor<8x1x2x8xf32, {{.*}}>,
func.func @ring(%q: tensor<16x1x4x1x8xf32, #mg.layout<s [dp], b, g [tp], r, d>>, %k: tensor<16x1x4x8xf32, #mg.layout<t [dp], b, g [tp], d>>,
                %p: tensor<16x1xi32, #mg.layout<s [dp], b>>, %t: tensor<16x1xi32, #mg.layout<t [dp], b>>)
    -> tensor<16x1x4x1x8xf32, #mg.layout<s [dp], b, g [tp], r, d>> attributes {mg.block = "j", mg.pass = "forward"} {
  %o, %lse = mg.attention %q, %k, %k, %p, %t {scale = 1.0, queriesPerGroup = 1} : (tensor<16x1x4x1x8xf32, #mg.layout<s [dp], b, g [tp], r, d>>, tensor<16x1x4x8xf32, #mg.layout<t [dp], b, g [tp], d>>, tensor<16x1x4x8xf32, #mg.layout<t [dp], b, g [tp], d>>, tensor<16x1xi32, #mg.layout<s [dp], b>>, tensor<16x1xi32, #mg.layout<t [dp], b>>) -> (tensor<16x1x4x1x8xf32, #mg.layout<s [dp], b, g [tp], r, d>>, tensor<16x1x4x1xf32, #mg.layout<s [dp], b, g [tp], r>>)
  return %o : tensor<16x1x4x1x8xf32, #mg.layout<s [dp], b, g [tp], r, d>>
}
}
