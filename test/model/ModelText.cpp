#include "test/model/ModelText.h"

#include "model/Vocabulary.h"

namespace mgc::frontend {

const plan::Parameter *findParameter(const std::vector<ModelParameter> &parameters, std::string_view role) {
  for (const ModelParameter &candidate : parameters)
    if (candidate.role == role)
      return &candidate.parameter;
  return nullptr;
}

static std::string replaceLayer(std::string text, int64_t layer) {
  if (size_t at = text.find("{}"); at != std::string::npos)
    text.replace(at, 2, std::to_string(layer));
  return text;
}

plan::Parameter atLayer(const plan::Parameter &parameter, int64_t layer) {
  plan::Parameter result = parameter;
  result.name = replaceLayer(result.name, layer);
  result.tensor = replaceLayer(result.tensor, layer);
  for (std::string &alias : result.aliases)
    alias = replaceLayer(alias, layer);
  return result;
}

static bool before(const ModelParameter &parameter) { // used before the first layer
  return parameter.role.starts_with("embed.");
}

std::vector<plan::Parameter> allParameters(const ModelDescription &model) {
  std::vector<plan::Parameter> result;
  const auto addInside = [&](const plan::Parameter &parameter, int64_t layer) {
    const plan::Parameter found = atLayer(parameter, layer);
    if (std::ranges::find(result, found.name, &plan::Parameter::name) == result.end()) // else all layers share it
      result.push_back(found);
  };
  for (const ModelParameter &outside : model.parameters)
    if (before(outside))
      result.push_back(outside.parameter);
  for (int64_t layer = 0; layer < model.encoderLayerCount(); ++layer)
    for (const ModelParameter &inside : model.encoderLayer)
      addInside(inside.parameter, layer);
  for (int64_t layer = 0; layer < model.layerCount(); ++layer)
    for (const ModelParameter &inside : model.kinds[model.layers[layer]].parameters)
      addInside(inside.parameter, layer);
  for (const ModelParameter &outside : model.parameters)
    if (!before(outside))
      result.push_back(outside.parameter);
  return result;
}

// Elements of the parameters that each layer has, or of those that all layers of a stack share.
static int64_t elementsOf(const std::vector<ModelParameter> &parameters, bool ofEachLayer) {
  int64_t total = 0;
  for (const ModelParameter &entry : parameters) {
    if ((entry.parameter.name.find("{}") != std::string::npos) != ofEachLayer)
      continue;
    int64_t elements = 1;
    for (const plan::ParameterDim &dim : entry.parameter.dims)
      elements *= dim.valid;
    total += elements;
  }
  return total;
}

int64_t parameterCount(const ModelDescription &model) {
  int64_t total = elementsOf(model.parameters, false) + elementsOf(model.encoderLayer, false) +
                  elementsOf(model.kinds.front().parameters, false) +
                  model.encoderLayerCount() * elementsOf(model.encoderLayer, true);
  for (int64_t kind : model.layers)
    total += elementsOf(model.kinds[kind].parameters, true);
  return total;
}

// --- describe ----------------------------------------------------------------------------------------------

static std::string text(const std::optional<Norm> &norm) {
  return norm ? fmt::format("{} norm, eps {}", wordOf(norm->kind), norm->epsilon) : "no norm";
}

static std::string text(const ModelParameter &entry) {
  const plan::Parameter &p = entry.parameter;
  std::string dims;
  for (const plan::ParameterDim &dim : p.dims)
    dims += fmt::format(" {}:{}", dim.name, dim.size);
  std::string_view init = p.init == plan::InitKind::normal ? "normal"
                          : p.init == plan::InitKind::ones ? "ones"
                                                           : "zeros";
  const std::string tensor = p.tensorShape.empty() ? "" : fmt::format(" in [{}]", fmt::join(p.tensorShape, ", "));
  return fmt::format("  {} = {} [{}] of [{}]{} at [{}],{}, {} {}\n", entry.role, p.name, fmt::join(p.grouping, ", "),
                     fmt::join(p.fileShape, ", "), tensor, fmt::join(p.offset, ", "), dims, init, p.initStd);
}

static std::string text(const AttentionDescription &attention) {
  std::string line =
      fmt::format("  attention: {} heads, {} groups of size {}, scale {}, window {}, dropout {}", attention.heads,
                  attention.groups, attention.headDim, attention.scale, attention.window, attention.dropout);
  line += fmt::format(", bias {}{}", attention.qkvBias ? "qkv" : "-", attention.outBias ? " out" : "");
  if (attention.qkNorm)
    line += ", q and k " + text(attention.qkNorm->norm);
  if (attention.rope)
    line +=
        fmt::format(", rope {} [{}]", attention.rope->theta, fmt::join(inverseFrequencies(*attention.rope, 1), ", "));
  return line + "\n";
}

static std::string text(const BlockKind &kind) {
  const BlockDescription &block = kind.block;
  std::string lines = fmt::format("  {}; {}; residual dropout {}\n", text(block.attentionBranch.before),
                                  text(block.mlpBranch.before), block.attentionBranch.dropout);
  lines += text(block.attention);
  lines += fmt::format("  mlp: {}{}, ffn {}, bias {}\n", wordOf(block.mlp.activation), block.mlp.gated ? " gated" : "",
                       block.mlp.ffn, block.mlp.bias);
  for (const ModelParameter &parameter : kind.parameters)
    lines += text(parameter);
  return lines;
}

std::string describe(const ModelDescription &model) {
  std::string lines = fmt::format(
      "{}: vocabulary {}, hidden {}, {} {} positions, embedding dropout {}, {}, {} head{}\n", model.family,
      model.vocabulary, model.hidden, model.maxPositions, model.embedding.learnedPositions ? "learned" : "rotary",
      model.embedding.dropout, text(model.finalNorm), model.head.tied ? "tied" : "own",
      model.paddingToken ? fmt::format(", padding token {}", *model.paddingToken) : "");
  for (const ModelParameter &parameter : model.parameters)
    lines += text(parameter);
  for (size_t kind = 0; kind < model.kinds.size(); ++kind)
    lines += fmt::format("block {}:\n{}", kind, text(model.kinds[kind]));
  return lines + fmt::format("layers: {}\n", fmt::join(model.layers, " "));
}

} // namespace mgc::frontend
