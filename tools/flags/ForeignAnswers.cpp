// See ForeignAnswers.h.
#include "tools/flags/ForeignAnswers.h"

#include "ForeignFlagsTable.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

namespace mgc::tools {

namespace {

FlagGroup groupOf(const nlohmann::ordered_json &row) {
  static const std::map<std::string, FlagGroup> words = {{"nothing", FlagGroup::nothing},
                                                         {"unsupported", FlagGroup::unsupported}};
  if (row.contains("group"))
    return words.at(row.at("group"));
  if (row.contains("here"))
    return FlagGroup::otherwise;
  return row.value("goesOn", false) ? FlagGroup::nothing : FlagGroup::unsupported;
}

std::vector<Framework> readFrameworks() {
  std::vector<Framework> frameworks;
  const auto table = nlohmann::ordered_json::parse(kForeignFlags);
  for (const auto &[name, rows] : table.items()) {
    frameworks.push_back({name, {}});
    for (const nlohmann::ordered_json &row : rows)
      frameworks.back().rows.push_back({row.at("answer"), row.value("goesOn", false), row.value("onlyValue", ""),
                                        row.value("flags", std::vector<std::string>()),
                                        row.value("prefixes", std::vector<std::string>()), row.value("here", ""),
                                        row.value("instead", ""), groupOf(row)});
  }
  return frameworks;
}

size_t valuesIn(std::string_view entry) {
  const bool isMany = entry.ends_with(" VALUES");
  return isMany ? std::numeric_limits<size_t>::max() : entry.ends_with(" VALUE") ? 1 : 0;
}

ForeignAnswer answer(const Framework &framework, const ForeignRow &row, std::string_view flag, size_t values) {
  std::string text = row.answerTo(flag);
  if (&framework != &frameworks().front())
    text = fmt::format("is {}'s; {}", framework.name, text);
  return {text, row.goesOn, values, &row};
}

} // namespace

const std::vector<Framework> &frameworks() {
  static const std::vector<Framework> all = readFrameworks();
  return all;
}

const std::vector<std::string> &flagsOfTool(const std::string &tool) {
  static const std::map<std::string, std::vector<std::string>> all = nlohmann::json::parse(kToolFlags);
  return all.at(tool);
}

std::string ForeignRow::answerTo(std::string_view flag) const {
  std::string text = answer;
  if (const size_t at = text.find("{flag}"); at != text.npos)
    text.replace(at, std::string_view("{flag}").size(), flag);
  return text;
}

std::string_view nameIn(std::string_view entry) { return entry.substr(0, entry.find(' ')); }

std::vector<std::string> spellingsOf(const std::string &flag) {
  std::vector<std::string> spellings = {flag};
  std::string dashed = flag;
  std::ranges::replace(dashed, '_', '-');
  const size_t dot = dashed.rfind('.');
  for (const std::string &other : {dashed, dot == dashed.npos ? dashed : "--" + dashed.substr(dot + 1)})
    if (other != spellings.back())
      spellings.push_back(other);
  return spellings;
}

std::optional<ForeignAnswer> answerOf(const std::string &flag, std::string_view value) {
  for (const std::string &spelling : spellingsOf(flag))
    for (const Framework &framework : frameworks())
      for (const ForeignRow &row : framework.rows)
        for (const std::string &entry : row.flags)
          if (nameIn(entry) == spelling && (row.onlyValue.empty() || row.onlyValue == value))
            return answer(framework, row, spelling, valuesIn(entry));
  return std::nullopt;
}

std::optional<ForeignAnswer> answerByPrefix(const std::string &flag) {
  std::optional<ForeignAnswer> best;
  size_t longest = 0;
  for (const std::string &spelling : spellingsOf(flag))
    for (const Framework &framework : frameworks())
      for (const ForeignRow &row : framework.rows)
        for (const std::string &prefix : row.prefixes)
          if (spelling.starts_with(prefix) && prefix.size() > longest)
            best = answer(framework, row, spelling, 0), longest = prefix.size();
  return best;
}

} // namespace mgc::tools
