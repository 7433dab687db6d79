// StarCoder2: Llama with layer norms, biases, an mlp without a gate, and one window for all layers.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

// The class reads none of these, which published files have beside hidden_act and norm_epsilon.
static constexpr std::string_view kIgnored[] = {"mlp_type",
                                                "norm_type",
                                                "activation_function",
                                                "layer_norm_epsilon",
                                                "attention_softmax_in_fp32",
                                                "scale_attention_softmax_in_fp32"};

static constexpr NeutralField kNeutral[] = {{"scale_attn_weights", "true"}};

static constexpr TensorRow kRows[] = {{"mlp.up.weight", "model.layers.{}.mlp.c_fc.weight", "f h"},
                                      {"mlp.up.bias", "model.layers.{}.mlp.c_fc.bias", "f"},
                                      {"mlp.down.weight", "model.layers.{}.mlp.c_proj.weight", "h f"},
                                      {"mlp.down.bias", "model.layers.{}.mlp.c_proj.bias", "h"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.normEpsilon = "norm_epsilon", model.names.hiddenDropout = "residual_dropout";
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = block.mlp.bias = config.flag("use_bias", true);
  block.attention.window = config.sizeOr("sliding_window", 0, kMaxPositions);
  const int64_t count = readLayerCount(config, model);
  const bool isUsable = readDecoder(config, model, block,
                                    {.norm = layerNorm(1e-5),
                                     .activation = "gelu_pytorch_tanh",
                                     .isTied = true,
                                     .initializerRange = 0.018042,
                                     .rope = {.theta = 10000}});
  block.mlp.gated = false;
  block.attentionBranch.dropout = block.mlpBranch.dropout = config.probability("residual_dropout", 0);
  model.embedding.dropout = config.probability("embedding_dropout", 0);
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kStarcoder2;
const Family kStarcoder2 = {"starcoder2", "Starcoder2ForCausalLM", kIgnored, kNeutral, withRows(kRows), read};

} // namespace mgc::frontend
