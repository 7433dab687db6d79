// The optimizer's update of each bucket: it updates the rank's part of the masters, or of the values where there are no
// masters, by the rank's part of the gradient, and all ranks get the new values.
//
//   [slice over data of] value, or master      adamw, by the factor    -> first_moment, second_moment, [master]
//   gradient_shard, or gradient                                        -> [cast] [all_gather over data] value
//
// Biases that load moves have balance_bias in the place of adamw, and neither moments nor masters. Counters and frozen
// parameters have no update.
//
// Over another axis ranks would update or get each other's part.
#include "compiler/stage/StateBuffers.h"
#include "compiler/stage/StepFunction.h"
#include "compiler/stage/VerifyStepEnd.h"

using namespace mlir;
using namespace mgc;

namespace {

class BucketUpdate {
public:
  BucketUpdate(const StepFunction &update, BucketOp bucket, int64_t index)
      : update_(update), bucket_(bucket), index_(index), hasMasters_(precisionOf(bucket).hasMasters()) {}

  size_t results() {
    if (isLeftAlone())
      return 0;
    return bucket_.hasLoad() ? 1 : hasMasters_ ? 4 : 3;
  }

  LogicalResult verify() {
    if (isLeftAlone())
      return success();
    auto value = update_.resultAt({"value", index_});
    if (failed(value) || failed(takeGather(*value)))
      return failure();
    if (bucket_.hasLoad())
      return verifyBalance(*value);
    auto cast = madeBy<CastOp>(*value);
    Value updated = hasMasters_ && cast ? cast.getValue() : *value;
    auto adamw = madeBy<AdamWOp>(updated);
    if (!adamw || sourceOf(updated) != adamw.getNewValue() || hasMasters_ != bool(cast))
      return error() << "its new value is " << update_.describe(updated) << "; expected that of "
                     << AdamWOp::getOperationName() << (hasMasters_ ? ", by " : "")
                     << (hasMasters_ ? CastOp::getOperationName() : "");
    return success(succeeded(verifyResults(adamw)) && succeeded(verifyOperands(adamw)));
  }

private:
  bool isLeftAlone() { return bucket_.getCounts() || bucket_.getFrozen(); }
  InFlightDiagnostic error() { return update_.error() << "bucket " << index_ << ": "; }

  // Whether a move or collective goes between the rank's part and the whole, as mg.bucket says.
  template <typename Op> LogicalResult verifyAxes(Op op) {
    if (op.getDim() == 0 && op.getAxes() == bucket_.getData())
      return success();
    return error() << Op::getOperationName()
                   << fmt::format(" is over [{}] along dimension {}; expected [{}], the data axes, along dimension 0",
                                  fmt::join(axesOf(op.getAxes()), ", "), int64_t(op.getDim()),
                                  fmt::join(axesOf(bucket_.getData()), ", "));
  }
  LogicalResult takeGather(Value &value) {
    if (!bucket_.getSharded())
      return success();
    auto gather = madeBy<AllGatherOp>(value);
    if (!gather)
      return error() << "its value is " << update_.describe(value) << "; expected " << AllGatherOp::getOperationName()
                     << " of the ranks' parts";
    value = gather.getValue();
    return verifyAxes(gather);
  }

  LogicalResult verifyResults(AdamWOp adamw) {
    SmallVector<std::pair<StringRef, Value>, 3> rows = {{"first_moment", adamw.getNewFirstMoment()},
                                                        {"second_moment", adamw.getNewSecondMoment()}};
    if (hasMasters_)
      rows.emplace_back("master", adamw.getNewValue());
    for (auto [kind, made] : rows) {
      auto result = update_.resultAt({kind, index_});
      if (failed(result))
        return failure();
      if (sourceOf(*result) != made)
        return error() << "its new " << kind << " is " << update_.describe(*result)
                       << ", not that of the update of its value";
    }
    return success();
  }

  LogicalResult verifyBalance(Value updated) {
    auto balance = madeBy<BalanceBiasOp>(updated);
    if (!balance)
      return error() << "its new value is " << update_.describe(updated) << "; expected that of "
                     << BalanceBiasOp::getOperationName() << ", as it has a mean load";
    if (balance.getMean() != bucket_.getMeanLoad())
      return error() << "its update has mean = " << balance.getMean().convertToDouble()
                     << "; its mg.bucket says otherwise";
    return verifyBound(balance.getValue(), {{balance.getLoad(), {completeGradient(bucket_.getSharded()), index_}},
                                            {balance.getScalars(), {"step_scalar"}}});
  }

  LogicalResult verifyOperands(AdamWOp adamw) {
    if (failed(verifyBound(adamw.getValue(), {{adamw.getGradient(), {completeGradient(bucket_.getSharded()), index_}},
                                              {adamw.getFirstMoment(), {"first_moment", index_}},
                                              {adamw.getSecondMoment(), {"second_moment", index_}},
                                              {adamw.getFactor(), {"factor"}},
                                              {adamw.getScalars(), {"step_scalar"}}})))
      return failure();
    if (adamw.getDecay() != bucket_.getDecay())
      return error() << "its update has decay = " << adamw.getDecay() << "; its mg.bucket says otherwise";
    return success();
  }

  // The update takes the rank's part `old` of the values or masters, and each of `others` as it is bound.
  LogicalResult verifyBound(Value old, ArrayRef<std::pair<Value, Bound>> others) {
    if (auto slice = madeBy<SliceOp>(old); slice && bucket_.getSharded() && !hasMasters_) {
      if (failed(verifyAxes(slice)))
        return failure();
      old = slice.getValue();
    }
    SmallVector<std::pair<Value, Bound>> rows = {{old, {hasMasters_ ? "master" : "value", index_}}};
    llvm::append_range(rows, others);
    for (const auto &[operand, expected] : rows)
      if (update_.boundOf(operand) != expected)
        return error() << "its update takes what is " << update_.describe(operand) << "; expected "
                       << toString(expected);
    return success();
  }

  const StepFunction &update_;
  BucketOp bucket_;
  const int64_t index_;
  const bool hasMasters_;
};

} // namespace

LogicalResult mgc::verifyUpdate(StageOp stage) {
  const StepFunction update(stage, stage.getUpdate());
  SmallVector<BucketOp> buckets = stage.all<BucketOp>();
  size_t expected = 0;
  for (auto [i, op] : llvm::enumerate(buckets)) {
    BucketUpdate bucket(update, op, int64_t(i));
    if (failed(bucket.verify()))
      return failure();
    expected += bucket.results();
  }
  if (const size_t found = func::FuncOp(update.op()).getNumResults(); found != expected)
    return update.error() << "gives " << found << " results; expected " << expected << " of " << buckets.size()
                          << " buckets";
  return success();
}
