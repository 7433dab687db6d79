// The largest value of a row together with its place, as one reduction: the maximum of i64 keys.
//
//   key of (value, index) = bits of value in the order of signed integers | complement of index
//
// Keys are ordered by value and, among equal values, by index, the lowest being the largest key. -0 equals 0, and a NaN
// is larger than every number. An index is a part of its key: that of a maximum is the index of one of the row's elements,
// whatever the values are, and no two elements have one key.
#pragma once

#include "codegen/rows/graph/RowGraph.h"

namespace mgc::rowgen {

Node argKey(RowGraph &graph, Node value, Node index); // from f32 and i32: an i64
Node keyIndex(RowGraph &graph, Node key);             // i32; -1 where keyWhere left no key
Node keyValue(RowGraph &graph, Node key);             // f32
// The key or, where the condition is false, less than any key.
Node keyWhere(RowGraph &graph, Node condition, Node key);
Node maxKey(RowGraph &graph, Node a, Node b);
// The `count` largest of a row's keys, largest first, in as many passes over the row; it has no fewer elements with a key.
// `index`: that of the elements, as in their keys.
std::vector<Node> largestKeys(RowGraph &graph, Node keys, Node index, int64_t count);

} // namespace mgc::rowgen
