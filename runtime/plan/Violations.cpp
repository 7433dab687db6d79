#include "runtime/plan/Violations.h"

namespace mgc::plan {

std::string Place::text() const {
  std::string prefix = parent_ ? parent_->text() : "";
  if (index_ >= 0)
    return fmt::format("{}[{}]", prefix, index_);
  return prefix.empty() || name_.empty() ? prefix + std::string(name_) : fmt::format("{}.{}", prefix, name_);
}

void Violations::append(const Place &place, std::string_view message) {
  std::string where = place.text();
  lines_ += fmt::format("{}{}: {}", lines_.empty() ? "" : "\n", where.empty() ? "plan" : where, message);
}

Status Violations::status() const {
  if (count_ == 0)
    return Status::ok();
  if (count_ <= kShown)
    return Status::error(lines_);
  return errorf("{}\nand {} more", lines_, count_ - kShown);
}

} // namespace mgc::plan
