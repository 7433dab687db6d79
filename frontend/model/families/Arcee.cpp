// Arcee: Llama with an mlp of squared relu, without a gate.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  block.mlp.bias = config.flag("mlp_bias", false);
  const int64_t count = readLayerCount(config, model);
  const bool isUsable = readDecoder(
      config, model, block,
      {.groupsMayBeAbsent = true, .norm = rmsNorm(1e-5), .activation = "relu2", .rope = {.theta = 10000}});
  block.mlp.gated = false;
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kArcee;
const Family kArcee = {"arcee", "ArceeForCausalLM", {}, {}, kDecoderTensors, read};

} // namespace mgc::frontend
