// The predicted time of a step as `mgc explain` prints it: text and JSON.
#pragma once

#include "plan/cost/StepTime.h"

#include <nlohmann/json.hpp>

namespace mgc::tools {

std::string predictionText(const plan::Plan &plan, const cost::Machine &machine, const cost::StepCost &step);
nlohmann::json predictionJson(const cost::Machine &machine, const cost::StepCost &step);

} // namespace mgc::tools
