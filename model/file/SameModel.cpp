// See SameModel.h.
#include "model/file/SameModel.h"

#include "model/Vocabulary.h"
#include "model/file/ReadModelFile.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>

namespace mgc::frontend {

namespace {

// The fields of a description by their paths in the vocabulary, but for those that may change: "attention.rope.theta"
// is "10000". A part that is left out is "none" at its path.
class FactWriter {
public:
  FactWriter(std::vector<ModelFact> &facts, WeightsUse use)
      : facts_(facts), freedom_(use == WeightsUse::continued ? MayChange::anyRun : MayChange::newTraining) {}

  template <typename T> void write(const T &value, std::string_view path) {
    const void *outer = std::exchange(source_, &value);
    const std::string prefix = std::exchange(prefix_, path.empty() ? "" : fmt::format("{}.", path));
    fields(*this, Of<T>());
    source_ = outer, prefix_ = prefix;
  }

  template <typename T, typename M> void operator()(const Field &field, M T::*member) {
    if (field.mayChange < freedom_)
      add(prefix_ + std::string(field.key), static_cast<const T *>(source_)->*member);
  }

private:
  template <typename M> void add(const std::string &path, const std::optional<M> &value) {
    if constexpr (std::is_class_v<M>)
      addFact(path, value ? "given" : "none");
    else if (!value)
      addFact(path, "none");
    if (value)
      add(path, *value);
  }
  void add(const std::string &path, const std::vector<double> &values) {
    addFact(path, fmt::format("{}", fmt::join(values, ", ")));
  }
  void add(const std::string &path, bool value) { addFact(path, value ? "yes" : "no"); }
  template <typename M> void add(const std::string &path, const M &value) {
    if constexpr (std::is_enum_v<M>)
      addFact(path, std::string(wordOf(value)));
    else if constexpr (std::is_arithmetic_v<M> || std::is_same_v<M, std::string>)
      addFact(path, fmt::format("{}", value));
    else
      write(value, path);
  }
  void addFact(std::string path, std::string value) { facts_.push_back({std::move(path), std::move(value)}); }

  std::vector<ModelFact> &facts_;
  const MayChange freedom_; // the least with which a field may be another here
  const void *source_ = nullptr;
  std::string prefix_;
};

// Lines "NAME: A in the weights' config.json, B in the plan". Facts that only one side has follow from others that
// differ.
void compare(const std::vector<ModelFact> &weights, const std::vector<ModelFact> &plan, const std::string &where,
             std::vector<std::string> &lines) {
  for (const ModelFact &fact : weights) {
    const auto other = std::ranges::find(plan, fact.name, &ModelFact::name);
    if (other != plan.end() && other->value != fact.value)
      lines.push_back(
          fmt::format("{}{}: {} in the config.json, {} in the plan", where, fact.name, fact.value, other->value));
  }
}

} // namespace

std::vector<ModelFact> factsOf(const BlockDescription &layer, WeightsUse use) {
  std::vector<ModelFact> facts;
  FactWriter(facts, use).write(layer, "");
  return facts;
}

// A table of positions is a parameter, whose size no run changes.
std::vector<ModelFact> factsOf(const ModelDescription &model, WeightsUse use) {
  std::vector<ModelFact> facts = {{"model_type", model.family}, {"layers", fmt::format("{}", model.layerCount())}};
  FactWriter(facts, use).write(model, "");
  if (model.embedding.learnedPositions)
    facts.push_back({"learned positions", fmt::format("{}", model.maxPositions)});
  return facts;
}

std::vector<std::string> differencesBetween(const ModelDescription &weights, const ModelDescription &plan,
                                            WeightsUse use) {
  std::vector<std::string> lines;
  compare(factsOf(weights, use), factsOf(plan, use), "", lines);
  const int64_t layers = std::min(weights.layerCount(), plan.layerCount());
  const size_t before = lines.size();
  for (int64_t layer = 0; layer < layers && lines.size() == before; ++layer)
    compare(factsOf(weights.blockOf(layer), use), factsOf(plan.blockOf(layer), use), fmt::format("layer {}: ", layer),
            lines);
  return lines;
}

// config.json in the folder, or next to the file where it is a whole checkpoint by its name; empty: there is none.
static std::string configOf(const std::string &checkpoint) {
  namespace fs = std::filesystem;
  const fs::path path(checkpoint);
  const std::string name = path.filename().string();
  const bool isCheckpoint = name == "model.safetensors" || name == "model.safetensors.index.json";
  std::error_code ignored;
  const fs::path folder = fs::is_directory(path, ignored) ? path : path.parent_path(), file = folder / "config.json";
  return (folder == path || isCheckpoint) && fs::exists(file, ignored) ? file.string() : "";
}

Status verifySameModel(const std::string &planConfig, const std::string &checkpoint, bool isContinued) {
  const std::string file = configOf(checkpoint);
  if (planConfig.empty() || file.empty())
    return Status::ok();
  MGC_ASSIGN(other, readModelFile(file));
  MGC_ASSIGN(plan, readModelText(planConfig, "the plan's config.json"));
  const std::vector<std::string> lines =
      differencesBetween(other, plan, isContinued ? WeightsUse::continued : WeightsUse::newTraining);
  if (lines.empty())
    return Status::ok();
  return errorf("{}: describes another model than the plan:\n  {}", file, fmt::join(lines, "\n  "));
}

} // namespace mgc::frontend
