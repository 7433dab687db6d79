// Mixtral: Mistral with experts.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {
    {"partial_rotary_factor", "1.0"}, {"attention_bias", "false"}, {"router_jitter_noise", "0.0"}};

static constexpr TensorRow kRows[] = {
    {"router.weight", "model.layers.{}.block_sparse_moe.gate.weight", "e h"},
    {"experts.gate.weight", "model.layers.{}.block_sparse_moe.experts.{#}.w1.weight", "e m h"},
    {"experts.up.weight", "model.layers.{}.block_sparse_moe.experts.{#}.w3.weight", "e m h"},
    {"experts.down.weight", "model.layers.{}.block_sparse_moe.experts.{#}.w2.weight", "e h m"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.experts = "num_local_experts", model.names.expertFfn = model.names.ffn;
  BlockDescription block;
  block.attention.window = config.sizeOr("sliding_window", 0, kMaxPositions);
  block.experts = readExperts(config, "num_local_experts");
  block.experts->epsilon = 0;
  readPooledAuxLoss(config, model);
  int64_t count = readLayerCount(config, model);
  if (readDecoder(config, model, block, {.norm = rmsNorm(1e-5), .rope = {.theta = 1e6}}))
    layers.assign(count, block);
}

extern const Family kMixtral;
const Family kMixtral = {"mixtral",
                         "MixtralForCausalLM",
                         {},
                         kNeutral,
                         {kDecoderTensors.prefix, kDecoderTensors.rows, kDecoderTensors.ignored, kRows},
                         read};

} // namespace mgc::frontend
