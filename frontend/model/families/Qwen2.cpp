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

static constexpr ClassDefault kDefaults[] = {{"vocab_size", "151936"},
                                             {"hidden_size", "4096"},
                                             {"intermediate_size", "22016"},
                                             {"num_hidden_layers", "32"},
                                             {"num_attention_heads", "32"},
                                             {"num_key_value_heads", "32"},
                                             {"max_position_embeddings", "32768"}};

extern const Family kQwen2;
const Family kQwen2 = {.modelType = "qwen2",
                       .architecture = "Qwen2ForCausalLM",
                       .neutralFields = kNeutral,
                       .tensors = kDecoderTensors,
                       .read = read,
                       .classDefaults = kDefaults};

} // namespace mgc::frontend
