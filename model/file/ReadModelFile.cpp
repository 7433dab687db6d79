// See ReadModelFile.h.
#include "model/file/ReadModelFile.h"

#include "model/families/Family.h"
#include "runtime/base/Json.h"
#include "runtime/io/Safetensors.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace mgc::frontend {

static constexpr size_t kMaxFileBytes = 16 << 20;

// Python writes NaN, Infinity and -Infinity for numbers that JSON has not. They become texts, which no reader of
// numbers takes.
static std::string withoutSpecialNumbers(std::string_view text) {
  std::string result;
  bool isInText = false;
  for (size_t at = 0; at < text.size();) {
    size_t length = 1;
    for (std::string_view word : {"NaN", "Infinity", "-Infinity"})
      if (!isInText && text.substr(at).starts_with(word))
        length = word.size();
    if (isInText && text[at] == '\\')
      length = 2;
    isInText ^= text[at] == '"';
    const std::string_view piece = text.substr(at, length);
    result += length > 2 ? fmt::format("\"{}\"", piece) : std::string(piece);
    at += length;
  }
  return result;
}

static Result<ModelDescription> read(const std::string &text, const std::string &name, const ReadDefaults &readDefaults,
                                     bool ownHead) {
  Result<nlohmann::json> parsed = parseJson(withoutSpecialNumbers(text));
  if (!parsed.isOk())
    return errorf("{}: is {}", name, parsed.status().message());
  if (!parsed->is_object())
    return errorf("{}: holds {} {}, not an object of fields", name, parsed->is_array() ? "an" : "a",
                  parsed->type_name());
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
