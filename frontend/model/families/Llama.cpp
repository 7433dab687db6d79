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

extern const Family kLlama;
const Family kLlama = {"llama", "LlamaForCausalLM", {}, kNeutral, kDecoderTensors, read};

} // namespace mgc::frontend
