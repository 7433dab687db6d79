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
#include <optional>

namespace mgc {

namespace {

using Kind = plan::Input::Kind;

// `length`: of the sequences.
Status checkValue(const plan::Plan &plan, const char *what, int64_t length, int64_t index, int32_t value) {
  if (value >= 0 && value < plan.vocabulary)
    return Status::ok();
  return errorf("sample {} of the batch, position {}: {} {} is not in the vocabulary of {}", index / length,
                index % length, what, value, plan.vocabulary);
}

Status checkSize(const char *what, std::span<const int32_t> values, const GlobalBatch &batch) {
  if (values.size() == batch.tokens.size())
    return Status::ok();
  return errorf("the batch has the {} of {} tokens, expected those of {}", what, values.size(), batch.tokens.size());
}

Status checkTypes(const plan::Plan &plan, const GlobalBatch &batch) {
  MGC_TRY(checkSize("types", batch.types, batch));
  const auto other =
      std::ranges::find_if(batch.types, [&](int32_t type) { return type < 0 || type >= plan.tokenTypes; });
  if (other == batch.types.end())
    return Status::ok();
  const int64_t index = other - batch.types.begin();
  return errorf("sample {} of the batch, position {}: token type {}, expected 0 to {}", index / plan.sequenceLength,
                index % plan.sequenceLength, *other, plan.tokenTypes - 1);
}

// Values of an input at places of a step's global batch.
class InputValues {
public:
  InputValues(const plan::Input &input, const plan::Plan &plan, const GlobalBatch &batch)
      : kind_(input.kind), shift_(input.shift), ofEncoder_(input.ofEncoder), plan_(plan), batch_(batch) {
    if (kind_ == Kind::stepTokens || kind_ == Kind::lossShares)
      counted_ = countLabels();
  }
  double at(int64_t sample, int64_t position) const;

private:
  int64_t length() const { return ofEncoder_ ? plan_.encoderLength : plan_.sequenceLength; }
  // The token that is `shift` positions after a token, in its sequence and document; nothing: there is none.
  std::optional<int64_t> shifted(int64_t index) const;
  int32_t labelAt(int64_t index) const { // kIgnoredLabel: it does not count
    const std::optional<int64_t> later = shifted(index);
    return later ? batch_.labels[*later] : kIgnoredLabel;
  }
  int64_t countLabels() const {
    int64_t count = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(batch_.labels.size()); ++i)
      count += labelAt(i) != kIgnoredLabel;
    return count;
  }

  Kind kind_;
  int64_t shift_;
  bool ofEncoder_;
  const plan::Plan &plan_;
  const GlobalBatch &batch_;
  int64_t counted_ = 0; // labels of the step that count
};

std::optional<int64_t> InputValues::shifted(int64_t index) const {
  if (index % plan_.sequenceLength + shift_ >= plan_.sequenceLength)
    return std::nullopt;
  const int64_t later = index + shift_;
  const bool isOther = !batch_.starts.empty() && batch_.starts[later] != batch_.starts[index];
  return isOther ? std::nullopt : std::optional(later);
}

double InputValues::at(int64_t sample, int64_t position) const {
  const int64_t index = sample * length() + position;
  switch (kind_) {
  case Kind::tokens: {
    if (ofEncoder_)
      return batch_.encoderTokens[index];
    if (!batch_.imagePlaces.empty() && batch_.imagePlaces[index] >= 0)
      return -1;
    const std::optional<int64_t> later = shifted(index);
    return later ? batch_.tokens[*later] : 0;
  }
  case Kind::labels:
    return labelAt(index) == kIgnoredLabel ? -1 : labelAt(index);
  case Kind::lossWeights:
    return labelAt(index) == kIgnoredLabel ? 0 : 1;
  case Kind::lossShares:
    return labelAt(index) == kIgnoredLabel ? 0 : 1 / static_cast<double>(counted_);
  case Kind::positions:
  case Kind::keyPositions:
    return static_cast<double>(position);
  case Kind::positionIds:
    return static_cast<double>(position - batch_.starts[index]);
  case Kind::documentStarts:
  case Kind::keyDocumentStarts:
    return batch_.starts[index];
  case Kind::tokenTypes:
    return batch_.types[index];
  case Kind::documentEnds:
  case Kind::keyDocumentEnds:
    return ofEncoder_ ? batch_.encoderEnds[index] : batch_.ends[index];
  case Kind::encoderEnds:
    return batch_.encoderEnds[sample * plan_.encoderLength];
  case Kind::imagePlaces:
    return ofEncoder_ ? batch_.imageSources[index] : batch_.imagePlaces[index];
  case Kind::patches: // more than a number: writePixels
    return 0;
  case Kind::samples:
    return static_cast<double>(batch_.first + sample);
  case Kind::stepTokens:
    return static_cast<double>(counted_);
  }
  return 0;
}

} // namespace

// Places and sources are each other's inverse: what stands where is read by forward, where what stands by backward.
static Status checkImages(const plan::Plan &plan, const GlobalBatch &batch) {
  const plan::Images &images = plan.images;
  const auto expected = size_t(plan.globalBatchSize * plan.encoderLength);
  if (batch.pixels.size() != size_t(plan.globalBatchSize * images.pixels()) || batch.encoderEnds.size() != expected ||
      batch.imageSources.size() != expected || batch.imagePlaces.size() != batch.tokens.size())
    return errorf("the batch has {} pixels, {} places and {} sources of images; expected {} pixels for each "
                  "of {} samples",
                  batch.pixels.size(), batch.imagePlaces.size(), batch.imageSources.size(), images.pixels(),
                  plan.globalBatchSize);
  const auto areInverse = [](std::span<const int32_t> from, int64_t length, std::span<const int32_t> to,
                             int64_t otherLength) {
    for (int64_t i = 0; i < static_cast<int64_t>(from.size()); ++i)
      if (from[i] != -1 &&
          (from[i] < 0 || from[i] >= otherLength || to[i / length * otherLength + from[i]] != i % length))
        return false;
    return true;
  };
  if (areInverse(batch.imagePlaces, plan.sequenceLength, batch.imageSources, plan.encoderLength) &&
      areInverse(batch.imageSources, plan.encoderLength, batch.imagePlaces, plan.sequenceLength))
    return verifyEnds(batch.encoderEnds, {}, plan.encoderLength);
  return errorf("the batch's places of images are not the inverse of their sources");
}

static Status checkEncoder(const plan::Plan &plan, const GlobalBatch &batch) {
  if (plan.encoderLength == 0)
    return Status::ok();
  if (plan::readsImages(plan))
    return checkImages(plan, batch);
  const auto expected = size_t(plan.globalBatchSize * plan.encoderLength);
  if (batch.encoderTokens.size() != expected || batch.encoderEnds.size() != expected)
    return errorf("the batch has {} tokens of the encoder and {} ends, expected {}", batch.encoderTokens.size(),
                  batch.encoderEnds.size(), expected);
  for (int64_t i = 0; i < static_cast<int64_t>(expected); ++i)
    MGC_TRY(checkValue(plan, "token of the encoder", plan.encoderLength, i, batch.encoderTokens[i]));
  return verifyEnds(batch.encoderEnds, {}, plan.encoderLength);
}

Status checkBatch(const plan::Plan &plan, const GlobalBatch &batch) {
  for (int64_t i = 0; i < static_cast<int64_t>(batch.tokens.size()); ++i)
    MGC_TRY(checkValue(plan, "token", plan.sequenceLength, i, batch.tokens[i]));
  for (int64_t i = 0; i < static_cast<int64_t>(batch.labels.size()); ++i)
    if (batch.labels[i] != kIgnoredLabel)
      MGC_TRY(checkValue(plan, "label", plan.sequenceLength, i, batch.labels[i]));
  MGC_TRY(checkEncoder(plan, batch));
  if (plan::reads(plan, plan::isTokenType))
    MGC_TRY(checkTypes(plan, batch));
  if (plan::readsDocuments(plan))
    MGC_TRY(checkSize("documents", batch.starts, batch));
  if (plan::reads(plan, plan::isEnd))
    MGC_TRY(checkSize("ends of documents", batch.ends, batch));
  MGC_TRY(verifyStarts(batch.starts, plan.sequenceLength, plan.longestDocument));
  const bool areSeparate = plan::reads(plan, plan::separatesDocuments);
  return verifyEnds(batch.ends, areSeparate ? batch.starts : std::span<const int32_t>(), plan.sequenceLength);
}

static InputRecord resolveInput(const plan::Plan &plan, int64_t rank, const plan::Input &input) {
  InputRecord record;
  record.input = &input;
  record.hasPixels = input.kind == Kind::patches;
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
    } else if (dim.name == "s" || dim.name == "t") {
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

// The patch at an encoder's position of a sample, [channels, patchSize, patchSize]; zeros where there is none.
static void writePixels(const plan::Images &images, const GlobalBatch &batch, int64_t sample, int64_t position,
                        float *to) {
  const int64_t size = images.patchSize, patch = position - images.classTokens;
  if (patch < 0 || position >= images.positions()) {
    std::fill_n(to, images.channels * size * size, 0.0F);
    return;
  }
  const int64_t top = patch / images.columns * size, left = patch % images.columns * size;
  for (int64_t channel = 0; channel < images.channels; ++channel)
    for (int64_t row = 0; row < size; ++row) {
      const int64_t line = (sample * images.channels + channel) * images.height() + top + row;
      to = std::copy_n(batch.pixels.begin() + line * images.width() + left, size, to);
    }
}

void writeInput(const InputRecord &record, const plan::Plan &plan, const GlobalBatch &batch, std::byte *arena) {
  const plan::Input &input = *record.input;
  const InputValues values(input, plan, batch);
  for (int64_t microbatch = 0; microbatch < record.microbatches; ++microbatch) {
    std::byte *to = arena + record.ring.offsetOf(microbatch);
    for (int64_t p = 0; p < record.positions; ++p) {
      const int64_t length = input.ofEncoder ? plan.encoderLength : plan.sequenceLength;
      const int64_t position = plan::positionAt(record.firstPosition + p, length, plan.zigzag);
      for (int64_t b = 0; b < record.samples; ++b) {
        const int64_t sample = microbatch * record.samplesPerMicrobatch + record.firstSample + b;
        const int64_t element = p * record.positionStride + b * record.sampleStride;
        if (record.hasPixels) {
          writePixels(plan.images, batch, sample, position, reinterpret_cast<float *>(to) + element);
          continue;
        }
        const double value = values.at(sample, position);
        if (input.type == plan::DType::f32)
          reinterpret_cast<float *>(to)[element] = static_cast<float>(value);
        else
          reinterpret_cast<int32_t *>(to)[element] = static_cast<int32_t>(static_cast<int64_t>(value));
      }
    }
  }
}

} // namespace mgc
