// Ministral 3, text: Mistral with yarn, and queries that grow with their distance from the beginning.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"attention_bias", "false"}, {"mlp_bias", "false"}};
static constexpr std::string_view kIgnored[] = {"layer_types"}; // the class reads none

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  block.attention.window = config.sizeOr("sliding_window", 0, kMaxPositions);
  const int64_t count = readLayerCount(config, model);
  if (!config.isSet("rope_parameters") &&
      !config.isSet("rope_scaling")) // the class has yarn then, and scaled queries
    config.report().add("rope_parameters is missing, but required");
  if (readDecoder(config, model, block,
                  {.headDim = config.has("head_dim") ? 0 : 128,
                   .norm = rmsNorm(1e-5),
                   .rope = {.hasQueryGrowth = true},
                   .paddingToken = 11}))
    layers.assign(count, block);
}

static constexpr ClassDefault kDefaults[] = {{"vocab_size", "131072"},
                                             {"hidden_size", "4096"},
                                             {"intermediate_size", "14336"},
                                             {"num_hidden_layers", "34"},
                                             {"num_attention_heads", "32"},
                                             {"num_key_value_heads", "8"},
                                             {"max_position_embeddings", "262144"}};

extern const Family kMinistral3;
const Family kMinistral3 = {.modelType = "ministral3",
                            .architecture = "Ministral3ForCausalLM",
                            .ignoredFields = kIgnored,
                            .neutralFields = kNeutral,
                            .tensors = kDecoderTensors,
                            .read = read,
                            .classDefaults = kDefaults};

} // namespace mgc::frontend
