// The functions that run once per training step. In: a stage's buckets, and over which axes the totals are
// pending. Out: func.func begin (zeros), gradients (of each part of the stage), reduce (other gradients, norm, clip
// factor) and update (optimizer) on the stage's buffers.
//
// Arguments and results are bound to buffers by mg.buffer = {kind, index}: value, gradient, gradient_shard, master,
// first_moment, second_moment (StateBuffers.h; index: bucket), result (of plan::kResults), step_scalar (of
// plan::kStepScalars; without index: all of them), factor.
#pragma once

#include "compiler/program/Blocks.h"
#include "compiler/stage/Buckets.h"
#include "dialects/mg/Mg.h"
#include "plan/StepNumbers.h"

namespace mgc {

struct StepEnd {
  mlir::func::FuncOp begin, reduce, update;
  std::vector<mlir::func::FuncOp> gradients; // by BucketKey::part
};

// The totals that blocks add up in a step, by their numbers in plan::kResults: the axes over which it is pending, pp excluded,
// in mesh order.
using TotalAxes = std::map<int64_t, plan::Axes>;

// An error where a block's types are not sharded, or blocks have a total pending over different axes.
mlir::FailureOr<TotalAxes> totalAxesOf(mlir::ModuleOp module, const Blocks &blocks);

// Where a result of the step lies: its number in plan::kResults.
int64_t resultIndex(plan::StepTotal total);

// parts: of the stage.
StepEnd buildStepEnd(mlir::ModuleOp module, int64_t stage, int64_t parts, const StageBuckets &buckets,
                     const TotalAxes &totals);

} // namespace mgc
