// See ChunkParameters.h.
#include "compiler/stage/ChunkParameters.h"

#include "compiler/step/BlockParameters.h"
#include "dialects/mg/Parameter.h"

using namespace mlir;

namespace mgc {

namespace {

std::pair<std::string, std::string> nameOf(const BlockParameter &parameter, const Instance &instance) {
  return {nameForInstance(parameter.tensor, instance.number), parameter.part};
}

bool isFrozen(const BlockParameter &parameter) { return parameter.key.use == plan::BucketUse::frozen; }

void appendRange(std::vector<InstanceRange> &ranges, const InstanceRange &next) {
  InstanceRange *last = ranges.empty() ? nullptr : &ranges.back();
  if (last && last->block == next.block && last->part == next.part && last->first + last->count == next.first)
    last->count += next.count;
  else
    ranges.push_back(next);
}

} // namespace

FailureOr<ChunkParameters> ChunkParameters::of(const Chunks &chunks) {
  ChunkParameters out;
  for (const std::vector<Instance> &chunk : chunks)
    for (const Instance &instance : chunk) {
      const auto [it, isNew] = out.blockIndex_.try_emplace(instance.block, std::ssize(out.parameters_));
      if (!isNew)
        continue;
      auto list = mgc::parametersOf(*instance.block);
      if (failed(list))
        return failure();
      out.parameters_.push_back(std::move(*list));
    }
  for (const std::vector<Instance> &chunk : chunks)
    for (const Instance &instance : chunk)
      for (const BlockParameter &parameter : out.of(instance))
        ++out.uses_[nameOf(parameter, instance)];
  return out;
}

std::map<int64_t, std::string> ChunkParameters::names() const {
  std::map<int64_t, std::string> names;
  for (const auto &[block, index] : blockIndex_)
    names[index] = block->name;
  return names;
}

// Elements of gradients.
int64_t ChunkParameters::elementsOf(const Instance &instance) const {
  int64_t elements = 0;
  for (const BlockParameter &parameter : of(instance))
    elements += isFrozen(parameter) ? 0 : parameter.elements;
  return elements;
}

// Whether the instance has gradients that no other instance adds to: those of its part.
bool ChunkParameters::hasOwnGradients(const Instance &instance) const {
  return llvm::any_of(of(instance), [&](const BlockParameter &parameter) {
    return !isFrozen(parameter) && uses_.at(nameOf(parameter, instance)) == 1;
  });
}

// The first instance of a chunk whose part runs something in the task that completes gradients: those of a loss are complete
// before weight. No part lies wholly before it.
int64_t ChunkParameters::firstCompleted(const std::vector<Instance> &chunk, const TrainingSettings &training) const {
  return llvm::find_if(chunk,
                       [&](const Instance &instance) {
                         return hasOwnGradients(instance) &&
                                instance.block->computes(training.splitBackward ? plan::Task::weight
                                                                                : plan::Task::backward);
                       }) -
         chunk.begin();
}

std::vector<int64_t> ChunkParameters::partsOf(const std::vector<Instance> &chunk, const TrainingSettings &training,
                                              bool hasDataAxes) const {
  const int64_t least = training.bucketElements;
  std::vector<int64_t> parts;
  // Units are complete at the end alone, and so are loads of what has no backward.
  if (least <= 0 || training.zero > 1 || !hasDataAxes ||
      llvm::none_of(chunk, [&](const Instance &instance) { return hasOwnGradients(instance); }))
    return parts;
  bool isFilled = false; // the last part
  const int64_t first = firstCompleted(chunk, training);
  for (int64_t i = int64_t(chunk.size()) - 1, elements = 0; i >= 0; --i) {
    const bool hasOwn = hasOwnGradients(chunk[i]);
    if (parts.empty() || (isFilled && hasOwn && i >= first && elements >= least)) {
      parts.push_back(0);
      elements = 0;
      isFilled = false;
    }
    ++parts.back();
    elements += elementsOf(chunk[i]);
    isFilled |= hasOwn;
  }
  return parts;
}

std::vector<InstanceRange> ChunkParameters::rangesOf(const std::vector<Instance> &chunk,
                                                     const std::vector<int64_t> &parts, int64_t firstPart) const {
  std::vector<int64_t> partOf; // from the last instance on
  for (auto [i, count] : llvm::enumerate(parts))
    partOf.insert(partOf.end(), count, firstPart + int64_t(i));
  std::vector<InstanceRange> ranges;
  for (auto [i, instance] : llvm::enumerate(chunk))
    appendRange(ranges,
                {indexOf(*instance.block), instance.number, 1, parts.empty() ? -1 : partOf[chunk.size() - 1 - i]});
  return ranges;
}

BucketProblem ChunkParameters::problemOf(const Chunks &chunks, const std::vector<std::vector<int64_t>> &partsOfChunks,
                                         const schedule::Shape &shape, const Sharding &sharding,
                                         const TrainingSettings &training) const {
  BucketProblem problem;
  problem.blocks = parameters_;
  problem.sharding = sharding;
  problem.alignment =
      plan::kAlignment / std::min(plan::sizeInBytes(training.dtype), plan::sizeInBytes(training.gradientType));
  problem.stages.resize(shape.stages);
  std::vector<int64_t> parts(shape.stages, 0);
  for (size_t c = 0; c < chunks.size(); ++c) {
    const int64_t stage = shape.stageOf(int64_t(c));
    llvm::append_range(problem.stages[stage], rangesOf(chunks[c], partsOfChunks[c], parts[stage]));
    parts[stage] += std::ssize(partsOfChunks[c]);
  }
  return problem;
}

} // namespace mgc
