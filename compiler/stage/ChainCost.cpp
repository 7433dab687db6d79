// See ChainCost.h.
#include "compiler/stage/ChainCost.h"

#include "compiler/stage/TaskCosts.h"
#include "compiler/step/BlockParameters.h"
#include "compiler/step/UpdateRules.h"
#include "dialects/mg/training/StageSizes.h"

#include <numeric>

using namespace mlir;

namespace mgc {

namespace {

double keptBytes(const ModelBlock &block) {
  double bytes = 0;
  for (auto [i, result] : llvm::enumerate(block.forward.results))
    if (result.kind == BlockFunction::ResultKind::saved && result.activation < 0)
      bytes += double(bytesOf(block.forward.resultType(i)));
  return bytes;
}

// Bytes of an instance's parameters, about: all of their elements, or slices of them.
double stateBytes(const std::vector<BlockParameter> &parameters, const TrainingSettings &training,
                  const Sharding &sharding) {
  const ElementBytes widths = elementBytesOf(training);
  double bytes = 0;
  for (const BlockParameter &parameter : parameters) {
    const double ranks = double(plan::groupSize(sharding.mesh, shardAxesOf(parameter.key, sharding)));
    const auto share = [&](int64_t level) { return sharding.level >= level ? 1 / ranks : 1; };
    double own = widths.value * share(3);
    if (parameter.key.use != plan::BucketUse::frozen)
      own += widths.gradient * share(2) + widths.states * share(1);
    bytes += own * double(parameter.elements);
  }
  return bytes;
}

} // namespace

// Values that are not f32 have masters.
ElementBytes elementBytesOf(const TrainingSettings &training) {
  const auto width = [](plan::DType type) { return double(plan::sizeInBytes(type)); };
  const size_t states = ruleOf(plan::BucketUse::trained, training.optimizer).states.size();
  return {width(training.dtype), width(training.gradientType),
          double(states + (training.dtype != plan::DType::f32)) * width(plan::DType::f32)};
}

BlockWork workOf(const ModelBlock &block) {
  BlockWork work{0, keptBytes(block), {}};
  for (const BlockFunction *function : block.functions())
    work.flops += flopsOf(function->function);
  if (auto parameters = parametersOf(block); succeeded(parameters))
    work.parameters = std::move(*parameters);
  return work;
}

ChainCost costOf(const std::vector<Instance> &chain, const BlockWorks &works, const TrainingSettings &training,
                 const Sharding &sharding) {
  const auto isHead = [](const Instance &instance) { return instance.block->returnsLoss(); };
  ChainCost out;
  out.end = llvm::find_if(chain, isHead) - chain.begin();
  while (out.begin < out.end && !chain[out.begin].block->isLayer())
    ++out.begin;
  const auto hasStack = [](const Instance &instance) { return !instance.block->stack.empty(); };
  const bool hasStacks = llvm::any_of(chain, hasStack); // modules that say none have a layer in each instance
  for (int64_t i = out.begin; i < out.end; ++i) {
    if (i == out.begin || !hasStacks || hasStack(chain[i - 1]))
      out.instances.push_back(0);
    ++out.instances.back();
  }
  std::vector<double> flops, kept, states;
  std::map<std::string, double> stateBytesOf; // by block
  for (const Instance &instance : chain) {
    const BlockWork &work = works.at(instance.block->name);
    const auto [known, isNew] = stateBytesOf.try_emplace(instance.block->name);
    if (isNew)
      known->second = stateBytes(work.parameters, training, sharding);
    flops.push_back(work.flops), kept.push_back(work.kept), states.push_back(known->second);
  }
  out.costs = costsOf(out, flops);
  out.costs.kept = costsOf(out, kept).layers, out.costs.states = costsOf(out, states).layers;
  return out;
}

schedule::LayerCosts costsOf(const ChainCost &chain, std::span<const double> ofInstances) {
  const auto sum = [&](int64_t begin, int64_t end) {
    return std::accumulate(ofInstances.begin() + begin, ofInstances.begin() + end, 0.0);
  };
  schedule::LayerCosts costs{sum(0, chain.begin), {}, sum(chain.end, std::ssize(ofInstances))};
  int64_t next = chain.begin;
  for (const int64_t instances : chain.instances) {
    costs.layers.push_back(sum(next, next + instances));
    next += instances;
  }
  return costs;
}

std::vector<int64_t> instancesOf(const ChainCost &chain, int64_t all, const std::vector<int64_t> &layers) {
  std::vector<int64_t> sizes;
  auto next = chain.instances.begin();
  for (const int64_t count : layers) {
    sizes.push_back(std::accumulate(next, next + count, int64_t(0)));
    next += count;
  }
  sizes.front() += chain.begin, sizes.back() += all - chain.end;
  return sizes;
}

std::vector<int64_t> balancedChunks(const ChainCost &chain, int64_t all, int64_t chunks) {
  return instancesOf(chain, all, schedule::balance(chain.costs, chunks));
}

Result<std::vector<int64_t>> chunksOf(const ChainCost &chain, int64_t all, const TrainingSettings &training,
                                      int64_t chunks) {
  if (training.stages.empty())
    return balancedChunks(chain, all, chunks);
  MGC_ASSIGN(layers, parseStageSizes(training.stages));
  const auto expected = std::ssize(chain.instances);
  if (std::ssize(layers) != chunks || std::accumulate(layers.begin(), layers.end(), int64_t(0)) != expected)
    return errorf("'{}'; expected {} layers in {} chunks", training.stages, expected, chunks);
  return instancesOf(chain, all, layers);
}

} // namespace mgc
