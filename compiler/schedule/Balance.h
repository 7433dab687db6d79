// Layers to pipeline parts. In: the cost of the embedding, of each layer and of the head. Out: layers per part.
#pragma once

#include <cstdint>
#include <vector>

namespace mgc::schedule {

struct LayerCosts {
  double embed = 0; // always in the first part
  std::vector<double> layers;
  double head = 0; // always in the last part
};

// The number of layers of each part, contiguous and in order, such that the largest part cost is minimal
// (exact); among those the sum of squares is minimal, so that ties come out even. Each part has a layer when
// there are as many. parts >= 1.
std::vector<int64_t> balance(const LayerCosts &costs, int64_t parts);

} // namespace mgc::schedule
