// Shorthands for the commonest bodies of RowGraph::map.
#pragma once

#include "codegen/rows/graph/RowGraph.h"

namespace mgc::rowgen {

// f32
Node add(RowGraph &graph, Node a, Node b);
Node sub(RowGraph &graph, Node a, Node b);
Node mul(RowGraph &graph, Node a, Node b);
Node div(RowGraph &graph, Node a, Node b);
Node scale(RowGraph &graph, Node a, double factor);
Node shift(RowGraph &graph, Node a, double summand);
Node exp(RowGraph &graph, Node a);
Node log(RowGraph &graph, Node a);
Node sin(RowGraph &graph, Node a);
Node cos(RowGraph &graph, Node a);
Node sqrt(RowGraph &graph, Node a);
Node truncate(RowGraph &graph, Node a); // towards 0, to a whole number below 2^31
Node rsqrt(RowGraph &graph, Node a);
Node sigmoid(RowGraph &graph, Node a);
Node softplus(RowGraph &graph, Node a);
Node tanh(RowGraph &graph, Node a);
Node max(RowGraph &graph, Node a, Node b);
// i32
Node addI32(RowGraph &graph, Node a, Node b);
Node subI32(RowGraph &graph, Node a, Node b);
Node divideI32(RowGraph &graph, Node a, int64_t divisor); // a >= 0
Node withBit(RowGraph &graph, Node mask, Node number);    // mask | 1 << number
Node hasBit(RowGraph &graph, Node mask, Node number);     // i1
Node equal(RowGraph &graph, Node a, Node b);              // i1
Node differs(RowGraph &graph, Node a, Node b);            // i1
// Conversions
Node toI32(RowGraph &graph, Node a);                          // from i64: the low half
Node toF32(RowGraph &graph, Node a);                          // from i32
Node select(RowGraph &graph, Node condition, Node a, Node b); // f32 values

} // namespace mgc::rowgen
