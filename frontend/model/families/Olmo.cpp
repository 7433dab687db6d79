// OLMo: Llama with layer norms that have no parameters; queries, keys and values may be bounded.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"pretraining_tp", "1"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.normEpsilon = ""; // the class has one
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  block.attention.clip = config.number("clip_qkv", 0, 1e-6, 1e15);
  const int64_t count = readLayerCount(config, model);
  const Norm bare = {.kind = NormKind::layer, .epsilon = 1e-5, .weight = false};
  if (readDecoder(config, model, block,
                  {.groupsMayBeAbsent = true, .norm = bare, .rope = {.theta = 10000}, .paddingToken = 1}))
    layers.assign(count, block);
}

extern const Family kOlmo;
const Family kOlmo = {"olmo", "OlmoForCausalLM", {}, kNeutral, kDecoderTensors, read};

} // namespace mgc::frontend
