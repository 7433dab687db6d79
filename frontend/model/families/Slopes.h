// ALiBi's slopes (Press et al. 2021), as the families that have them compute them.
#pragma once

#include <cstdint>
#include <vector>

namespace mgc::frontend {

// Of n heads, n a power of two: 2^(-8 i / n) for i = 1 .. n. Of others: those of the power of two below, then 2^(-4 i / that power)
// for i = 1, 3, 5 .. (BLOOM, Falcon).
std::vector<double> alibiSlopes(int64_t heads);

} // namespace mgc::frontend
