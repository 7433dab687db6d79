// See ClassFields.h.
#include "model/ClassFields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mgc::frontend {

static constexpr ClassFields kClasses[] = {
#include "model/ClassFields.inc"
};

static std::vector<std::string_view> wordsIn(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = text.find_first_not_of(" \n"); at != text.npos; at = text.find_first_not_of(" \n", at)) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::set<std::string_view> ClassFields::names() const {
  const std::vector<std::string_view> words = wordsIn(fields);
  return {words.begin(), words.end()};
}

bool ClassFields::reads(std::string_view field) const { return names().contains(field); }

std::vector<std::pair<std::string_view, std::string_view>> ClassFields::otherSpellings() const {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  for (std::string_view word : wordsIn(spellings))
    pairs.emplace_back(word.substr(0, word.find('=')), word.substr(word.find('=') + 1));
  return pairs;
}

nlohmann::json ClassFields::defaultValues() const {
  return defaults.empty() ? nlohmann::json::object() : nlohmann::json::parse(defaults);
}

const ClassFields *classFieldsOf(std::string_view modelType) {
  const auto row = std::ranges::find(kClasses, modelType, &ClassFields::modelType);
  return row == std::end(kClasses) ? nullptr : row;
}

} // namespace mgc::frontend
