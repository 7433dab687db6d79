// The model that flags of Megatron-LM describe, as a config.json in mgc's own vocabulary (docs/model-vocabulary.md): a
// decoder, with Megatron-LM's defaults where flags are silent.
#pragma once

#include "tools/translate/MegatronLine.h"

#include <map>
#include <nlohmann/json.hpp>

namespace mgc::tools {

struct LineModel {
  nlohmann::ordered_json config;
  std::map<std::string, std::string> places;   // flag -> the field that it has set, "layer.attention.heads"
  std::map<std::string, std::string> unusable; // flag -> why its value says nothing: "found 'X', expected ..."
  std::map<std::string, std::string> lacking;  // flag -> why nothing here does what it says
  std::map<std::string, std::string> idle;     // flag -> why it is not read
  std::vector<std::string> assumed;            // for people
  std::vector<std::string> problems;           // reasons why the model cannot be written
};
LineModel modelOf(const MegatronLine &line);

} // namespace mgc::tools
