// The costs that a cut of the chain into chunks goes by. In: the chain, and the work of its blocks in phase local. Out: the costs that
// schedule::balance takes.
#pragma once

#include "compiler/program/Blocks.h"
#include "compiler/schedule/Balance.h"
#include "compiler/step/Buckets.h"

#include <span>

namespace mgc {

// Bytes of a parameter's element that is trained: its value, its gradient, and what the optimizer keeps of it.
struct ElementBytes {
  double value = 0, gradient = 0, states = 0;
};
ElementBytes elementBytesOf(const TrainingSettings &training);

// Work and memory of an instance of a block for one microbatch.
struct BlockWork {
  double flops = 0;                       // work of all its functions: TaskCosts.h
  double kept = 0;                        // bytes that a rank keeps for backward
  std::vector<BlockParameter> parameters; // none where they cannot be read, which the caller has refused
};
using BlockWorks = std::map<std::string, BlockWork>; // by name of the block
// The blocks must be in phase local.
BlockWork workOf(const ModelBlock &block);

struct ChainCost {
  // Instances [begin, end) are shared out; those before them are in the first chunk. The head stays together with what is behind it,
  // modules that predict later tokens: they are in the last.
  int64_t begin = 0, end = 0;
  // Instances of each layer: what stands between two stacks, as a decoder's embedding, is with the layer behind it.
  std::vector<int64_t> instances;
  schedule::LayerCosts costs;
};
ChainCost costOf(const std::vector<Instance> &chain, const BlockWorks &works, const TrainingSettings &training,
                 const Sharding &sharding);

// Sums of numbers of all instances: before layers, of each layer, and behind them.
schedule::LayerCosts costsOf(const ChainCost &chain, std::span<const double> ofInstances);

// Instances of each chunk, in the order of the chain, of `all`: of chunks of so many layers, which are all layers.
std::vector<int64_t> instancesOf(const ChainCost &chain, int64_t all, const std::vector<int64_t> &layers);
// The same of so many chunks, over which layers are shared out by their work. There must be as many layers as chunks, at least.
std::vector<int64_t> balancedChunks(const ChainCost &chain, int64_t all, int64_t chunks);
// The same of the chunks that the settings say, or else balancedChunks. Error: that of parseStageSizes; there are more or fewer chunks or layers.
Result<std::vector<int64_t>> chunksOf(const ChainCost &chain, int64_t all, const TrainingSettings &training,
                                      int64_t chunks);

} // namespace mgc
