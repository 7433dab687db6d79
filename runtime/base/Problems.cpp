// See Problems.h.
#include "runtime/base/Problems.h"

#include <fmt/ranges.h>

namespace mgc {

void Problems::append(std::string_view problem) {
  lines_.push_back(place_.empty() ? std::string(problem) : fmt::format("{}: {}", place_, problem));
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
