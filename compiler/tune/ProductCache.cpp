// See ProductCache.h.
#include "compiler/tune/ProductCache.h"

#include "runtime/kernels/GemmPaths.h"

namespace mgc::tune {

namespace {

nlohmann::json comparedPaths() {
  nlohmann::json names = nlohmann::json::array();
  for (const GemmPathRow &row : gemmPaths())
    names.push_back(nameOf(row.path));
  return names;
}

Status checkPaths(const nlohmann::json &file) {
  const nlohmann::json paths = file.contains("paths") ? file["paths"] : nlohmann::json();
  if (paths != comparedPaths())
    return errorf("it compares the paths {}, this program has {}", printable(paths.dump()), comparedPaths().dump());
  return Status::ok();
}

Status checkPath(const nlohmann::json &value) {
  const auto path =
      value.is_string() ? plan::valueNamed<plan::GemmPath>(value.get_ref<const std::string &>()) : std::nullopt;
  if (!path || path == plan::GemmPath::rule)
    return errorf("found {}, expected one of {}", printable(value.dump()), comparedPaths().dump());
  return Status::ok();
}

} // namespace

ChoiceFormat productFormat() {
  return {"mgc products", "2", "a cache of products", {{"paths", comparedPaths()}}, checkPaths, checkPath};
}

std::optional<plan::GemmPath> ProductCache::find(const std::string &key) const {
  const auto found = cache_.find(key);
  return found ? plan::valueNamed<plan::GemmPath>(found->get_ref<const std::string &>()) : std::nullopt;
}

void ProductCache::add(const std::string &key, plan::GemmPath path) { cache_.add(key, nameOf(path)); }

} // namespace mgc::tune
