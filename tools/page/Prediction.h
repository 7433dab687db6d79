// The predicted time of a step and its memory, as `mgc explain` prints it: text and JSON.
#pragma once

#include "plan/cost/Fit.h"
#include "plan/cost/StepTime.h"

#include <nlohmann/json.hpp>
#include <span>

namespace mgc::tools {

struct NamedPart {
  const char *key, *text; // in JSON, and for people
  double cost::StepParts::*seconds;
};
std::span<const NamedPart> namedParts();

std::string predictionText(const plan::Plan &plan, const cost::Machine &machine, const cost::StepCost &step);
// Negative bytes to spare are missing.
nlohmann::json fitJson(const plan::Plan &plan, const cost::Fit &fit);
// How the step of a stack differs from that of our own, by part.
std::string stackDifferenceText(const cost::SoftwareStack &stack, const cost::StepCost &step,
                                const cost::StepCost &own);
nlohmann::json predictionJson(const cost::Machine &machine, const cost::StepCost &step);

} // namespace mgc::tools
