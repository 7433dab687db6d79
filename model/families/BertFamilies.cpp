// BERT and its followers, for masked language modelling: a norm of each sum, embeddings of positions and of kinds of
// tokens, and a head that transforms before it predicts masked tokens; and ModernBERT. The losses of sentence pairs
// (BertForPreTraining) and of ELECTRA's discriminator are not computed; tensors that only they read are ignored.
#include "model/families/Decoder.h"

namespace mgc::frontend {

// Embeddings and layers, behind the prefix of the family.
static constexpr TensorRow kStackRows[] = {
    {"embed.tokens", ".embeddings.word_embeddings.weight", "v h"},
    {"embed.positions", ".embeddings.position_embeddings.weight", "p h"},
    {"embed.types", ".embeddings.token_type_embeddings.weight", "a h"},
    {"embed_norm.*", ".embeddings.LayerNorm.*", "h; h"},
    {"attn.q.*", ".encoder.layer.{}.attention.self.query.*", "grd h; grd"},
    {"attn.k.*", ".encoder.layer.{}.attention.self.key.*", "gd h; gd"},
    {"attn.v.*", ".encoder.layer.{}.attention.self.value.*", "gd h; gd"},
    {"attn.o.*", ".encoder.layer.{}.attention.output.dense.*", "h grw; h"},
    {"attn_sum_norm.*", ".encoder.layer.{}.attention.output.LayerNorm.*", "h; h"},
    {"mlp.up.*", ".encoder.layer.{}.intermediate.dense.*", "f h; f"},
    {"mlp.down.*", ".encoder.layer.{}.output.dense.*", "h f; h"},
    {"mlp_sum_norm.*", ".encoder.layer.{}.output.LayerNorm.*", "h; h"}};
static constexpr TensorRow kBertRows[] = {{"head.transform.*", "cls.predictions.transform.dense.*", "i h; i"},
                                          {"head.transform_norm.*", "cls.predictions.transform.LayerNorm.*", "i; i"},
                                          {"head.weight", "cls.predictions.decoder.weight", "v h"},
                                          {"head.bias", "cls.predictions.bias", "v"}};
static constexpr TensorRow kElectraRows[] = {
    {"embed.tokens", "electra.embeddings.word_embeddings.weight", "v i"},
    {"embed.positions", "electra.embeddings.position_embeddings.weight", "p i"},
    {"embed.types", "electra.embeddings.token_type_embeddings.weight", "a i"},
    {"embed_norm.*", "electra.embeddings.LayerNorm.*", "i; i"},
    {"embed.project.*", "electra.embeddings_project.*", "h i; h"},
    {"head.transform.*", "generator_predictions.dense.*", "i h; i"},
    {"head.transform_norm.*", "generator_predictions.LayerNorm.*", "i; i"},
    {"head.*", "generator_lm_head.*", "v i; v"}};
static constexpr TensorRow kModernRows[] = {
    {"embed.tokens", "model.embeddings.tok_embeddings.weight", "v h"},
    {"embed_norm.*", "model.embeddings.norm.*", "h; h"},
    {"attn_norm.*", "model.layers.{}.attn_norm.*", "h; h"},
    {"attn.{q,k,v}.*", "model.layers.{}.attn.Wqkv.*", "grd|gd|gd h; grd|gd|gd"},
    {"attn.o.*", "model.layers.{}.attn.Wo.*", "h grw; h", "", 0, /*residualInit=*/true},
    {"mlp_norm.*", "model.layers.{}.mlp_norm.*", "h; h"},
    {"mlp.{gate,up}.*", "model.layers.{}.mlp.Wi.*", "f|f h; f|f"},
    {"mlp.down.*", "model.layers.{}.mlp.Wo.*", "h f; h", "", 0, /*residualInit=*/true},
    {"final_norm.*", "model.final_norm.*", "h; h"},
    {"head.transform.*", "head.dense.*", "i h; i", "", 0, /*residualInit=*/true},
    {"head.transform_norm.*", "head.norm.*", "i; i"},
    {"head.*", "decoder.*", "v h; v", "", 0, /*residualInit=*/true}};
static constexpr TensorRow kRobertaRows[] = {{"head.transform.*", "lm_head.dense.*", "i h; i"},
                                             {"head.transform_norm.*", "lm_head.layer_norm.*", "i; i"},
                                             {"head.weight", "lm_head.decoder.weight", "v h"},
                                             {"head.bias", "lm_head.bias", "v"}};

static constexpr std::pair<std::string_view, std::string_view> kOldEnds[] = {{".LayerNorm.weight", ".LayerNorm.gamma"},
                                                                             {".LayerNorm.bias", ".LayerNorm.beta"}};

// Copies of what is tied, and what only the loss of sentence pairs reads.
static constexpr std::string_view kBertIgnored[] = {"bert.embeddings.position_ids", "cls.predictions.decoder.bias",
                                                    "bert.pooler.dense.weight",     "bert.pooler.dense.bias",
                                                    "cls.seq_relationship.weight",  "cls.seq_relationship.bias"};
static constexpr std::string_view kElectraIgnored[] = {"electra.embeddings.position_ids"};
static constexpr std::string_view kRobertaIgnored[] = {"roberta.embeddings.position_ids", "lm_head.decoder.bias",
                                                       "roberta.pooler.dense.weight", "roberta.pooler.dense.bias"};

static KeyNames bertNames() {
  return {.groups = "num_attention_heads",
          .normEpsilon = "layer_norm_eps",
          .attentionDropout = "attention_probs_dropout_prob",
          .hiddenDropout = "hidden_dropout_prob"};
}

static DecoderFields bertFields() {
  return gptLike({.biases = {kAlwaysBiased}, .activation = "gelu", .hasHiddenDropout = true, .hasRope = false},
                 layerNorm(1e-12));
}

static void readBert(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  const double dropout = block.mlpBranch.dropout;
  model.objective = Objective::masked;
  block.attention.causal = false;
  block.attentionBranch = block.mlpBranch = {.sum = model.finalNorm, .dropout = dropout};
  model.embedding = {.learnedPositions = true,
                     .types = config.sizeOr("type_vocab_size", 2, kMaxTokenTypes),
                     .norm = model.finalNorm,
                     .dropout = dropout};
  model.head = {.transform = HeadTransform{block.mlp.activation, /*bias=*/true, *model.finalNorm},
                .tied = model.head.tied,
                .bias = true};
  model.finalNorm.reset();
}

// The class projects only where the widths differ.
static void readElectra(Reading &reading) {
  ModelDescription &model = reading.model;
  readBert(reading);
  const int64_t width = reading.config.sizeOr("embedding_size", 128, kMaxHidden);
  model.head.transform->activation = Activation::geluErf;
  model.embedding.width = width == model.hidden ? 0 : width;
}

// The table has rows for the positions of padding too, and for those before it.
static void readRoberta(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  readBert(reading);
  model.head.transform->activation = Activation::geluErf;
  if (!config.isSet("pad_token_id"))
    return config.report().add("pad_token_id is missing, but required: positions begin behind it");
  if (config.integer("pad_token_id", INT32_MIN, INT32_MAX).value_or(0) < 0)
    return config.refuse("pad_token_id", "is negative", "positions begin behind it");
  if (!config.report().empty())
    return;
  int64_t &offset = model.embedding.positionOffset;
  offset = *model.paddingToken + 1;
  if (model.maxPositions <= offset)
    return config.refuse("max_position_embeddings",
                         fmt::format("leaves no positions behind pad_token_id = {}", *model.paddingToken), "");
  model.maxPositions -= offset;
}

// --- ModernBERT

// Without layer_types each third layer sees all, the first one too.
static std::vector<bool> readLocal(Reading &reading) {
  const int64_t every = reading.config.sizeOr("global_attn_every_n_layers", 3, kMaxLayers);
  const std::vector<std::string> types = readLayerTypes(reading);
  std::vector<bool> local(reading.count);
  for (int64_t layer = 0; layer < reading.count; ++layer)
    local[layer] = types.empty() ? every > 0 && layer % every != 0 : types[layer] == "sliding_attention";
  return local;
}

static void readModernHead(Config &config, ModelDescription &model) {
  HeadTransform transform;
  transform.activation = config.choice("classifier_activation", "gelu", wordsOf(Of<Activation>()));
  transform.bias = config.flag("classifier_bias", false);
  transform.norm = *model.finalNorm;
  model.head.transform = transform;
  model.head.bias = config.flag("decoder_bias", true);
}

static void readModernBert(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  model.objective = Objective::masked;
  block.attention.causal = false;
  const std::vector<bool> local = readLocal(reading);
  // local_attention counts both sides; a window counts one, and the token itself.
  const int64_t window = config.sizeOr("local_attention", 128, kMaxPositions) / 2 + 1;
  model.embedding = {.norm = model.finalNorm, .dropout = config.probability("embedding_dropout", 0)};
  block.attentionBranch.dropout = block.attention.dropout;
  block.mlp.dropout = config.probability("mlp_dropout", 0);
  readModernHead(config, model);
  const Rope global = readRopeOf(reading, "full_attention", 160000, "global_rope_theta"),
             near = readRopeOf(reading, "sliding_attention", 10000, "local_rope_theta");
  reading.each([&](BlockDescription &each, int64_t layer) {
    each.attention.rope = local[layer] ? near : global;
    each.attention.window = local[layer] ? window : 0;
    if (layer == 0) // behind the norm of the embeddings
      each.attentionBranch.before.reset();
  });
}

static void readNormBias(Reading &reading, DecoderFields &fields) {
  fields.norm.bias = reading.config.flag("norm_bias", false);
}

std::span<const Family> bertFamilies() {
  static const Family kFamilies[] = {
      {.modelType = "bert",
       .architecture = "BertForMaskedLM",
       .ignoredFields = {"embedding_size"}, // the class checks sizes of heads only without it
       .neutralFields = {{"position_embedding_type", "\"absolute\""}},
       .tensors =
           {.prefix = "bert.", .rows = kStackRows, .ignored = kBertIgnored, .ownRows = kBertRows, .oldEnds = kOldEnds},
       .names = bertNames(),
       .fields = bertFields(),
       .read = readBert},
      {.modelType = "electra", // the generator: narrower embeddings
       .architecture = "ElectraForMaskedLM",
       .neutralFields = {{"position_embedding_type", "\"absolute\""}},
       .tensors = {.prefix = "electra.", .rows = kStackRows, .ignored = kElectraIgnored, .ownRows = kElectraRows},
       .names = bertNames(),
       .fields = bertFields(),
       .read = readElectra},
      // An encoder with norms before the branches, rotary positions, and a window to both sides on two of three layers.
      {.modelType = "modernbert",
       .architecture = "ModernBertForMaskedLM",
       // Fields of kernels, other heads and the start; the loss of sparse_prediction is the same.
       .ignoredFields = {"classifier_pooling", "classifier_dropout", "deterministic_flash_attn", "sparse_prediction",
                         "sparse_pred_ignore_index", "reference_compile", "repad_logits_with_grad",
                         "initializer_cutoff_factor"},
       .tensors = {"model.", kModernRows, {}},
       .names = {.groups = "num_attention_heads", .normEpsilon = "norm_eps", .activation = "hidden_activation"},
       .fields = {.biases = {kAttentionBias, kMlpBias},
                  .hasHeadDim = false,
                  .norm = {.epsilon = 1e-5},
                  .activation = "gelu",
                  .hasRope = false},
       .prepare = readNormBias,
       .read = readModernBert},
      // Positions begin behind that of the padding token; the head has GELU whatever the layers have
      {.modelType = "roberta",
       .architecture = "RobertaForMaskedLM",
       .ignoredFields = {"embedding_size"}, // the class checks sizes of heads only without it
       .neutralFields = {{"position_embedding_type", "\"absolute\""}},
       .tensors = {.prefix = "roberta.", .rows = kStackRows, .ignored = kRobertaIgnored, .ownRows = kRobertaRows},
       .names = bertNames(),
       .fields = bertFields(),
       .read = readRoberta},
  };
  return kFamilies;
}

} // namespace mgc::frontend
