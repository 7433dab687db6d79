// DeepSeek-V2: latent attention, and experts behind some dense layers, chosen by softmax, of all or of the best groups. Its
// class in transformers has no auxiliary loss.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {
    {"output_router_logits", "false"}, {"norm_topk_prob", "false"}, {"mlp_bias", "false"},
    {"scoring_func", "\"softmax\""},   {"moe_layer_freq", "1"},     {"pretraining_tp", "1"}};
static constexpr std::string_view kIgnored[] = {"aux_loss_alpha", "seq_aux", "ep_size", "auto_map"};

static void readMethod(Config &config, Experts &experts) {
  static constexpr std::pair<std::string_view, bool> kMethods[] = {{"greedy", false},
                                                                   {"group_limited_greedy", true}};
  Experts grouped = experts;
  readGroups(config, 1, grouped);
  if (config.choice<bool>("topk_method", "greedy", kMethods))
    experts = grouped;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.experts = "n_routed_experts",
  model.names.sharedFfn = "n_shared_experts * moe_intermediate_size";
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  const int64_t count = readLayerCount(config, model);
  RoutedExperts routed = readRoutedExperts(config, {.shared = 2});
  readMethod(config, routed.experts);
  if (!readDecoder(config, model, block, {.rope = {.theta = 10000}, .isLatent = true}))
    return;
  block.attention.rope->interleaved = true;
  layers = layersOf(routed, block, count);
}

extern const Family kDeepseekV2;
const Family kDeepseekV2 = {
    "deepseek_v2",
    "DeepseekV2ForCausalLM",
    kIgnored,
    kNeutral,
    {kDecoderTensors.prefix, kDecoderTensors.rows, kDecoderTensors.ignored, kSharedExpertsRows},
    read};

} // namespace mgc::frontend
