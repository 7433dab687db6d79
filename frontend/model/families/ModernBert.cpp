// ModernBERT: an encoder with norms before the branches, rotary positions, and a window to both sides on two of three layers.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

// Fields of kernels, other heads and the start; the loss of sparse_prediction is the same.
static constexpr std::string_view kIgnored[] = {
    "classifier_pooling",       "classifier_dropout",       "deterministic_flash_attn", "sparse_prediction",
    "sparse_pred_ignore_index", "position_embedding_type",  "layer_norm_eps",           "reference_compile",
    "repad_logits_with_grad",   "initializer_cutoff_factor"};

static constexpr TensorRow kRows[] = {
    {"embed.tokens", "model.embeddings.tok_embeddings.weight", "v h"},
    {"embed_norm.weight", "model.embeddings.norm.weight", "h"},
    {"embed_norm.bias", "model.embeddings.norm.bias", "h"},
    {"attn_norm.weight", "model.layers.{}.attn_norm.weight", "h"},
    {"attn_norm.bias", "model.layers.{}.attn_norm.bias", "h"},
    {"attn.q.weight", "model.layers.{}.attn.Wqkv.weight", "grd|gd|gd h", "q", 0},
    {"attn.q.bias", "model.layers.{}.attn.Wqkv.bias", "grd|gd|gd", "q", 0},
    {"attn.k.weight", "model.layers.{}.attn.Wqkv.weight", "grd|gd|gd h", "k", 1},
    {"attn.k.bias", "model.layers.{}.attn.Wqkv.bias", "grd|gd|gd", "k", 1},
    {"attn.v.weight", "model.layers.{}.attn.Wqkv.weight", "grd|gd|gd h", "v", 2},
    {"attn.v.bias", "model.layers.{}.attn.Wqkv.bias", "grd|gd|gd", "v", 2},
    {"attn.o.weight", "model.layers.{}.attn.Wo.weight", "h grw", "", 0, /*residualInit=*/true},
    {"attn.o.bias", "model.layers.{}.attn.Wo.bias", "h"},
    {"mlp_norm.weight", "model.layers.{}.mlp_norm.weight", "h"},
    {"mlp_norm.bias", "model.layers.{}.mlp_norm.bias", "h"},
    {"mlp.gate.weight", "model.layers.{}.mlp.Wi.weight", "f|f h", "gate", 0},
    {"mlp.gate.bias", "model.layers.{}.mlp.Wi.bias", "f|f", "gate", 0},
    {"mlp.up.weight", "model.layers.{}.mlp.Wi.weight", "f|f h", "up", 1},
    {"mlp.up.bias", "model.layers.{}.mlp.Wi.bias", "f|f", "up", 1},
    {"mlp.down.weight", "model.layers.{}.mlp.Wo.weight", "h f", "", 0, /*residualInit=*/true},
    {"mlp.down.bias", "model.layers.{}.mlp.Wo.bias", "h"},
    {"final_norm.weight", "model.final_norm.weight", "h"},
    {"final_norm.bias", "model.final_norm.bias", "h"},
    {"head.transform.weight", "head.dense.weight", "i h", "", 0, /*residualInit=*/true},
    {"head.transform.bias", "head.dense.bias", "i"},
    {"head.transform_norm.weight", "head.norm.weight", "i"},
    {"head.transform_norm.bias", "head.norm.bias", "i"},
    {"head.weight", "decoder.weight", "v h", "", 0, /*residualInit=*/true},
    {"head.bias", "decoder.bias", "v"}};

static Rope frequencies(Config &config, const ModelDescription &model, int64_t headDim, bool isLocal) {
  return readRope(config, headDim,
                  {.theta = isLocal ? 10000.0 : 160000.0,
                   .thetaKey = isLocal ? "local_rope_theta" : "global_rope_theta",
                   .ofLayers = isLocal ? "sliding_attention" : "full_attention",
                   .hasScaling = false,
                   .maxPositions = model.maxPositions})
      .rope;
}

// Without layer_types each third layer sees all, the first one too.
static std::vector<bool> readLocal(Config &config, int64_t count) {
  const int64_t every = config.sizeOr("global_attn_every_n_layers", 3, kMaxLayers);
  const std::vector<std::string> types = readLayerTypes(config, count);
  std::vector<bool> local(count);
  for (int64_t layer = 0; layer < count; ++layer)
    local[layer] = types.empty() ? every > 0 && layer % every != 0 : types[layer] == "sliding_attention";
  return local;
}

static void readHead(Config &config, ModelDescription &model) {
  HeadTransform transform;
  transform.activation = config.choice("classifier_activation", "gelu", wordsOf(Of<Activation>()));
  transform.bias = config.flag("classifier_bias", false);
  transform.norm = *model.finalNorm;
  model.head.transform = transform;
  model.head.bias = config.flag("decoder_bias", true);
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.groups = model.names.heads;
  model.names.normEpsilon = "norm_eps", model.names.activation = "hidden_activation";
  model.objective = Objective::masked;
  BlockDescription block;
  block.attention.causal = false;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  block.mlp.bias = config.flag("mlp_bias", false);
  const int64_t count = readLayerCount(config, model);
  const std::vector<bool> local = readLocal(config, count);
  // local_attention counts both sides; a window counts one, and the token itself.
  const int64_t window = config.sizeOr("local_attention", 128, kMaxPositions) / 2 + 1;
  Norm norm = layerNorm(1e-5);
  norm.bias = config.flag("norm_bias", false);
  const bool isUsable = readDecoder(config, model, block,
                                    {.hasHeadDim = false,
                                     .norm = norm,
                                     .activation = "gelu",
                                     .isTied = true,
                                     .hasRope = false,
                                     .paddingToken = 50283});
  model.embedding = {.norm = model.finalNorm, .dropout = config.probability("embedding_dropout", 0)};
  block.attentionBranch.dropout = block.attention.dropout;
  block.mlp.dropout = config.probability("mlp_dropout", 0);
  readHead(config, model);
  const int64_t headDim = block.attention.headDim;
  const Rope global = frequencies(config, model, headDim, false),
             near = frequencies(config, model, headDim, true);
  if (!isUsable || !config.report().empty())
    return;
  layers.assign(count, block);
  for (int64_t layer = 0; layer < count; ++layer) {
    layers[layer].attention.rope = local[layer] ? near : global;
    layers[layer].attention.window = local[layer] ? window : 0;
  }
  layers.front().attentionBranch.before.reset(); // behind the norm of the embeddings
}

extern const Family kModernBert;
const Family kModernBert = {"modernbert", "ModernBertForMaskedLM", kIgnored, {}, {"model.", kRows, {}}, read};

} // namespace mgc::frontend
