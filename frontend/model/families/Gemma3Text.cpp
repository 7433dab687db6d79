// Gemma 3, text: Gemma 2 with norms of queries and keys in the place of bounded scores, and rotary frequencies of their own on
// the layers with a window.
#include "frontend/model/families/Gemma.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"use_bidirectional_attention", "false"},
                                            {"attn_logit_softcapping", "null"}};
// A field of generation.
static constexpr std::string_view kIgnored[] = {"cache_implementation"};

static void setFrequencies(Config &config, const ModelDescription &model, AttentionDescription &local) {
  local.rope = readRope(config, local.headDim,
                        {.theta = 10000,
                         .thetaKey = "rope_local_base_freq",
                         .ofLayers = "sliding_attention",
                         .hasScaling = false,
                         .maxPositions = model.maxPositions})
                   .rope;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.activation = "hidden_activation";
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  const int64_t window = readWindow(config, 4096);
  const int64_t pattern = readWindowPattern(config, 6);
  const std::vector<bool> sliding = readSlidingLayers(config, count, pattern);
  model.head.softcap = readSoftcap(config, "final_logit_softcapping", 0);
  const bool isUsable = readGemma(config, model, block, {.theta = 1e6, .ofLayers = "full_attention"});
  readGemma2Layer(config, model, block);
  block.attention.qkNorm = {*model.finalNorm};
  BlockDescription local = block;
  local.attention.window = window;
  setFrequencies(config, model, local.attention);
  if (!isUsable)
    return;
  for (bool isLocal : sliding)
    layers.push_back(isLocal ? local : block);
}

static constexpr ClassDefault kDefaults[] = {{"vocab_size", "262208"},
                                             {"hidden_size", "2304"},
                                             {"intermediate_size", "9216"},
                                             {"num_hidden_layers", "26"},
                                             {"num_attention_heads", "8"},
                                             {"num_key_value_heads", "4"},
                                             {"max_position_embeddings", "131072"}};

extern const Family kGemma3Text;
const Family kGemma3Text = {.modelType = "gemma3_text",
                            .architecture = "Gemma3ForCausalLM",
                            .ignoredFields = kIgnored,
                            .neutralFields = kNeutral,
                            .tensors = withRows(kGemmaRows),
                            .read = read,
                            .classDefaults = kDefaults};

} // namespace mgc::frontend
