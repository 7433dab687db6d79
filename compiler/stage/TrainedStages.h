// An evaluation reads the values of a training where they lie: its chain is cut alike, and its buckets are the training's. `mg.trained` of
// its module says how, from before mg-stage on.
#pragma once

#include "compiler/step/Buckets.h"
#include "dialects/mg/Mg.h"

namespace mgc {

inline constexpr llvm::StringLiteral kTrainedAttr = "mg.trained";

// What mg.trained says of the training, whose module is in phase stage or a later one.
mlir::DictionaryAttr describeStages(mlir::ModuleOp trained);

// Instances of each chunk, in the order of the chain. Empty where mg.trained says none.
std::vector<int64_t> trainedChunks(mlir::DictionaryAttr trained);

// The parameters of a block of the evaluation.
struct EvaluatedBlock {
  std::string name;
  std::vector<BlockParameter> parameters;
};

// The buckets of each stage; places have the numbers of blocks here. Parameters are frozen in them, but for counters. level: --zero. An
// error where mg.trained is of another program.
Result<std::vector<StageBuckets>> trainedBuckets(mlir::DictionaryAttr trained, llvm::ArrayRef<EvaluatedBlock> blocks,
                                                 int64_t level);

} // namespace mgc
