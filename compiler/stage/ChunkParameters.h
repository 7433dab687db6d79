// The parameters of a pipeline's chunks. In: the chunks of all stages, whose blocks are in phase local or later. Out: what planBuckets
// asks, and the parts of a chunk whose gradients are completed together.
#pragma once

#include "compiler/program/Blocks.h"
#include "compiler/schedule/Schedule.h"
#include "compiler/step/Buckets.h"

namespace mgc {

using Chunks = std::vector<std::vector<Instance>>; // in the order of the chain

class ChunkParameters {
public:
  // An error where a block's parameters are not those of phase local.
  static mlir::FailureOr<ChunkParameters> of(const Chunks &chunks);

  const std::vector<std::vector<BlockParameter>> &blocks() const { return parameters_; }
  int64_t indexOf(const ModelBlock &block) const { return blockIndex_.at(&block); }
  std::map<int64_t, std::string> names() const; // by index

  // How many instances each part of a chunk has, the last instances first, each of the fewest with so many elements of gradients as
  // TrainingSettings::bucketElements; none: the chunk has no parts. Each part has gradients of its own. Where no rank has the same
  // parameters as another there are no parts, and neither where gradients of units are complete at the end alone.
  std::vector<int64_t> partsOf(const std::vector<Instance> &chunk, const TrainingSettings &training,
                               bool hasDataAxes) const;

  // parts: as partsOf; the first of them has the number `firstPart`. None: all instances are of no part.
  std::vector<InstanceRange> rangesOf(const std::vector<Instance> &chunk, const std::vector<int64_t> &parts = {},
                                      int64_t firstPart = 0) const;

  // partsOfChunks: by chunk.
  BucketProblem problemOf(const Chunks &chunks, const std::vector<std::vector<int64_t>> &partsOfChunks,
                          const schedule::Shape &shape, const Sharding &sharding,
                          const TrainingSettings &training) const;

private:
  const std::vector<BlockParameter> &of(const Instance &instance) const {
    return parameters_[blockIndex_.at(instance.block)];
  }
  int64_t elementsOf(const Instance &instance) const;
  bool hasOwnGradients(const Instance &instance) const;
  int64_t firstCompleted(const std::vector<Instance> &chunk, const TrainingSettings &training) const;

  std::map<const ModelBlock *, int64_t> blockIndex_;
  std::vector<std::vector<BlockParameter>> parameters_;
  std::map<std::pair<std::string, std::string>, int64_t> uses_; // instances, by tensor and part
};

} // namespace mgc
