// DeepSeek-V3 and R1: latent attention, and experts behind some dense layers, chosen by sigmoid and a bias from the best
// groups.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"output_router_logits", "false"},
                                            {"scoring_func", "\"sigmoid\""},
                                            {"topk_method", "\"noaux_tc\""},
                                            {"moe_layer_freq", "1"},
                                            {"pretraining_tp", "1"}};
// The class of transformers has no auxiliary loss.
static constexpr std::string_view kIgnored[] = {"aux_loss_alpha", "seq_aux", "ep_size", "auto_map"};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.experts = "n_routed_experts",
  model.names.sharedFfn = "n_shared_experts * moe_intermediate_size";
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  const int64_t count = readLayerCount(config, model);
  RoutedExperts routed = readRoutedExperts(config, {.scale = 2.5, .denseLayers = 3, .shared = 1});
  Experts &experts = routed.experts;
  experts.score = "sigmoid", experts.bias = true;
  // Absent is true to the class, null is not.
  if (config.flag("norm_topk_prob", true))
    experts.epsilon = 1e-20;
  readGroups(config, 2, experts, {.groups = 8, .kept = 4});
  readLaterTokens(config, model);
  const bool interleaved = config.flag("rope_interleave", true);
  if (!readDecoder(config, model, block, {.rope = {.theta = 10000}, .isLatent = true}))
    return;
  block.attention.rope->interleaved = interleaved;
  layers = layersOf(routed, block, count);
}

extern const Family kDeepseekV3;
const Family kDeepseekV3 = {
    "deepseek_v3",
    "DeepseekV3ForCausalLM",
    kIgnored,
    kNeutral,
    {kDecoderTensors.prefix, kDecoderTensors.rows, kDecoderTensors.ignored, kSharedExpertsRows},
    read};

} // namespace mgc::frontend
