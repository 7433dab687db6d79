#include "frontend/model/Parameters.h"
#include "plan/Expand.h"
#include <algorithm>
#include <cmath>

namespace mgc::frontend {

static void addLinear(std::vector<std::string> &roles, const std::string &name, bool bias) {
  roles.push_back(name + ".weight");
  if (bias)
    roles.push_back(name + ".bias");
}

static void addNorm(std::vector<std::string> &roles, const std::string &name, const Norm &norm) {
  addLinear(roles, name, norm.kind == NormKind::layer);
}

static void addLatents(std::vector<std::string> &roles, const AttentionDescription &attention) {
  const bool isLow = attention.latent->queryRank > 0;
  if (isLow) {
    addLinear(roles, "attn.q_a", attention.qkvBias);
    addNorm(roles, "attn.q_a_norm", attention.latent->norm);
  }
  addLinear(roles, isLow ? "attn.q_b" : "attn.q", false);
  addLinear(roles, "attn.kv_a", attention.qkvBias);
  addNorm(roles, "attn.kv_a_norm", attention.latent->norm);
  addLinear(roles, "attn.kv_b", false);
}

static std::vector<std::string> rolesOf(const BlockDescription &block) {
  std::vector<std::string> roles;
  addNorm(roles, "attn_norm", block.attentionNorm);
  if (block.attention.latent)
    addLatents(roles, block.attention);
  else
    for (const char *name : {"attn.q", "attn.k", "attn.v"})
      addLinear(roles, name, block.attention.qkvBias);
  if (block.attention.qkNorm) {
    addNorm(roles, "attn.q_norm", *block.attention.qkNorm);
    addNorm(roles, "attn.k_norm", *block.attention.qkNorm);
  }
  addLinear(roles, "attn.o", block.attention.outBias);
  if (block.attention.sinks)
    roles.push_back("attn.sinks");
  addNorm(roles, "mlp_norm", block.mlpNorm);
  if (block.experts) {
    roles.push_back("router.weight");
    if (block.experts->isZipped)
      addLinear(roles, "experts.gate_up", block.mlp.bias);
    else
      for (const char *name : {"experts.gate", "experts.up"})
        addLinear(roles, name, block.mlp.bias);
    addLinear(roles, "experts.down", block.mlp.bias);
    if (block.experts->bias)
      roles.push_back("router.bias");
    if (block.experts->logitBias)
      roles.push_back("router.logits.bias");
    if (block.experts->shared)
      roles.insert(roles.end(), {"shared.gate.weight", "shared.up.weight", "shared.down.weight"});
    if (block.experts->shared && block.experts->shared->gated)
      roles.push_back("shared.scale.weight");
    return roles;
  }
  if (block.mlp.gated)
    addLinear(roles, "mlp.gate", block.mlp.bias);
  addLinear(roles, "mlp.up", block.mlp.bias);
  addLinear(roles, "mlp.down", block.mlp.bias);
  return roles;
}

static std::vector<std::string> rolesOf(const ModelDescription &model) {
  std::vector<std::string> roles = {"embed.tokens"};
  if (model.learnedPositions)
    roles.push_back("embed.positions");
  addNorm(roles, "final_norm", model.finalNorm);
  if (!model.tiedHead)
    roles.push_back("head.weight");
  return roles;
}

static plan::ParameterDim dimOf(char letter, const ModelDescription &model, const BlockDescription &block) {
  const AttentionDescription &attention = block.attention;
  auto full = [&](int64_t size) { return plan::ParameterDim{std::string(1, letter), size, size, {}}; };
  switch (letter) {
  case kVocabularyDim:
    return full(model.vocabulary);
  case 'p':
    return full(model.maxPositions);
  case 'g':
    return full(attention.groups);
  case 'r':
    return full(attention.heads / attention.groups);
  case 'd':
    return full(attention.headDim);
  case 'w':
    return full(attention.valueDim());
  case 'q':
    return full(attention.latent->queryRank);
  case 'l':
    return full(attention.latent->keyRank);
  case 'z': // the latent of keys and values, and what rotates of keys
    return full(attention.latent->keyRank + attention.latent->rotaryDim);
  case 'x': // what does not rotate of keys, and values
    return full(attention.headDim - attention.latent->rotaryDim + attention.latent->valueDim);
  case 'f':
    return full(block.experts ? block.experts->shared->ffn : block.mlp.ffn);
  case 'm':
    return full(block.mlp.ffn);
  case 'e':
    return full(block.experts->count);
  case 'j':
    return full(2);
  default:
    return full(model.hidden); // h, y
  }
}

// Norm weights start at one, biases at zero, everything else is drawn.
static void setInit(plan::Parameter &parameter, const TensorRow &row, const ModelDescription &model) {
  bool norm = row.role.find("norm.") != std::string_view::npos;
  bool bias = row.role.ends_with(".bias");
  parameter.init = bias ? plan::InitKind::zeros : norm ? plan::InitKind::ones : plan::InitKind::normal;
  parameter.initStd = 0;
  if (parameter.init == plan::InitKind::normal)
    parameter.initStd = model.initializerRange /
                        (row.residualInit ? std::sqrt(2.0 * static_cast<double>(model.layers.size())) : 1.0);
}

static const TensorRow *findRow(const TensorNames &names, std::string_view role) {
  for (std::span<const TensorRow> rows : {names.ownRows, names.rows})
    if (const auto row = std::ranges::find(rows, role, &TensorRow::role); row != rows.end())
      return &*row;
  return nullptr;
}

// A tied embedding is stored once, under its own name or the head's.
static std::vector<std::string> aliasesOf(const TensorRow &row, const TensorNames &names,
                                          const ModelDescription &model) {
  std::vector<std::string> aliases;
  if (row.tensor.starts_with(names.prefix))
    aliases.emplace_back(row.tensor.substr(names.prefix.size()));
  const TensorRow *head = findRow(names, "head.weight");
  if (row.role == "embed.tokens" && model.tiedHead && head)
    aliases.emplace_back(head->tensor);
  return aliases;
}

static plan::Parameter parameterOf(const TensorRow &row, const TensorNames &names,
                                   const ModelDescription &model, const BlockDescription &block) {
  plan::Parameter parameter;
  parameter.tensor = row.tensor;
  parameter.aliases = aliasesOf(row, names, model);
  parameter.name = row.view.empty() ? parameter.tensor : fmt::format("{}[{}]", row.tensor, row.view);
  int64_t size = 1, count = 0;
  auto close = [&] {
    parameter.fileShape.push_back(size);
    parameter.grouping.push_back(count);
    parameter.offset.push_back(0);
    size = 1, count = 0;
  };
  for (char letter : row.dims) {
    if (letter == ' ') {
      close();
      continue;
    }
    parameter.dims.push_back(dimOf(letter, model, block));
    size *= parameter.dims.back().valid;
    ++count;
  }
  close();
  parameter.offset.back() = row.part * parameter.fileShape.back();
  parameter.fileShape.back() *= row.parts;
  if (parameter.tensor.find(plan::kStackHole) != std::string::npos)
    parameter.stacked = parameter.fileShape.front();
  setInit(parameter, row, model);
  return parameter;
}

static Status bind(const std::vector<std::string> &roles, const TensorNames &names,
                   const ModelDescription &model, const BlockDescription &block,
                   std::vector<ModelParameter> &result) {
  result.clear();
  for (const std::string &role : roles) {
    const TensorRow *row = findRow(names, role);
    if (!row)
      return errorf("the family {} does not say which tensor holds {}", model.family, role);
    result.push_back(
        {role, std::string(row->view), parameterOf(*row, names, model, block), row->movedByLoad});
  }
  return Status::ok();
}

// Each name with the prefix, and without.
static std::vector<std::string> ignoredTensors(const TensorNames &names) {
  std::vector<std::string> ignored;
  for (std::string_view name : names.ignored) {
    ignored.emplace_back(name);
    if (name.starts_with(names.prefix))
      ignored.emplace_back(name.substr(names.prefix.size()));
  }
  return ignored;
}

Status bindParameters(ModelDescription &model, const TensorNames &names) {
  model.ignoredTensors = ignoredTensors(names);
  for (BlockKind &kind : model.kinds)
    MGC_TRY(bind(rolesOf(kind.block), names, model, kind.block, kind.parameters));
  return bind(rolesOf(model), names, model, model.kinds.front().block, model.parameters);
}

} // namespace mgc::frontend
