// See VerifyStepEnd.h.
#include "compiler/stage/VerifyStepEnd.h"

#include "compiler/stage/StateBuffers.h"
#include "compiler/stage/StepEnd.h"
#include "compiler/stage/StepFunction.h"
#include "runtime/base/Checked.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mgc;

namespace {

// Over what a bucket's gradient is summed: by a function, or as mg.bucket says.
struct GradientSum {
  SmallVector<StringRef> whole;   // axes along which each rank gets all of the sum
  SmallVector<int64_t> stages;    // the same, of stages
  SmallVector<StringRef> divided; // axes along which each rank gets its part, first = major

  // In any order, but for what decides which part a rank gets.
  bool isSameAs(const GradientSum &other) const {
    auto sorted = [](SmallVector<StringRef> axes) {
      llvm::sort(axes);
      return axes;
    };
    return sorted(whole) == sorted(other.whole) && stages == other.stages && divided == other.divided;
  }
  std::string text() const {
    std::string text = fmt::format("over [{}]", llvm::join(whole, ", "));
    if (!stages.empty())
      text += fmt::format(", over stages [{}]", fmt::join(stages, ", "));
    if (!divided.empty())
      text += fmt::format(", in parts over [{}]", llvm::join(divided, ", "));
    return text;
  }
};

SmallVector<StringRef> namesOf(ArrayAttr axes) { return llvm::to_vector(axes.getAsValueRange<StringAttr>()); }

GradientSum expectedOf(BucketOp bucket) {
  GradientSum sum{namesOf(bucket.getReduce()), SmallVector<int64_t>(bucket.getTied()), {}};
  llvm::append_range(bucket.getSharded() ? sum.divided : sum.whole, namesOf(bucket.getData()));
  return sum;
}

// Whether the op is a sum that may stand before those known; it is then one of them. Nothing follows a division: stages
// of a tie add whole buckets.
bool prepend(Operation *op, GradientSum &sum) {
  auto stages = op->getAttrOfType<DenseI64ArrayAttr>("stages");
  if (auto reduce = dyn_cast<AllReduceOp>(op); reduce && reduce.getReduction() == "sum") {
    llvm::append_range(sum.whole, namesOf(reduce.getAxes()));
    if (stages)
      llvm::append_range(sum.stages, stages.asArrayRef());
    return !stages || reduce.getAxes().empty();
  }
  auto scatter = dyn_cast<ReduceScatterOp>(op);
  if (!scatter || scatter.getReduction() != "sum" || scatter.getDim() != 0 || stages || !sum.whole.empty() ||
      !sum.stages.empty())
    return false;
  SmallVector<StringRef> axes = namesOf(scatter.getAxes());
  sum.divided.insert(sum.divided.begin(), axes.begin(), axes.end());
  return true;
}

class StepFunctions {
public:
  StepFunctions(StageOp stage, MeshAttr mesh) : stage_(stage), buckets_(stage.all<BucketOp>()), mesh_(mesh) {}

  LogicalResult verify(StringRef symbol, plan::Task task) {
    func::FuncOp function = lookup(symbol);
    if (taskOf(function) != task)
      return stage_.emitOpError() << "runs " << symbol << " as its " << plan::nameOf(task) << "; its " << kPassAttr
                                  << " is " << function->getAttr(kPassAttr);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (!binds(function.getArgAttr(i, kBufferAttr), function.getArgumentTypes()[i]))
        return errorIn(function) << fault("argument", i);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (!binds(function.getResultAttr(i, kBufferAttr), function.getResultTypes()[i]))
        return errorIn(function) << fault("result", i);
    return success();
  }

  // All that a step adds to, and nothing else: what it writes, training forgets.
  LogicalResult verifyBegin() {
    const StepFunction begin(stage_, stage_.getBegin());
    if (failed(verifyWrites(begin, "gradients and result 0",
                            [](const Bound &bound) { return bound.isGradient() || bound == Bound{"result", 0}; })))
      return failure();
    SmallVector<Bound> expected = {{"result", 0}};
    for (int64_t i = 0; i < int64_t(buckets_.size()); ++i)
      if (buckets_[i].hasGradients())
        expected.push_back({"gradient", i});
    for (const Bound &bound : expected) {
      auto zero = begin.resultAt(bound);
      if (failed(zero))
        return failure();
      if (!madeBy<ZeroOp>(*zero))
        return begin.error() << toString(bound) << " is " << begin.describe(*zero) << "; expected "
                             << ZeroOp::getOperationName();
      if (int64_t elements = cast<RankedTensorType>(zero->getType()).getNumElements();
          !bound.isGradient() && elements != int64_t(plan::kResults.size()))
        return begin.error() << toString(bound) << " has " << elements << " elements; expected "
                             << plan::kResults.size() << ", all results";
    }
    return success();
  }

  // One of these functions reduces the gradient of a bucket, if ranks or stages have parts of it; then the sum is its result.
  LogicalResult verifyReductions(ArrayRef<StringRef> symbols) {
    std::vector<int64_t> sums(buckets_.size());
    for (StringRef symbol : symbols) {
      const StepFunction function(stage_, symbol);
      const bool isLast = symbol == stage_.getReduce();
      if (failed(verifyWrites(function, isLast ? "gradients, results and the factor" : "gradients",
                              [&](const Bound &bound) {
                                return bound.isGradient() || (isLast && (bound.kind == "factor" || isTotal(bound)));
                              })))
        return failure();
      for (unsigned i = 0; i < function.op().getNumResults(); ++i) {
        const Bound bound = function.boundOfResult(i);
        if (!bound.isGradient())
          continue;
        if (failed(verifySum(function, i, bound.index)))
          return failure();
        ++sums[bound.index];
      }
    }
    for (auto [bucket, found] : llvm::zip(buckets_, sums)) {
      const int64_t expected = bucket.isReduced();
      if (found != expected)
        return bucket.emitOpError() << "its gradient is reduced " << found
                                    << " times by reduce and the reductions of stage " << stage_.getNumber()
                                    << "; expected " << expected;
    }
    return success();
  }

private:
  // Whether verifyTotals checks the result: without axes the loss is complete, and no total is made of it.
  bool isTotal(const Bound &bound) const {
    return bound.kind == "result" &&
           (!mesh_.getNames().empty() || bound.index == resultIndex(plan::StepTotal::gradNorm));
  }

  LogicalResult verifyWrites(const StepFunction &function, StringRef allowed,
                             llvm::function_ref<bool(const Bound &)> isAllowed) {
    for (unsigned i = 0; i < function.op().getNumResults(); ++i)
      if (const Bound bound = function.boundOfResult(i); !isAllowed(bound))
        return function.error() << "result " << i << " is bound to " << toString(bound) << "; expected no more than "
                                << allowed;
    return success();
  }

  func::FuncOp lookup(StringRef symbol) {
    return stage_->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(symbol);
  }

  // The result is the bucket's gradient, summed as mg.bucket says.
  LogicalResult verifySum(const StepFunction &function, unsigned result, int64_t index) {
    auto error = [&] {
      return errorIn(function.op()) << "result " << result << ", the gradient of bucket " << index << " of stage "
                                    << int64_t(stage_.getNumber());
    };
    GradientSum found, expected = expectedOf(buckets_[index]);
    Value value = function.result(result);
    for (Operation *op = value.getDefiningOp(); op; op = value.getDefiningOp()) {
      if (!prepend(op, found))
        return error() << ", is made by " << *op << "; expected sums by " << AllReduceOp::getOperationName()
                       << " over axes or stages, then by " << ReduceScatterOp::getOperationName()
                       << " along dimension 0: " << expected.text();
      value = op->getOperand(0);
    }
    if (function.boundOf(value) != Bound{"gradient", index})
      return error() << ", is made of " << function.describe(value) << "; expected the same bucket's gradient";
    if (!found.isSameAs(expected))
      return error() << ", is summed " << found.text() << "; expected " << expected.text() << ", as its mg.bucket says";
    return success();
  }

  std::string fault(const char *what, unsigned i) {
    return fmt::format("{} {} names no buffer of stage {} in {}, or one of another size or type", what, i,
                       int64_t(stage_.getNumber()), kBufferAttr.str());
  }

  bool binds(Attribute attr, Type type) {
    auto bound = dyn_cast_or_null<DictionaryAttr>(attr);
    auto kind = bound ? bound.getAs<StringAttr>("kind") : StringAttr();
    auto index = bound ? bound.getAs<IntegerAttr>("index") : IntegerAttr();
    int64_t elements = cast<RankedTensorType>(type).getNumElements(), first = index ? index.getInt() : 0;
    if (!kind || first < 0 || (kind == "result" && !index))
      return false;
    if (kind == "factor")
      return elements == 1 && elementOf(type).isF32();
    if (kind == "step_scalar" || kind == "result")
      return elementOf(type).isF32() &&
             fitsInside(first, elements, kind == "result" ? plan::kResults.size() : plan::kStepScalars.size());
    if (!index || first >= int64_t(buckets_.size()))
      return false;
    const auto isBound = [&](const StateBuffer &row) {
      return row.name == kind.getValue() && row.isIn(buckets_[first]) &&
             elements == row.elementsOf(buckets_[first], mesh_) && elementOf(type) == row.elementOf(buckets_[first]);
    };
    return llvm::any_of(stateBuffers(), isBound);
  }

  StageOp stage_;
  SmallVector<BucketOp> buckets_;
  MeshAttr mesh_;
};

bool areNames(ArrayAttr axes) { return llvm::all_of(axes, llvm::IsaPred<StringAttr>); }

} // namespace

LogicalResult mgc::verifyStepEnd(StageOp stage, MeshAttr mesh) {
  for (BucketOp bucket : stage.all<BucketOp>())
    if (!areNames(bucket.getSplit()) || !areNames(bucket.getReduce()) || !areNames(bucket.getData()))
      return bucket.emitOpError("split, reduce and data are lists of axes' names");
  StepFunctions functions(stage, mesh);
  SmallVector<StringRef> reducing = {stage.getReduce()};
  for (ReductionOp reduction : stage.all<ReductionOp>()) {
    if (failed(functions.verify(reduction.getFunction(), plan::Task::gradients)))
      return failure();
    reducing.push_back(reduction.getFunction());
  }
  return success(succeeded(functions.verify(stage.getBegin(), plan::Task::begin)) &&
                 succeeded(functions.verifyBegin()) &&
                 succeeded(functions.verify(stage.getReduce(), plan::Task::reduce)) &&
                 succeeded(functions.verifyReductions(reducing)) &&
                 succeeded(functions.verify(stage.getUpdate(), plan::Task::update)));
}
