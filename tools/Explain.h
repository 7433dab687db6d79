// `mgc explain PLAN [--json]`: says what a plan does, before anything runs.
#pragma once

#include "runtime/base/Status.h"
#include "tools/Flags.h"

namespace mgc::tools {

// Reads and verifies the plan and prints layout, memory, work, traffic and schedule to standard output.
Status explain(const ExplainFlags &flags);

} // namespace mgc::tools
