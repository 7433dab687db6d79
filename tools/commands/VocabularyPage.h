// The reference of the vocabulary of models, made of its fields (model/Vocabulary.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace mgc::tools {

// docs/model-vocabulary.md: Markdown.
std::string vocabularyPage();
// The JSON schema of "mgc": {"model": ..}.
nlohmann::ordered_json vocabularySchema();

} // namespace mgc::tools
