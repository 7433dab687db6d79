// T5 and its second version, flan-T5 among them: an encoder and a decoder whose layers share one learned bias of distances in
// each stack, scores without a scale, norms without a mean, no biases. Each weight begins by the sizes of its product.
#include "frontend/model/families/Decoder.h"

#include <cmath>

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"is_encoder_decoder", "true"}, {"initializer_factor", "1.0"}};
// Heads of other classes, and what the class does not read.
static constexpr std::string_view kIgnored[] = {"classifier_dropout", "n_positions", "output_past"};

static constexpr TensorRow kRows[] = {
    {"embed.tokens", "shared.weight", "v h"},
    {.role = "encoder.attn.relative_bias",
     .tensor = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
     .dims = "n gr",
     .fan = "h"},
    {"encoder.attn_norm.weight", "encoder.block.{}.layer.0.layer_norm.weight", "h"},
    {.role = "encoder.attn.q.weight",
     .tensor = "encoder.block.{}.layer.0.SelfAttention.q.weight",
     .dims = "grd h",
     .fan = "hd"},
    {.role = "encoder.attn.k.weight",
     .tensor = "encoder.block.{}.layer.0.SelfAttention.k.weight",
     .dims = "gd h",
     .fan = "h"},
    {.role = "encoder.attn.v.weight",
     .tensor = "encoder.block.{}.layer.0.SelfAttention.v.weight",
     .dims = "gd h",
     .fan = "h"},
    {.role = "encoder.attn.o.weight",
     .tensor = "encoder.block.{}.layer.0.SelfAttention.o.weight",
     .dims = "h grw",
     .fan = "grw"},
    {"encoder.mlp_norm.weight", "encoder.block.{}.layer.1.layer_norm.weight", "h"},
    {.role = "encoder.mlp.gate.weight",
     .tensor = "encoder.block.{}.layer.1.DenseReluDense.wi_0.weight",
     .dims = "f h",
     .fan = "h"},
    {.role = "encoder.mlp.up.weight",
     .tensor = "encoder.block.{}.layer.1.DenseReluDense.wi_1.weight",
     .dims = "f h",
     .fan = "h"},
    {.role = "encoder.mlp.down.weight",
     .tensor = "encoder.block.{}.layer.1.DenseReluDense.wo.weight",
     .dims = "h f",
     .fan = "f"},
    {"encoder.final_norm.weight", "encoder.final_layer_norm.weight", "h"},
    {.role = "attn.relative_bias",
     .tensor = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
     .dims = "n gr",
     .fan = "h"},
    {"attn_norm.weight", "decoder.block.{}.layer.0.layer_norm.weight", "h"},
    {.role = "attn.q.weight",
     .tensor = "decoder.block.{}.layer.0.SelfAttention.q.weight",
     .dims = "grd h",
     .fan = "hd"},
    {.role = "attn.k.weight",
     .tensor = "decoder.block.{}.layer.0.SelfAttention.k.weight",
     .dims = "gd h",
     .fan = "h"},
    {.role = "attn.v.weight",
     .tensor = "decoder.block.{}.layer.0.SelfAttention.v.weight",
     .dims = "gd h",
     .fan = "h"},
    {.role = "attn.o.weight",
     .tensor = "decoder.block.{}.layer.0.SelfAttention.o.weight",
     .dims = "h grw",
     .fan = "grw"},
    {"cross_norm.weight", "decoder.block.{}.layer.1.layer_norm.weight", "h"},
    {.role = "cross.q.weight",
     .tensor = "decoder.block.{}.layer.1.EncDecAttention.q.weight",
     .dims = "grd h",
     .fan = "hd"},
    {.role = "cross.k.weight",
     .tensor = "decoder.block.{}.layer.1.EncDecAttention.k.weight",
     .dims = "gd h",
     .fan = "h"},
    {.role = "cross.v.weight",
     .tensor = "decoder.block.{}.layer.1.EncDecAttention.v.weight",
     .dims = "gd h",
     .fan = "h"},
    {.role = "cross.o.weight",
     .tensor = "decoder.block.{}.layer.1.EncDecAttention.o.weight",
     .dims = "h grw",
     .fan = "grw"},
    {"mlp_norm.weight", "decoder.block.{}.layer.2.layer_norm.weight", "h"},
    {.role = "mlp.gate.weight",
     .tensor = "decoder.block.{}.layer.2.DenseReluDense.wi_0.weight",
     .dims = "f h",
     .fan = "h"},
    {.role = "mlp.up.weight",
     .tensor = "decoder.block.{}.layer.2.DenseReluDense.wi_1.weight",
     .dims = "f h",
     .fan = "h"},
    {.role = "mlp.down.weight",
     .tensor = "decoder.block.{}.layer.2.DenseReluDense.wo.weight",
     .dims = "h f",
     .fan = "f"},
    {"final_norm.weight", "decoder.final_layer_norm.weight", "h"},
    {"head.weight", "lm_head.weight", "v h"}};

// An mlp without a gate has its one matrix under another name.
static constexpr TensorRow kPlainRows[] = {{.role = "encoder.mlp.up.weight",
                                            .tensor = "encoder.block.{}.layer.1.DenseReluDense.wi.weight",
                                            .dims = "f h",
                                            .fan = "h"},
                                           {.role = "mlp.up.weight",
                                            .tensor = "decoder.block.{}.layer.2.DenseReluDense.wi.weight",
                                            .dims = "f h",
                                            .fan = "h"}};

static std::span<const TensorRow> rowsOf(const std::vector<BlockDescription> &layers) {
  return layers.front().mlp.gated ? std::span<const TensorRow>() : kPlainRows;
}

// Copies of the table of tokens, and a bias that older versions saved and no layer reads.
static constexpr std::string_view kIgnoredTensors[] = {
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
  const std::optional<Activation> given = activationOf(name),
                                  found = activationOf(config.word("dense_act_fn", name));
  if (given && found)
    mlp.activation = *found;
  else
    config.refuse(
        given ? key : "feed_forward_proj", "is not supported",
        "expected a word of transformers' activations, in feed_forward_proj also gated- and such a word");
}

static RelativeBias readBias(Config &config) {
  constexpr std::string_view kBuckets = "relative_attention_num_buckets",
                             kDistance = "relative_attention_max_distance";
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

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  KeyNames &names = model.names;
  names.heads = names.groups = names.encoderHeads = "num_heads", names.headDim = "d_kv";
  names.ffn = names.encoderFfn = "d_ff", names.hidden = "d_model", names.positions = names.activation = "";
  names.encoderLayers = "num_layers", names.normEpsilon = "layer_norm_epsilon";
  names.attentionDropout = names.hiddenDropout = "dropout_rate";
  const int64_t encoderCount = config.size(names.encoderLayers, kMaxLayers),
                count = config.sizeOr("num_decoder_layers", encoderCount, kMaxLayers);
  names.layers = config.isSet("num_decoder_layers") ? "num_decoder_layers" : names.encoderLayers;
  constexpr double kDropout = 0.1;
  BlockDescription block;
  const bool isUsable = readDecoder(config, model, block,
                                    {.headDim = 64,
                                     .norm = rmsNorm(1e-6),
                                     .activation = "relu",
                                     .dropout = kDropout,
                                     .isTied = true,
                                     .initializerRange = 1,
                                     .hasRope = false,
                                     .hasPadding = false});
  if (config.has("tie_word_embeddings") && !config.isSet("tie_word_embeddings"))
    model.head.tied = true; // null to the class
  const double dropout = config.probability("dropout_rate", kDropout);
  block.attention.scale = 1;
  block.cross = block.attention;
  block.cross->causal = false;
  block.attention.relativeBias = readBias(config);
  readMlp(config, block.mlp);
  block.mlp.dropout = dropout;
  block.crossBranch = block.attentionBranch;
  for (BranchDescription *branch : {&block.attentionBranch, &block.crossBranch, &block.mlpBranch})
    branch->dropout = dropout;
  model.embedding.dropout = model.finalDropout = dropout;
  if (config.flag("scale_decoder_outputs", model.head.tied) && model.hidden > 0)
    model.head.scale = 1 / std::sqrt(static_cast<double>(model.hidden));
  if (config.isSet("decoder_start_token_id"))
    model.startToken = config.integer("decoder_start_token_id", 0, model.vocabulary - 1);
  model.paddingOfLabels = config.has("pad_token_id") ? config.integer("pad_token_id", 0, model.vocabulary - 1)
                                                     : std::optional<int64_t>(0);
  if (!isUsable || !config.report().empty())
    return;
  BlockDescription ofEncoder = block;
  ofEncoder.cross.reset(), ofEncoder.crossBranch = {};
  ofEncoder.attention.causal = false;
  model.encoder = EncoderDescription{.embedding = model.embedding,
                                     .layer = ofEncoder,
                                     .layerCount = encoderCount,
                                     .finalNorm = model.finalNorm,
                                     .dropout = dropout};
  layers.assign(count, block);
}

extern const Family kT5;
const Family kT5 = {"t5",     "T5ForConditionalGeneration", kIgnored,
                    kNeutral, {"", kRows, kIgnoredTensors}, read,
                    rowsOf,   "T5WithLMHeadModel"};

} // namespace mgc::frontend
