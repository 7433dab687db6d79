// See ParameterRoles.h.
#include "model/ParameterRoles.h"

#include <utility>

namespace mgc::frontend {

namespace {

class Roles {
public:
  explicit Roles(std::string_view stack = "") : stack_(stack) {} // stack: the beginning of all names
  void add(const std::string &name, plan::InitKind init = plan::InitKind::normal) {
    roles_.push_back({stack_ + name, init, areNarrow_});
  }
  void setNarrow(bool areNarrow) { areNarrow_ = areNarrow; } // roles that are added from here on
  void addLinear(const std::string &name, bool bias) {
    add(name + ".weight");
    if (bias)
      addBias(name + ".bias");
  }
  void addBias(const std::string &name) { add(name, plan::InitKind::zeros); }
  // Weights begin such that the norm alone is left: an offset is a part of them.
  void addNorm(const std::string &name, const std::optional<Norm> &norm) {
    if (norm && norm->weight)
      add(name + ".weight", norm->offset == 0 ? plan::InitKind::ones : plan::InitKind::zeros);
    if (norm && norm->bias)
      addBias(name + ".bias");
  }
  std::vector<Role> take() { return std::move(roles_); }

private:
  std::string stack_;
  bool areNarrow_ = false;
  std::vector<Role> roles_;
};

} // namespace

// `of`: the beginning of the roles' names: "attn".
static void addLatents(Roles &roles, const std::string &of, const AttentionDescription &attention) {
  const bool isLow = attention.latent->queryRank > 0;
  if (isLow) {
    roles.addLinear(of + ".q_a", attention.qkvBias);
    roles.addNorm(of + ".q_a_norm", attention.latent->norm);
  }
  roles.addLinear(of + (isLow ? ".q_b" : ".q"), false);
  roles.addLinear(of + ".kv_a", attention.qkvBias);
  roles.addNorm(of + ".kv_a_norm", attention.latent->norm);
  roles.addLinear(of + ".kv_b", false);
}

static void addAttention(Roles &roles, const std::string &of, const AttentionDescription &attention) {
  if (attention.latent)
    addLatents(roles, of, attention);
  else
    for (const char *name : {".q", ".k", ".v"})
      roles.addLinear(of + name, attention.qkvBias);
  if (attention.qkNorm)
    for (const char *name : {".q", ".k"})
      roles.addNorm(normRole(of + name, *attention.qkNorm), attention.qkNorm->norm);
  if (attention.gated)
    roles.addLinear(of + ".gate", attention.qkvBias);
  roles.addLinear(of + ".o", attention.outBias);
  if (attention.sinks)
    roles.add(of + ".sinks");
  if (attention.relativeBias)
    roles.add(of + ".relative_bias");
}

static void addExperts(Roles &roles, const Experts &experts, bool bias) {
  roles.add("router.weight");
  if (experts.isZipped)
    roles.addLinear("experts.gate_up", bias);
  else
    for (const char *name : {"experts.gate", "experts.up"})
      roles.addLinear(name, bias);
  roles.addLinear("experts.down", bias);
  if (experts.bias)
    roles.addBias("router.bias");
  if (experts.logitBias)
    roles.addBias("router.logits.bias");
  if (!experts.shared)
    return;
  for (const char *name : {"shared.gate.weight", "shared.up.weight", "shared.down.weight"})
    roles.add(name);
  if (experts.shared->gated)
    roles.add("shared.scale.weight");
}

static void addMlp(Roles &roles, const Mlp &mlp) {
  if (mlp.gated)
    roles.addLinear("mlp.gate", mlp.bias);
  roles.addLinear("mlp.up", mlp.bias);
  roles.addLinear("mlp.down", mlp.bias);
}

static void addAttentionBranch(Roles &roles, const std::string &of, const AttentionDescription &attention,
                               const BranchDescription &branch) {
  roles.addNorm(of + "_norm", branch.before);
  addAttention(roles, of, attention);
  roles.addNorm(of + "_after_norm", branch.after);
  roles.addNorm(of + "_sum_norm", branch.sum);
}

// `stack`: what names of roles begin with: "" or "encoder.".
std::vector<Role> rolesOf(const BlockDescription &block, std::string_view stack) {
  Roles roles(stack);
  addAttentionBranch(roles, "attn", block.attention, block.attentionBranch);
  if (block.cross)
    addAttentionBranch(roles, "cross", *block.cross, block.crossBranch);
  roles.addNorm("mlp_norm", block.mlpBranch.before);
  if (block.experts)
    addExperts(roles, *block.experts, block.mlp.bias);
  else
    addMlp(roles, block.mlp);
  roles.addNorm("mlp_after_norm", block.mlpBranch.after);
  roles.addNorm("mlp_sum_norm", block.mlpBranch.sum);
  return roles.take();
}

// But for the table of tokens. The tables and their norm are as wide as embedding.width says.
static void addEmbedding(Roles &roles, const Embedding &embedding) {
  roles.setNarrow(embedding.width > 0);
  if (embedding.learnedPositions)
    roles.add("embed.positions");
  if (embedding.types > 0)
    roles.add("embed.types");
  roles.addNorm("embed_norm", embedding.norm);
  roles.setNarrow(false);
  if (embedding.width > 0)
    roles.addLinear("embed.project", /*bias=*/true);
}

std::vector<Role> rolesOf(const EncoderDescription &encoder) {
  Roles roles(kOfEncoderRole);
  if (encoder.patches)
    roles.addLinear("embed.patches", encoder.patches->bias);
  if (encoder.patches && encoder.patches->classToken)
    roles.add("embed.class");
  addEmbedding(roles, encoder.embedding);
  roles.addNorm("final_norm", encoder.finalNorm);
  return roles.take();
}

std::vector<Role> rolesOf(const Projector &projector) {
  Roles roles;
  roles.addLinear(std::string(kOfProjectorRole) + "up", projector.bias);
  roles.addLinear(std::string(kOfProjectorRole) + "down", projector.bias);
  return roles.take();
}

std::vector<Role> rolesOf(const ModelDescription &model) {
  Roles roles;
  const bool isNarrow = model.embedding.width > 0;
  roles.setNarrow(isNarrow);
  roles.add("embed.tokens");
  addEmbedding(roles, model.embedding);
  roles.addNorm("final_norm", model.finalNorm);
  if (model.head.transform) {
    roles.addLinear("head.transform", model.head.transform->bias);
    roles.addNorm("head.transform_norm", model.head.transform->norm);
  }
  // The transform's result, which the head's matrix reads, has the width of embeddings.
  roles.setNarrow(isNarrow && model.head.transform);
  if (!model.head.tied)
    roles.add("head.weight");
  if (model.head.bias)
    roles.addBias("head.bias");
  return roles.take();
}

std::vector<Role> rolesOfLater(const ModelDescription &model) {
  Roles roles;
  roles.addNorm("later.token_norm", model.finalNorm);
  roles.addNorm("later.hidden_norm", model.finalNorm);
  roles.addLinear("later.token", false);
  roles.addLinear("later.hidden", false);
  roles.addNorm("later.norm", model.finalNorm);
  return roles.take();
}

bool endsBranch(std::string_view role) {
  return role.starts_with("attn.o.") || role.starts_with("cross.o.") || role.starts_with("mlp.down.") ||
         role.starts_with("experts.down.") || role.starts_with("shared.down.");
}

} // namespace mgc::frontend
