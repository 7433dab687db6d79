// OLMo 3: OLMo 2 with a window on three of four layers, whose rotary frequencies are not scaled.
#include "frontend/model/families/Olmo2.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"pretraining_tp", "1"}};

// Where rope_theta stands by itself, versions of transformers disagree on whether layers with a window have it too.
static void checkTheta(Config &config) {
  constexpr double kDefault = 500000;
  if (config.number("rope_theta", kDefault, 1, 1e15) != kDefault)
    config.refuse("rope_theta",
                  "is of all layers in transformers 4, and not of those with a window in transformers 5",
                  "expected rope_parameters with full_attention and sliding_attention");
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  const int64_t window = readWindow(config, 4096);
  const std::vector<bool> sliding = readSlidingLayers(config, count, 4);
  checkTheta(config);
  const RopeFields full = {.theta = 500000, .ofLayers = "full_attention"};
  const bool isUsable = readOlmo2(config, model, block, full);
  BlockDescription local = block;
  local.attention.window = window;
  local.attention.rope = readRope(config, block.attention.headDim,
                                  {.theta = full.theta,
                                   .ofLayers = "sliding_attention",
                                   .hasScaling = false,
                                   .maxPositions = model.maxPositions})
                             .rope;
  if (!isUsable)
    return;
  for (bool isLocal : sliding)
    layers.push_back(isLocal ? local : block);
}

extern const Family kOlmo3;
const Family kOlmo3 = {"olmo3", "Olmo3ForCausalLM", {}, kNeutral, withRows(kNormAfterRows), read};

} // namespace mgc::frontend
