// See Fit.h.
#include "plan/cost/Fit.h"

#include "plan/FitText.h"
#include "plan/cost/Machine.h"
#include "runtime/base/NumberText.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace mgc::cost {

static Fit fitOf(const plan::Plan &plan, std::string machine, int64_t deviceBytes, int64_t hostBytes) {
  Fit fit{std::move(machine), {0, deviceBytes}, {0, hostBytes}};
  for (const plan::StagePlan &stage : plan.stages) {
    fit.device.needed = std::max(fit.device.needed, stage.bytes);
    fit.host.needed = std::max(fit.host.needed, stage.hostBytes);
  }
  return fit;
}

Fit fitOf(const plan::Plan &plan, const Machine &machine) {
  return fitOf(plan, machine.name, static_cast<int64_t>(machine.memory.bytes),
               static_cast<int64_t>(machine.host.bytes));
}

std::optional<Fit> fitOf(const plan::Plan &plan) {
  if (plan.fit.machine.empty())
    return std::nullopt;
  return fitOf(plan, plan.fit.machine, plan.fit.deviceBytes, plan.fit.hostBytes);
}

static std::string describe(const FitOfMemory &room) {
  return fmt::format("{} of {}, {} {}", bytesText(double(room.needed)), bytesText(double(room.available)),
                     bytesText(std::abs(double(room.spare()))), room.spare() >= 0 ? "to spare" : "missing");
}

std::string describe(const Fit &fit) {
  return fmt::format("{} {}: a rank needs {}{}", fit.fits() ? "fits" : "does not fit", fit.machine,
                     describe(fit.device), fit.host.needed > 0 ? "; of the host " + describe(fit.host) : "");
}

bool knowsChanges(const plan::Plan &plan, const Fit &fit) {
  return !fit.fits() && fit.machine == plan.fit.machine && fit.device.available == plan.fit.deviceBytes &&
         fit.host.available == plan.fit.hostBytes && !plan.fit.changes.empty();
}

std::string changesText(const plan::Plan &plan, const Fit &fit) {
  return knowsChanges(plan, fit) ? plan::changesText(plan) : "";
}

} // namespace mgc::cost
