// GPT-2: learned positions, layer norms, biases, one matrix for q, k and v; weights stored [in, out].
#include "frontend/model/families/Gpt2.h"

namespace mgc::frontend {

static constexpr TensorRow kRows[] = {
    {"embed.tokens", "transformer.wte.weight", "v h"},
    {"embed.positions", "transformer.wpe.weight", "p h"},
    {"attn_norm.weight", "transformer.h.{}.ln_1.weight", "h"},
    {"attn_norm.bias", "transformer.h.{}.ln_1.bias", "h"},
    {"attn.q.weight", "transformer.h.{}.attn.c_attn.weight", "h grd|gd|gd", "q", 0},
    {"attn.q.bias", "transformer.h.{}.attn.c_attn.bias", "grd|gd|gd", "q", 0},
    {"attn.k.weight", "transformer.h.{}.attn.c_attn.weight", "h grd|gd|gd", "k", 1},
    {"attn.k.bias", "transformer.h.{}.attn.c_attn.bias", "grd|gd|gd", "k", 1},
    {"attn.v.weight", "transformer.h.{}.attn.c_attn.weight", "h grd|gd|gd", "v", 2},
    {"attn.v.bias", "transformer.h.{}.attn.c_attn.bias", "grd|gd|gd", "v", 2},
    {"attn.o.weight", "transformer.h.{}.attn.c_proj.weight", "grw h", "", 0, /*residualInit=*/true},
    {"attn.o.bias", "transformer.h.{}.attn.c_proj.bias", "h"},
    {"mlp_norm.weight", "transformer.h.{}.ln_2.weight", "h"},
    {"mlp_norm.bias", "transformer.h.{}.ln_2.bias", "h"},
    {"mlp.up.weight", "transformer.h.{}.mlp.c_fc.weight", "h f"},
    {"mlp.up.bias", "transformer.h.{}.mlp.c_fc.bias", "f"},
    {"mlp.down.weight", "transformer.h.{}.mlp.c_proj.weight", "f h", "", 0, /*residualInit=*/true},
    {"mlp.down.bias", "transformer.h.{}.mlp.c_proj.bias", "h"},
    {"final_norm.weight", "transformer.ln_f.weight", "h"},
    {"final_norm.bias", "transformer.ln_f.bias", "h"},
    {"head.weight", "lm_head.weight", "v h"}};

constinit const std::span<const TensorRow> kGpt2Rows = kRows;

// Causal masks.
static constexpr std::string_view kIgnoredTensors[] = {"transformer.h.{}.attn.bias",
                                                       "transformer.h.{}.attn.masked_bias"};

// The summary_* head of classifiers, old bookkeeping, and an upcast that changes nothing in f32.
static constexpr std::string_view kIgnored[] = {"summary_activation",
                                                "summary_first_dropout",
                                                "summary_hidden_size",
                                                "summary_proj_to_labels",
                                                "summary_type",
                                                "summary_use_proj",
                                                "n_ctx",
                                                "n_special",
                                                "predict_special_tokens",
                                                "output_past",
                                                "reorder_and_upcast_attn"};

static constexpr NeutralField kNeutral[] = {{"scale_attn_by_inverse_layer_idx", "false"}};

bool readGpt2(Config &config, ModelDescription &model, BlockDescription &block, std::string_view activation) {
  const bool isScaled = config.flag("scale_attn_weights", true);
  const bool isUsable = readDecoder(config, model, block,
                                    {.hasHeadDim = false,
                                     .norm = layerNorm(1e-5),
                                     .activation = activation,
                                     .ffnOverHidden = 4,
                                     .dropout = 0.1,
                                     .isTied = true,
                                     .hasRope = false,
                                     .hasPadding = false});
  model.embedding = {.learnedPositions = true, .dropout = config.probability("embd_pdrop", 0.1)};
  block.attentionBranch.dropout = block.mlpBranch.dropout = config.probability("resid_pdrop", 0.1);
  block.mlp.gated = false;
  block.attention.qkvBias = block.attention.outBias = block.mlp.bias = true;
  if (!isScaled)
    block.attention.scale = 1;
  return isUsable;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names = gptNames();
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  if (readGpt2(config, model, block, "gelu_new"))
    layers.assign(count, block);
}

extern const Family kGpt2;
const Family kGpt2 = {"gpt2", "GPT2LMHeadModel", kIgnored, kNeutral, {"transformer.", kRows, kIgnoredTensors},
                      read};

} // namespace mgc::frontend
