// Ministral: Mistral with a window on the layers that layer_types names.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"attention_bias", "false"}, {"mlp_bias", "false"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  const int64_t window = readWindow(config, 4096);
  const std::vector<bool> sliding = readSlidingLayers(config, count, /*every=*/0);
  if (!config.isSet("head_dim"))
    config.report().add("head_dim is missing, but required");
  if (!readDecoder(config, model, block, {.rope = {.theta = 10000}}))
    return;
  layers.assign(count, block);
  for (int64_t layer = 0; layer < count; ++layer)
    layers[layer].attention.window = sliding[layer] ? window : 0;
}

extern const Family kMinistral;
const Family kMinistral = {"ministral", "MinistralForCausalLM", {}, kNeutral, kDecoderTensors, read};

} // namespace mgc::frontend
