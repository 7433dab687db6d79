// The names of tensors that Llama and most families have, and for roles that none of them has, names like those.
#include "model/families/Family.h"

namespace mgc::frontend {

static constexpr TensorRow kDecoderRows[] = {
    {"embed.tokens", "model.embed_tokens.weight", "v h"},
    {"embed.positions", "model.embed_positions.weight", "p h"},
    {"embed_norm.*", "model.embed_layernorm.*", "h; h"},
    {"embed.project.*", "model.embed_project.*", "h i; h"},
    {"attn_norm.*", "model.layers.{}.input_layernorm.*", "h; h"},
    {"attn_after_norm.*", "model.layers.{}.post_self_attn_layernorm.*", "h; h"},
    {"attn_sum_norm.*", "model.layers.{}.attn_sum_layernorm.*", "h; h"},
    {"attn.q.*", "model.layers.{}.self_attn.q_proj.*", "grd h; grd"},
    {"attn.k.*", "model.layers.{}.self_attn.k_proj.*", "gd h; gd"},
    {"attn.v.*", "model.layers.{}.self_attn.v_proj.*", "gd h; gd"},
    {"attn.q_norm.weight", "model.layers.{}.self_attn.q_norm.weight", "d"},
    {"attn.k_norm.weight", "model.layers.{}.self_attn.k_norm.weight", "d"},
    {"attn.q_norm.bias", "model.layers.{}.self_attn.q_norm.bias", "d"},
    {"attn.k_norm.bias", "model.layers.{}.self_attn.k_norm.bias", "d"},
    {"attn.q_norms.weight", "model.layers.{}.self_attn.q_norm.weight", "grd"},
    {"attn.k_norms.weight", "model.layers.{}.self_attn.k_norm.weight", "gd"},
    {"attn.q_norms.bias", "model.layers.{}.self_attn.q_norm.bias", "grd"},
    {"attn.k_norms.bias", "model.layers.{}.self_attn.k_norm.bias", "gd"},
    {"attn.gate.*", "model.layers.{}.self_attn.gate_proj.*", "grw h; grw"},
    {"attn.sinks", "model.layers.{}.self_attn.sinks", "gr"},
    {"attn.relative_bias", "model.relative_attention_bias.weight", "n gr"},
    {"attn.o.weight", "model.layers.{}.self_attn.o_proj.weight", "h grw"},
    {"attn.q_a.*", "model.layers.{}.self_attn.q_a_proj.*", "q h; q"},
    {"attn.q_a_norm.*", "model.layers.{}.self_attn.q_a_layernorm.*", "q; q"},
    {"attn.q_b.weight", "model.layers.{}.self_attn.q_b_proj.weight", "grd q"},
    {"attn.kv_a.*", "model.layers.{}.self_attn.kv_a_proj_with_mqa.*", "z h; z"},
    {"attn.kv_a_norm.*", "model.layers.{}.self_attn.kv_a_layernorm.*", "l; l"},
    {"attn.kv_b.weight", "model.layers.{}.self_attn.kv_b_proj.weight", "gx l"},
    {"attn.o.bias", "model.layers.{}.self_attn.o_proj.bias", "h"},
    {"mlp_norm.*", "model.layers.{}.post_attention_layernorm.*", "h; h"},
    {"mlp_after_norm.*", "model.layers.{}.post_mlp_layernorm.*", "h; h"},
    {"mlp_sum_norm.*", "model.layers.{}.mlp_sum_layernorm.*", "h; h"},
    {"mlp.gate.*", "model.layers.{}.mlp.gate_proj.*", "f h; f"},
    {"mlp.up.*", "model.layers.{}.mlp.up_proj.*", "f h; f"},
    {"mlp.down.*", "model.layers.{}.mlp.down_proj.*", "h f; h"},
    {"cross.q.*", "model.layers.{}.cross_attn.q_proj.*", "grd h; grd"},
    {"cross.k.*", "model.layers.{}.cross_attn.k_proj.*", "gd h; gd"},
    {"cross.v.*", "model.layers.{}.cross_attn.v_proj.*", "gd h; gd"},
    {"cross.q_norm.weight", "model.layers.{}.cross_attn.q_norm.weight", "d"},
    {"cross.k_norm.weight", "model.layers.{}.cross_attn.k_norm.weight", "d"},
    {"cross.q_norm.bias", "model.layers.{}.cross_attn.q_norm.bias", "d"},
    {"cross.k_norm.bias", "model.layers.{}.cross_attn.k_norm.bias", "d"},
    {"cross.q_norms.weight", "model.layers.{}.cross_attn.q_norm.weight", "grd"},
    {"cross.k_norms.weight", "model.layers.{}.cross_attn.k_norm.weight", "gd"},
    {"cross.q_norms.bias", "model.layers.{}.cross_attn.q_norm.bias", "grd"},
    {"cross.k_norms.bias", "model.layers.{}.cross_attn.k_norm.bias", "gd"},
    {"cross.gate.*", "model.layers.{}.cross_attn.gate_proj.*", "grw h; grw"},
    {"cross.sinks", "model.layers.{}.cross_attn.sinks", "gr"},
    {"cross.o.*", "model.layers.{}.cross_attn.o_proj.*", "h grw; h"},
    {"cross_norm.*", "model.layers.{}.cross_layernorm.*", "h; h"},
    {"cross_after_norm.*", "model.layers.{}.post_cross_attn_layernorm.*", "h; h"},
    {"cross_sum_norm.*", "model.layers.{}.cross_sum_layernorm.*", "h; h"},
    {"router.weight", "model.layers.{}.mlp.gate.weight", "e h"},
    {.role = "router.bias",
     .tensor = "model.layers.{}.mlp.gate.e_score_correction_bias",
     .dims = "e",
     .movedByLoad = true},
    {"experts.gate.weight", "model.layers.{}.mlp.experts.{#}.gate_proj.weight", "e m h"},
    {"experts.up.weight", "model.layers.{}.mlp.experts.{#}.up_proj.weight", "e m h"},
    {"experts.down.weight", "model.layers.{}.mlp.experts.{#}.down_proj.weight", "e h m"},
    {"experts.gate.bias", "model.layers.{}.mlp.experts.{#}.gate_proj.bias", "e m"},
    {"experts.up.bias", "model.layers.{}.mlp.experts.{#}.up_proj.bias", "e m"},
    {"experts.down.bias", "model.layers.{}.mlp.experts.{#}.down_proj.bias", "e y"},
    {"experts.gate_up.weight", "model.layers.{}.mlp.experts.gate_up_proj", "e h mj"},
    {"experts.gate_up.bias", "model.layers.{}.mlp.experts.gate_up_proj_bias", "e mj"},
    {"shared.gate.weight", "model.layers.{}.mlp.shared_expert.gate_proj.weight", "f h"},
    {"shared.up.weight", "model.layers.{}.mlp.shared_expert.up_proj.weight", "f h"},
    {"shared.down.weight", "model.layers.{}.mlp.shared_expert.down_proj.weight", "h f"},
    {"shared.scale.weight", "model.layers.{}.mlp.shared_expert_gate.weight", " h"},
    {"later.token_norm.weight", "model.layers.{}.enorm.weight", "h"},
    {"later.hidden_norm.weight", "model.layers.{}.hnorm.weight", "h"},
    {"later.{token,hidden}.weight", "model.layers.{}.eh_proj.weight", "h i|i"},
    {"later.norm.weight", "model.layers.{}.shared_head.norm.weight", "h"},
    {"later.embed.tokens", "model.layers.{}.embed_tokens.weight", "v h"},
    {"later.head.weight", "model.layers.{}.shared_head.head.weight", "v h"},
    {"final_norm.*", "model.norm.*", "h; h"},
    {"head.*", "lm_head.*", "v h; v"},
    {"embed.types", "model.embed_token_types.weight", "a h"},
    {"head.transform.*", "lm_head.dense.*", "i h; i"},
    {"head.transform_norm.*", "lm_head.layer_norm.*", "i; i"},
    {"router.logits.bias", "model.layers.{}.mlp.gate.bias", "e"}};
static constexpr std::string_view kIgnored[] = {"model.layers.{}.self_attn.rotary_emb.inv_freq"};
constinit const TensorNames kDecoderTensors = {"model.", kDecoderRows, kIgnored};

static constexpr TensorRow kImageRows[] = {{"encoder.embed.patches.*", "encoder.model.embed_patches.*", "h n o u; h"},
                                           {"encoder.embed.class", "encoder.model.embed_class", "ah"},
                                           {"project.up.*", "encoder.model.project.up_proj.*", "f i; f"},
                                           {"project.down.*", "encoder.model.project.down_proj.*", "h f; h"}};
constinit const TensorNames kWrittenTensors = {"model.", kDecoderRows, kIgnored, kImageRows};

TensorNames withRows(std::span<const TensorRow> rows) {
  TensorNames names = kDecoderTensors;
  names.ownRows = rows;
  return names;
}

} // namespace mgc::frontend
