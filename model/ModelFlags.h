// Facts of a model that Megatron-LM takes as flags and mgc from config.json. A command line of Megatron-LM may keep
// them: what they say is compared with the file.
#pragma once

#include "model/Description.h"

#include <functional>
#include <variant>

namespace mgc::frontend {

struct ModelFlag {
  std::string flag;                                          // "--num-layers"
  std::variant<const char *, std::string KeyNames::*> where; // its key in config.json
  std::function<std::string(const ModelDescription &)>
      valueOf;                           // as Megatron-LM spells it; of a switch "true"; empty: any value is right
  bool isSwitch = false;                 // a flag without a value
  std::vector<std::string> aliases = {}; // names in projects that began with Megatron-LM
  // Whether a value means what the model has; none: where it is the same text or number.
  std::function<bool(const ModelDescription &, std::string_view given)> isSame = {};
  std::string key(const KeyNames &names = {}) const;
};
const std::vector<ModelFlag> &modelFlags();
const ModelFlag *findModelFlag(std::string_view flag);

// A flag as it was given; of a switch "true".
struct GivenModelFlag {
  std::string flag, value;
};
// An error names every fact in which the model is another, with both values.
Status verifyModelFlags(const ModelDescription &model, const std::vector<GivenModelFlag> &given);

} // namespace mgc::frontend
