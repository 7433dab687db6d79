// MPT: scores fall with distance, in the place of positions; layer norms without biases; one matrix of queries, keys and
// values.
#include "frontend/model/families/Decoder.h"
#include "frontend/model/families/Slopes.h"

#include <bit>

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {
    {"logit_scale", "null"}, {"no_bias", "true"}, {"embedding_fraction", "1.0"}};
// The class reads none of these: the mlp has 4 times the width whatever expansion_ratio says.
static constexpr std::string_view kIgnored[] = {
    "expansion_ratio", "resid_pdrop", "emb_pdrop", "learned_pos_emb", "init_device",
    "norm_type",       "init_config", "verbose",   "auto_map",        "tokenizer_name"};

static constexpr TensorRow kRows[] = {
    {"embed.tokens", "transformer.wte.weight", "v h"},
    {"attn_norm.weight", "transformer.blocks.{}.norm_1.weight", "h"},
    {"attn.q.weight", "transformer.blocks.{}.attn.Wqkv.weight", "grd|gd|gd h", "q", 0},
    {"attn.k.weight", "transformer.blocks.{}.attn.Wqkv.weight", "grd|gd|gd h", "k", 1},
    {"attn.v.weight", "transformer.blocks.{}.attn.Wqkv.weight", "grd|gd|gd h", "v", 2},
    {"attn.o.weight", "transformer.blocks.{}.attn.out_proj.weight", "h grw"},
    {"mlp_norm.weight", "transformer.blocks.{}.norm_2.weight", "h"},
    {"mlp.up.weight", "transformer.blocks.{}.ffn.up_proj.weight", "f h"},
    {"mlp.down.weight", "transformer.blocks.{}.ffn.down_proj.weight", "h f"},
    {"final_norm.weight", "transformer.norm_f.weight", "h"},
    {"head.weight", "lm_head.weight", "v h"}};

// The slopes of the power of two at or above the number of heads: of another number first each second one.
static std::vector<double> slopesOf(int64_t heads) {
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(heads)));
  const std::vector<double> all = alibiSlopes(power);
  std::vector<double> slopes;
  for (int64_t first : power == heads ? std::vector<int64_t>{0} : std::vector<int64_t>{1, 0})
    for (int64_t i = first; i < power; i += power == heads ? 1 : 2)
      slopes.push_back(all[i]);
  slopes.resize(heads);
  return slopes;
}

// Without attn_config the class has its defaults.
static double readAttention(Config &config, AttentionDescription &attention) {
  std::optional<Config> own = config.child("attn_config");
  if (!own)
    return 0;
  for (const auto &[key, value] : {std::pair("alibi", "true"),
                                   {"alibi_bias_max", "8"},
                                   {"qk_ln", "false"},
                                   {"prefix_lm", "false"},
                                   {"attn_uses_sequence_id", "false"},
                                   {"attn_type", "\"multihead_attention\""}})
    own->expect(key, value);
  acceptCommonFields(*own);
  own->ignore(std::array<std::string_view, 2>{"attn_impl", "architectures"});
  attention.clip = own->number("clip_qkv", 0, 0, 1e15);
  if (own->isSet("softmax_scale"))
    attention.scale = own->requiredNumber("softmax_scale", 1e-9, 1e9);
  own->ignore(std::array<std::string_view, 1>{"softmax_scale"});
  const double dropout = own->probability("attn_pdrop", 0);
  own->finish("attn_config");
  return dropout;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names = {.heads = "n_heads",
                 .groups = "n_heads",
                 .ffn = "",
                 .layers = "n_layers",
                 .positions = "max_seq_len",
                 .hidden = "d_model",
                 .normEpsilon = "layer_norm_epsilon",
                 .activation = "",
                 .attentionDropout = ""};
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  Norm norm = layerNorm(1e-5);
  norm.bias = false;
  const bool isUsable = readDecoder(config, model, block,
                                    {.hasHeadDim = false,
                                     .norm = norm,
                                     .activation = "gelu",
                                     .ffnOverHidden = 4,
                                     .isTied = true,
                                     .hasRope = false,
                                     .hasPadding = false});
  block.mlp.gated = false;
  const double dropout = readAttention(config, block.attention);
  block.attention.dropout = block.attentionBranch.dropout = block.mlpBranch.dropout = dropout;
  block.attention.slopes = slopesOf(block.attention.heads);
  if (isUsable && config.report().empty())
    layers.assign(count, block);
}

extern const Family kMpt;
const Family kMpt = {"mpt", "MptForCausalLM", kIgnored,        kNeutral, {"transformer.", kRows, {}},
                     read,  nullptr,          "MPTForCausalLM"};

} // namespace mgc::frontend
