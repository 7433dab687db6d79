// T5 and its second version, flan-T5 among them: an encoder and a decoder whose layers share one learned bias of
// distances in each stack, scores without a scale, norms without a mean, no biases. Each weight begins by the sizes of
// its product.
#include "model/families/Decoder.h"

#include <cmath>

namespace mgc::frontend {

static constexpr TensorRow begun(std::string_view role, std::string_view tensor, std::string_view dims,
                                 std::string_view fan) {
  return {.role = role, .tensor = tensor, .dims = dims, .fan = fan};
}
static constexpr TensorRow kT5Rows[] = {
    {"embed.tokens", "shared.weight", "v h"},
    // The encoder has no branch between attention and mlp, and so another number of the mlp.
    {"encoder.mlp_norm.weight", "encoder.block.{}.layer.1.layer_norm.weight", "h"},
    begun("encoder.mlp.gate.weight", "encoder.block.{}.layer.1.DenseReluDense.wi_0.weight", "f h", "h"),
    begun("encoder.mlp.up.weight", "encoder.block.{}.layer.1.DenseReluDense.wi_1.weight", "f h", "h"),
    begun("encoder.mlp.down.weight", "encoder.block.{}.layer.1.DenseReluDense.wo.weight", "h f", "f"),
    begun("attn.relative_bias", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", "n gr", "h"),
    {"attn_norm.weight", "decoder.block.{}.layer.0.layer_norm.weight", "h"},
    begun("attn.q.weight", "decoder.block.{}.layer.0.SelfAttention.q.weight", "grd h", "hd"),
    begun("attn.k.weight", "decoder.block.{}.layer.0.SelfAttention.k.weight", "gd h", "h"),
    begun("attn.v.weight", "decoder.block.{}.layer.0.SelfAttention.v.weight", "gd h", "h"),
    begun("attn.o.weight", "decoder.block.{}.layer.0.SelfAttention.o.weight", "h grw", "grw"),
    {"cross_norm.weight", "decoder.block.{}.layer.1.layer_norm.weight", "h"},
    begun("cross.q.weight", "decoder.block.{}.layer.1.EncDecAttention.q.weight", "grd h", "hd"),
    begun("cross.k.weight", "decoder.block.{}.layer.1.EncDecAttention.k.weight", "gd h", "h"),
    begun("cross.v.weight", "decoder.block.{}.layer.1.EncDecAttention.v.weight", "gd h", "h"),
    begun("cross.o.weight", "decoder.block.{}.layer.1.EncDecAttention.o.weight", "h grw", "grw"),
    {"mlp_norm.weight", "decoder.block.{}.layer.2.layer_norm.weight", "h"},
    begun("mlp.gate.weight", "decoder.block.{}.layer.2.DenseReluDense.wi_0.weight", "f h", "h"),
    begun("mlp.up.weight", "decoder.block.{}.layer.2.DenseReluDense.wi_1.weight", "f h", "h"),
    begun("mlp.down.weight", "decoder.block.{}.layer.2.DenseReluDense.wo.weight", "h f", "f"),
    {"final_norm.weight", "decoder.final_layer_norm.weight", "h"},
    {"head.weight", "lm_head.weight", "v h"}};
// An mlp without a gate has its one matrix under another name.
static constexpr TensorRow kPlainRows[] = {
    begun("encoder.mlp.up.weight", "encoder.block.{}.layer.1.DenseReluDense.wi.weight", "f h", "h"),
    begun("mlp.up.weight", "decoder.block.{}.layer.2.DenseReluDense.wi.weight", "f h", "h")};

static std::span<const TensorRow> rowsOf(const std::vector<BlockDescription> &layers) {
  return layers.front().mlp.gated ? std::span<const TensorRow>() : kPlainRows;
}

// Copies of the table of tokens, and a bias that older versions saved and no layer reads.
static constexpr std::string_view kT5Ignored[] = {
    "encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};

static std::optional<Activation> activationOf(std::string_view name) {
  const auto words = wordsOf(Of<Activation>());
  const auto row = std::ranges::find(words, name, [](auto &word) { return word.first; });
  return row == words.end() ? std::nullopt : std::optional(row->second);
}

// feed_forward_proj is "relu", or "gated-" before the word of an activation; of GELU a gate has the form with tanh. The
// fields of newer files for the two parts win.
static void readMlp(Config &config, Mlp &mlp) {
  constexpr std::string_view kGated = "gated-";
  const std::string text = config.word("feed_forward_proj", "relu");
  mlp.gated = config.flag("is_gated_act", text.starts_with(kGated));
  const std::string name = text == "gated-gelu"       ? "gelu_new"
                           : text.starts_with(kGated) ? text.substr(kGated.size())
                                                      : text;
  const char *key = config.isSet("dense_act_fn") ? "dense_act_fn" : "feed_forward_proj";
  const std::optional<Activation> given = activationOf(name), found = activationOf(config.word("dense_act_fn", name));
  if (given && found)
    mlp.activation = *found;
  else
    config.refuse(given ? key : "feed_forward_proj", "is not supported",
                  "expected a word of transformers' activations, in feed_forward_proj also gated- and such a word");
}

static RelativeBias readBias(Config &config) {
  constexpr std::string_view kBuckets = "relative_attention_num_buckets", kDistance = "relative_attention_max_distance";
  const RelativeBias bias = {.buckets = config.sizeOr(kBuckets, 32, kMaxBiasBuckets),
                             .maxDistance = config.sizeOr(kDistance, 128, plan::kMostBiasDistance)};
  for (const bool causal : {false, true})
    if (const Status found = plan::verifyBuckets(bias.buckets, bias.maxDistance, causal);
        !found.isOk() && config.report().empty()) {
      config.report().add("{} and {}: {}", kBuckets, kDistance, found.message());
      config.report().hint("the encoder has {} for each direction, the decoder {} for one", bias.buckets / 2,
                           bias.buckets);
    }
  return bias;
}

static void setLayersKey(Reading &reading, DecoderFields &) {
  if (reading.config.isSet("num_decoder_layers"))
    reading.model.names.layers = "num_decoder_layers";
  reading.config.ignore(std::array{std::string_view("num_decoder_layers")});
}

static void read(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  const bool isEqual = model.names.layers == model.names.encoderLayers;
  const int64_t encoderCount = isEqual ? count : config.size(model.names.encoderLayers, kMaxLayers);
  if (config.has("tie_word_embeddings") && !config.isSet("tie_word_embeddings"))
    model.head.tied = true; // null to the class
  const double dropout = block.attention.dropout;
  block.attention.scale = 1;
  model.initializerRange = 1;
  block.cross = block.attention;
  block.cross->causal = false;
  block.attention.relativeBias = readBias(config);
  readMlp(config, block.mlp);
  block.mlp.dropout = dropout;
  block.crossBranch = block.attentionBranch;
  model.embedding.dropout = model.finalDropout = dropout;
  if (config.flag("scale_decoder_outputs", model.head.tied) && model.hidden > 0)
    model.head.scale = 1 / std::sqrt(static_cast<double>(model.hidden));
  if (config.isSet("decoder_start_token_id"))
    model.startToken = config.integer("decoder_start_token_id", 0, model.vocabulary - 1);
  model.paddingOfLabels =
      config.has("pad_token_id") ? config.integer("pad_token_id", 0, model.vocabulary - 1) : std::optional<int64_t>(0);
  BlockDescription ofEncoder = block;
  ofEncoder.cross.reset(), ofEncoder.crossBranch = {};
  ofEncoder.attention.causal = false;
  model.encoder = EncoderDescription{.embedding = model.embedding,
                                     .layer = ofEncoder,
                                     .layerCount = encoderCount,
                                     .finalNorm = model.finalNorm,
                                     .dropout = dropout};
}

std::span<const Family> t5Families() {
  static const Family kFamily = {
      .modelType = "t5",
      .architecture = "T5ForConditionalGeneration",
      .oldArchitecture = "T5WithLMHeadModel",
      .ignoredFields = {"classifier_dropout"}, // a field of another head
      .neutralFields = {{"is_encoder_decoder", "true"}, {"initializer_factor", "1.0"}},
      .tensors = {.rows = kT5Rows, .ignored = kT5Ignored, .ofEncoder = {"decoder", "encoder"}},
      .rowsOf = rowsOf,
      .names = {.heads = "num_heads",
                .groups = "num_heads",
                .headDim = "d_kv",
                .ffn = "d_ff",
                .layers = "num_layers",
                .positions = "",
                .hidden = "d_model",
                .normEpsilon = "layer_norm_epsilon",
                .activation = "",
                .attentionDropout = "dropout_rate",
                .hiddenDropout = "dropout_rate",
                .encoderHeads = "num_heads",
                .encoderFfn = "d_ff",
                .encoderLayers = "num_layers"},
      .fields = {.activation = "relu", .hasHiddenDropout = true, .hasRope = false, .hasPadding = false},
      .prepare = setLayersKey,
      .read = read};
  return {&kFamily, 1};
}

} // namespace mgc::frontend
