// BERT, for masked language modelling. The loss of sentence pairs (BertForPreTraining) is not computed; tensors that only it
// reads are ignored.
#include "frontend/model/families/Bert.h"

namespace mgc::frontend {

static constexpr std::pair<std::string_view, std::string_view> kEnds[] = {
    {".LayerNorm.weight", ".LayerNorm.gamma"}, {".LayerNorm.bias", ".LayerNorm.beta"}};

bool readBert(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.groups = model.names.heads;
  model.names.normEpsilon = "layer_norm_eps";
  model.names.attentionDropout = "attention_probs_dropout_prob",
  model.names.hiddenDropout = "hidden_dropout_prob";
  model.objective = Objective::masked;
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = block.mlp.bias = model.head.bias = true;
  block.attention.causal = false;
  const int64_t count = readLayerCount(config, model);
  const bool isUsable = readDecoder(config, model, block,
                                    {.hasHeadDim = false,
                                     .norm = layerNorm(1e-12),
                                     .activation = "gelu",
                                     .dropout = 0.1,
                                     .isTied = true,
                                     .hasRope = false,
                                     .paddingToken = 0});
  const double dropout = config.probability("hidden_dropout_prob", 0.1);
  model.embedding = {.learnedPositions = true,
                     .types = config.sizeOr("type_vocab_size", 2, kMaxTokenTypes),
                     .norm = model.finalNorm,
                     .dropout = dropout};
  block.attentionBranch = block.mlpBranch = {.sum = model.finalNorm, .dropout = dropout};
  block.mlp.gated = false;
  model.head.transform = {block.mlp.activation, /*bias=*/true, *model.finalNorm};
  model.finalNorm.reset();
  layers.assign(isUsable ? count : 0, block);
  return isUsable;
}

static constexpr TensorRow kStackRows[] = {
    {"embed.tokens", ".embeddings.word_embeddings.weight", "v h"},
    {"embed.positions", ".embeddings.position_embeddings.weight", "p h"},
    {"embed.types", ".embeddings.token_type_embeddings.weight", "a h"},
    {"embed_norm.weight", ".embeddings.LayerNorm.weight", "h"},
    {"embed_norm.bias", ".embeddings.LayerNorm.bias", "h"},
    {"attn.q.weight", ".encoder.layer.{}.attention.self.query.weight", "grd h"},
    {"attn.q.bias", ".encoder.layer.{}.attention.self.query.bias", "grd"},
    {"attn.k.weight", ".encoder.layer.{}.attention.self.key.weight", "gd h"},
    {"attn.k.bias", ".encoder.layer.{}.attention.self.key.bias", "gd"},
    {"attn.v.weight", ".encoder.layer.{}.attention.self.value.weight", "gd h"},
    {"attn.v.bias", ".encoder.layer.{}.attention.self.value.bias", "gd"},
    {"attn.o.weight", ".encoder.layer.{}.attention.output.dense.weight", "h grw"},
    {"attn.o.bias", ".encoder.layer.{}.attention.output.dense.bias", "h"},
    {"attn_sum_norm.weight", ".encoder.layer.{}.attention.output.LayerNorm.weight", "h"},
    {"attn_sum_norm.bias", ".encoder.layer.{}.attention.output.LayerNorm.bias", "h"},
    {"mlp.up.weight", ".encoder.layer.{}.intermediate.dense.weight", "f h"},
    {"mlp.up.bias", ".encoder.layer.{}.intermediate.dense.bias", "f"},
    {"mlp.down.weight", ".encoder.layer.{}.output.dense.weight", "h f"},
    {"mlp.down.bias", ".encoder.layer.{}.output.dense.bias", "h"},
    {"mlp_sum_norm.weight", ".encoder.layer.{}.output.LayerNorm.weight", "h"},
    {"mlp_sum_norm.bias", ".encoder.layer.{}.output.LayerNorm.bias", "h"}};
constinit const std::span<const TensorRow> kBertRows = kStackRows;

static constexpr TensorRow kRows[] = {
    {"head.transform.weight", "cls.predictions.transform.dense.weight", "i h"},
    {"head.transform.bias", "cls.predictions.transform.dense.bias", "i"},
    {"head.transform_norm.weight", "cls.predictions.transform.LayerNorm.weight", "i"},
    {"head.transform_norm.bias", "cls.predictions.transform.LayerNorm.bias", "i"},
    {"head.weight", "cls.predictions.decoder.weight", "v h"},
    {"head.bias", "cls.predictions.bias", "v"}};

// Copies of what is tied, and what only the loss of sentence pairs reads.
static constexpr std::string_view kIgnoredTensors[] = {
    "bert.embeddings.position_ids", "cls.predictions.decoder.bias", "bert.pooler.dense.weight",
    "bert.pooler.dense.bias",       "cls.seq_relationship.weight",  "cls.seq_relationship.bias"};
static constexpr NeutralField kNeutral[] = {{"position_embedding_type", "\"absolute\""}};
static constexpr std::string_view kIgnored[] = {"classifier_dropout"}; // of other heads

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  readBert(config, model, layers);
}

extern const Family kBert;
const Family kBert = {
    "bert",
    "BertForMaskedLM",
    kIgnored,
    kNeutral,
    {.prefix = "bert.", .rows = kBertRows, .ignored = kIgnoredTensors, .ownRows = kRows, .oldEnds = kEnds},
    read};

} // namespace mgc::frontend
