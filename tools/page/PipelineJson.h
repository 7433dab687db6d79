// The predicted step as the page draws it: what each stage runs when, and what the runs are made of.
#pragma once

#include "plan/cost/StepTime.h"
#include "plan/play/Player.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace mgc::tools {

// The unit of times on the page.
inline int64_t nanoseconds(double seconds) { return std::llround(1e9 * seconds); }

// programs  of the plan: name; instructions: [label, kind, predicted ns of one run, runs in a call]
// stages    chunks: name, task, calls: [program, runs]; boxes: [chunk, microbatch, begin ns, end ns] of each run, as listed
// `times`: by stage
nlohmann::json pipelineJson(const plan::Plan &plan, const cost::Machine &machine,
                            const std::vector<schedule::StepTimes> &times);

} // namespace mgc::tools
