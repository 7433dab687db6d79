// The functions that run once per training step, in sharded form: mg-local makes their collectives, as those of blocks. In: a
// stage's buckets, and over which axes the totals are pending. Out: func.func begin (zeros), gradients (of each part of the stage),
// reduce (other gradients, norm, clip factor) and update (optimizer) on the stage's buffers; of buckets with units clear and accumulate
// too, which run in each microbatch. VerifyStepForm.h proves them.
//
// Arguments and results are bound to buffers by mg.buffer = {kind, index}: the name of a state (StateBuffers.h; index: bucket),
// result (of plan::kResults), step_scalar (of plan::kStepScalars; without index: all of them), factor. Those of the update of a piece are parts of the states.
#pragma once

#include "compiler/program/Blocks.h"
#include "compiler/step/OffloadPieces.h"
#include "dialects/mg/Mg.h"
#include "plan/StepTotals.h"

namespace mgc {

// Functions around a call that uses a unit: mg.unit. One without gradients of its own (hasUnitGradients) has no clear, sum and accumulate,
// one whose values are whole no gather: these are null.
struct UnitFunctions {
  mlir::func::FuncOp clear, sum, accumulate, gather;
};

struct StepFunctions {
  mlir::func::FuncOp begin, reduce, update;            // update: of buckets without pieces
  std::vector<mlir::func::FuncOp> gradients;           // by BucketKey::part
  std::map<int64_t, UnitFunctions> units;              // by bucket
  std::vector<std::vector<mlir::func::FuncOp>> pieces; // by bucket: of each of its pieces
};

// The totals that blocks add up in a step, by their numbers in plan::kResults: the axes over which it is pending,
// in mesh order; of stages typeOfTotal knows.
using TotalAxes = std::map<int64_t, plan::Axes>;

// An error where a block's types are not sharded, or blocks have a total pending over different axes.
mlir::FailureOr<TotalAxes> totalAxesOf(mlir::ModuleOp module, const Blocks &blocks);

// The type of a total that a stage's blocks add to: a part of the sum over the stages too.
mlir::RankedTensorType typeOfTotal(MeshAttr mesh, const plan::Axes &pending);

// Whether the norm has the squares of the bucket's gradient on the stage: of stages that are tied the first has the gradient.
bool countsInNorm(BucketOp bucket, int64_t stage);

// Where a result of the step lies: its number in plan::kResults.
int64_t resultIndex(plan::StepTotal total);

// The stage has its buckets; partOf: the part of the stage that each of them is completed with, -1: with none; parts: how many;
// pieces: OffloadPieces.h, by bucket.
StepFunctions buildStep(StageOp stage, llvm::ArrayRef<int64_t> partOf, int64_t parts, const TotalAxes &totals,
                        const std::vector<std::vector<UpdatePieces>> &pieces);

} // namespace mgc
