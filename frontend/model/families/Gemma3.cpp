// Gemma 3 of 4B and more, text: the decoder of a model that also reads images. Its tower is neither read nor
// trained; without an image the decoder's numbers do not depend on it.
#include "frontend/model/families/Llava.h"

namespace mgc::frontend {

static constexpr std::string_view kIgnored[] = {
    "vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index",  "image_token_index",
    "boi_token_id",  "eoi_token_id",        "image_token_id",  "initializer_range"};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &) {
  model.head.tied = config.flag("tie_word_embeddings", true);
}

extern const Family kGemma3;
const Family kGemma3 = {.modelType = "gemma3",
                        .architecture = "Gemma3ForConditionalGeneration",
                        .ignoredFields = kIgnored,
                        .tensors = {.ignored = kUnreadTowerTensors, .otherBegins = kLlavaBegins},
                        .read = read,
                        .decoder = kLlavaDecoder};

} // namespace mgc::frontend
