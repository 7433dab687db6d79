// See ReadModelFile.h.
#include "model/file/ReadModelFile.h"

#include "model/families/Family.h"
#include "runtime/base/Json.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace mgc::frontend {

static constexpr size_t kMaxFileBytes = 16 << 20;

Result<ModelDescription> readModelText(const std::string &text, const std::string &name,
                                       const ReadDefaults &readDefaults) {
  Result<nlohmann::json> parsed = parseJson(text);
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
  readModel(config, overrides ? &*overrides : nullptr, model);
  if (!problems.empty())
    return problems.status();
  return model;
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
  return readModelText(text.str(), file, readDefaults);
}

} // namespace mgc::frontend
