// Translation.h: a translation as text and as JSON.
#include "tools/flags/Quoted.h"
#include "tools/translate/Translation.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc::tools {

namespace {

using Json = nlohmann::ordered_json;

struct GroupName {
  FlagGroup group;
  std::string_view word, title;
};
constexpr GroupName kGroups[] = {{FlagGroup::same, "same", "the same here"},
                                 {FlagGroup::otherwise, "otherwise", "written otherwise"},
                                 {FlagGroup::nothing, "nothing", "changes nothing here"},
                                 {FlagGroup::unsupported, "unsupported", "not supported"},
                                 {FlagGroup::needsValue, "needs_value", "needs a value"}};

constexpr size_t kColumns = 116, kMostOfFlag = 48; // pages have 120, and show a block behind four

// Words in lines of so many columns, each line but the first behind `indent`; `separator` ends a line that goes on.
std::string inLines(const std::vector<std::string> &words, size_t first, std::string_view indent,
                    std::string_view separator) {
  std::string text;
  size_t column = first;
  for (const std::string &word : words) {
    const bool isFirst = text.empty();
    if (!isFirst && column + 1 + word.size() + separator.size() > kColumns) {
      text += fmt::format("{}\n{}", separator, indent);
      column = indent.size();
    } else if (!isFirst) {
      text += " ";
      ++column;
    }
    text += word;
    column += word.size();
  }
  return text;
}

std::vector<std::string> wordsIn(std::string_view text) {
  std::vector<std::string> words;
  for (size_t end; (end = text.find_first_of(" \n")) != text.npos; text.remove_prefix(end + 1))
    words.emplace_back(text.substr(0, end));
  words.emplace_back(text);
  return words;
}

// An option and its values stay in one line.
std::string commandText(const CommandWords &command) {
  std::vector<std::string> parts;
  for (const std::string &word : command)
    if (parts.empty() || word.starts_with("-") || !parts.back().starts_with("-"))
      parts.push_back(quoted(word));
    else
      parts.back() += " " + quoted(word);
  return inLines(parts, 0, "  ", " \\") + "\n";
}

std::string groupText(const Translation &translation, const GroupName &group) {
  size_t width = 0;
  for (const TranslatedFlag &flag : translation.draft.flags)
    if (flag.group == group.group)
      width = std::max(width, std::min(kMostOfFlag, flag.flag.text().size()));
  std::string text;
  for (const TranslatedFlag &flag : translation.draft.flags) {
    if (flag.group != group.group)
      continue;
    const std::string given = flag.flag.text(),
                      answer = (flag.isLeftOut && group.group != FlagGroup::nothing ? "left out: " : "") + flag.text;
    text += fmt::format("  {:<{}}  ", given, width);
    if (given.size() > width)
      text += "\n" + std::string(width + 4, ' ');
    text += inLines(wordsIn(answer), width + 4, std::string(width + 4, ' '), "") + "\n";
  }
  return text.empty() ? "" : fmt::format("\n{}\n{}", group.title, text);
}

Json wordsJson(const std::vector<CommandWords> &commands) {
  Json all = Json::array();
  for (const CommandWords &command : commands)
    all.push_back(command);
  return all;
}

} // namespace

std::string textOf(const Translation &translation) {
  std::string text;
  if (!translation.config.is_null())
    text += fmt::format("{}\n{}\n\n", translation.model, translation.config.dump(2));
  text += "commands\n";
  for (const CommandWords &command : translation.preprocess)
    text += "# for texts; files of token ids that Megatron-LM made are read as they are\n" + commandText(command);
  for (const CommandWords &command : translation.commands)
    text += commandText(command);
  if (!translation.draft.assumed.empty())
    text += "\nassumed\n";
  for (const std::string &line : translation.draft.assumed)
    text += "  " + inLines(wordsIn(line), 2, "    ", "") + "\n";
  for (const GroupName &group : kGroups)
    text += groupText(translation, group);
  return text;
}

std::string jsonOf(const Translation &translation) {
  Json flags = Json::array();
  for (const TranslatedFlag &flag : translation.draft.flags) {
    const auto group = std::ranges::find(kGroups, flag.group, &GroupName::group);
    flags.push_back({{"flag", flag.flag.name},
                     {"values", flag.flag.values},
                     {"group", group->word},
                     {"text", flag.text},
                     {"left_out", flag.isLeftOut}});
  }
  const Json all{{"config", translation.config},
                 {"preprocess", wordsJson(translation.preprocess)},
                 {"commands", wordsJson(translation.commands)},
                 {"assumed", translation.draft.assumed},
                 {"problem", translation.problem},
                 {"flags", flags}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace mgc::tools
