// How a pipeline is cut, as text: the layers of each chunk, in the order in which a microbatch passes them. "3,4x14,2" is a chunk of
// 3 layers, 14 of 4, and one of 2.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mgc {

inline constexpr int64_t kMostChunks = int64_t(1) << 16, kMostLayersOfChunk = int64_t(1) << 20;

// Error: a word that is no number or number x times, a number that is not from 1 to kMostLayersOfChunk, more than kMostChunks chunks; with what is possible.
Result<std::vector<int64_t>> parseStageSizes(std::string_view text);
// As short as it can be.
std::string stageSizesText(std::span<const int64_t> sizes);

} // namespace mgc
