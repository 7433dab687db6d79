// Megatron-LM's texts that say which layers have something: a number, or a list of 0 and 1 for all layers.
//   "2", "[0]*3+[1]*58", "([1]*5+[0]*1)*6", "[0, 1, 1, 1]"
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mgc::frontend {

struct LayerPattern {
  int64_t every = 0;        // a number; 0: a list
  std::vector<bool> layers; // the list
};
Result<LayerPattern> parseLayerPattern(std::string_view text);

// The layers, of so many, that the text of a flag means. --moe-layer-freq N: layer 0 and each Nth after it have experts.
// --window-attn-skip-freq N: each Nth, the first of them layer N - 1, has no window. A list must have an entry for each
// layer.
Result<std::vector<bool>> layersWithExperts(std::string_view text, int64_t layers);
Result<std::vector<bool>> layersWithWindow(std::string_view text, int64_t layers);

// The list, runs of a value as [0]*3.
std::string patternOf(const std::vector<bool> &layers);

} // namespace mgc::frontend
