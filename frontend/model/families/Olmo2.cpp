// OLMo 2: a norm after each branch and none before; queries and keys are normed over all their heads together.
#include "frontend/model/families/Olmo2.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"pretraining_tp", "1"}};

static constexpr TensorRow kRows[] = {
    {"attn_after_norm.weight", "model.layers.{}.post_attention_layernorm.weight", "h"},
    {"mlp_after_norm.weight", "model.layers.{}.post_feedforward_layernorm.weight", "h"}};
constinit const std::span<const TensorRow> kNormAfterRows = kRows;

bool readOlmo2(Config &config, ModelDescription &model, BlockDescription &block, const RopeFields &rope) {
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  const bool isUsable =
      readDecoder(config, model, block,
                  {.groupsMayBeAbsent = true, .norm = rmsNorm(1e-5), .rope = rope, .paddingToken = 1});
  block.attentionBranch = block.mlpBranch = {.after = model.finalNorm};
  block.attention.qkNorm = {*model.finalNorm, NormSpan::allHeads};
  return isUsable;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  if (readOlmo2(config, model, block, {.theta = 10000}))
    layers.assign(count, block);
}

extern const Family kOlmo2;
const Family kOlmo2 = {"olmo2", "Olmo2ForCausalLM", {}, kNeutral, withRows(kRows), read};

} // namespace mgc::frontend
