// Layers to pipeline parts. In: the cost of the embedding, of each layer and of the head. Out: layers per part.
#pragma once

#include <cstdint>
#include <vector>

namespace mgc::schedule {

struct LayerCosts {
  double embed = 0; // always in the first part
  std::vector<double> layers;
  double head = 0; // always in the last part
  // Bytes of each layer, or nothing: of its parameters and their states, and of what it keeps of a microbatch.
  std::vector<double> states = {}, kept = {};
};

// Bytes of the part that takes most, without the embedding and the head: part p of n keeps n - p microbatches, as under 1F1B.
double largestMemory(const LayerCosts &costs, const std::vector<int64_t> &split);

// The number of layers of each part, contiguous and in order, such that the largest part cost is minimal (exact); among those the
// sum of squares is minimal, so that ties come out even; and among those that are as even, but for rounding, largestMemory. Each
// part has a layer when there are as many. parts >= 1.
std::vector<int64_t> balance(const LayerCosts &costs, int64_t parts);

} // namespace mgc::schedule
