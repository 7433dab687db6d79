#include "plan/Violations.h"

namespace mgc::plan {

std::string Place::text() const {
  std::string prefix = parent_ ? parent_->text() : "";
  if (index_ >= 0)
    return fmt::format("{}[{}]", prefix, index_);
  return prefix.empty() || name_.empty() ? prefix + std::string(name_) : fmt::format("{}.{}", prefix, name_);
}

std::string Violations::whole(const Place &place) {
  std::string text = place.text();
  return text.empty() ? "plan" : text;
}

} // namespace mgc::plan
