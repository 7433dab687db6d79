// GLM-4-0414: a norm before and one after each branch; neighbours of a half of each head rotate; gate and up are one matrix.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr TensorRow kRows[] = {
    {"mlp.gate.weight", "model.layers.{}.mlp.gate_up_proj.weight", "f|f h", "gate", 0},
    {"mlp.up.weight", "model.layers.{}.mlp.gate_up_proj.weight", "f|f h", "up", 1}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  block.attention.qkvBias = config.flag("attention_bias", true);
  const int64_t count = readLayerCount(config, model);
  const bool isUsable = readDecoder(config, model, block,
                                    {.headDim = 128,
                                     .norm = rmsNorm(1.5625e-07),
                                     .rope = {.theta = 10000, .part = 0.5},
                                     .paddingToken = 151329});
  block.attentionBranch.after = block.mlpBranch.after = model.finalNorm;
  block.attention.rope->interleaved = true;
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kGlm4;
const Family kGlm4 = {"glm4", "Glm4ForCausalLM", {}, {}, withRows(kRows), read};

} // namespace mgc::frontend
