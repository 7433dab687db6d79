// Phi-3, Phi-3.5 and Phi-4: Llama whose queries, keys and values are one matrix, and gate and up another; with longrope the
// frequencies depend on the length of the sequences.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {
    {"attention_bias", "false"}, {"mlp_bias", "false"}, {"lm_head_bias", "false"}};
// The class reads none of these.
static constexpr std::string_view kIgnored[] = {"embd_pdrop", "interpolate_factor", "full_attn_mod",
                                                "auto_map"};

static constexpr TensorRow kRows[] = {
    {"attn.q.weight", "model.layers.{}.self_attn.qkv_proj.weight", "grd|gd|gd h", "q", 0},
    {"attn.k.weight", "model.layers.{}.self_attn.qkv_proj.weight", "grd|gd|gd h", "k", 1},
    {"attn.v.weight", "model.layers.{}.self_attn.qkv_proj.weight", "grd|gd|gd h", "v", 2},
    {"mlp.gate.weight", "model.layers.{}.mlp.gate_up_proj.weight", "f|f h", "gate", 0},
    {"mlp.up.weight", "model.layers.{}.mlp.gate_up_proj.weight", "f|f h", "up", 1}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.hiddenDropout = "resid_pdrop";
  BlockDescription block;
  block.attention.window = config.sizeOr("sliding_window", 0, kMaxPositions);
  const int64_t count = readLayerCount(config, model);
  // It wins over the one that stands with the factors.
  const int64_t original = config.sizeOr("original_max_position_embeddings", 4096, kMaxPositions);
  const bool isUsable =
      readDecoder(config, model, block,
                  {.groupsMayBeAbsent = true,
                   .norm = rmsNorm(1e-5),
                   .rope = {.theta = 10000, .part = 1, .originalPositions = double(original)},
                   .paddingToken = 32000});
  const RopeKind kind = block.attention.rope->scaling.kind;
  if (kind != RopeKind::none && kind != RopeKind::longrope)
    config.refuse(config.isSet("rope_parameters") ? "rope_parameters" : "rope_scaling",
                  fmt::format("has the rope_type {}, which the class does not know", wordOf(kind)),
                  "supported: default, longrope");
  block.attentionBranch.dropout = block.mlpBranch.dropout = config.probability("resid_pdrop", 0);
  if (isUsable && config.report().empty())
    layers.assign(count, block);
}

extern const Family kPhi3;
const Family kPhi3 = {"phi3", "Phi3ForCausalLM", kIgnored, kNeutral, withRows(kRows), read};

} // namespace mgc::frontend
