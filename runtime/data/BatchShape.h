// The shape of a step's global batch, and what every source of data begins with.
#pragma once

#include "runtime/data/Data.h"

#include <functional>

namespace mgc {

struct BatchShape {
  explicit BatchShape(const plan::Plan &plan)
      : samples(plan.globalBatchSize), length(plan.sequenceLength), encoderLength(plan.encoderLength),
        vocabulary(plan.vocabulary), images(plan.images),
        encoderEnd(plan::readsImages(plan) ? plan.images.positions() : plan.encoderLength),
        hasPairs(plan.encoderLength > 0 && !plan::readsImages(plan)) {}
  int64_t samples, length, encoderLength, vocabulary; // encoderLength: 0 without an encoder
  plan::Images images;                                // images that the encoder reads
  int64_t encoderEnd; // the place behind the last of the encoder's positions that is no padding
  bool hasPairs;      // the encoder reads tokens
};

// An error where there are no such samples. All tokens are of type 0 and no sequence has padding until the source says so.
Status beginBatch(int64_t first, const BatchShape &shape, GlobalBatch &out);

// "NAME: A; B; .. and 14 more": the first samples of a batch, each as describe(i) has it.
std::string listSamples(std::string_view name, int64_t samples, const std::function<std::string(int64_t i)> &describe);

} // namespace mgc
