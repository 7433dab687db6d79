// GLM-4-0414: GLM-4 with a norm before and one after each branch.
#include "frontend/model/families/Glm.h"

namespace mgc::frontend {

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  const bool isUsable = readGlm(config, model, block);
  block.attentionBranch.after = block.mlpBranch.after = model.finalNorm;
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kGlm4;
const Family kGlm4 = {"glm4", "Glm4ForCausalLM", {}, {}, withRows(kGlmRows), read};

} // namespace mgc::frontend
