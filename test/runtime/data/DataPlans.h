// Plans of which data sources read the sizes alone.
#pragma once

#include "plan/Plan.h"

namespace mgc::test {

// One sample a step. `packed`: it reads where documents begin.
inline plan::Plan planOfData(int64_t length, int64_t vocabulary, bool packed) {
  plan::Plan plan;
  plan.globalBatchSize = plan.microBatchSize = plan.microbatches = 1;
  plan.sequenceLength = length, plan.vocabulary = vocabulary;
  plan.stages.resize(1);
  if (packed) {
    plan::Input starts;
    starts.kind = plan::Input::Kind::documentStarts;
    plan.stages[0].inputs.push_back(starts);
  }
  return plan;
}

} // namespace mgc::test
