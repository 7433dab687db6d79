// Mistral Small 3.1 and later, and Ministral 3, text: the decoder (mistral, ministral3) of a model that also reads images. Its
// tower is neither read nor trained; without an image the decoder's numbers do not depend on it.
#include "frontend/model/families/Llava.h"

namespace mgc::frontend {

static constexpr std::string_view kIgnored[] = {
    "vision_config",        "image_token_index",         "image_token_id",
    "projector_hidden_act", "multimodal_projector_bias", "spatial_merge_size",
    "vision_feature_layer"};

// The class ties where its config.json is silent; published checkpoints, whose decoder's part says whether, have two tensors.
static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &) {
  model.head.tied = config.flag("tie_word_embeddings", model.head.tied);
}

extern const Family kMistral3;
const Family kMistral3 = {.modelType = "mistral3",
                          .architecture = "Mistral3ForConditionalGeneration",
                          .ignoredFields = kIgnored,
                          .tensors = {.ignored = kUnreadTowerTensors, .otherBegins = kLlavaBegins},
                          .read = read,
                          .decoder = kLlavaDecoder};

} // namespace mgc::frontend
