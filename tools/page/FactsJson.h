// The facts of a plan as `mgc explain --json` prints them and its page shows them.
#pragma once

#include "plan/cost/PlanFacts.h"
#include "plan/cost/StepTime.h"

#include <nlohmann/json.hpp>

namespace mgc::tools {

nlohmann::json factsJson(const plan::Plan &plan, const cost::PlanFacts &facts, const cost::Machine &machine,
                         const cost::StepCost &step);

// The terms of the loss in addition to the cross-entropy, by name.
std::vector<std::string_view> termsOf(const plan::Plan &plan);

// The DropChoices of a layer's experts; all layers have the same. Null: no choice is dropped.
const plan::DropChoices *dropsOf(const plan::Plan &plan);

} // namespace mgc::tools
