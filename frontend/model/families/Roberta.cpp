// RoBERTa: BERT whose positions begin behind that of the padding token, and whose head has GELU whatever the layers have.
#include "frontend/model/families/Bert.h"

namespace mgc::frontend {

static constexpr TensorRow kRows[] = {{"head.transform.weight", "lm_head.dense.weight", "i h"},
                                      {"head.transform.bias", "lm_head.dense.bias", "i"},
                                      {"head.transform_norm.weight", "lm_head.layer_norm.weight", "i"},
                                      {"head.transform_norm.bias", "lm_head.layer_norm.bias", "i"},
                                      {"head.weight", "lm_head.decoder.weight", "v h"},
                                      {"head.bias", "lm_head.bias", "v"}};

static constexpr std::string_view kIgnoredTensors[] = {"roberta.embeddings.position_ids",
                                                       "lm_head.decoder.bias", "roberta.pooler.dense.weight",
                                                       "roberta.pooler.dense.bias"};
static constexpr NeutralField kNeutral[] = {{"position_embedding_type", "\"absolute\""}};
static constexpr std::string_view kIgnored[] = {"classifier_dropout"}; // of other heads

// The table has rows for the positions of padding too, and for those before it.
static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  if (!config.isSet("pad_token_id"))
    config.report().add("pad_token_id is missing, but required: positions begin behind it");
  if (config.integer("pad_token_id", INT32_MIN, INT32_MAX).value_or(0) < 0)
    config.refuse("pad_token_id", "is negative", "positions begin behind it");
  if (!readBert(config, model, layers))
    return;
  model.head.transform->activation = Activation::geluErf;
  model.embedding.positionOffset = *model.paddingToken + 1;
  if (model.maxPositions <= model.embedding.positionOffset)
    return config.refuse("max_position_embeddings",
                         fmt::format("leaves no positions behind pad_token_id = {}", *model.paddingToken),
                         "");
  model.maxPositions -= model.embedding.positionOffset;
}

extern const Family kRoberta;
const Family kRoberta = {
    "roberta",
    "RobertaForMaskedLM",
    kIgnored,
    kNeutral,
    {.prefix = "roberta.", .rows = kBertRows, .ignored = kIgnoredTensors, .ownRows = kRows},
    read};

} // namespace mgc::frontend
