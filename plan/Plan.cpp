#include "plan/Plan.h"

#include <algorithm>
#include <fmt/format.h>

namespace mgc::plan {

bool isPosition(Input::Kind kind) { return kind == Input::Kind::positions || kind == Input::Kind::keyPositions; }

bool isOneForAllMicrobatches(Input::Kind kind) { return isPosition(kind) || kind == Input::Kind::stepTokens; }

bool isShiftable(Input::Kind kind) {
  return kind == Input::Kind::tokens || kind == Input::Kind::labels || kind == Input::Kind::lossShares;
}

DType typeOf(Input::Kind kind) {
  const bool isReal = kind == Input::Kind::lossWeights || kind == Input::Kind::stepTokens ||
                      kind == Input::Kind::lossShares || kind == Input::Kind::patches;
  return isReal ? DType::f32 : DType::i32;
}

bool separatesDocuments(Input::Kind kind) {
  return kind == Input::Kind::documentStarts || kind == Input::Kind::keyDocumentStarts;
}

bool readsDocuments(Input::Kind kind) { return kind == Input::Kind::positionIds || separatesDocuments(kind); }

bool isEnd(Input::Kind kind) { return kind == Input::Kind::documentEnds || kind == Input::Kind::keyDocumentEnds; }

bool isOfEither(Input::Kind kind) {
  return kind == Input::Kind::tokens || kind == Input::Kind::documentEnds || kind == Input::Kind::imagePlaces ||
         isOfEncoderAlone(kind) || isPosition(kind);
}

bool isOfEncoderAlone(Input::Kind kind) { return kind == Input::Kind::patches; }

bool readsImages(const Plan &plan) { return plan.images.channels > 0; }

bool isTokenType(Input::Kind kind) { return kind == Input::Kind::tokenTypes; }

bool reads(const Plan &plan, bool (*isWanted)(Input::Kind)) {
  return std::ranges::any_of(plan.stages, [isWanted](const StagePlan &stage) {
    return std::ranges::any_of(stage.inputs,
                               [&](const Input &input) { return !input.ofEncoder && isWanted(input.kind); });
  });
}

bool readsDocuments(const Plan &plan) { return reads(plan, readsDocuments); }

// Whether a task of a microbatch writes the number at the offset.
static bool writesScalar(const StagePlan &stage, int64_t offset) {
  const auto isScalar = [&](const Binding &binding) { return binding.slot < 0 && binding.offset == offset; };
  const auto writes = [&](const Call &call) { return std::ranges::any_of(call.segments, isScalar); };
  return std::ranges::any_of(stage.chunks, [&](const Chunk &chunk) {
    return isPerMicrobatch(chunk.task) && std::ranges::any_of(chunk.calls, writes);
  });
}

std::vector<size_t> lossTermsOf(const Plan &plan) {
  std::vector<size_t> terms;
  for (size_t i = kFirstLossTerm; i < kResults.size(); ++i)
    if (std::ranges::any_of(plan.stages, [&](const StagePlan &stage) {
          return writesScalar(stage, stage.resultsOffset + static_cast<int64_t>(i) * sizeInBytes(DType::f32));
        }))
      terms.push_back(i);
  return terms;
}

static const Bucket &bucketOf(const Plan &plan, const Parameter &parameter) {
  const Parameter::Place &place = parameter.places.front();
  return plan.stages[place.stage].buckets[place.bucket];
}

bool isCounter(const Plan &plan, const Parameter &parameter) { return bucketOf(plan, parameter).isCounter(); }

bool isFrozen(const Plan &plan, const Parameter &parameter) { return bucketOf(plan, parameter).isFrozen(); }

int64_t Bucket::elementsOf(const State &state, int64_t ranks) const {
  return (isOfOneUnit(state.role) ? unitElements() : elements) / (state.sliced ? ranks : 1);
}

Axes Bucket::axesOfUpdate() const {
  Axes axes = shardAxes;
  axes.insert(axes.end(), outerAxes.begin(), outerAxes.end());
  return axes;
}

Axes Bucket::axesOf(const State &state) const {
  return !state.sliced ? Axes() : isOfUpdate(state.role) ? axesOfUpdate() : shardAxes;
}

const State *Bucket::stateNamed(std::string_view name) const {
  const auto found = std::ranges::find(states, name, &State::name);
  return found == states.end() ? nullptr : &*found;
}

const State *Bucket::stateOf(StateRole role) const {
  const auto found = std::ranges::find(states, role, &State::role);
  return found == states.end() ? nullptr : &*found;
}

int64_t Bucket::offsetOf(StateRole role) const {
  const State *state = stateOf(role);
  return state ? state->offset : -1;
}

const State *Bucket::completeGradient() const {
  return stateOf(!outerAxes.empty() ? StateRole::gradientOfUpdate
                 : isSharded()      ? StateRole::gradientSlice
                                    : StateRole::gradient);
}

// A layer of an evaluation may bind parameters and its frame too; but what it reads and gives is in the region of the frame as well.
bool isOfUnit(const StagePlan &stage, const Call &call) {
  const auto regionOf = [&](const Binding &binding) -> std::string_view {
    const auto found = std::ranges::find_if(stage.regions, [&](const Region &region) {
      return region.offset <= binding.offset && binding.offset < region.offset + region.bytes;
    });
    return found == stage.regions.end() ? std::string_view() : found->kind;
  };
  int64_t units = 0, frames = 0;
  for (const Binding &binding : call.segments) {
    if (binding.slot >= 0)
      return false;
    const std::string_view region = regionOf(binding);
    if (region == kTransient)
      return false;
    units += region == "units" || region == "gathered";
    frames += region == "frame";
  }
  return units > 0 && frames <= 1;
}

bool hasHostCopies(const Program &program) {
  return std::ranges::any_of(program.instructions, [](const Instruction &instruction) {
    return std::holds_alternative<HostCopy>(instruction.body);
  });
}

int64_t leastElementBytes(const Plan &plan) {
  return std::min(sizeInBytes(plan.dtype), sizeInBytes(plan.gradientType));
}

int64_t Ring::slots() const {
  int64_t end = 0;
  for (const Turn &turn : turns)
    end = std::max(end, turn.first + turn.slots);
  return end;
}

std::string Chunk::name() const {
  return isPerVirtualStage(task) ? fmt::format("{}.{}{}", nameOf(task), virtualStage, first ? ".first" : "")
                                 : std::string(nameOf(task));
}

std::string_view nameOf(KernelLevel level) { return factsOf(level).name; }

std::string describeTarget(const Plan &plan) {
  std::string text(nameOf(plan.target));
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? ':' : ',', nameOf(plan.kernels[i].level));
  return text;
}

} // namespace mgc::plan
