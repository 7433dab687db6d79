// See ReadModelFile.h.
#include "model/file/ReadModelFile.h"

#include "model/families/Family.h"
#include "plan/OwnModelType.h"
#include "runtime/base/Json.h"
#include "runtime/io/Safetensors.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace mgc::frontend {

static constexpr size_t kMaxFileBytes = 16 << 20;

// Whether all of the model is written under "mgc": {"model": {..}}, without a family.
static bool isWritten(const nlohmann::json &own) {
  const nlohmann::json model = own.value("model", nlohmann::json());
  return !model.is_object() || model.empty() ||
         std::ranges::any_of(std::array{"vocabulary", "hidden", "positions", "layer_count"},
                             [&](const char *field) { return model.contains(field); });
}

// A model of the vocabulary, as saveWeights writes it: the family that it was written as stands in "mgc": {"base": {..}}.
static Status restoreBase(nlohmann::json &config) {
  constexpr std::string_view kExpected =
      "expected an object {\"model_type\": .., ..}: the family, as the weights were saved with it";
  const nlohmann::json type = config.value("model_type", nlohmann::json()), own = config.value("mgc", nlohmann::json());
  if (!own.is_object())
    return Status::ok();
  if (!own.contains("base"))
    return type != plan::kOwnModelType || isWritten(own) ? Status::ok() : errorf("mgc.base is missing, {}", kExpected);
  const nlohmann::json &base = own["base"];
  const nlohmann::json family = base.is_object() ? base.value("model_type", nlohmann::json()) : nlohmann::json();
  if (!family.is_string() || family == plan::kOwnModelType)
    return errorf("mgc.base: found {}, {}", printable(base.dump()), kExpected);
  if (type != plan::kOwnModelType)
    return errorf("mgc.base is of model_type {0}, found {1}; expected model_type {0}, as the weights were saved, or no "
                  "mgc.base",
                  plan::kOwnModelType, printable(type.dump()));
  config["mgc"].erase("base");
  config.erase("model_type");
  config.update(nlohmann::json(base));
  return Status::ok();
}

static Result<ModelDescription> read(const std::string &text, const std::string &name, const ReadDefaults &readDefaults,
                                     bool ownHead) {
  Result<nlohmann::json> parsed = parseJson(withoutSpecialNumbers(text));
  if (!parsed.isOk())
    return errorf("{}: is {}", name, parsed.status().message());
  if (!parsed->is_object())
    return errorf("{}: holds {} {}, not an object of fields", name, parsed->is_array() ? "an" : "a",
                  parsed->type_name());
  MGC_TRY(restoreBase(*parsed).at(name));
  Problems problems(name);
  Config config(*parsed, "", problems);
  ModelDescription model;
  model.source = name;
  model.text = text;
  std::optional<Config> mgc = config.child("mgc");
  std::optional<Config> overrides = mgc ? mgc->child("model") : std::nullopt;
  if (readDefaults)
    readDefaults(mgc);
  readModel(config, overrides ? &*overrides : nullptr, model, ownHead);
  model.notes = problems.notes();
  if (problems.empty())
    return model;
  std::string message = problems.text();
  for (const std::string &note : model.notes)
    message += "\n" + note;
  return Status::error(message);
}

Result<ModelDescription> readModelText(const std::string &text, const std::string &name,
                                       const ReadDefaults &readDefaults) {
  return read(text, name, readDefaults, /*ownHead=*/false);
}

// Null: the model has no such parameter, or the checkpoint no tensor of it.
static const TensorView *findTensor(const ModelDescription &model, std::string_view role, const Checkpoint &weights) {
  const auto found = std::ranges::find(model.parameters, role, &ModelParameter::role);
  if (found == model.parameters.end())
    return nullptr;
  const TensorView *tensor = weights.find(found->parameter.tensor);
  for (const std::string &alias : found->parameter.aliases)
    tensor = tensor ? tensor : weights.find(alias);
  return tensor;
}

// The model of a folder. transformers does not tie a head to the table of tokens if the checkpoint has both and they
// differ.
static Result<ModelDescription> withWeights(const std::string &folder, ModelDescription model,
                                            const ReadDefaults &readDefaults) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool hasWeights =
      std::ranges::any_of(std::array{"model.safetensors", "model.safetensors.index.json"},
                          [&](const char *name) { return fs::exists(fs::path(folder) / name, ignored); });
  if (!model.head.tied || !hasWeights)
    return model;
  const Result<Checkpoint> weights = Checkpoint::open(folder);
  if (!weights.isOk()) {
    model.notes.push_back(fmt::format("{}: the head is tied, as the config.json says: the weights cannot tell ({})",
                                      folder, weights.status().message()));
    return model;
  }
  MGC_ASSIGN(untied, read(model.text, model.source, readDefaults, /*ownHead=*/true));
  const TensorView *table = findTensor(untied, "embed.tokens", *weights),
                   *head = findTensor(untied, "head.weight", *weights);
  if (!table || !head || areEqual(*table, *head))
    return model;
  untied.notes.push_back(fmt::format("{}: the head is not tied, although the config.json ties it: the weights have one "
                                     "of its own, which transformers loads",
                                     folder));
  return untied;
}

Result<ModelDescription> readModelFile(const std::string &path, const ReadDefaults &readDefaults) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::string file = fs::is_directory(path, error) ? (fs::path(path) / "config.json").string() : path;
  if (!fs::exists(file, error))
    return errorf("{}: no such file", file);
  if (!fs::is_regular_file(file, error))
    return errorf("{}: is not a file", file);
  uintmax_t bytes = fs::file_size(file, error);
  if (error || bytes > kMaxFileBytes)
    return errorf("{}: {} bytes; a model description has at most {}", file, bytes, kMaxFileBytes);
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream || (bytes && !text))
    return errorf("{}: cannot be read", file);
  MGC_ASSIGN(model, readModelText(text.str(), file, readDefaults));
  return fs::is_directory(path, error) ? withWeights(path, std::move(model), readDefaults) : std::move(model);
}

} // namespace mgc::frontend
