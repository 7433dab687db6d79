#include "plan/Violations.h"

#include "runtime/base/Json.h"

namespace mgc::plan {

std::string Place::text() const {
  std::string prefix = parent_ ? parent_->text() : "";
  if (index_ >= 0)
    return fmt::format("{}[{}]", prefix, index_);
  const std::string name = printable(name_); // a file's own, in a map
  return prefix.empty() || name.empty() ? prefix + name : fmt::format("{}.{}", prefix, name);
}

std::string Violations::whole(const Place &place) {
  std::string text = place.text();
  return text.empty() ? "plan" : text;
}

} // namespace mgc::plan
