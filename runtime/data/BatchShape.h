// The shape of a step's global batch, and what every source of data begins with.
#pragma once

#include "runtime/data/Data.h"

namespace mgc {

struct BatchShape {
  explicit BatchShape(const plan::Plan &plan)
      : samples(plan.globalBatchSize), length(plan.sequenceLength), encoderLength(plan.encoderLength),
        vocabulary(plan.vocabulary) {}
  int64_t samples, length, encoderLength, vocabulary; // encoderLength: 0 without an encoder
};

// An error where there is no such step. All tokens are of type 0 and no sequence has padding until the source says so.
Status beginBatch(int64_t step, const BatchShape &shape, GlobalBatch &out);

} // namespace mgc
