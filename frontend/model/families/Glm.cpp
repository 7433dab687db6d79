// GLM-4 in its first form: Llama of which neighbours of a half of each head rotate; gate and up are one matrix.
#include "frontend/model/families/Glm.h"

namespace mgc::frontend {

static constexpr TensorRow kRows[] = {
    {"mlp.gate.weight", "model.layers.{}.mlp.gate_up_proj.weight", "f|f h", "gate", 0},
    {"mlp.up.weight", "model.layers.{}.mlp.gate_up_proj.weight", "f|f h", "up", 1}};
constinit const std::span<const TensorRow> kGlmRows = kRows;

bool readGlm(Config &config, ModelDescription &model, BlockDescription &block) {
  block.attention.qkvBias = config.flag("attention_bias", true);
  const bool isUsable = readDecoder(config, model, block,
                                    {.headDim = 128,
                                     .norm = rmsNorm(1.5625e-07),
                                     .rope = {.theta = 10000, .part = 0.5},
                                     .paddingToken = 151329});
  block.attention.rope->interleaved = true;
  return isUsable;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  if (readGlm(config, model, block))
    layers.assign(count, block);
}

extern const Family kGlm;
const Family kGlm = {"glm", "GlmForCausalLM", {}, {}, withRows(kRows), read};

} // namespace mgc::frontend
