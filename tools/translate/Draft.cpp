// See Draft.h.
#include "tools/translate/Draft.h"

#include <algorithm>
#include <ranges>

namespace mgc::tools {

const CommandOption *Draft::find(std::string_view tool, std::string_view name) const {
  for (const CommandOption &option : std::views::reverse(options))
    if (option.tool == tool && option.name == name)
      return &option;
  return nullptr;
}

std::string Draft::valueOf(std::string_view tool, std::string_view name) const {
  const CommandOption *option = find(tool, name);
  return option && option->words.size() > 1 ? option->words[1] : "";
}

void Draft::leaveOut(size_t option, const std::string &why, std::optional<FlagGroup> group) {
  const CommandOption taken = options[option];
  options.erase(options.begin() + static_cast<ptrdiff_t>(option));
  if (const std::optional<size_t> index = taken.flag) {
    TranslatedFlag &flag = flags[*index];
    flag.isLeftOut = true;
    flag.text = why;
    flag.group = group.value_or(flag.group);
  }
}

void Draft::leaveOut(std::string_view tool, std::string_view name, const std::string &why,
                     std::optional<FlagGroup> group) {
  for (size_t i = options.size(); i-- > 0;)
    if (options[i].tool == tool && options[i].name == name)
      leaveOut(i, why, group);
}

void Draft::add(std::string_view tool, const std::vector<std::string> &words) {
  options.push_back({tool, words.front(), words, std::nullopt, false});
}

} // namespace mgc::tools
