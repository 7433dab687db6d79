// See FitText.h.
#include "plan/FitText.h"

#include "runtime/base/NumberText.h"

namespace mgc::plan {

std::string changesText(const Plan &plan) {
  std::string text;
  for (const PlanFit::Change &change : plan.fit.changes)
    text += fmt::format("  {}: {} a rank, {} a step{}\n", change.flags, bytesText(double(change.bytes)),
                        secondsText(change.seconds),
                        change.ranks == plan.mesh.worldSize() ? "" : fmt::format(", on {} ranks", change.ranks));
  return text.empty()
             ? ""
             : fmt::format("these would fit {}, tried and proved, the fastest first:\n{}", plan.fit.machine, text);
}

} // namespace mgc::plan
