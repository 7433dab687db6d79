// See Problems.h.
#include "runtime/base/Problems.h"

#include <fmt/ranges.h>

namespace mgc {

std::string Problems::placed(std::string_view text) const {
  return place_.empty() ? std::string(text) : fmt::format("{}: {}", place_, text);
}

std::string Problems::text() const {
  std::string all = fmt::format("{}", fmt::join(lines_, "\n"));
  return count_ > kShown ? fmt::format("{}\nand {} more", all, count_ - kShown) : all;
}

Status Problems::status() const { return empty() ? Status::ok() : Status::error(text()); }

Status allOf(std::initializer_list<Status> statuses) {
  std::string text;
  for (const Status &status : statuses)
    if (!status.isOk())
      text += (text.empty() ? "" : "\n") + status.message();
  return text.empty() ? Status::ok() : Status::error(text);
}

} // namespace mgc
