// Granite: Llama with factors of embeddings, branches, scores and logits.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"pretraining_tp", "1"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  constexpr double kLeast = 1e-9, kMost = 1e9;
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  block.mlp.bias = config.flag("mlp_bias", false);
  const int64_t count = readLayerCount(config, model);
  const bool isUsable =
      readDecoder(config, model, block, {.groupsMayBeAbsent = true, .rope = {.theta = 10000}});
  model.embedding.scale = config.number("embedding_multiplier", 1, kLeast, kMost);
  model.head.scale = 1 / config.number("logits_scaling", 1, kLeast, kMost);
  block.residualScale = config.number("residual_multiplier", 1, kLeast, kMost);
  block.attention.scale = config.number("attention_multiplier", 1, kLeast, kMost);
  if (isUsable && config.report().empty())
    layers.assign(count, block);
}

extern const Family kGranite;
const Family kGranite = {.modelType = "granite",
                         .architecture = "GraniteForCausalLM",
                         .neutralFields = kNeutral,
                         .tensors = kDecoderTensors,
                         .read = read,
                         .embeddingScaleKey = "embedding_multiplier"};

} // namespace mgc::frontend
