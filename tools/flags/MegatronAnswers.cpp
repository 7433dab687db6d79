// See MegatronAnswers.h.
#include "tools/flags/MegatronAnswers.h"

#include "MegatronFlags.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace mgc::tools {

namespace {

std::vector<MegatronRow> readRows() {
  std::vector<MegatronRow> rows;
  for (const nlohmann::json &row : nlohmann::json::parse(kMegatronFlags))
    rows.push_back({row.at("answer"), row.value("goesOn", false), row.value("onlyValue", ""),
                    row.value("flags", std::vector<std::string>()),
                    row.value("prefixes", std::vector<std::string>())});
  return rows;
}

size_t valuesIn(std::string_view entry) {
  const bool isMany = entry.ends_with(" VALUES");
  return isMany ? std::numeric_limits<size_t>::max() : entry.ends_with(" VALUE") ? 1 : 0;
}

MegatronAnswer answer(const MegatronRow &row, std::string_view flag, size_t values) {
  std::string text = row.answer;
  if (const size_t at = text.find("{flag}"); at != text.npos)
    text.replace(at, std::string_view("{flag}").size(), flag);
  return {text, row.goesOn, values};
}

} // namespace

const std::vector<MegatronRow> &megatronRows() {
  static const std::vector<MegatronRow> all = readRows();
  return all;
}

std::string_view nameIn(std::string_view entry) { return entry.substr(0, entry.find(' ')); }

std::optional<MegatronAnswer> answerOf(std::string_view flag, std::string_view value) {
  const MegatronRow *best = nullptr;
  size_t longest = 0;
  for (const MegatronRow &row : megatronRows()) {
    for (const std::string &entry : row.flags)
      if (nameIn(entry) == flag && (row.onlyValue.empty() || row.onlyValue == value))
        return answer(row, flag, valuesIn(entry));
    for (const std::string &prefix : row.prefixes)
      if (flag.starts_with(prefix) && prefix.size() > longest)
        best = &row, longest = prefix.size();
  }
  return best ? std::optional(answer(*best, flag, 0)) : std::nullopt;
}

} // namespace mgc::tools
