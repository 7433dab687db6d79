// ERNIE 4.5, dense: Llama whose neighbours rotate.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

// The class reads neither.
static constexpr std::string_view kIgnored[] = {"compression_ratio", "use_flash_attention"};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = block.mlp.bias = config.flag("use_bias", false);
  const int64_t count = readLayerCount(config, model);
  const bool isUsable = readDecoder(config, model, block,
                                    {.headDim = config.has("head_dim") ? 0 : 128,
                                     .norm = rmsNorm(1e-5),
                                     .isTied = true,
                                     .rope = {.theta = 500000},
                                     .paddingToken = 0});
  block.attention.rope->interleaved = true;
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kErnie45;
const Family kErnie45 = {"ernie4_5", "Ernie4_5ForCausalLM", kIgnored, {}, kDecoderTensors, read};

} // namespace mgc::frontend
