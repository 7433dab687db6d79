// The global batch of a step -> the Input arrays in a rank's allocation: this rank's part of each microbatch.
#pragma once

#include "runtime/data/Data.h"

namespace mgc {

// Whether all tokens and labels of the batch are in the vocabulary, labels may be kIgnoredLabel as well, and its documents,
// their ends, the types of tokens and places of images are such as the plan reads.
Status checkBatch(const plan::Plan &plan, const GlobalBatch &batch);

// Where one Input of a rank's stage lies and which part of the batch it shows; made once at load.
struct InputRecord {
  const plan::Input *input = nullptr;
  plan::Ring ring; // its memory
  int64_t positions = 1, firstPosition = 0,
          positionStride = 0;                             // local count, global begin, elements from one to next
  int64_t samples = 1, firstSample = 0, sampleStride = 0; // the same along b, within a microbatch
  int64_t samplesPerMicrobatch = 1;                       // over all ranks
  int64_t microbatches = 1;                               // microbatches to write
  // A patch has pixels at each position of each sample.
  bool hasPixels = false;
};
std::vector<InputRecord> resolveInputs(const plan::Plan &plan, int64_t rank);

// An ignored label becomes -1 with loss weight 0, any other keeps its value and has weight 1.
void writeInput(const InputRecord &record, const plan::Plan &plan, const GlobalBatch &batch, std::byte *arena);

} // namespace mgc
