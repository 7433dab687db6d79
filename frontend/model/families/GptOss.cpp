// gpt-oss: attention with sinks and biases, a window on every other layer, yarn; on all layers experts with biases, whose gate and
// up alternate in one tensor and are clamped, chosen by logits with a bias and weighed by the softmax of those chosen.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"partial_rotary_factor", "1.0"}, {"swiglu_alpha", "1.702"}};
// Other names of num_experts_per_tok and of rope's original_max_position_embeddings, which the class does not read.
static constexpr std::string_view kIgnored[] = {"experts_per_token", "initial_context_length"};

static constexpr TensorRow kRows[] = {
    {"router.weight", "model.layers.{}.mlp.router.weight", "e h"},
    {"router.logits.bias", "model.layers.{}.mlp.router.bias", "e"},
    {"experts.gate_up.weight", "model.layers.{}.mlp.experts.gate_up_proj", "e h mj"},
    {"experts.gate_up.bias", "model.layers.{}.mlp.experts.gate_up_proj_bias", "e mj"},
    {"experts.down.weight", "model.layers.{}.mlp.experts.down_proj", "e m h"},
    {"experts.down.bias", "model.layers.{}.mlp.experts.down_proj_bias", "e y"}};

static void readExpertMlp(Config &config, Mlp &mlp) {
  if (mlp.activation != Activation::silu) // the class has one, whatever the file says
    config.refuse("hidden_act", "is not supported", "expected silu: of gpt_oss x sigmoid(1.702 x), clamped");
  mlp.activation = Activation::geluQuick;
  mlp.bias = mlp.upPlusOne = true;
  mlp.limit = config.number("swiglu_limit", 7, 1e-6, 1e6);
}

// Without layer_types the first layer has the window, the second none, and so on.
static std::vector<bool> readWindowed(Config &config, int64_t count) {
  const std::vector<std::string> types = readLayerTypes(config, count);
  std::vector<bool> windowed(count);
  for (int64_t layer = 0; layer < count; ++layer)
    windowed[layer] = types.empty() ? layer % 2 == 0 : types[layer] == "sliding_attention";
  return windowed;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.experts = "num_local_experts", model.names.expertFfn = model.names.ffn;
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", true);
  block.attention.sinks = true;
  const int64_t count = readLayerCount(config, model);
  const int64_t window = config.size("sliding_window", kMaxPositions);
  const std::vector<bool> windowed = readWindowed(config, count);
  Experts experts = readExperts(config, "num_local_experts");
  experts.score = "none", experts.post = "softmax";
  experts.logitBias = experts.isZipped = true;
  const bool isUsable = readDecoder(config, model, block, {.headDim = 64, .norm = rmsNorm(1e-5)});
  // The class has yarn then, with numbers of its own.
  if (!config.has("rope_parameters") && !config.has("rope_scaling"))
    config.refuse("rope_theta", "stands without rope_parameters or rope_scaling",
                  "expected one of them: {\"rope_type\": \"yarn\", ..} or {\"rope_type\": \"default\"}");
  readExpertMlp(config, block.mlp);
  readPooledAuxLoss(config, model, /*defaultCoefficient=*/0.9);
  if (!isUsable)
    return;
  block.experts = experts;
  layers.assign(count, block);
  for (int64_t layer = 0; layer < count; ++layer)
    layers[layer].attention.window = windowed[layer] ? window : 0;
}

extern const Family kGptOss;
const Family kGptOss = {"gpt_oss",
                        "GptOssForCausalLM",
                        kIgnored,
                        kNeutral,
                        {kDecoderTensors.prefix, kDecoderTensors.rows, kDecoderTensors.ignored, kRows},
                        read};

} // namespace mgc::frontend
