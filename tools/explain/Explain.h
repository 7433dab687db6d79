// `mgc explain PLAN [--json | --html F]`: says what a plan does, before anything runs. `mgc explain --machine M --print`
// prints a machine's file.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"
#include "tools/commands/Flags.h"

namespace mgc::tools {

// With --print writes the machine's file to standard output. Otherwise reads and verifies the plan and prints layout, memory, work, traffic and schedule to standard output, or writes its page.
Status explain(const ExplainFlags &flags);

// To standard error: the bytes of each stage's ranks next to the least possible; a line for equal neighbours.
void sayMemory(const plan::Plan &plan);

} // namespace mgc::tools
