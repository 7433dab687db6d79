// Mistral: Llama without biases, and one sliding window for all layers.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"pretraining_tp", "1"},
                                            {"partial_rotary_factor", "1.0"},
                                            {"attention_bias", "false"},
                                            {"mlp_bias", "false"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  // Absent means 4096 to transformers, which nobody who leaves it out expects.
  if (!config.has("sliding_window")) {
    config.report().add("sliding_window is missing, but required");
    config.report().hint("expected the size of the window, or null for none");
  }
  block.attention.window = config.sizeOr("sliding_window", 0, kMaxPositions);
  int64_t count = readLayerCount(config, model);
  if (readDecoder(config, model, block, {.rope = {.theta = 10000}}))
    layers.assign(count, block);
}

static constexpr ClassDefault kDefaults[] = {{"vocab_size", "32000"},
                                             {"hidden_size", "4096"},
                                             {"intermediate_size", "14336"},
                                             {"num_hidden_layers", "32"},
                                             {"num_attention_heads", "32"},
                                             {"num_key_value_heads", "8"},
                                             {"max_position_embeddings", "131072"}};

extern const Family kMistral;
const Family kMistral = {.modelType = "mistral",
                         .architecture = "MistralForCausalLM",
                         .neutralFields = kNeutral,
                         .tensors = kDecoderTensors,
                         .read = read,
                         .classDefaults = kDefaults};

} // namespace mgc::frontend
