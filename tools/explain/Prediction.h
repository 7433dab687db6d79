// What `mgc explain` says of the predicted time of a step, as text and as JSON.
#pragma once

#include "compiler/cost/StepTime.h"

#include <nlohmann/json.hpp>

namespace mgc::tools {

std::string predictionText(const plan::Plan &plan, const cost::Machine &machine, const cost::StepCost &step);
nlohmann::json predictionJson(const cost::Machine &machine, const cost::StepCost &step);

} // namespace mgc::tools
