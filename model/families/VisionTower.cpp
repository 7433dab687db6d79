// See VisionTower.h. CLIP's tower has a class token before the patches and a norm before its layers; SigLIP's has
// neither, and a bias of the product of patches. The norm behind their layers and what pools them make no feature.
#include "model/families/VisionTower.h"

namespace mgc::frontend {

namespace {

// The facts of a class.
struct Tower {
  bool hasClassToken, hasNormBefore, hasPatchBias;
};

constexpr Tower kClip = {true, true, false};
constexpr Tower kSiglip = {false, false, true};
constexpr std::pair<std::string_view, const Tower *> kTowers[] = {{"clip_vision_model", &kClip},
                                                                  {"siglip_vision_model", &kSiglip}};

// Without effect on features: of other heads, of how weights begin, and what older files have.
constexpr std::string_view kUnread[] = {"projection_dim",  "initializer_range", "initializer_factor",
                                        "vision_use_head", "vocab_size",        "dropout"};

BlockDescription readLayer(Config &config, const KeyNames &names, int64_t hidden) {
  BlockDescription block;
  AttentionDescription &attention = block.attention;
  attention.causal = false;
  attention.qkvBias = attention.outBias = block.mlp.bias = true;
  attention.heads = attention.groups = config.size("num_attention_heads", kMaxHeads);
  attention.dropout = config.probability("attention_dropout", 0);
  block.mlp.gated = false;
  block.mlp.ffn = config.size("intermediate_size", kMaxFfn);
  block.mlp.activation = config.choice("hidden_act", "gelu", wordsOf(Of<Activation>()));
  block.attentionBranch.before = block.mlpBranch.before = layerNorm(config.number("layer_norm_eps", 1e-5, 0, 1));
  attention.headDim = headDimOf(config, "num_attention_heads", attention.heads, names.encoderHidden, hidden);
  return block;
}

Patches readPatches(Config &config, const Tower &tower) {
  Patches patches = {.channels = config.size("num_channels", kMaxChannels),
                     .size = config.size("patch_size", kMaxPixels),
                     .bias = tower.hasPatchBias,
                     .classToken = tower.hasClassToken};
  const int64_t image = config.size("image_size", kMaxPixels);
  if (patches.size > 0 && image > 0 && image % patches.size != 0)
    config.refuse("image_size", fmt::format("is no multiple of patch_size = {}", patches.size),
                  fmt::format("possible image_size: {} and its multiples", patches.size));
  patches.rows = patches.columns = patches.size > 0 ? image / patches.size : 0;
  return patches;
}

// How many layers make the features.
int64_t layersOf(Config &config, int64_t inFile, const TowerFeatures &features) {
  const int64_t layers = features.layer < 0 ? inFile + 1 + features.layer : features.layer;
  if (inFile > 0 && (layers < 1 || layers > inFile))
    config.refuse("num_hidden_layers", fmt::format("of which vision_feature_layer = {} is none", features.layer),
                  fmt::format("possible vision_feature_layer: -{} to -1, 1 to {}", inFile, inFile));
  return layers;
}

} // namespace

void readVisionTower(Config &config, const TowerFeatures &features, ModelDescription &model) {
  const Tower &tower = *config.choice<const Tower *>("model_type", "", kTowers);
  const ClassFields *fields = classFieldsOf(config.word("model_type", ""));
  if (!fields) // refused
    return;
  config.setClass(*fields);
  config.ignore(kUnread);
  EncoderDescription encoder;
  encoder.hidden = config.size("hidden_size", kMaxHidden);
  encoder.patches = readPatches(config, tower);
  model.encoderLayersInFile = config.size("num_hidden_layers", kMaxLayers);
  encoder.layerCount = layersOf(config, model.encoderLayersInFile, features);
  encoder.layer = readLayer(config, model.names, encoder.hidden);
  encoder.embedding = {.learnedPositions = true};
  if (tower.hasNormBefore)
    encoder.embedding.norm = encoder.layer.attentionBranch.before;
  encoder.imageTokens = ImageTokens{.first = features.leavesOutFirst ? 1 : 0};
  model.encoder = encoder;
  config.finish("vision_config");
}

static constexpr TensorRow kTowerRows[] = {
    {"encoder.embed.patches.*", "vision_tower.embeddings.patch_embedding.*", "h n o u; h"},
    {"encoder.embed.class", "vision_tower.embeddings.class_embedding", "ah"},
    {"encoder.embed.positions", "vision_tower.embeddings.position_embedding.weight", "p h"},
    {"encoder.embed_norm.*", "vision_tower.pre_layrnorm.*", "h; h"},
    {"encoder.attn.q.*", "vision_tower.encoder.layers.{}.self_attn.q_proj.*", "grd h; grd"},
    {"encoder.attn.k.*", "vision_tower.encoder.layers.{}.self_attn.k_proj.*", "gd h; gd"},
    {"encoder.attn.v.*", "vision_tower.encoder.layers.{}.self_attn.v_proj.*", "gd h; gd"},
    {"encoder.attn.o.*", "vision_tower.encoder.layers.{}.self_attn.out_proj.*", "h grw; h"},
    {"encoder.attn_norm.*", "vision_tower.encoder.layers.{}.layer_norm1.*", "h; h"},
    {"encoder.mlp.up.*", "vision_tower.encoder.layers.{}.mlp.fc1.*", "f h; f"},
    {"encoder.mlp.down.*", "vision_tower.encoder.layers.{}.mlp.fc2.*", "h f; h"},
    {"encoder.mlp_norm.*", "vision_tower.encoder.layers.{}.layer_norm2.*", "h; h"}};
constinit const std::span<const TensorRow> kVisionTowerRows = kTowerRows;

static constexpr std::string_view kTowerIgnored[] = {"vision_tower.embeddings.position_ids",
                                                     "vision_tower.post_layernorm.weight",
                                                     "vision_tower.post_layernorm.bias",
                                                     "vision_tower.head.probe",
                                                     "vision_tower.head.attention.in_proj_weight",
                                                     "vision_tower.head.attention.in_proj_bias",
                                                     "vision_tower.head.attention.out_proj.weight",
                                                     "vision_tower.head.attention.out_proj.bias",
                                                     "vision_tower.head.layernorm.weight",
                                                     "vision_tower.head.layernorm.bias",
                                                     "vision_tower.head.mlp.fc1.weight",
                                                     "vision_tower.head.mlp.fc1.bias",
                                                     "vision_tower.head.mlp.fc2.weight",
                                                     "vision_tower.head.mlp.fc2.bias"};
constinit const std::span<const std::string_view> kVisionTowerIgnored = kTowerIgnored;

} // namespace mgc::frontend
