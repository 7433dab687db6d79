// The cost of an instruction: the one place that says how many floating point operations it does and how many
// bytes it touches.
#pragma once

#include "plan/Operands.h"

namespace mgc::plan {

// Attention counts only pairs of a query and a key that the query sees: with as many queries as keys half of all,
// fewer with a window. The result is the mean over the ranks that have parts of the queries.
double flopsOf(const Attention &attention);
// The work for the queries of part number `part` of `parts`, relative to that mean. In: zigzag > 0.
double shareOfPart(const Attention &attention, int64_t part, int64_t parts);
double flopsOf(const InstructionBody &body); // 0 for collectives and moves

// Bytes that the instruction reads and writes on one rank, each byte once.
double bytesOf(const Mesh &mesh, const InstructionBody &body);

} // namespace mgc::plan
