// An evaluation reads the values of a training where they lie: its chain is cut alike, and its buckets are the training's. `mg.trained` of
// its module says how, from before mg-stage on.
#pragma once

#include "compiler/step/Buckets.h"
#include "dialects/mg/Mg.h"

namespace mgc {

inline constexpr llvm::StringLiteral kTrainedAttr = "mg.trained";

// Makes mg.trained of the training, whose module is in phase stage or a later one.
mlir::DictionaryAttr describeStages(mlir::ModuleOp trained);

// Instances of each chunk, in the order of the chain. Empty where mg.trained says none.
std::vector<int64_t> trainedChunks(mlir::DictionaryAttr trained);

// The blocks' parameters and the instances on each stage of the evaluation.
struct EvaluatedStages {
  const std::vector<std::vector<BlockParameter>> &blocks;
  const std::vector<std::vector<InstanceRange>> &stages;
  const Sharding &sharding;
};

// The buckets of each stage, and where the evaluation's parameters lie in them: found by tensor, part and instance, as blocks of the
// training may be others. Parameters are frozen, but for counters. An error where mg.trained is of another program.
Result<std::vector<StageBuckets>> trainedBuckets(mlir::DictionaryAttr trained, const EvaluatedStages &evaluated);

} // namespace mgc
