// GPT-2: learned positions, layer norms, biases, one matrix for q, k and v; weights stored [in, out].
#include "frontend/model/families/Decoder.h"
#include <cmath>

namespace mgc::frontend {

static constexpr TensorRow kTensors[] = {
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
    {"attn.o.weight", "transformer.h.{}.attn.c_proj.weight", "grd h", "", 0, /*residualInit=*/true},
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

static void readSizes(Config &config, ModelDescription &model, BlockDescription &block) {
  model.names = {.heads = "n_head",
                 .groups = "n_head",
                 .ffn = "n_inner",
                 .layers = "n_layer",
                 .positions = "n_positions",
                 .hidden = "n_embd",
                 .normEpsilon = "layer_norm_epsilon",
                 .activation = "activation_function",
                 .attentionDropout = "attn_pdrop"};
  model.vocabulary = config.size("vocab_size", kMaxVocabulary);
  model.hidden = config.size("n_embd", kMaxHidden);
  model.maxPositions = config.size("n_positions", kMaxPositions);
  AttentionDescription &attention = block.attention;
  attention.heads = attention.groups = config.size("n_head", kMaxHeads);
  block.mlp.ffn = config.sizeOr("n_inner", 4 * model.hidden, kMaxFfn);
  if (!model.hidden || !attention.heads)
    return;
  attention.headDim = model.hidden / attention.heads;
  if (model.hidden % attention.heads != 0) {
    config.report().add("n_embd = {} does not divide over n_head = {}", model.hidden, attention.heads);
    config.report().hint("possible n_head: {}", listOf(divisorsOf(model.hidden, kMaxHeads)));
  }
}

static void readDropout(Config &config, ModelDescription &model, BlockDescription &block) {
  model.embeddingDropout = config.probability("embd_pdrop", 0.1);
  block.attention.dropout = config.probability("attn_pdrop", 0.1);
  block.residualDropout = config.probability("resid_pdrop", 0.1);
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  readSizes(config, model, block);
  readDropout(config, model, block);
  int64_t count = config.size("n_layer", kMaxLayers);
  model.learnedPositions = true;
  model.tiedHead = config.flag("tie_word_embeddings", true);
  model.initializerRange = config.number("initializer_range", 0.02, 0, 1e3);
  model.finalNorm = {NormKind::layer, config.number("layer_norm_epsilon", 1e-5, 0, 1)};
  block.attentionNorm = block.mlpNorm = model.finalNorm;
  block.attention.qkvBias = block.attention.outBias = block.mlp.bias = true;
  if (config.flag("scale_attn_weights", true) && block.attention.headDim)
    block.attention.scale = 1 / std::sqrt(static_cast<double>(block.attention.headDim));
  block.mlp.activation = config.choice("activation_function", "gelu_new", kActivations);
  layers.assign(count, block);
}

extern const Family kGpt2;
const Family kGpt2 = {
    "gpt2", "GPT2LMHeadModel", kIgnored, kNeutral, {"transformer.", kTensors, kIgnoredTensors}, read};

} // namespace mgc::frontend
