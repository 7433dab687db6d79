// Command R7B and A: Command R with a window and rotary positions on three of four layers, and neither on the fourth.
#include "frontend/model/families/Cohere.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"use_qk_norm", "false"},
                                            {"rotary_pct", "1.0"},
                                            {"use_parallel_block", "true"},
                                            {"use_gated_activation", "true"},
                                            {"position_embedding_type", "\"rope_gptj\""}};
// The class reads none of these.
static constexpr std::string_view kIgnored[] = {"cache_implementation", "layer_switch",
                                                "order_of_interleaved_layers", "use_embedding_sharing",
                                                "use_parallel_embedding"};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  // Without a window the class rotates nothing.
  const int64_t window = readWindow(config, 4096);
  const int64_t pattern = readWindowPattern(config, 4);
  const std::vector<bool> sliding = readSlidingLayers(config, count, pattern);
  if (!readCohere(config, model, block, /*theta=*/10000))
    return;
  layers.assign(count, block);
  for (int64_t layer = 0; layer < count; ++layer)
    if (sliding[layer] && window > 0)
      layers[layer].attention.window = window;
    else
      layers[layer].attention.rope.reset();
}

extern const Family kCohere2;
const Family kCohere2 = {"cohere2", "Cohere2ForCausalLM", kIgnored, kNeutral, kDecoderTensors, read};

} // namespace mgc::frontend
