// RoBERTa: BERT whose positions begin behind that of the padding token, and whose head has GELU whatever the layers have.
#include "frontend/model/families/Bert.h"

namespace mgc::frontend {

static constexpr TensorRow kRows[] = {
    {"embed.tokens", "roberta.embeddings.word_embeddings.weight", "v h"},
    {"embed.positions", "roberta.embeddings.position_embeddings.weight", "p h"},
    {"embed.types", "roberta.embeddings.token_type_embeddings.weight", "a h"},
    {"embed_norm.weight", "roberta.embeddings.LayerNorm.weight", "h"},
    {"embed_norm.bias", "roberta.embeddings.LayerNorm.bias", "h"},
    {"attn.q.weight", "roberta.encoder.layer.{}.attention.self.query.weight", "grd h"},
    {"attn.q.bias", "roberta.encoder.layer.{}.attention.self.query.bias", "grd"},
    {"attn.k.weight", "roberta.encoder.layer.{}.attention.self.key.weight", "gd h"},
    {"attn.k.bias", "roberta.encoder.layer.{}.attention.self.key.bias", "gd"},
    {"attn.v.weight", "roberta.encoder.layer.{}.attention.self.value.weight", "gd h"},
    {"attn.v.bias", "roberta.encoder.layer.{}.attention.self.value.bias", "gd"},
    {"attn.o.weight", "roberta.encoder.layer.{}.attention.output.dense.weight", "h grd"},
    {"attn.o.bias", "roberta.encoder.layer.{}.attention.output.dense.bias", "h"},
    {"attn_sum_norm.weight", "roberta.encoder.layer.{}.attention.output.LayerNorm.weight", "h"},
    {"attn_sum_norm.bias", "roberta.encoder.layer.{}.attention.output.LayerNorm.bias", "h"},
    {"mlp.up.weight", "roberta.encoder.layer.{}.intermediate.dense.weight", "f h"},
    {"mlp.up.bias", "roberta.encoder.layer.{}.intermediate.dense.bias", "f"},
    {"mlp.down.weight", "roberta.encoder.layer.{}.output.dense.weight", "h f"},
    {"mlp.down.bias", "roberta.encoder.layer.{}.output.dense.bias", "h"},
    {"mlp_sum_norm.weight", "roberta.encoder.layer.{}.output.LayerNorm.weight", "h"},
    {"mlp_sum_norm.bias", "roberta.encoder.layer.{}.output.LayerNorm.bias", "h"},
    {"head.transform.weight", "lm_head.dense.weight", "i h"},
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
const Family kRoberta = {"roberta",
                         "RobertaForMaskedLM",
                         kIgnored,
                         kNeutral,
                         {.prefix = "roberta.", .rows = kRows, .ignored = kIgnoredTensors},
                         read};

} // namespace mgc::frontend
