// See ChainCost.h.
#include "compiler/stage/ChainCost.h"

#include "compiler/stage/TaskCosts.h"
#include "compiler/step/BlockParameters.h"

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

// Bytes of an instance's parameters, about: their values, gradients, masters and two moments, or slices of them.
double stateBytes(const std::vector<BlockParameter> &parameters, const TrainingSettings &training,
                  const Sharding &sharding) {
  const auto width = [](plan::DType type) { return double(plan::sizeInBytes(type)); };
  const double states = (training.dtype == plan::DType::f32 ? 2 : 3) * width(plan::DType::f32);
  double bytes = 0;
  for (const BlockParameter &parameter : parameters) {
    const double ranks = double(plan::groupSize(sharding.mesh, shardAxesOf(parameter.key, sharding)));
    const auto share = [&](int64_t level) { return sharding.level >= level ? 1 / ranks : 1; };
    double own = width(training.dtype) * share(3);
    if (parameter.key.use != plan::BucketUse::frozen)
      own += width(training.gradientType) * share(2) + states * share(1);
    bytes += own * double(parameter.elements);
  }
  return bytes;
}

} // namespace

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
  std::map<std::string, double> states; // by block
  for (auto [i, instance] : llvm::enumerate(chain)) {
    const BlockWork &work = works.at(instance.block->name);
    if (int64_t(i) < out.begin || int64_t(i) >= out.end) {
      (int64_t(i) < out.begin ? out.costs.embed : out.costs.head) += work.flops;
      continue;
    }
    out.costs.layers.push_back(work.flops);
    out.costs.kept.push_back(work.kept);
    const auto [known, isNew] = states.try_emplace(instance.block->name);
    if (isNew)
      known->second = stateBytes(work.parameters, training, sharding);
    out.costs.states.push_back(known->second);
  }
  return out;
}

std::vector<int64_t> balancedChunks(const ChainCost &chain, int64_t instances, int64_t chunks) {
  std::vector<int64_t> sizes = schedule::balance(chain.costs, chunks);
  sizes.front() += chain.begin, sizes.back() += instances - chain.end;
  return sizes;
}

} // namespace mgc
