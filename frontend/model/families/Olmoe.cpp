// OLMoE: experts on all layers; queries and keys are normed over all their heads.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  block.attention.clip = config.number("clip_qkv", 0, 1e-6, 1e15);
  const int64_t count = readLayerCount(config, model);
  model.names.expertFfn = model.names.ffn;
  Experts experts =
      readExperts(config, config.has("num_local_experts") ? "num_local_experts" : "num_experts");
  if (config.flag("norm_topk_prob", false))
    experts.epsilon = 0;
  readPooledAuxLoss(config, model, /*defaultCoefficient=*/0.01);
  const bool isUsable = readDecoder(
      config, model, block,
      {.groupsMayBeAbsent = true, .norm = rmsNorm(1e-5), .rope = {.theta = 10000}, .paddingToken = 1});
  block.attention.qkNorm = {*model.finalNorm, NormSpan::allHeads};
  block.experts = experts;
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kOlmoe;
const Family kOlmoe = {"olmoe", "OlmoeForCausalLM", {}, {}, kDecoderTensors, read};

} // namespace mgc::frontend
