// See SupportedByCompiler.h.
#include "tools/supported/SupportedByCompiler.h"

#include "compiler/emit/Emit.h"
#include "compiler/schedule/Schedule.h"
#include "dialects/mg/Target.h"
#include "plan/cost/Machine.h"

namespace mgc::tools {

frontend::Supported supportedByCompiler() {
  frontend::Supported supported;
  for (const schedule::ScheduleRow &row : schedule::schedules())
    supported.schedules.push_back({row.name, row.splitBackward, row.minVirtualStages, row.maxVirtualStages,
                                   row.byDefault,
                                   [&row](int64_t pp, int64_t vpp) { return schedule::mostMicrobatches(row, pp, vpp); },
                                   row.placement == schedule::ChunkPlacement::v, row.byTime, row.pairs});
  for (const std::string &name : cost::machineNames())
    supported.machines.push_back({name, name});
  for (const std::string &name : targets()) {
    const TargetFacts facts = factsOf(targetNamed(name));
    supported.targets.push_back({name, facts.balance, facts.leavesCoresToProducts});
  }
  return supported;
}

} // namespace mgc::tools
