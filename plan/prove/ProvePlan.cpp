// See ProvePlan.h.
#include "plan/prove/ProvePlan.h"

#include "plan/prove/Carried.h"
#include "plan/prove/Matching.h"
#include "plan/prove/Progress.h"
#include "plan/prove/StageFlow.h"
#include "plan/prove/VerifyBucketUse.h"
#include "plan/prove/VerifyCountedRows.h"
#include "plan/prove/VerifyPlan.h"

namespace mgc::plan {

Status provePlan(const Plan &plan) {
  MGC_TRY(verifyPlan(plan));
  Problems problems;
  proveMatching(plan, problems);
  MGC_TRY(problems.status());
  proveProgress(plan, problems);
  MGC_TRY(problems.status());
  Flows flows(plan, problems);
  for (int64_t stage = 0; stage < static_cast<int64_t>(plan.stages.size()); ++stage)
    proveStage(plan, stage, flows, problems);
  proveCarried(plan, flows, problems);
  verifyCountedRows(plan, flows, problems);
  verifyBucketUse(plan, flows, problems);
  return problems.status();
}

} // namespace mgc::plan
