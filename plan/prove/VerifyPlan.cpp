#include "plan/prove/VerifyPlan.h"

#include "plan/prove/VerifyParts.h"

namespace mgc::plan {

// The facts that all other checks rely upon.
static bool verifyGround(Checks &checks) {
  const Plan &plan = checks.plan;
  Place root, mesh = root.field("mesh"), stages = root.field("stages");
  checks.violations.expect(plan.version == kVersion, root.field("version"), "found {}, expected {}; recompile the plan",
                           plan.version, kVersion);
  if (checks.violations.expect(verifyMesh(plan.mesh), mesh))
    checks.violations.expect(stageCount(plan.mesh) == static_cast<int64_t>(plan.stages.size()), stages,
                             "found {} stages, but the mesh has {} along pp", plan.stages.size(),
                             stageCount(plan.mesh));
  return checks.violations.count() == 0;
}

Status verifyPlan(const Plan &plan) {
  Violations violations;
  Checks checks{plan, violations};
  if (!verifyGround(checks))
    return violations.status();
  for (auto part : {verifyNumbers, verifyParameters, verifyPrograms, verifyStages, verifySchedules})
    part(checks);
  return violations.status();
}

} // namespace mgc::plan
