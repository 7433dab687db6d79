// Gemma 2: a norm before and one after each branch, bounded scores and logits, a window on every other layer.
#include "frontend/model/families/Gemma.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"use_bidirectional_attention", "false"}};
// A field of generation; hidden_act and sliding_window_size are not read by the class.
static constexpr std::string_view kIgnored[] = {"cache_implementation", "hidden_act", "sliding_window_size"};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.activation = "hidden_activation";
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  const int64_t window = readWindow(config, 4096);
  const std::vector<bool> sliding = readSlidingLayers(config, count, 2);
  block.attention.softcap = readSoftcap(config, "attn_logit_softcapping", 50);
  model.head.softcap = readSoftcap(config, "final_logit_softcapping", 30);
  const bool isUsable = readGemma(config, model, block, {.theta = 10000});
  readGemma2Layer(config, model, block);
  if (!isUsable)
    return;
  layers.assign(count, block);
  for (int64_t layer = 0; layer < count; ++layer)
    layers[layer].attention.window = sliding[layer] ? window : 0;
}

extern const Family kGemma2;
const Family kGemma2 = {"gemma2", "Gemma2ForCausalLM", kIgnored, kNeutral, withRows(kGemmaRows), read};

} // namespace mgc::frontend
