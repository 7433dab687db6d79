// OPT: GPT-2 with a table of positions whose first two rows are of none, and relu.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"do_layer_norm_before", "true"},
                                            {"_remove_final_layer_norm", "false"},
                                            {"layerdrop", "0.0"},
                                            {"layer_norm_elementwise_affine", "true"},
                                            {"activation_dropout", "0.0"}};

static constexpr TensorRow kRows[] = {
    {"embed.tokens", "model.decoder.embed_tokens.weight", "v h"},
    {"embed.positions", "model.decoder.embed_positions.weight", "p h"},
    {"attn_norm.weight", "model.decoder.layers.{}.self_attn_layer_norm.weight", "h"},
    {"attn_norm.bias", "model.decoder.layers.{}.self_attn_layer_norm.bias", "h"},
    {"attn.q.weight", "model.decoder.layers.{}.self_attn.q_proj.weight", "grd h"},
    {"attn.q.bias", "model.decoder.layers.{}.self_attn.q_proj.bias", "grd"},
    {"attn.k.weight", "model.decoder.layers.{}.self_attn.k_proj.weight", "gd h"},
    {"attn.k.bias", "model.decoder.layers.{}.self_attn.k_proj.bias", "gd"},
    {"attn.v.weight", "model.decoder.layers.{}.self_attn.v_proj.weight", "gd h"},
    {"attn.v.bias", "model.decoder.layers.{}.self_attn.v_proj.bias", "gd"},
    {"attn.o.weight", "model.decoder.layers.{}.self_attn.out_proj.weight", "h grw"},
    {"attn.o.bias", "model.decoder.layers.{}.self_attn.out_proj.bias", "h"},
    {"mlp_norm.weight", "model.decoder.layers.{}.final_layer_norm.weight", "h"},
    {"mlp_norm.bias", "model.decoder.layers.{}.final_layer_norm.bias", "h"},
    {"mlp.up.weight", "model.decoder.layers.{}.fc1.weight", "f h"},
    {"mlp.up.bias", "model.decoder.layers.{}.fc1.bias", "f"},
    {"mlp.down.weight", "model.decoder.layers.{}.fc2.weight", "h f"},
    {"mlp.down.bias", "model.decoder.layers.{}.fc2.bias", "h"},
    {"final_norm.weight", "model.decoder.final_layer_norm.weight", "h"},
    {"final_norm.bias", "model.decoder.final_layer_norm.bias", "h"},
    {"head.weight", "lm_head.weight", "v h"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.groups = model.names.heads;
  model.names.ffn = "ffn_dim", model.names.activation = "activation_function", model.names.normEpsilon = "";
  model.names.hiddenDropout = "dropout";
  constexpr int64_t kFirstPosition = 2;
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = block.mlp.bias = config.flag("enable_bias", true);
  const int64_t count = readLayerCount(config, model);
  const bool isUsable = readDecoder(config, model, block,
                                    {.hasHeadDim = false,
                                     .norm = layerNorm(1e-5),
                                     .activation = "relu",
                                     .isTied = true,
                                     .hasRope = false,
                                     .paddingToken = 1});
  if (config.sizeOr("word_embed_proj_dim", model.hidden, kMaxHidden) != model.hidden)
    config.refuse("word_embed_proj_dim", "is not hidden_size",
                  "embeddings of another width are not supported");
  const double dropout = config.probability("dropout", 0.1);
  model.initializerRange = config.number("init_std", 0.02, 0, 1e3);
  model.embedding = {.learnedPositions = true, .positionOffset = kFirstPosition};
  block.attentionBranch.dropout = block.mlpBranch.dropout = dropout;
  block.mlp.gated = false;
  if (isUsable && config.report().empty())
    layers.assign(count, block);
}

extern const Family kOpt;
const Family kOpt = {"opt", "OPTForCausalLM", {}, kNeutral, {"model.", kRows, {}}, read};

} // namespace mgc::frontend
