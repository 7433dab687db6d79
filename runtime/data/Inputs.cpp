// See Inputs.h.
//
// Sample m * B + b of the global batch is sample b of microbatch m, with B samples in a microbatch over all
// ranks. Example: global batch 8, 2 microbatches, dp = 2: the rank at dp = 1 sees samples 2 3 of microbatch 0
// (0 1 2 3) and 6 7 of microbatch 1 (4 5 6 7).
#include "runtime/data/Inputs.h"

#include "plan/Plan.h"
#include "plan/SequenceOrder.h"
#include "plan/mesh/Mesh.h"

#include <algorithm>

namespace mgc {

namespace {

using Kind = plan::Input::Kind;

Status checkValue(const plan::Plan &plan, const char *what, int64_t index, int32_t value) {
  if (value >= 0 && value < plan.vocabulary)
    return Status::ok();
  return errorf("sample {} of the batch, position {}: {} {} is not in the vocabulary of {}",
                index / plan.sequenceLength, index % plan.sequenceLength, what, value, plan.vocabulary);
}

// The value at global position `position` of global sample `sample`.
int64_t valueAt(Kind kind, const GlobalBatch &batch, const plan::Plan &plan, int64_t step, int64_t sample,
                int64_t position) {
  const int64_t index = sample * plan.sequenceLength + position;
  switch (kind) {
  case Kind::tokens:
    return batch.tokens[index];
  case Kind::labels:
    return batch.labels[index] == kIgnoredLabel ? -1 : batch.labels[index];
  case Kind::lossWeights:
    return batch.labels[index] == kIgnoredLabel ? 0 : 1;
  case Kind::positions:
  case Kind::keyPositions:
    return position;
  case Kind::positionIds:
    return position - batch.starts[index];
  case Kind::documentStarts:
  case Kind::keyDocumentStarts:
    return batch.starts[index];
  case Kind::samples:
    return step * plan.globalBatchSize + sample;
  case Kind::stepTokens:
    return std::ranges::count_if(batch.labels, [](int32_t label) { return label != kIgnoredLabel; });
  }
  return 0;
}

} // namespace

Status checkBatch(const plan::Plan &plan, const GlobalBatch &batch) {
  for (int64_t i = 0; i < static_cast<int64_t>(batch.tokens.size()); ++i)
    MGC_TRY(checkValue(plan, "token", i, batch.tokens[i]));
  for (int64_t i = 0; i < static_cast<int64_t>(batch.labels.size()); ++i)
    if (batch.labels[i] != kIgnoredLabel)
      MGC_TRY(checkValue(plan, "label", i, batch.labels[i]));
  if (plan::readsDocuments(plan) && batch.starts.size() != batch.tokens.size())
    return errorf("the batch has the documents of {} tokens, expected those of {}", batch.starts.size(),
                  batch.tokens.size());
  return verifyStarts(batch.starts, plan.sequenceLength, plan.longestDocument);
}

static InputRecord resolveInput(const plan::Plan &plan, int64_t rank, const plan::Input &input) {
  InputRecord record;
  record.input = &input;
  record.ring = plan.stages[plan::stageOf(plan.mesh, rank)].rings[input.ring];
  record.microbatches = record.ring.slots();
  int64_t stride = 1;
  for (size_t i = input.dims.size(); i-- > 0;) {
    const plan::Input::Dim &dim = input.dims[i];
    const int64_t local = dim.size / plan::groupSize(plan.mesh, dim.axes);
    const int64_t begin = local * plan::coordinate(plan.mesh, rank, dim.axes);
    if (dim.name == "b") {
      record.samples = local, record.firstSample = begin, record.sampleStride = stride;
      record.samplesPerMicrobatch = dim.size;
    } else {
      record.positions = local, record.firstPosition = begin, record.positionStride = stride;
    }
    stride *= local;
  }
  return record;
}

std::vector<InputRecord> resolveInputs(const plan::Plan &plan, int64_t rank) {
  std::vector<InputRecord> records;
  for (const plan::Input &input : plan.stages[plan::stageOf(plan.mesh, rank)].inputs)
    records.push_back(resolveInput(plan, rank, input));
  return records;
}

void writeInput(const InputRecord &record, const plan::Plan &plan, const GlobalBatch &batch, int64_t step,
                std::byte *arena) {
  const plan::Input &input = *record.input;
  for (int64_t microbatch = 0; microbatch < record.microbatches; ++microbatch) {
    std::byte *to = arena + record.ring.offsetOf(microbatch);
    for (int64_t p = 0; p < record.positions; ++p) {
      const int64_t position = plan::positionAt(record.firstPosition + p, plan.sequenceLength, plan.zigzag);
      for (int64_t b = 0; b < record.samples; ++b) {
        const int64_t sample = microbatch * record.samplesPerMicrobatch + record.firstSample + b;
        const int64_t value = valueAt(input.kind, batch, plan, step, sample, position);
        const int64_t element = p * record.positionStride + b * record.sampleStride;
        if (input.type == plan::DType::f32)
          reinterpret_cast<float *>(to)[element] = static_cast<float>(value);
        else
          reinterpret_cast<int32_t *>(to)[element] = static_cast<int32_t>(value);
      }
    }
  }
}

} // namespace mgc
