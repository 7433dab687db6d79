// See ReadModelFile.h.
#include "model/file/ReadModelFile.h"

#include "model/families/Family.h"
#include "runtime/base/Json.h"

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
    result += !isInText && piece.size() > 1 && piece[0] != '\\' ? fmt::format("\"{}\"", piece) : std::string(piece);
    at += length;
  }
  return result;
}

Result<ModelDescription> readModelText(const std::string &text, const std::string &name,
                                       const ReadDefaults &readDefaults) {
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
  readModel(config, overrides ? &*overrides : nullptr, model);
  model.notes = problems.notes();
  if (problems.empty())
    return model;
  std::string message = problems.text();
  for (const std::string &note : model.notes)
    message += "\n" + note;
  return Status::error(message);
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
