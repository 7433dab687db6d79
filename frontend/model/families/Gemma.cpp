// Gemma: Llama with norms that multiply by 1 + weight, scaled embeddings, and heads of a size of their own.
#include "frontend/model/families/Gemma.h"

#include <cmath>

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"use_bidirectional_attention", "false"}};

bool readGemma(Config &config, ModelDescription &model, BlockDescription &block, const RopeFields &rope) {
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  Norm norm = rmsNorm(1e-6);
  norm.offset = 1;
  const bool isUsable = readDecoder(config, model, block,
                                    {.headDim = 256,
                                     .norm = norm,
                                     .activation = "gelu_pytorch_tanh",
                                     .isTied = true,
                                     .rope = rope,
                                     .paddingToken = 0});
  model.embedding.scale = std::sqrt(static_cast<double>(model.hidden));
  return isUsable;
}

static constexpr TensorRow kNormRows[] = {
    {"mlp_norm.weight", "model.layers.{}.pre_feedforward_layernorm.weight", "h"},
    {"attn_after_norm.weight", "model.layers.{}.post_attention_layernorm.weight", "h"},
    {"mlp_after_norm.weight", "model.layers.{}.post_feedforward_layernorm.weight", "h"}};
constinit const std::span<const TensorRow> kGemmaRows = kNormRows;

void readGemma2Layer(Config &config, const ModelDescription &model, BlockDescription &block) {
  block.attentionBranch.after = block.mlpBranch.after = model.finalNorm;
  block.attention.scale = 1 / std::sqrt(config.number("query_pre_attn_scalar", 256, 1e-6, 1e6));
}

double readSoftcap(Config &config, std::string_view key, double fallback) {
  if (config.has(key) && !config.isSet(key)) {
    config.ignore(std::array{key});
    return 0;
  }
  return config.number(key, fallback, 1e-6, 1e6);
}

// The class has the tanh form for "gelu", which the first files say; hidden_activation wins where there are both.
static void readActivation(Config &config, ModelDescription &model, Mlp &mlp) {
  if (mlp.activation == Activation::geluErf)
    mlp.activation = Activation::geluTanh;
  if (config.isSet("hidden_activation"))
    mlp.activation = config.choice("hidden_activation", "", wordsOf(Of<Activation>()));
  config.ignore(std::array{std::string_view("hidden_activation")});
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  if (!readGemma(config, model, block, {.theta = 10000}))
    return;
  readActivation(config, model, block.mlp);
  layers.assign(count, block);
}

extern const Family kGemma;
const Family kGemma = {"gemma", "GemmaForCausalLM", {}, kNeutral, kDecoderTensors, read};

} // namespace mgc::frontend
