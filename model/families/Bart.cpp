// BART: an encoder and a decoder of layers whose norms stand behind the sums, with a table of positions each whose
// first two rows are of none. final_logits_bias of checkpoints is zeros that no training changes.
#include "model/families/Decoder.h"

#include <cmath>

namespace mgc::frontend {

static constexpr TensorRow kBartRows[] = {
    {"embed.tokens", "model.shared.weight", "v h"},
    {"embed.positions", "model.decoder.embed_positions.weight", "p h"},
    {"embed_norm.*", "model.decoder.layernorm_embedding.*", "h; h"},
    {"attn.q.*", "model.decoder.layers.{}.self_attn.q_proj.*", "grd h; grd"},
    {"attn.k.*", "model.decoder.layers.{}.self_attn.k_proj.*", "gd h; gd"},
    {"attn.v.*", "model.decoder.layers.{}.self_attn.v_proj.*", "gd h; gd"},
    {"attn.o.*", "model.decoder.layers.{}.self_attn.out_proj.*", "h grw; h"},
    {"attn_sum_norm.*", "model.decoder.layers.{}.self_attn_layer_norm.*", "h; h"},
    {"cross.q.*", "model.decoder.layers.{}.encoder_attn.q_proj.*", "grd h; grd"},
    {"cross.k.*", "model.decoder.layers.{}.encoder_attn.k_proj.*", "gd h; gd"},
    {"cross.v.*", "model.decoder.layers.{}.encoder_attn.v_proj.*", "gd h; gd"},
    {"cross.o.*", "model.decoder.layers.{}.encoder_attn.out_proj.*", "h grw; h"},
    {"cross_sum_norm.*", "model.decoder.layers.{}.encoder_attn_layer_norm.*", "h; h"},
    {"mlp.up.*", "model.decoder.layers.{}.fc1.*", "f h; f"},
    {"mlp.down.*", "model.decoder.layers.{}.fc2.*", "h f; h"},
    {"mlp_sum_norm.*", "model.decoder.layers.{}.final_layer_norm.*", "h; h"},
    {"head.weight", "lm_head.weight", "v h"}};

// Copies of the table of tokens, and what is no weight.
static constexpr std::string_view kBartIgnored[] = {"final_logits_bias", "model.encoder.embed_tokens.weight",
                                                    "model.decoder.embed_tokens.weight", "encoder.version",
                                                    "decoder.version"};

// Heads and width of the encoder's layers, which have all else in common with the decoder's.
static BlockDescription readEncoderLayer(Config &config, const ModelDescription &model, BlockDescription block) {
  block.cross.reset();
  block.crossBranch = {};
  AttentionDescription &attention = block.attention;
  attention.causal = false;
  attention.heads = attention.groups = config.size("encoder_attention_heads", kMaxHeads);
  block.mlp.ffn = config.size("encoder_ffn_dim", kMaxFfn);
  attention.headDim = headDimOf(config, "encoder_attention_heads", attention.heads, "d_model", model.hidden);
  return block;
}

static void read(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  constexpr int64_t kFirstPosition = 2;
  const int64_t encoderCount = config.size("encoder_layers", kMaxLayers);
  const Norm norm = *model.finalNorm;
  model.finalNorm.reset();
  model.initializerRange = config.number("init_std", 0.02, 0, 1e3);
  const double dropout = block.mlpBranch.dropout;
  const bool isScaled = config.flag("scale_embedding", false);
  model.embedding = {.scale = isScaled ? std::sqrt(static_cast<double>(model.hidden)) : 1,
                     .learnedPositions = true,
                     .positionOffset = kFirstPosition,
                     .norm = norm,
                     .dropout = dropout};
  block.attentionBranch = block.crossBranch = block.mlpBranch = {.sum = norm, .dropout = dropout};
  block.mlp.dropout = config.probability("activation_dropout", 0);
  block.cross = block.attention;
  block.cross->causal = false;
  model.startToken = config.integer("decoder_start_token_id", 0, model.vocabulary - 1);
  model.paddingOfLabels = model.paddingToken;
  const BlockDescription ofEncoder = readEncoderLayer(config, model, block);
  model.encoder = EncoderDescription{.embedding = model.embedding, .layer = ofEncoder, .layerCount = encoderCount};
}

std::span<const Family> bartFamilies() {
  static const Family kFamily = {
      .modelType = "bart",
      .architecture = "BartForConditionalGeneration",
      .ignoredFields = {"force_bos_token_to_be_generated"}, // a setting of generation
      .neutralFields = {{"is_encoder_decoder", "true"},
                        {"encoder_layerdrop", "0.0"},
                        {"decoder_layerdrop", "0.0"},
                        {"normalize_before", "false"},
                        {"add_final_layer_norm", "false"},
                        {"normalize_embedding", "true"},
                        {"add_bias_logits", "false"},
                        {"static_position_embeddings", "false"}},
      .tensors = {.prefix = "model.", .rows = kBartRows, .ignored = kBartIgnored, .ofEncoder = {"decoder", "encoder"}},
      .names = {.heads = "decoder_attention_heads",
                .groups = "decoder_attention_heads",
                .ffn = "decoder_ffn_dim",
                .layers = "decoder_layers",
                .hidden = "d_model",
                .normEpsilon = "",
                .activation = "activation_function",
                .hiddenDropout = "dropout"},
      .fields = gptLike({.biases = {kAlwaysBiased}, .activation = "gelu", .hasHiddenDropout = true, .hasRope = false}),
      .read = read};
  return {&kFamily, 1};
}

} // namespace mgc::frontend
