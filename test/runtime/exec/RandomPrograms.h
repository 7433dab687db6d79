// Plans of two ranks in which streams run concurrently: random programs of moves, products, collectives and exchanges of
// rows, and small ones.
#pragma once

#include "test/runtime/exec/HandMadePlans.h"

#include <array>

namespace mgc::test {

// A program of 40 instructions on buffers that are slots of its chunk, bound elsewhere in each of the chunk's two runs, and
// that begin as the step scalars. Equal seeds give equal plans.
plan::Plan randomPlan(uint32_t seed);

// Two such programs, the second run of the one and the first of the other a pair.
plan::Plan randomPairPlan(uint32_t seed);

// Two ranks: a sum, a concurrent product, and an op that needs the sum. Its results are twice the step scalars.
plan::Plan sumAndProductPlan();

// Two replicas: the gradients of the first microbatch are summed while the second one is computed. The same results.
plan::Plan concurrentGradientsPlan();

constexpr int64_t kScalarsBytes = 8 * sizeof(float); // size of the buffers: as many as step scalars

// Copies the one segment to the other, both of this size.
ProgramBuilder copyingProgram(const std::string &name);

// The results that a step of the plan leaves.
std::array<double, 3> valuesOf(Engine &engine);

} // namespace mgc::test
