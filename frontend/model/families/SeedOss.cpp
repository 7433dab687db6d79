// Seed-OSS: Llama with biases of queries, keys and values, and dropout.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

// The class does not read it.
static constexpr std::string_view kIgnored[] = {"pretraining_tp"};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.hiddenDropout = "residual_dropout";
  BlockDescription block;
  block.attention.qkvBias = config.flag("attention_bias", true);
  block.attention.outBias = config.flag("attention_out_bias", false);
  block.mlp.bias = config.flag("mlp_bias", false);
  const int64_t count = readLayerCount(config, model);
  // A head_dim of null is of hidden_size, a missing one 128.
  const bool isUsable = readDecoder(config, model, block,
                                    {.headDim = config.has("head_dim") ? 0 : 128,
                                     .dropout = 0.1,
                                     .rope = {.theta = 10000},
                                     .paddingToken = 1});
  block.attentionBranch.dropout = block.mlpBranch.dropout = config.probability("residual_dropout", 0.1);
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kSeedOss;
const Family kSeedOss = {"seed_oss", "SeedOssForCausalLM", kIgnored, {}, kDecoderTensors, read};

} // namespace mgc::frontend
