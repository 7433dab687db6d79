// Falcon: attention and mlp side by side or in turn; keys of all heads, of one or of groups; rotary positions, or scores that
// fall with distance. Queries of a group, its keys and its values lie together.
#include "frontend/model/families/Bloom.h"
#include "frontend/model/families/Slopes.h"

#include <cmath>

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"apply_residual_connection_post_layernorm", "false"}};
// The class reads neither.
static constexpr std::string_view kIgnored[] = {"ff_factor", "auto_map"};

static void readHeads(Config &config, ModelDescription &model, AttentionDescription &attention, bool isNew) {
  if (isNew)
    attention.groups = config.sizeOr("num_kv_heads", attention.heads, kMaxHeads);
  else
    attention.groups = config.flag("multi_query", true) ? 1 : attention.heads;
  config.ignore(std::array<std::string_view, 2>{"num_kv_heads", "multi_query"});
  if (attention.heads && attention.groups && attention.heads % attention.groups != 0)
    config.refuse("num_kv_heads", fmt::format("does not divide {} = {}", model.names.heads, attention.heads),
                  "possible num_kv_heads: " + listOf(divisorsOf(attention.heads, kMaxHeads)));
}

static void setBranches(Config &config, BlockDescription &block, bool isNew) {
  const bool isParallel = config.flag("parallel_attn", true),
             hasTwoNorms = config.sizeOr("num_ln_in_parallel_attn", isNew ? 2 : 1, 2) == 2;
  if (isNew && !isParallel)
    config.refuse("parallel_attn", "is not supported with new_decoder_architecture", "expected true");
  if (!isNew && isParallel && hasTwoNorms)
    config.refuse("num_ln_in_parallel_attn", "is not supported without new_decoder_architecture",
                  "expected null or 1");
  block.parallel = isParallel;
  if (isParallel && !hasTwoNorms)
    block.mlpBranch.before.reset();
}

// Two norms of one input have names of their own.
static constexpr TensorRow kTwoNormRows[] = {{"attn_norm.weight", "transformer.h.{}.ln_attn.weight", "h"},
                                             {"attn_norm.bias", "transformer.h.{}.ln_attn.bias", "h"},
                                             {"mlp_norm.weight", "transformer.h.{}.ln_mlp.weight", "h"},
                                             {"mlp_norm.bias", "transformer.h.{}.ln_mlp.bias", "h"}};
static std::span<const TensorRow> rowsOf(const std::vector<BlockDescription> &layers) {
  const bool hasTwo = layers.front().parallel && layers.front().mlpBranch.before;
  return hasTwo ? std::span<const TensorRow>(kTwoNormRows) : std::span<const TensorRow>();
}

// Dropout that the class has is dropped at other places than here: it is refused.
static void refuseDropout(Config &config) {
  for (std::string_view key : {"hidden_dropout", "attention_dropout"})
    if (config.probability(key, 0) != 0)
      config.refuse(key, "is not supported", "supported: 0.0");
}

// The slopes are divided as the scores are. The class rounds them to bf16.
static void setSlopes(AttentionDescription &attention) {
  attention.slopes = alibiSlopes(attention.heads);
  for (double &slope : attention.slopes)
    slope /= std::sqrt(static_cast<double>(attention.headDim));
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.hidden = config.isSet("n_embed") ? "n_embed" : "hidden_size";
  config.ignore(std::array<std::string_view, 2>{"n_embed", "hidden_size"});
  model.names.groups = model.names.heads;
  model.names.normEpsilon = "layer_norm_epsilon", model.names.activation = "activation";
  model.names.ffn = "ffn_hidden_size", model.names.attentionDropout = "";
  BlockDescription block;
  const bool isNew = config.flag("new_decoder_architecture", false), hasSlopes = config.flag("alibi", false);
  block.attention.qkvBias = block.attention.outBias = block.mlp.bias = config.flag("bias", false);
  const int64_t count = readLayerCount(config, model);
  const bool isUsable = readDecoder(config, model, block,
                                    {.hasHeadDim = false,
                                     .norm = layerNorm(1e-5),
                                     .activation = "gelu",
                                     .ffnOverHidden = 4,
                                     .positions = 2048,
                                     .isTied = true,
                                     .hasRope = !hasSlopes,
                                     .rope = {.theta = 10000},
                                     .hasPadding = false});
  readHeads(config, model, block.attention, isNew);
  block.mlp.gated = false;
  setBranches(config, block, isNew);
  refuseDropout(config);
  if (hasSlopes) {
    setSlopes(block.attention);
    config.ignore(
        std::array<std::string_view, 3>{"rope_parameters", "rope_theta", "rope_scaling"}); // nothing rotates
  }
  if (isUsable && config.report().empty())
    layers.assign(count, block);
}

extern const Family kFalcon;
const Family kFalcon = {
    "falcon", "FalconForCausalLM", kIgnored, kNeutral, {"transformer.", kBloomRows, {}}, read, rowsOf};

} // namespace mgc::frontend
