// See LayerPolicies.h.
#include "compiler/assemble/LayerPolicies.h"

#include <algorithm>

namespace mgc {

namespace {

// Whether the forward of both may run twice, and nothing is kept of `full` but what enters it.
bool fitsIntoUnit(const ModelBlock &full, const ModelBlock &standard) {
  const auto isSaved = [](const BlockFunction::Result &result) {
    return result.kind == BlockFunction::ResultKind::saved;
  };
  const auto isTotal = [](const BlockFunction::Result &result) { return result.total().has_value(); };
  return full.computes(plan::Task::backward) && standard.computes(plan::Task::backward) &&
         llvm::any_of(full.forward.results, isSaved) &&
         llvm::all_of(
             full.forward.results,
             [&](const BlockFunction::Result &result) { return !isSaved(result) || result.activation >= 0; }) &&
         llvm::none_of(standard.forward.results, isTotal);
}

// The instances first .. end - 1 become a unit, whose blocks are full.
void joinUnit(std::vector<Instance> &chunk, const std::vector<Instance> &standard, size_t first, size_t end) {
  for (size_t i = first; i < end; ++i) {
    chunk[i].continuesUnit = i > first;
    if (i + 1 < end)
      chunk[i].recomputed = standard[i].block;
  }
}

std::vector<Instance> withUnits(std::vector<Instance> chunk, const Blocks &blocks, int64_t layersOfUnit) {
  const std::vector<Instance> standard = chunk;
  size_t first = 0; // instance of the unit that grows
  int64_t layers = 0;
  for (size_t i = 0; i < chunk.size(); ++i) {
    const std::string &stack = standard[i].block->stack;
    const ModelBlock *full = stack.empty() ? nullptr : blocks.variantOf(*standard[i].block, "full");
    if (full)
      chunk[i].block = full;
    const bool fits = full && fitsIntoUnit(*full, *standard[i].block);
    if (layers > 0 && (!fits || stack != standard[first].block->stack || layers == layersOfUnit)) {
      joinUnit(chunk, standard, first, i);
      layers = 0;
    }
    if (fits && layers++ == 0)
      first = i;
  }
  if (layers > 0)
    joinUnit(chunk, standard, first, chunk.size());
  return chunk;
}

void offload(std::vector<Instance> &chunk, double fraction) {
  std::vector<Instance *> layers;
  for (Instance &instance : chunk)
    if (std::ranges::any_of(instance.block->forward.results, &BlockFunction::Result::offloaded))
      layers.push_back(&instance);
  if (layers.empty())
    return;
  layers.pop_back();
  const auto stay = size_t(double(layers.size()) * (1 - fraction));
  for (size_t i = 0; i + stay < layers.size(); ++i)
    layers[i]->isOffloaded = true;
}

std::vector<Instance> withPolicies(std::vector<Instance> chunk, const Blocks &blocks,
                                   const TrainingSettings &training) {
  if (training.recompute == RecomputeGranularity::full && training.recomputeMethod == RecomputeMethod::uniform)
    return withUnits(std::move(chunk), blocks, training.recomputeLayers);
  std::map<std::string, int64_t> seen; // layers, by stack
  for (Instance &instance : chunk)
    if (const std::string &stack = instance.block->stack; !stack.empty() && seen[stack]++ < training.recomputeLayers)
      if (const ModelBlock *full = blocks.variantOf(*instance.block, "full"))
        instance.block = full;
  return chunk;
}

} // namespace

std::vector<Instance> withVariants(std::vector<Instance> chunk, const Blocks &blocks,
                                   const TrainingSettings &training) {
  chunk = withPolicies(std::move(chunk), blocks, training);
  if (training.activationOffload > 0)
    offload(chunk, training.activationOffload);
  return chunk;
}

} // namespace mgc
