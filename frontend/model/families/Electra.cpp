// ELECTRA, the generator: BERT with narrower embeddings. The discriminator's loss is not computed.
#include "frontend/model/families/Bert.h"

namespace mgc::frontend {

static constexpr TensorRow kRows[] = {
    {"embed.tokens", "electra.embeddings.word_embeddings.weight", "v i"},
    {"embed.positions", "electra.embeddings.position_embeddings.weight", "p i"},
    {"embed.types", "electra.embeddings.token_type_embeddings.weight", "a i"},
    {"embed_norm.weight", "electra.embeddings.LayerNorm.weight", "i"},
    {"embed_norm.bias", "electra.embeddings.LayerNorm.bias", "i"},
    {"embed.project.weight", "electra.embeddings_project.weight", "h i"},
    {"embed.project.bias", "electra.embeddings_project.bias", "h"},
    {"head.transform.weight", "generator_predictions.dense.weight", "i h"},
    {"head.transform.bias", "generator_predictions.dense.bias", "i"},
    {"head.transform_norm.weight", "generator_predictions.LayerNorm.weight", "i"},
    {"head.transform_norm.bias", "generator_predictions.LayerNorm.bias", "i"},
    {"head.weight", "generator_lm_head.weight", "v i"},
    {"head.bias", "generator_lm_head.bias", "v"}};

static constexpr std::string_view kIgnoredTensors[] = {"electra.embeddings.position_ids"};
static constexpr NeutralField kNeutral[] = {{"position_embedding_type", "\"absolute\""}};
// Fields of other heads.
static constexpr std::string_view kIgnored[] = {"classifier_dropout", "summary_type", "summary_use_proj",
                                                "summary_activation", "summary_last_dropout"};

// The class projects only where the widths differ.
static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  const int64_t width = config.sizeOr("embedding_size", 128, kMaxHidden);
  if (!readBert(config, model, layers))
    return;
  model.head.transform->activation = Activation::geluErf;
  model.embedding.width = width == model.hidden ? 0 : width;
}

extern const Family kElectra;
const Family kElectra = {
    "electra",
    "ElectraForMaskedLM",
    kIgnored,
    kNeutral,
    {.prefix = "electra.", .rows = kBertRows, .ignored = kIgnoredTensors, .ownRows = kRows},
    read};

} // namespace mgc::frontend
