// Models of a vision tower, a projector and a decoder of another family, whose image tokens are what the tower makes,
// as transformers joins them: LLaVA; and the decoder alone of Gemma 3 and Mistral 3, whose towers are neither read nor
// trained: the decoder's numbers do not depend on them without an image.
#include "model/families/VisionTower.h"

namespace mgc::frontend {

static constexpr NestedDecoder kLlavaDecoder = {
    .field = "text_config", .begin = "language_model.", .prefix = "language_model.model."};

// Names in memory of transformers 5, and what towers were called before.
static constexpr std::pair<std::string_view, std::string_view> kLlavaBegins[] = {
    {"language_model.model.", "model.language_model."},    {"language_model.lm_head.", "lm_head."},
    {"vision_tower.", "vision_tower.vision_model."},       {"vision_tower.", "model.vision_tower."},
    {"vision_tower.", "model.vision_tower.vision_model."}, {"multi_modal_projector.", "model.multi_modal_projector."}};

// Tensors of the tower that families whose decoder alone is trained leave unread.
static constexpr std::string_view kUnreadTowerTensors[] = {"vision_tower.*", "multi_modal_projector.*"};

static constexpr TensorRow kProjectorRows[] = {{"project.up.*", "multi_modal_projector.linear_1.*", "f i; f"},
                                               {"project.down.*", "multi_modal_projector.linear_2.*", "h f; h"}};

static TowerFeatures readFeatures(Config &config) {
  constexpr std::pair<std::string_view, bool> kStrategies[] = {{"default", true}, {"full", false}};
  TowerFeatures features;
  features.layer = config.integer("vision_feature_layer", -kMaxLayers, kMaxLayers).value_or(features.layer);
  features.leavesOutFirst = config.choice<bool>("vision_feature_select_strategy", "default", kStrategies);
  return features;
}

static void readLlava(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
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
  if (!tower)
    return;
  acceptCommonFields(*tower);
  readVisionTower(*tower, features, model);
  if (!config.report().empty())
    return;
  model.encoder->imageTokens->token = *token;
  model.encoder->projector = Projector{.ffn = model.hidden, .activation = activation, .bias = bias};
}

std::span<const Family> imageFamilies() {
  static const Family kFamilies[] = {
      {.modelType = "gemma3", // Gemma 3 from 4B on
       .architecture = "Gemma3ForConditionalGeneration",
       .ignoredFields = {"vision_config", "mm_tokens_per_image", "boi_token_id", "eoi_token_id", "image_token_id"},
       .tensors = {.ignored = kUnreadTowerTensors, .otherBegins = kLlavaBegins},
       .read = [](Reading &reading) { reading.model.head.tied = reading.config.flag("tie_word_embeddings", true); },
       .decoder = kLlavaDecoder},
      {.modelType = "llava",
       .architecture = "LlavaForConditionalGeneration",
       .ignoredFields = {"vocab_size"}, // the decoder has its own
       .tensors = {.rows = kVisionTowerRows,
                   .ignored = kVisionTowerIgnored,
                   .ownRows = kProjectorRows,
                   .otherBegins = kLlavaBegins},
       .read = readLlava,
       .decoder = kLlavaDecoder},
      // Mistral Small 3.1 and later, and Ministral 3. The class ties where its config.json is silent; published
      // checkpoints, whose decoder's part says whether, have two tensors.
      {.modelType = "mistral3",
       .architecture = "Mistral3ForConditionalGeneration",
       .ignoredFields = {"vision_config", "image_token_id", "projector_hidden_act", "multimodal_projector_bias",
                         "spatial_merge_size", "vision_feature_layer"},
       .tensors = {.ignored = kUnreadTowerTensors, .otherBegins = kLlavaBegins},
       .read =
           [](Reading &reading) {
             const bool ofDecoder = reading.model.head.tied, isTied = reading.config.flag("tie_word_embeddings", true);
             reading.model.head.tied = reading.config.isGiven("tie_word_embeddings") ? isTied : ofDecoder;
           },
       .decoder = kLlavaDecoder},
  };
  return kFamilies;
}

} // namespace mgc::frontend
