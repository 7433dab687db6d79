// See SameModel.h.
#include "frontend/SameModel.h"

#include "frontend/Load.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/ranges.h>

namespace mgc::frontend {

namespace {

std::string yesNo(bool value) { return value ? "yes" : "no"; }

void addNorm(std::vector<ModelFact> &facts, const std::string &where, const Norm &norm) {
  facts.push_back({where + " norm", std::string(nameOf(norm.kind))});
  facts.push_back({"epsilon of the " + where + " norm", fmt::format("{}", norm.epsilon)});
}

// Each frequency over the one that theta alone gives, to four digits: "1, 1, 0.25, 0.125"; "none" where all are 1.
std::string scalingOf(const Rope &rope) {
  std::vector<std::string> factors;
  const auto count = double(rope.inverseFrequencies.size());
  for (size_t i = 0; i < rope.inverseFrequencies.size(); ++i)
    factors.push_back(
        fmt::format("{:.4g}", rope.inverseFrequencies[i] * std::pow(rope.theta, double(i) / count)));
  const bool isNone = std::ranges::all_of(factors, [](const std::string &factor) { return factor == "1"; });
  return isNone ? "none" : fmt::format("{}", fmt::join(factors, ", "));
}

void addAttention(std::vector<ModelFact> &facts, const AttentionDescription &attention) {
  facts.push_back({"attention heads", fmt::format("{}", attention.heads)});
  facts.push_back({"key/value heads", fmt::format("{}", attention.groups)});
  facts.push_back({"head size", fmt::format("{}", attention.headDim)});
  facts.push_back({"latent attention", yesNo(attention.latent.has_value())});
  if (attention.latent)
    facts.push_back({"ranks of latents of queries and keys, size of values and of what rotates",
                     fmt::format("{}, {}, {}, {}", attention.latent->queryRank, attention.latent->keyRank,
                                 attention.latent->valueDim, attention.latent->rotaryDim)});
  facts.push_back({"scale of the scores", fmt::format("{}", attention.scale)});
  facts.push_back({"attention window", fmt::format("{}", attention.window)});
  facts.push_back({"biases of q, k and v", yesNo(attention.qkvBias)});
  facts.push_back({"bias of the attention's output", yesNo(attention.outBias)});
  facts.push_back({"attention sinks", yesNo(attention.sinks)});
  facts.push_back({"norms of q and k", yesNo(attention.qkNorm.has_value())});
  if (attention.qkNorm)
    addNorm(facts, "q and k", *attention.qkNorm);
  facts.push_back({"rotary positions", yesNo(attention.rope.has_value())});
  if (attention.rope) {
    facts.push_back({"rope theta", fmt::format("{}", attention.rope->theta)});
    facts.push_back(
        {"rotating dimensions of a head", fmt::format("{}{}", 2 * attention.rope->inverseFrequencies.size(),
                                                      attention.rope->interleaved ? ", neighbours" : "")});
    facts.push_back({"scale of what rotates", fmt::format("{:.6g}", attention.rope->scale)});
    facts.push_back({"scaling of the rope frequencies", scalingOf(*attention.rope)});
  }
}

void addExperts(std::vector<ModelFact> &facts, const std::optional<Experts> &experts) {
  facts.push_back({"experts", experts ? fmt::format("{}", experts->count) : "none"});
  if (!experts)
    return;
  facts.push_back({"experts of a token", fmt::format("{}", experts->chosen)});
  facts.push_back({"score of the router", experts->score});
  facts.push_back({"weights of experts of the scores", experts->post});
  facts.push_back({"bias of the router's logits", yesNo(experts->logitBias)});
  facts.push_back({"gate and up in one matrix", yesNo(experts->isZipped)});
  facts.push_back(
      {"renormalised weights of experts", experts->epsilon ? fmt::format("+ {}", *experts->epsilon) : "no"});
  facts.push_back({"bias of the router's choice", yesNo(experts->bias)});
  facts.push_back({"groups of experts", fmt::format("{} of {} by their {} best", experts->keptGroups,
                                                    experts->groups, experts->groupTop)});
  facts.push_back({"scale of the weights of experts", fmt::format("{}", experts->scale)});
  facts.push_back({"shared expert size", experts->shared ? fmt::format("{}", experts->shared->ffn) : "none"});
  facts.push_back({"gate of the shared expert", yesNo(experts->shared && experts->shared->gated)});
}

// Lines "NAME: A in the weights' config.json, B in the plan". Facts that only one side has follow from others that differ.
void compare(const std::vector<ModelFact> &weights, const std::vector<ModelFact> &plan,
             const std::string &where, std::vector<std::string> &lines) {
  for (const ModelFact &fact : weights) {
    const auto other = std::ranges::find(plan, fact.name, &ModelFact::name);
    if (other != plan.end() && other->value != fact.value)
      lines.push_back(fmt::format("{}{}: {} in the config.json, {} in the plan", where, fact.name, fact.value,
                                  other->value));
  }
}

} // namespace

std::vector<ModelFact> factsOf(const BlockDescription &layer) {
  std::vector<ModelFact> facts;
  addNorm(facts, "attention", layer.attentionNorm);
  addAttention(facts, layer.attention);
  addNorm(facts, "mlp", layer.mlpNorm);
  facts.push_back({"activation", std::string(nameOf(layer.mlp.activation))});
  facts.push_back({"gated mlp", yesNo(layer.mlp.gated)});
  facts.push_back({"biases of the mlp", yesNo(layer.mlp.bias)});
  facts.push_back({"limit of the mlp's gate and up", fmt::format("{}", layer.mlp.limit)});
  facts.push_back({"1 added to the mlp's up", yesNo(layer.mlp.upPlusOne)});
  facts.push_back({"mlp size", fmt::format("{}", layer.mlp.ffn)});
  addExperts(facts, layer.experts);
  return facts;
}

std::vector<ModelFact> factsOf(const ModelDescription &model) {
  std::vector<ModelFact> facts = {
      {"model_type", model.family},
      {"vocabulary", fmt::format("{}", model.vocabulary)},
      {"hidden size", fmt::format("{}", model.hidden)},
      {"layers", fmt::format("{}", model.layerCount())},
      {"learned positions", model.learnedPositions ? fmt::format("{}", model.maxPositions) : "no"},
      {"tied head", yesNo(model.tiedHead)}};
  addNorm(facts, "final", model.finalNorm);
  return facts;
}

std::vector<std::string> differencesBetween(const ModelDescription &weights, const ModelDescription &plan) {
  std::vector<std::string> lines;
  compare(factsOf(weights), factsOf(plan), "", lines);
  const int64_t layers = std::min(weights.layerCount(), plan.layerCount());
  const size_t before = lines.size();
  for (int64_t layer = 0; layer < layers && lines.size() == before; ++layer)
    compare(factsOf(weights.blockOf(layer)), factsOf(plan.blockOf(layer)), fmt::format("layer {}: ", layer),
            lines);
  return lines;
}

// config.json in the folder, or beside the file where it is a whole checkpoint by its name; empty: there is none.
static std::string configOf(const std::string &checkpoint) {
  namespace fs = std::filesystem;
  const fs::path path(checkpoint);
  const std::string name = path.filename().string();
  const bool isCheckpoint = name == "model.safetensors" || name == "model.safetensors.index.json";
  std::error_code ignored;
  const fs::path folder = fs::is_directory(path, ignored) ? path : path.parent_path(),
                 file = folder / "config.json";
  return (folder == path || isCheckpoint) && fs::exists(file, ignored) ? file.string() : "";
}

Status verifySameModel(const std::string &planConfig, const std::string &checkpoint) {
  const std::string file = configOf(checkpoint);
  if (planConfig.empty() || file.empty())
    return Status::ok();
  MGC_ASSIGN(other, loadModel(file));
  MGC_ASSIGN(plan, parseModel(planConfig, "the plan's config.json"));
  const std::vector<std::string> lines = differencesBetween(other.model, plan.model);
  if (lines.empty())
    return Status::ok();
  return errorf("{}: describes another model than the plan:\n  {}", file, fmt::join(lines, "\n  "));
}

} // namespace mgc::frontend
