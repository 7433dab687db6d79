// LLaVA: a vision tower, a projector of two products, and a decoder of another family, whose image tokens are what the tower
// makes.
#include "frontend/model/families/Llava.h"

namespace mgc::frontend {

// Of generation, of processors, and what older files have.
static constexpr std::string_view kIgnored[] = {"image_seq_length", "ignore_index", "vocab_size",
                                                "image_grid_pinpoints"};

static constexpr TensorRow kProjectorRows[] = {
    {"project.up.weight", "multi_modal_projector.linear_1.weight", "f i"},
    {"project.up.bias", "multi_modal_projector.linear_1.bias", "f"},
    {"project.down.weight", "multi_modal_projector.linear_2.weight", "h f"},
    {"project.down.bias", "multi_modal_projector.linear_2.bias", "h"}};

static TowerFeatures readFeatures(Config &config) {
  constexpr std::pair<std::string_view, bool> kStrategies[] = {{"default", true}, {"full", false}};
  TowerFeatures features;
  features.layer = config.integer("vision_feature_layer", -kMaxLayers, kMaxLayers).value_or(features.layer);
  features.leavesOutFirst = config.choice<bool>("vision_feature_select_strategy", "default", kStrategies);
  return features;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &) {
  constexpr int64_t kImageToken = 32000;
  model.head.tied = config.flag("tie_word_embeddings", false) || model.head.tied;
  KeyNames &names = model.names;
  names.encoderHeads = "vision_config.num_attention_heads";
  names.encoderFfn = "vision_config.intermediate_size";
  names.encoderLayers = "vision_config.num_hidden_layers";
  names.encoderHidden = "vision_config.hidden_size";
  names.image = "vision_config.image_size";
  const TowerFeatures features = readFeatures(config);
  const Activation activation = config.choice("projector_hidden_act", "gelu", wordsOf(Of<Activation>()));
  const bool bias = config.flag("multimodal_projector_bias", true);
  std::optional<int64_t> token = config.integer("image_token_index", 0, kMaxVocabulary - 1);
  if (!token)
    token = kImageToken;
  if (model.vocabulary > 0 && *token >= model.vocabulary)
    config.refuse("image_token_index",
                  fmt::format("is none of the text_config.vocab_size = {} tokens", model.vocabulary),
                  "expected a token of the vocabulary, whose embedding is not read");
  std::optional<Config> tower = config.child("vision_config");
  if (!tower) {
    config.report().add("vision_config is missing, but required");
    return config.report().hint("expected the config of the tower, an object with model_type");
  }
  acceptCommonFields(*tower);
  readVisionTower(*tower, features, model);
  tower->finish("vision_config");
  if (!config.report().empty())
    return;
  model.encoder->imageTokens->token = *token;
  model.encoder->projector = Projector{.ffn = model.hidden, .activation = activation, .bias = bias};
}

extern const Family kLlava;
const Family kLlava = {.modelType = "llava",
                       .architecture = "LlavaForConditionalGeneration",
                       .ignoredFields = kIgnored,
                       .tensors = {.rows = kVisionTowerRows,
                                   .ignored = kVisionTowerIgnored,
                                   .ownRows = kProjectorRows,
                                   .otherBegins = kLlavaBegins},
                       .read = read,
                       .decoder = kLlavaDecoder};

} // namespace mgc::frontend
