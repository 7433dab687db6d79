#include "frontend/Load.h"
#include "frontend/layout/Options.h"
#include "frontend/model/families/Family.h"
#include "runtime/base/Json.h"
#include <filesystem>
#include <fstream>
#include <sstream>

namespace mgc::frontend {

using nlohmann::json;

static constexpr size_t kMaxFileBytes = 16 << 20;

static void read(Config &mgc, const LayoutOption &row, std::optional<int64_t> &option) {
  option = mgc.integer(row.key(), row.least, row.most);
}
static void read(Config &mgc, const LayoutOption &row, std::optional<double> &option) {
  option = mgc.number(row.key(), 0, double(row.least), double(row.most));
}
static void read(Config &mgc, const LayoutOption &row, std::optional<bool> &option) {
  option = mgc.flag(row.key(), false);
}
static void read(Config &mgc, const LayoutOption &row, std::optional<std::string> &option) {
  option = mgc.word(row.key(), "");
}
static void read(Config &mgc, const LayoutOption &row, std::optional<std::vector<std::string>> &option) {
  option = mgc.words(row.key());
  if (option->empty())
    option.reset(); // refused, or says nothing
}
static void read(Config &mgc, const LayoutOption &row, std::optional<std::vector<int64_t>> &option) {
  option = mgc.counts(row.key(), row.least, row.most);
}

static LayoutOptions readDefaults(std::optional<Config> &mgc) {
  LayoutOptions options;
  if (!mgc)
    return options;
  std::vector<std::string> keys = {"model"};
  for (const LayoutOption &option : layoutOptions()) {
    const std::string &key = keys.emplace_back(option.key());
    if (mgc->isSet(key))
      std::visit([&](auto field) { read(*mgc, option, options.*field); }, option.field);
    mgc->ignore(std::initializer_list<std::string_view>{key});
  }
  mgc->finish("the defaults of mgc compile", "possible: " + listOf(keys), /*ofNull=*/true);
  return options;
}

Result<ModelFile> parseModel(const std::string &text, const std::string &name) {
  Result<json> parsed = parseJson(text);
  if (!parsed.isOk())
    return errorf("{}: is {}", name, parsed.status().message());
  if (!parsed->is_object())
    return errorf("{}: holds {} {}, not an object of fields", name, parsed->is_array() ? "an" : "a",
                  parsed->type_name());
  Problems problems(name);
  Config config(*parsed, "", problems);
  ModelFile file;
  file.model.source = name;
  file.model.text = text;
  std::optional<Config> mgc = config.child("mgc");
  std::optional<Config> overrides = mgc ? mgc->child("model") : std::nullopt;
  file.defaults = readDefaults(mgc);
  readModel(config, overrides ? &*overrides : nullptr, file.model);
  if (!problems.empty())
    return problems.status();
  return file;
}

Result<ModelFile> loadModel(const std::string &path) {
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
  return parseModel(text.str(), file);
}

} // namespace mgc::frontend
