// A model for tests: its parameters one by one, and all of its facts as text.
#pragma once

#include "model/Description.h"

namespace mgc::frontend {

// Elements as the checkpoint holds them (no padding), a tied head once.
int64_t parameterCount(const ModelDescription &model);

// The parameter of a role in a list, or null.
const plan::Parameter *findParameter(const std::vector<ModelParameter> &parameters, std::string_view role);

// The parameter of a layer: "{}" replaced by its number.
plan::Parameter atLayer(const plan::Parameter &parameter, int64_t layer);

// All parameters of the model in the order of its layers, as the plan lists them.
std::vector<plan::Parameter> allParameters(const ModelDescription &model);

// Everything but source and text, one fact per line: equal models give equal texts.
std::string describe(const ModelDescription &model);

} // namespace mgc::frontend
