// Qwen2 and Qwen2.5: Llama with biases on q, k and v only, and a sliding window on some layers.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"use_mrope", "false"}, {"partial_rotary_factor", "1.0"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  block.attention.qkvBias = true;
  int64_t count = readLayerCount(config, model);
  std::vector<int64_t> windows = readLayerWindows(config, count);
  if (!readDecoder(config, model, block, {}))
    return;
  layers.assign(count, block);
  for (int64_t layer = 0; layer < count; ++layer)
    layers[layer].attention.window = windows[layer];
}

extern const Family kQwen2;
const Family kQwen2 = {"qwen2", "Qwen2ForCausalLM", {}, kNeutral, kDecoderTensors, read};

} // namespace mgc::frontend
