// Random programs of moves, products and collectives of two ranks, for tests of what runs beside what.
#pragma once

#include "test/runtime/exec/HandMadePlans.h"

#include <array>

namespace mgc::test {

// A program of 40 instructions on buffers that are slots of its chunk, bound elsewhere in each of the chunk's two runs, and
// that begin as the step scalars. Equal seeds give equal plans.
plan::Plan randomPlan(uint32_t seed);

// What the program leaves in the results.
std::array<double, 3> valuesOf(Engine &engine);

} // namespace mgc::test
