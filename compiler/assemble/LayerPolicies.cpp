// See LayerPolicies.h.
#include "compiler/assemble/LayerPolicies.h"

namespace mgc {

std::vector<Instance> withVariants(std::vector<Instance> chunk, const Blocks &blocks,
                                   const TrainingSettings &training) {
  std::map<std::string, int64_t> seen; // layers, by stack
  for (Instance &instance : chunk)
    if (const std::string &stack = instance.block->stack; !stack.empty() && seen[stack]++ < training.recomputeLayers)
      if (const ModelBlock *full = blocks.variantOf(*instance.block, "full"))
        instance.block = full;
  return chunk;
}

} // namespace mgc
