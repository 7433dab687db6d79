// EXAONE 4: a norm after each branch and none before, norms of each head; with a window on some layers the others do not
// rotate.
#include "frontend/model/families/Olmo2.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"attention_bias", "false"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  const int64_t window = readWindow(config, 4096);
  // Published files have layer_types, and a word for the pattern.
  const bool hasTypes = config.isSet("layer_types");
  const int64_t pattern = hasTypes ? 1 : config.sizeOr("sliding_window_pattern", 4, kMaxLayers);
  config.ignore(std::array{std::string_view("sliding_window_pattern")});
  const std::vector<bool> sliding = readSlidingLayers(config, count, window > 0 ? pattern : 1);
  const bool isUsable = readDecoder(config, model, block, {.norm = rmsNorm(1e-5), .rope = {.theta = 10000}});
  block.attentionBranch = block.mlpBranch = {.after = model.finalNorm};
  block.attention.qkNorm = {*model.finalNorm};
  if (!isUsable)
    return;
  layers.assign(count, block);
  for (int64_t layer = 0; window > 0 && layer < count; ++layer)
    if (sliding[layer])
      layers[layer].attention.window = window;
    else
      layers[layer].attention.rope.reset();
}

extern const Family kExaone4;
const Family kExaone4 = {"exaone4", "Exaone4ForCausalLM", {}, kNeutral, withRows(kNormAfterRows), read};

} // namespace mgc::frontend
