// Slopes of ALiBi (Press et al. 2021), one for each head of queries.
#pragma once

#include <cstdint>
#include <vector>

namespace mgc::frontend {

// 2^(-8 i / n) for i = 1 .. n where the number n of heads is a power of two; else those of the power of two below, then
// 2^(-4 i / that power) for i = 1, 3, 5 .. (BLOOM, Falcon).
std::vector<double> slopesOf(int64_t heads);

} // namespace mgc::frontend
