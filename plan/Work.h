// What an instruction costs: the one place that says how many floating point operations it does and how many
// bytes it touches.
#pragma once

#include "plan/Operands.h"

namespace mgc::plan {

// Of attention, only pairs of a query and a key that sees it count: with as many queries as keys half of all,
// fewer with a window. The mean of the ranks that have parts of the queries.
double flopsOf(const Attention &attention);
// Of the queries of part number `part` of `parts`, relative to that mean. Order of positions known.
double shareOfPart(const Attention &attention, int64_t part, int64_t parts);
double flopsOf(const InstructionBody &body); // 0 for collectives and moves

// What it reads and what it writes, each byte once. Of the instruction on one rank.
double bytesOf(const Mesh &mesh, const InstructionBody &body);

} // namespace mgc::plan
