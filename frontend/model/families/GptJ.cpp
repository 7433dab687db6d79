// GPT-J: attention and mlp side by side behind one layer norm; neighbours of a part of each head rotate.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"scale_attn_weights", "true"}, {"rotary", "true"}};
// The summary_* head of classifiers.
static constexpr std::string_view kIgnored[] = {"summary_activation", "summary_first_dropout",
                                                "summary_proj_to_labels", "summary_type", "summary_use_proj"};

static constexpr TensorRow kRows[] = {{"embed.tokens", "transformer.wte.weight", "v h"},
                                      {"attn_norm.weight", "transformer.h.{}.ln_1.weight", "h"},
                                      {"attn_norm.bias", "transformer.h.{}.ln_1.bias", "h"},
                                      {"attn.q.weight", "transformer.h.{}.attn.q_proj.weight", "grd h"},
                                      {"attn.k.weight", "transformer.h.{}.attn.k_proj.weight", "gd h"},
                                      {"attn.v.weight", "transformer.h.{}.attn.v_proj.weight", "gd h"},
                                      {"attn.o.weight", "transformer.h.{}.attn.out_proj.weight", "h grw"},
                                      {"mlp.up.weight", "transformer.h.{}.mlp.fc_in.weight", "f h"},
                                      {"mlp.up.bias", "transformer.h.{}.mlp.fc_in.bias", "f"},
                                      {"mlp.down.weight", "transformer.h.{}.mlp.fc_out.weight", "h f"},
                                      {"mlp.down.bias", "transformer.h.{}.mlp.fc_out.bias", "h"},
                                      {"final_norm.weight", "transformer.ln_f.weight", "h"},
                                      {"final_norm.bias", "transformer.ln_f.bias", "h"},
                                      {"head.weight", "lm_head.weight", "v h"},
                                      {"head.bias", "lm_head.bias", "v"}};

// Causal masks.
static constexpr std::string_view kIgnoredTensors[] = {"transformer.h.{}.attn.bias",
                                                       "transformer.h.{}.attn.masked_bias"};

static void readRotation(Config &config, AttentionDescription &attention) {
  Rope rope{.theta = 10000, .dim = config.size("rotary_dim", kMaxHeadDim), .interleaved = true};
  if (rope.dim % 2 != 0 || rope.dim > attention.headDim)
    config.refuse("rotary_dim", fmt::format("of heads of {}", attention.headDim),
                  "expected an even number up to that");
  attention.rope = rope;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names = gptNames();
  BlockDescription block;
  block.mlp.bias = model.head.bias = true;
  const int64_t count = readLayerCount(config, model);
  const bool isUsable = readDecoder(config, model, block,
                                    {.hasHeadDim = false,
                                     .norm = layerNorm(1e-5),
                                     .activation = "gelu_new",
                                     .ffnOverHidden = 4,
                                     .hasRope = false,
                                     .hasPadding = false});
  readRotation(config, block.attention);
  block.parallel = true;
  block.mlp.gated = false;
  block.mlpBranch.before.reset();
  block.attentionBranch.dropout = block.mlpBranch.dropout = config.probability("resid_pdrop", 0);
  model.embedding.dropout = config.probability("embd_pdrop", 0);
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kGptJ;
const Family kGptJ = {"gptj", "GPTJForCausalLM", kIgnored, kNeutral, {"transformer.", kRows, kIgnoredTensors},
                      read};

} // namespace mgc::frontend
