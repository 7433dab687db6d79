// GLM-4.5: experts behind some dense layers, chosen by sigmoid and a bias from groups; a part of each head rotates.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"output_router_logits", "false"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.experts = "n_routed_experts",
  model.names.sharedFfn = "n_shared_experts * moe_intermediate_size";
  BlockDescription block;
  block.attention.qkvBias = config.flag("attention_bias", false);
  const int64_t count = readLayerCount(config, model);
  RoutedExperts routed = readRoutedExperts(config, {.denseLayers = 1, .shared = 1});
  Experts &experts = routed.experts;
  experts.score = "sigmoid", experts.bias = true;
  if (config.flag("norm_topk_prob", true))
    experts.epsilon = 1e-20;
  readGroups(config, 2, experts);
  readLaterTokens(config, model);
  const bool hasNorms = config.flag("use_qk_norm", false);
  if (!readDecoder(config, model, block,
                   {.headDim = 128, .norm = rmsNorm(1e-5), .rope = {.theta = 10000, .part = 0.5}}))
    return;
  if (hasNorms)
    block.attention.qkNorm = {*model.finalNorm}; // the same epsilon
  layers = layersOf(routed, block, count);
}

extern const Family kGlm4Moe;
const Family kGlm4Moe = {
    "glm4_moe",
    "Glm4MoeForCausalLM",
    {},
    kNeutral,
    {kDecoderTensors.prefix, kDecoderTensors.rows, kDecoderTensors.ignored, kSharedExpertsRows},
    read};

} // namespace mgc::frontend
