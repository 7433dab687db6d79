// Totals that the step's end adds up over all ranks: what blocks add up (loss, tokens, terms of the loss), and the squares
// of the gradients, of which the norm is made. A rank's part counts on one rank of those that have the same part:
//
//   demote over the others: a total, as it was pending         all_reduce over every axis -> results, clip_factor
//   sum_squares of each bucket's reduced gradient, demoted   /
//
// An axis too many drops parts, one too few counts them twice: a norm that clips wrongly, and still trains.
#include "compiler/stage/StateBuffers.h"
#include "compiler/stage/StepEnd.h"
#include "compiler/stage/StepFunction.h"
#include "compiler/stage/VerifyStepEnd.h"

using namespace mlir;
using namespace mgc;

namespace {

// The ranks on which a value counts: those with coordinate 0 along the axes. `value` becomes the demoted operand.
plan::Axes takeDemotions(Value &value) {
  plan::Axes axes;
  for (auto demote = madeBy<DemoteOp>(value); demote; demote = madeBy<DemoteOp>(value)) {
    llvm::append_range(axes, axesOf(demote.getAxes()));
    value = demote.getValue();
  }
  return sorted(axes);
}

class Totals {
public:
  Totals(StageOp stage, MeshAttr mesh)
      : reduce_(stage, stage.getReduce()), mesh_(mesh), stage_(stage), buckets_(stage.all<BucketOp>()) {
    for (StringAttr axis : mesh.getNames())
      axes_.push_back(axis.str());
  }

  LogicalResult verify(const TotalAxes &totals) {
    auto norm = reduce_.resultAt({"result", resultIndex(plan::StepTotal::gradNorm)}),
         factor = reduce_.resultAt({"factor"});
    if (failed(norm) || failed(factor))
      return failure();
    auto clip = madeBy<ClipFactorOp>(*norm);
    if (!clip || sourceOf(*norm) != clip.getNorm() || sourceOf(*factor) != clip.getFactor())
      return reduce_.error() << "the norm is " << reduce_.describe(*norm) << ", the factor "
                             << reduce_.describe(*factor) << "; expected the results of one "
                             << ClipFactorOp::getOperationName();
    const Bound bound{"step_scalar", int64_t(indexOf(plan::StepScalar::clip))};
    if (reduce_.boundOf(clip.getClip()) != bound)
      return reduce_.error() << "clips at what is " << reduce_.describe(clip.getClip()) << "; expected "
                             << toString(bound);
    for (const auto &[number, pending] : totals) {
      const Value used = number == resultIndex(plan::StepTotal::tokens) ? clip.getTokens() : Value();
      if (failed(verifyTotal(number, used, pending)))
        return failure();
    }
    return success(succeeded(verifyResults(totals)) && succeeded(verifySquares(clip.getSumSquares())));
  }

private:
  // The part that each rank adds to the total. Without axes a rank's part is the total.
  FailureOr<Value> partOf(Value total, StringRef what) {
    if (axes_.empty())
      return total;
    auto unpack = madeBy<UnpackOp>(total);
    auto reduce = unpack ? madeBy<AllReduceOp>(unpack.getValue()) : AllReduceOp();
    auto pack = reduce ? madeBy<PackOp>(reduce.getValue()) : PackOp();
    if (pack && !reduce->hasAttr("stages") && reduce.getReduction() == "sum" &&
        sorted(axesOf(reduce.getAxes())) == sorted(axes_))
      return pack.getOperand(cast<OpResult>(sourceOf(total)).getResultNumber());
    return reduce_.error() << what << " is " << reduce_.describe(total) << "; expected a part of a sum of "
                           << PackOp::getOperationName() << " over all axes, "
                           << fmt::format("[{}]", fmt::join(axes_, ", "));
  }

  // The ranks that count are one of those that differ along the axes not listed. Stages have parameters of their own.
  LogicalResult verifyDemotions(const plan::Axes &found, plan::Axes listed, const Twine &what, StringRef why) {
    plan::Axes expected;
    for (const plan::Axis &axis : mesh_.getMesh().axes)
      if (axis.role != plan::AxisRole::stage && !llvm::is_contained(listed, axis.name))
        expected.push_back(axis.name);
    if (found == sorted(expected))
      return success();
    return reduce_.error() << what
                           << fmt::format(" count where the coordinates along [{}] are 0; expected "
                                          "[{}], all axes but those of stages {}",
                                          fmt::join(found, ", "), fmt::join(expected, ", "), why.str());
  }

  // A result that no block adds to is none of the totals.
  LogicalResult verifyResults(const TotalAxes &totals) {
    for (unsigned i = 0; i < func::FuncOp(reduce_.op()).getNumResults(); ++i)
      if (const Bound bound = reduce_.boundOfResult(i); bound.kind == "result" &&
                                                        bound.index != resultIndex(plan::StepTotal::gradNorm) &&
                                                        !totals.contains(bound.index))
        return reduce_.error() << "result " << i << " is bound to " << toString(bound) << ", which no block adds to";
    return success();
  }

  // `used`: what the norm is made of, too; null: nothing is.
  LogicalResult verifyTotal(int64_t number, Value used, const plan::Axes &pending) {
    const Bound bound{"result", number};
    const std::string_view name = plan::kResults[number];
    if (!axes_.empty()) {
      auto result = reduce_.resultAt(bound);
      if (failed(result))
        return failure();
      if (used && sourceOf(used) != sourceOf(*result))
        return reduce_.error() << "the norm is one of " << name << " that are " << reduce_.describe(used)
                               << ", not those of the result";
      used = *result;
    }
    if (!used)
      return success();
    auto part = partOf(used, name);
    if (failed(part))
      return failure();
    const plan::Axes demoted = takeDemotions(*part);
    if (reduce_.boundOf(*part) != bound)
      return reduce_.error() << name << " is a sum of what is " << reduce_.describe(*part) << "; expected "
                             << toString(bound);
    return verifyDemotions(demoted, pending, name, "over which it is not pending");
  }

  LogicalResult verifySquares(Value total) {
    auto parts = partOf(total, "the sum of squares");
    if (failed(parts))
      return failure();
    auto sum = madeBy<AccumulateOp>(*parts);
    if (!sum && !madeBy<ZeroOp>(*parts))
      return reduce_.error() << "the sum of squares is of what is " << reduce_.describe(*parts) << "; expected "
                             << AccumulateOp::getOperationName() << " of those of the buckets";
    if (sum && llvm::is_contained(sum.getSigns(), -1))
      return reduce_.error() << "squares are subtracted from the sum of squares";
    std::vector<int64_t> counts(buckets_.size());
    for (Value part : sum ? sum.getValues() : ValueRange())
      if (failed(verifyBucket(part, counts)))
        return failure();
    return verifyCounts(counts);
  }

  LogicalResult verifyBucket(Value part, std::vector<int64_t> &counts) {
    const plan::Axes demoted = takeDemotions(part);
    auto sum = madeBy<SumOp>(part);
    auto squares = madeBy<SumSquaresOp>(sum ? sum.getValue() : part);
    if (!squares)
      return reduce_.error() << "the sum of squares has a part that is " << reduce_.describe(part) << "; expected "
                             << SumSquaresOp::getOperationName() << " of a gradient";
    const int64_t index = bucketOf(squares.getValue());
    if (index < 0)
      return reduce_.error() << "the squares are of what is " << reduce_.describe(squares.getValue())
                             << "; expected a bucket's gradient, after its reduction";
    ++counts[index];
    BucketOp bucket = buckets_[index];
    plan::Axes divided = axesOf(bucket.getSplit());
    if (bucket.getSharded())
      llvm::append_range(divided, axesOf(bucket.getData()));
    return verifyDemotions(demoted, divided, "the squares of bucket " + Twine(index),
                           "along which ranks have no parts of their own");
  }

  // The bucket whose complete gradient, or the rank's part of it, this value is, reduced here or before; -1: none.
  int64_t bucketOf(Value gradient) {
    SmallVector<int64_t> reduced;
    for (unsigned i = 0; i < func::FuncOp(reduce_.op()).getNumResults(); ++i)
      if (Bound bound = reduce_.boundOfResult(i); bound.isGradient()) {
        if (sourceOf(reduce_.result(i)) == sourceOf(gradient))
          return bound.index;
        reduced.push_back(bound.index);
      }
    Bound bound = reduce_.boundOf(gradient);
    const bool isComplete = bound.isGradient() && !llvm::is_contained(reduced, bound.index) &&
                            bound.kind == completeGradient(BucketOp(buckets_[bound.index]).getSharded());
    return isComplete ? bound.index : -1;
  }

  // A tied gradient is the same on all its stages, and counts on the first. Loads are no gradients, and do not count; frozen
  // parameters have none.
  LogicalResult verifyCounts(ArrayRef<int64_t> counts) {
    for (auto [i, found] : llvm::enumerate(counts)) {
      ArrayRef<int64_t> tied = buckets_[i].getTied();
      const int64_t expected = BucketOp(buckets_[i]).hasGradients() && !BucketOp(buckets_[i]).hasLoad() &&
                               (tied.empty() || tied.front() == int64_t(stage_.getNumber()));
      if (found != expected)
        return reduce_.error() << "the norm has the squares of bucket " << i << " " << found << " times; expected "
                               << expected << (tied.empty() ? "" : ", those of a tied one on the first of its stages");
    }
    return success();
  }

  StepFunction reduce_;
  MeshAttr mesh_;
  StageOp stage_;
  SmallVector<BucketOp> buckets_;
  plan::Axes axes_;
};

} // namespace

LogicalResult mgc::verifyTotals(StageOp stage, MeshAttr mesh, const TotalAxes &totals) {
  return Totals(stage, mesh).verify(totals);
}
