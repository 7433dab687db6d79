// See ProductCache.h.
#include "compiler/tune/ProductCache.h"

#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "runtime/kernels/GemmPaths.h"

#include <cstdlib>
#include <filesystem>

namespace mgc::tune {

namespace {

constexpr const char *kFormat = "mgc products 1";
constexpr int64_t kMaxFileBytes = 1 << 24;

nlohmann::json comparedPaths() {
  nlohmann::json names = nlohmann::json::array();
  for (const GemmPathRow &row : gemmPaths())
    names.push_back(nameOf(row.path));
  return names;
}

Status checkHeader(const nlohmann::json &file) {
  const nlohmann::json expected = comparedPaths();
  const nlohmann::json none;
  const auto field = [&](const char *name) -> const nlohmann::json & {
    return file.is_object() && file.contains(name) ? file[name] : none;
  };
  if (field("format") != kFormat)
    return errorf("\"format\" is {}, expected \"{}\"", printable(field("format").dump()), kFormat);
  if (field("paths") != expected)
    return errorf("it compares the paths {}, this program has {}", printable(field("paths").dump()),
                  expected.dump());
  if (!field("fastest").is_object())
    return errorf("\"fastest\" is {}, expected an object", field("fastest").type_name());
  return Status::ok();
}

Result<plan::GemmPath> parsePath(const nlohmann::json &value) {
  const auto path =
      value.is_string() ? plan::gemmPathNamed(value.get_ref<const std::string &>()) : std::nullopt;
  if (!path || path == plan::GemmPath::rule)
    return errorf("found {}, expected one of {}", printable(value.dump()), comparedPaths().dump());
  return *path;
}

} // namespace

std::string defaultCachePath() {
  namespace fs = std::filesystem;
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  fs::path folder;
  if (cache && fs::path(cache).is_absolute()) // others are to be ignored, says the XDG specification
    folder = cache;
  else if (home && *home)
    folder = fs::path(home) / ".cache";
  return folder.empty() ? std::string() : (folder / "mgc" / "products.json").string();
}

Status ProductCache::load() {
  std::error_code ignored;
  if (path_.empty() || !std::filesystem::exists(path_, ignored))
    return Status::ok();
  MGC_ASSIGN(text, readFile(path_, kMaxFileBytes));
  Result<nlohmann::json> file = parseJson(text);
  if (!file.isOk())
    return Status(file.status()).at(path_);
  MGC_TRY(checkHeader(*file).at(path_));
  std::map<std::string, plan::GemmPath> fastest;
  for (const auto &[key, value] : (*file)["fastest"].items()) {
    Result<plan::GemmPath> path = parsePath(value);
    if (!path.isOk())
      return Status(path.status()).at(fmt::format("{}: \"{}\"", path_, printable(key)));
    fastest[key] = *path;
  }
  fastest_ = std::move(fastest);
  return Status::ok();
}

Status ProductCache::save() const {
  if (path_.empty())
    return Status::ok();
  nlohmann::json fastest = nlohmann::json::object();
  for (const auto &[key, path] : fastest_)
    fastest[key] = nameOf(path);
  const nlohmann::json file = {{"format", kFormat}, {"paths", comparedPaths()}, {"fastest", fastest}};
  std::error_code error;
  if (const auto folder = std::filesystem::path(path_).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, error);
  if (error)
    return errorf("{}: its folder cannot be made: {}", path_, error.message());
  return writeFileAtomically(path_, file.dump(1) + "\n");
}

std::optional<plan::GemmPath> ProductCache::find(const std::string &key) const {
  const auto found = fastest_.find(key);
  return found == fastest_.end() ? std::nullopt : std::optional(found->second);
}

} // namespace mgc::tune
