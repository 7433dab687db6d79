// Parts of the table of layoutOptions(), and what their rows have in common.
#pragma once

#include "frontend/layout/Options.h"

namespace mgc::frontend {

// Recomputation, --memory, and memory of the host.
std::vector<LayoutOption> memoryOptions();

template <typename Rows> std::vector<std::string> namesOf(const Rows &rows) {
  std::vector<std::string> names;
  for (const auto &row : rows)
    names.emplace_back(row.name);
  return names;
}
template <typename Word> std::vector<std::string> wordsOf() {
  return {plan::enumNames<Word>.begin(), plan::enumNames<Word>.end()};
}

} // namespace mgc::frontend
