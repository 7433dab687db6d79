// Nemotron: layer norms that multiply by 1 + weight, an mlp of squared relu without a gate; a part of each head rotates.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.normEpsilon = "norm_eps";
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  block.mlp.bias = config.flag("mlp_bias", false);
  const int64_t count = readLayerCount(config, model);
  Norm norm = layerNorm(1e-5);
  norm.offset = 1;
  const bool isUsable = readDecoder(config, model, block,
                                    {.groupsMayBeAbsent = true,
                                     .norm = norm,
                                     .activation = "relu2",
                                     .initializerRange = 0.0134,
                                     .rope = {.theta = 10000, .part = 0.5}});
  block.mlp.gated = false;
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kNemotron;
const Family kNemotron = {"nemotron", "NemotronForCausalLM", {}, {}, kDecoderTensors, read};

} // namespace mgc::frontend
