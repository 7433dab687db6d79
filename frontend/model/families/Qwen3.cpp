// Qwen3: Llama with an RMS norm on each head of q and k, a head size of its own, and a sliding window on some
// layers.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"partial_rotary_factor", "1.0"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  int64_t count = readLayerCount(config, model);
  std::vector<int64_t> windows = readLayerWindows(config, count);
  if (!readDecoder(config, model, block, {.headDim = 128}))
    return;
  block.attention.qkNorm = {*model.finalNorm}; // the same epsilon
  layers.assign(count, block);
  for (int64_t layer = 0; layer < count; ++layer)
    layers[layer].attention.window = windows[layer];
}

extern const Family kQwen3;
const Family kQwen3 = {"qwen3", "Qwen3ForCausalLM", {}, kNeutral, kDecoderTensors, read};

} // namespace mgc::frontend
