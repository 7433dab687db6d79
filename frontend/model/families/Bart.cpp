// BART: an encoder and a decoder of layers whose norms stand behind the sums, with a table of positions each whose first two rows
// are of none. final_logits_bias of checkpoints is zeros that no training changes.
#include "frontend/model/families/Decoder.h"

#include <cmath>

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {
    {"is_encoder_decoder", "true"}, {"encoder_layerdrop", "0.0"},           {"decoder_layerdrop", "0.0"},
    {"normalize_before", "false"},  {"add_final_layer_norm", "false"},      {"normalize_embedding", "true"},
    {"add_bias_logits", "false"},   {"static_position_embeddings", "false"}};
// Of other heads, of generation, and what older files have.
static constexpr std::string_view kIgnored[] = {
    "classifier_dropout",  "classif_dropout",      "extra_pos_embeddings",
    "_num_labels",         "output_past",          "force_bos_token_to_be_generated",
    "forced_bos_token_id", "forced_eos_token_id",  "early_stopping",
    "length_penalty",      "no_repeat_ngram_size", "num_beams"};

static constexpr TensorRow kRows[] = {
    {"embed.tokens", "model.shared.weight", "v h"},
    {"encoder.embed.positions", "model.encoder.embed_positions.weight", "p h"},
    {"encoder.embed_norm.weight", "model.encoder.layernorm_embedding.weight", "h"},
    {"encoder.embed_norm.bias", "model.encoder.layernorm_embedding.bias", "h"},
    {"encoder.attn.q.weight", "model.encoder.layers.{}.self_attn.q_proj.weight", "grd h"},
    {"encoder.attn.q.bias", "model.encoder.layers.{}.self_attn.q_proj.bias", "grd"},
    {"encoder.attn.k.weight", "model.encoder.layers.{}.self_attn.k_proj.weight", "gd h"},
    {"encoder.attn.k.bias", "model.encoder.layers.{}.self_attn.k_proj.bias", "gd"},
    {"encoder.attn.v.weight", "model.encoder.layers.{}.self_attn.v_proj.weight", "gd h"},
    {"encoder.attn.v.bias", "model.encoder.layers.{}.self_attn.v_proj.bias", "gd"},
    {"encoder.attn.o.weight", "model.encoder.layers.{}.self_attn.out_proj.weight", "h grw"},
    {"encoder.attn.o.bias", "model.encoder.layers.{}.self_attn.out_proj.bias", "h"},
    {"encoder.attn_sum_norm.weight", "model.encoder.layers.{}.self_attn_layer_norm.weight", "h"},
    {"encoder.attn_sum_norm.bias", "model.encoder.layers.{}.self_attn_layer_norm.bias", "h"},
    {"encoder.mlp.up.weight", "model.encoder.layers.{}.fc1.weight", "f h"},
    {"encoder.mlp.up.bias", "model.encoder.layers.{}.fc1.bias", "f"},
    {"encoder.mlp.down.weight", "model.encoder.layers.{}.fc2.weight", "h f"},
    {"encoder.mlp.down.bias", "model.encoder.layers.{}.fc2.bias", "h"},
    {"encoder.mlp_sum_norm.weight", "model.encoder.layers.{}.final_layer_norm.weight", "h"},
    {"encoder.mlp_sum_norm.bias", "model.encoder.layers.{}.final_layer_norm.bias", "h"},
    {"embed.positions", "model.decoder.embed_positions.weight", "p h"},
    {"embed_norm.weight", "model.decoder.layernorm_embedding.weight", "h"},
    {"embed_norm.bias", "model.decoder.layernorm_embedding.bias", "h"},
    {"attn.q.weight", "model.decoder.layers.{}.self_attn.q_proj.weight", "grd h"},
    {"attn.q.bias", "model.decoder.layers.{}.self_attn.q_proj.bias", "grd"},
    {"attn.k.weight", "model.decoder.layers.{}.self_attn.k_proj.weight", "gd h"},
    {"attn.k.bias", "model.decoder.layers.{}.self_attn.k_proj.bias", "gd"},
    {"attn.v.weight", "model.decoder.layers.{}.self_attn.v_proj.weight", "gd h"},
    {"attn.v.bias", "model.decoder.layers.{}.self_attn.v_proj.bias", "gd"},
    {"attn.o.weight", "model.decoder.layers.{}.self_attn.out_proj.weight", "h grw"},
    {"attn.o.bias", "model.decoder.layers.{}.self_attn.out_proj.bias", "h"},
    {"attn_sum_norm.weight", "model.decoder.layers.{}.self_attn_layer_norm.weight", "h"},
    {"attn_sum_norm.bias", "model.decoder.layers.{}.self_attn_layer_norm.bias", "h"},
    {"cross.q.weight", "model.decoder.layers.{}.encoder_attn.q_proj.weight", "grd h"},
    {"cross.q.bias", "model.decoder.layers.{}.encoder_attn.q_proj.bias", "grd"},
    {"cross.k.weight", "model.decoder.layers.{}.encoder_attn.k_proj.weight", "gd h"},
    {"cross.k.bias", "model.decoder.layers.{}.encoder_attn.k_proj.bias", "gd"},
    {"cross.v.weight", "model.decoder.layers.{}.encoder_attn.v_proj.weight", "gd h"},
    {"cross.v.bias", "model.decoder.layers.{}.encoder_attn.v_proj.bias", "gd"},
    {"cross.o.weight", "model.decoder.layers.{}.encoder_attn.out_proj.weight", "h grw"},
    {"cross.o.bias", "model.decoder.layers.{}.encoder_attn.out_proj.bias", "h"},
    {"cross_sum_norm.weight", "model.decoder.layers.{}.encoder_attn_layer_norm.weight", "h"},
    {"cross_sum_norm.bias", "model.decoder.layers.{}.encoder_attn_layer_norm.bias", "h"},
    {"mlp.up.weight", "model.decoder.layers.{}.fc1.weight", "f h"},
    {"mlp.up.bias", "model.decoder.layers.{}.fc1.bias", "f"},
    {"mlp.down.weight", "model.decoder.layers.{}.fc2.weight", "h f"},
    {"mlp.down.bias", "model.decoder.layers.{}.fc2.bias", "h"},
    {"mlp_sum_norm.weight", "model.decoder.layers.{}.final_layer_norm.weight", "h"},
    {"mlp_sum_norm.bias", "model.decoder.layers.{}.final_layer_norm.bias", "h"},
    {"head.weight", "lm_head.weight", "v h"}};

// Copies of the table of tokens, and what is no weight.
static constexpr std::string_view kIgnoredTensors[] = {
    "final_logits_bias", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight",
    "encoder.version", "decoder.version"};

// Heads and width of the encoder's layers, which have all else in common with the decoder's.
static BlockDescription readEncoderLayer(Config &config, const ModelDescription &model,
                                         BlockDescription block) {
  block.cross.reset();
  block.crossBranch = {};
  AttentionDescription &attention = block.attention;
  attention.causal = false;
  attention.heads = attention.groups = config.size("encoder_attention_heads", kMaxHeads);
  block.mlp.ffn = config.size("encoder_ffn_dim", kMaxFfn);
  if (attention.heads == 0)
    return block;
  if (model.hidden % attention.heads != 0) {
    config.refuse("encoder_attention_heads", fmt::format("does not divide d_model = {}", model.hidden),
                  "possible encoder_attention_heads: " + listOf(divisorsOf(model.hidden, kMaxHeads)));
    return block;
  }
  attention.headDim = model.hidden / attention.heads;
  return block;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  KeyNames &names = model.names;
  names.heads = names.groups = "decoder_attention_heads", names.ffn = "decoder_ffn_dim";
  names.layers = "decoder_layers", names.hidden = "d_model", names.activation = "activation_function";
  names.normEpsilon = "", names.hiddenDropout = "dropout";
  constexpr int64_t kFirstPosition = 2, kStartToken = 2;
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = block.mlp.bias = true;
  const int64_t count = readLayerCount(config, model),
                encoderCount = config.size("encoder_layers", kMaxLayers);
  // Another name of encoder_layers in the class.
  if (config.isSet("num_hidden_layers") && config.size("num_hidden_layers", kMaxLayers) != encoderCount)
    config.refuse("num_hidden_layers", fmt::format("and encoder_layers = {} differ", encoderCount),
                  "one is another name of the other; expected the same in both");
  const bool isUsable = readDecoder(config, model, block,
                                    {.hasHeadDim = false,
                                     .norm = layerNorm(1e-5),
                                     .activation = "gelu",
                                     .isTied = true,
                                     .hasRope = false,
                                     .paddingToken = 1});
  const Norm norm = *model.finalNorm;
  model.finalNorm.reset();
  model.initializerRange = config.number("init_std", 0.02, 0, 1e3);
  const double dropout = config.probability("dropout", 0.1);
  const double scale =
      config.flag("scale_embedding", false) ? std::sqrt(static_cast<double>(model.hidden)) : 1;
  model.embedding = {.scale = scale,
                     .learnedPositions = true,
                     .positionOffset = kFirstPosition,
                     .norm = norm,
                     .dropout = dropout};
  block.attentionBranch = block.crossBranch = block.mlpBranch = {.sum = norm, .dropout = dropout};
  block.mlp.gated = false;
  block.mlp.dropout = config.probability("activation_dropout", 0);
  block.cross = block.attention;
  block.cross->causal = false;
  model.startToken = config.integer("decoder_start_token_id", 0, model.vocabulary - 1);
  if (!config.has("decoder_start_token_id"))
    model.startToken = kStartToken;
  model.paddingOfLabels = model.paddingToken;
  const BlockDescription ofEncoder = readEncoderLayer(config, model, block);
  if (!isUsable || !config.report().empty())
    return;
  model.encoder =
      EncoderDescription{.embedding = model.embedding, .layer = ofEncoder, .layerCount = encoderCount};
  layers.assign(count, block);
}

extern const Family kBart;
const Family kBart = {"bart",   "BartForConditionalGeneration",     kIgnored,
                      kNeutral, {"model.", kRows, kIgnoredTensors}, read};

} // namespace mgc::frontend
