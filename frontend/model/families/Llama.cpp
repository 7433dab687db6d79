// Llama: RMS norms, rotary positions (llama3 scaling included), grouped queries, gated MLP, optional biases.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"pretraining_tp", "1"}, {"partial_rotary_factor", "1.0"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  block.mlp.bias = config.flag("mlp_bias", false);
  int64_t count = readLayerCount(config, model);
  if (readDecoder(config, model, block, {.groupsMayBeAbsent = true, .rope = {.theta = 10000}}))
    layers.assign(count, block);
}

static constexpr ClassDefault kDefaults[] = {
    {"vocab_size", "32000"},     {"hidden_size", "4096"},       {"intermediate_size", "11008"},
    {"num_hidden_layers", "32"}, {"num_attention_heads", "32"}, {"max_position_embeddings", "2048"}};

extern const Family kLlama;
const Family kLlama = {.modelType = "llama",
                       .architecture = "LlamaForCausalLM",
                       .neutralFields = kNeutral,
                       .tensors = kDecoderTensors,
                       .read = read,
                       .classDefaults = kDefaults};

} // namespace mgc::frontend
