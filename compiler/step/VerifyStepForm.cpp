// See VerifyStepForm.h.
#include "compiler/step/VerifyStepForm.h"

#include "compiler/step/StateBuffers.h"
#include "compiler/step/StepFunction.h"
#include "compiler/step/UpdateRules.h"
#include "compiler/step/VerifyStepBuckets.h"
#include "plan/StepScalars.h"

using namespace mlir;

namespace mgc {

namespace {

class StepVerifier {
public:
  StepVerifier(StageOp stage, MeshAttr mesh, const TotalAxes &totals)
      : stage_(stage), mesh_(mesh), totals_(totals), buckets_(stage.all<BucketOp>()), completed_(buckets_.size()) {}

  LogicalResult verify() {
    if (failed(verifyFunction(stage_.getBegin(), plan::Task::begin)))
      return failure();
    for (ReductionOp reduction : stage_.all<ReductionOp>())
      if (failed(verifyFunction(reduction.getFunction(), plan::Task::gradients)))
        return failure();
    if (failed(verifyUnits()))
      return failure();
    return success(succeeded(verifyFunction(stage_.getReduce(), plan::Task::reduce)) && succeeded(verifyCompleted()) &&
                   succeeded(verifyPieces()) && succeeded(verifyFunction(stage_.getUpdate(), plan::Task::update)));
  }

private:
  LogicalResult verifyTask(StringRef symbol, plan::Task task) {
    auto op = stage_->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(symbol);
    if (!op)
      return stage_.emitOpError() << "runs " << symbol << ", which is no function (step_c2)";
    if (taskOf(op) != task)
      return stage_.emitOpError() << "runs " << symbol << " as its " << plan::nameOf(task) << "; its " << kPassAttr
                                  << " is " << op->getAttr(kPassAttr) << " (step_c2)";
    const auto phase = op->getParentOfType<ModuleOp>()->getAttrOfType<StringAttr>(kPhaseAttr);
    if (phase && phase == "stage" && isLocal(op))
      return errorIn(op) << "has " << kTypeAttr << " on its arguments and results, as mg-local writes it; expected a "
                         << "function in sharded form in the phase stage (step_c2)";
    return success();
  }

  LogicalResult verifyFunction(StringRef symbol, plan::Task task) {
    if (failed(verifyTask(symbol, task)))
      return failure();
    StepFunction function(stage_, stage_->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(symbol));
    if (failed(verifyBindings(function, task)))
      return failure();
    switch (task) {
    case plan::Task::begin:
      return verifyBegin(function);
    case plan::Task::gradients:
      return verifyReductions(function);
    case plan::Task::reduce:
      return success(succeeded(verifyReductions(function)) && succeeded(verifyNorm(function)));
    default:
      return verifyUpdates(function);
    }
  }

  // --- step_c2

  LogicalResult verifyBindings(StepFunction &function, plan::Task task) {
    for (auto [i, bound] : llvm::enumerate(function.arguments))
      if (failed(verifyType(function, StepFunction::kArgument, i, typesOf(bound, function, task, true))))
        return failure();
    for (auto [i, bound] : llvm::enumerate(function.results)) {
      if (failed(verifyType(function, StepFunction::kResult, i, typesOf(bound, function, task, false))))
        return failure();
      if (llvm::count(function.results, bound) > 1)
        return function.error() << "two results are bound to " << bound.text() << " (step_c2)";
    }
    return success();
  }
  static LogicalResult verifyType(StepFunction &function, const char *what, unsigned i, RankedTensorType expected) {
    const Bound bound = (what == StepFunction::kArgument ? function.arguments : function.results)[i];
    const RankedTensorType found = function.typeOf(what, i);
    if (expected && found == expected)
      return success();
    auto error = function.error() << what << " " << i << " of type " << found << " is bound to " << bound.text();
    if (!expected)
      return error << ", which is no buffer that it may have here (step_c2)";
    return error << "; expected " << expected << " (step_c2)";
  }

  RankedTensorType f32(ArrayRef<int64_t> shape, ArrayRef<StringRef> names) {
    MLIRContext *context = stage_.getContext();
    return RankedTensorType::get(shape, Float32Type::get(context), LayoutAttr::get(context, names));
  }

  // The type of the buffer; null: there is none, or a function of the task has nothing to do with it.
  RankedTensorType typesOf(const Bound &bound, StepFunction &function, plan::Task task, bool isArgument) {
    const auto size = [](const auto &names) { return int64_t(names.size()); };
    const bool isReduce = task == plan::Task::reduce;
    if (bound.kind == "factor" && bound.index < 0)
      return (isArgument ? task == plan::Task::update : isReduce) ? f32({}, {}) : RankedTensorType();
    if (bound.kind == "step_scalar" && isArgument)
      return bound.index == -1                                            ? f32({size(plan::kStepScalars)}, {"scalar"})
             : bound.index >= 0 && bound.index < size(plan::kStepScalars) ? f32({}, {})
                                                                          : RankedTensorType();
    if (bound.kind == "result")
      return typeOfResult(bound.index, task, isArgument);
    const bool isBucket = bound.index >= 0 && bound.index < size(buckets_);
    const auto state = isBucket ? stateNamed(buckets_[bound.index], bound.kind) : std::optional<StateBuffer>();
    if (!state)
      return {};
    const bool isUpdate = task == plan::Task::update;
    if (plan::isGradient(state->role))
      return typeOfGradient(bound, function, task, isArgument);
    return isUpdate ? BucketTypes(buckets_[bound.index], mesh_).of(*state) : RankedTensorType();
  }

  // Pending in begin and where it is completed; elsewhere the rank's part of the complete one, which update does not write.
  RankedTensorType typeOfGradient(const Bound &bound, StepFunction &function, plan::Task task, bool isArgument) {
    BucketOp bucket = buckets_[bound.index];
    const BucketTypes types(bucket, mesh_);
    const bool isBegin = task == plan::Task::begin;
    const bool isCompletedHere = llvm::any_of(function.results, [&](const Bound &result) {
      return result.index == bound.index && result.kind.starts_with("gradient");
    });
    if (isBegin || (isArgument && isCompletedHere))
      return bound.kind == accumulatedGradient(bucket) && isBegin != isArgument ? types.accumulatedGradient()
                                                                                : RankedTensorType();
    const bool isComplete = bound.kind == completeGradient(bucket);
    return isComplete && (isArgument || task != plan::Task::update) ? types.completeGradient() : RankedTensorType();
  }

  RankedTensorType typeOfResult(int64_t index, plan::Task task, bool isArgument) {
    if (task == plan::Task::begin)
      return index == 0 && !isArgument ? f32({int64_t(plan::kResults.size())}, {"scalar"}) : RankedTensorType();
    if (task != plan::Task::reduce)
      return {};
    const auto total = totals_.find(index);
    if (isArgument)
      return total == totals_.end() ? RankedTensorType() : typeOfTotal(mesh_, total->second);
    const bool isSummed = total != totals_.end() && !mesh_.getNames().empty();
    return isSummed || index == resultIndex(plan::StepTotal::gradNorm) ? f32({}, {}) : RankedTensorType();
  }

  // --- step_c3

  LogicalResult verifyBegin(StepFunction &begin) {
    SmallVector<Bound> expected = {{"result", 0}};
    for (auto [i, bucket] : llvm::enumerate(buckets_))
      if (ruleOf(bucket).hasGradients)
        expected.push_back({accumulatedGradient(bucket), int64_t(i)});
    for (const Bound &bound : expected)
      if (Value zero = begin.result(bound); !zero || !zero.getDefiningOp<ZeroOp>())
        return begin.error() << bound.text() << " is " << begin.describe(zero) << "; expected "
                             << ZeroOp::getOperationName() << " (step_c3)";
    return success();
  }

  // --- step_c4

  LogicalResult verifyReductions(StepFunction &function) {
    for (auto [i, bound] : llvm::enumerate(function.results)) {
      if (!bound.kind.starts_with("gradient"))
        continue;
      ++completed_[bound.index];
      const Value from = beforeReshards(function.result(i));
      const Bound own = {accumulatedGradient(buckets_[bound.index]), bound.index};
      if (function.isReadable() && from != function.argument(own))
        return function.error() << "result " << i << ", " << bound.text() << ", is made of what is "
                                << function.describe(from) << "; expected " << own.text() << " (step_c4)";
      if (function.isSharded() && failed(verifyOrder(function, i, bound.index)))
        return failure();
    }
    return success();
  }

  // Sums in the order in which StepBuilder.h has them: bits do not depend on who has written the program.
  LogicalResult verifyOrder(StepFunction &function, unsigned result, int64_t index) {
    BucketOp bucket = buckets_[index];
    const BucketTypes types(bucket, mesh_);
    SmallVector<Type, 3> expected = {types.completeGradient()}, found;
    const Type first = types.accumulatedGradient();
    for (Type before : {Type(types.gradientOfReplicas()), first})
      if (before != expected.back() && ((bucket.isSharded() && !bucket.getPerUnit()) || before == first))
        expected.push_back(before);
    for (Value value = function.result(result); value;) {
      found.push_back(value.getType());
      auto reshard = value.getDefiningOp<ReshardOp>();
      value = reshard ? reshard.getValue() : Value();
    }
    if (found == expected)
      return success();
    auto error = function.error() << "result " << result << ", the gradient of bucket " << index << ", comes from ";
    llvm::interleaveComma(llvm::reverse(found), error);
    error << "; expected ";
    llvm::interleaveComma(llvm::reverse(expected), error);
    return error << " (step_c4)";
  }

  LogicalResult verifyCompleted() {
    for (auto [bucket, found] : llvm::zip(buckets_, completed_))
      if (const int64_t expected = bucket.isReduced(); found != expected)
        return bucket.emitOpError() << "its gradient is completed " << found
                                    << " times by reduce and the reductions of stage " << stage_.getNumber()
                                    << "; expected " << expected << " (step_c4)";
    return success();
  }

  // --- step_c7

  LogicalResult verifyUnits() {
    std::vector<int64_t> counts(buckets_.size());
    for (UnitOp unit : stage_.all<UnitOp>()) {
      const int64_t index = unit.getBucket();
      if (index < 0 || index >= int64_t(buckets_.size()) || !hasUnitFunctions(buckets_[index]))
        return unit.emitOpError() << "bucket " << index
                                  << " is not one of the stage's whose gradients are those of one "
                                  << "unit at a time, or whose values are gathered (step_c7)";
      ++counts[index];
      if (failed(verifyUnit(unit, index)))
        return failure();
    }
    for (auto [i, bucket] : llvm::enumerate(buckets_))
      if (const int64_t expected = hasUnitFunctions(bucket); counts[i] != expected)
        return bucket.emitOpError() << "has " << counts[i] << " mg.unit; expected " << expected << " (step_c7)";
    return success();
  }

  // The arguments or results of a function, each with its type.
  static LogicalResult verifyBound(StepFunction &function, const char *what, ArrayRef<std::pair<Bound, Type>> expected,
                                   StringRef rule = "step_c7") {
    ArrayRef<Bound> found = what == StepFunction::kArgument ? function.arguments : function.results;
    for (const auto &[bound, type] : expected) {
      const auto *it = llvm::find(found, bound);
      if (found.size() != expected.size() || it == found.end() || function.typeOf(what, it - found.begin()) != type)
        return function.error() << "expected as its only " << what << "s"
                                << (expected.size() > 2   ? fmt::format(" {}, one of them ", expected.size())
                                    : expected.size() > 1 ? " two, one of them "
                                                          : " ")
                                << bound.text() << " of type " << type << " (" << rule << ")";
    }
    if (found.size() == expected.size())
      return success();
    return function.error() << "has " << found.size() << " " << what << "s; expected " << expected.size() << " ("
                            << rule << ")";
  }
  StepFunction functionOf(StringRef symbol) {
    return StepFunction(stage_, stage_->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(symbol));
  }

  // gather gives the unit's values, of the slices that ranks have.
  LogicalResult verifyGather(UnitOp unit, int64_t index) {
    const bool isSliced = !gatheredValues(buckets_[index]).empty();
    if (isSliced != unit.getGather().has_value())
      return unit.emitOpError() << (isSliced ? "lacks a gather" : "has a gather") << "; expected one where ranks keep "
                                << "slices of the values (step_c7)";
    if (!isSliced)
      return success();
    StepFunction gather = functionOf(*unit.getGather());
    const BucketTypes types(buckets_[index], mesh_);
    const Bound slice{"value", index}, values{gatheredValues(buckets_[index]), index};
    if (failed(verifyBound(gather, StepFunction::kArgument, {{slice, types.unitValueSlice()}})) ||
        failed(verifyBound(gather, StepFunction::kResult, {{values, types.unitValue()}})))
      return failure();
    if (gather.isReadable() && beforeReshards(gather.result(0)) != gather.argument(slice))
      return gather.error() << values.text() << " is made of what is "
                            << gather.describe(beforeReshards(gather.result(0))) << "; expected " << slice.text()
                            << " (step_c7)";
    return success();
  }

  // clear gives zeros, sum the unit's sum over the data axes; accumulate adds it to the slice.
  LogicalResult verifyUnit(UnitOp unit, int64_t index) {
    for (StringRef symbol : unit.functions())
      if (failed(verifyTask(symbol, plan::Task::gradients)))
        return failure();
    if (failed(verifyGather(unit, index)))
      return failure();
    const bool hasGradients = hasUnitGradients(buckets_[index]);
    if (unit.getClear().has_value() != hasGradients || unit.getSum().has_value() != hasGradients ||
        unit.getAccumulate().has_value() != hasGradients)
      return unit.emitOpError() << (hasGradients ? "lacks" : "has")
                                << " clear, sum and accumulate; expected these where "
                                << "the bucket is perUnit and not frozen (step_c7)";
    return hasGradients ? verifyGradients(unit, index) : success();
  }

  LogicalResult verifyGradients(UnitOp unit, int64_t index) {
    const BucketTypes types(buckets_[index], mesh_);
    const Type f32 = types.unitSum(Float32Type::get(stage_.getContext()));
    const Type sumType = types.unitSum(types.unitGradient().getElementType());
    const Bound gradient{"unit_gradient", index}, sum{"unit_sum", index}, slice{"gradient_slice", index};
    StepFunction clear = functionOf(*unit.getClear()), sums = functionOf(*unit.getSum()),
                 accumulate = functionOf(*unit.getAccumulate());
    if (failed(verifyBound(clear, StepFunction::kArgument, {})) ||
        failed(verifyBound(clear, StepFunction::kResult, {{gradient, types.unitGradient()}})) ||
        failed(verifyBound(sums, StepFunction::kArgument, {{gradient, types.unitGradient()}})) ||
        failed(verifyBound(sums, StepFunction::kResult, {{sum, sumType}})) ||
        failed(verifyBound(accumulate, StepFunction::kArgument, {{sum, sumType}, {slice, f32}})) ||
        failed(verifyBound(accumulate, StepFunction::kResult, {{slice, f32}})))
      return failure();
    if (!clear.result(0).getDefiningOp<ZeroOp>())
      return clear.error() << gradient.text() << " is " << clear.describe(clear.result(0)) << "; expected "
                           << ZeroOp::getOperationName() << " (step_c7)";
    if (sums.isReadable() && beforeReshards(sums.result(0)) != sums.argument(gradient))
      return sums.error() << sum.text() << " is made of what is " << sums.describe(beforeReshards(sums.result(0)))
                          << "; expected " << gradient.text() << " (step_c7)";
    if (!accumulate.isReadable())
      return success();
    auto total = accumulate.result(0).getDefiningOp<AccumulateOp>();
    const bool isSum = total && total.getValues().size() == 2 &&
                       llvm::all_of(total.getSigns(), [](int64_t s) { return s == 1; }) &&
                       total.getValues()[0] == accumulate.argument(slice);
    Value added = isSum ? total.getValues()[1] : Value();
    if (auto cast = added ? added.getDefiningOp<CastOp>() : CastOp())
      added = cast->getOperand(0);
    if (!added || added != accumulate.argument(sum))
      return accumulate.error() << slice.text() << " is " << accumulate.describe(accumulate.result(0))
                                << "; expected the sum of itself and the unit's (step_c7)";
    return success();
  }

  // --- step_c5

  // The part that each rank has of a value that is summed with others over all ranks.
  static Value partOf(Value value) {
    auto unpack = value.getDefiningOp<UnpackOp>();
    auto pack = unpack ? beforeReshards(unpack.getValue()).getDefiningOp<PackOp>() : PackOp();
    return beforeReshards(pack ? pack.getOperand(cast<OpResult>(value).getResultNumber()) : value);
  }

  LogicalResult verifyNorm(StepFunction &reduce) {
    if (!reduce.isReadable())
      return success();
    const Value norm = reduce.result(Bound{"result", resultIndex(plan::StepTotal::gradNorm)}),
                factor = reduce.result(Bound{"factor"});
    auto clip = norm ? norm.getDefiningOp<ClipFactorOp>() : ClipFactorOp();
    if (!clip || norm != clip.getNorm() || factor != clip.getFactor())
      return reduce.error() << "the norm is " << reduce.describe(norm) << ", the factor " << reduce.describe(factor)
                            << "; expected the results of one " << ClipFactorOp::getOperationName() << " (step_c5)";
    SmallVector<std::pair<Value, Bound>> sums = {
        {clip.getClip(), {"step_scalar", int64_t(indexOf(plan::StepScalar::clip))}},
        {clip.getTokens(), {"result", resultIndex(plan::StepTotal::tokens)}}};
    for (const auto &[number, pending] : totals_)
      if (!mesh_.getNames().empty())
        sums.emplace_back(reduce.result(Bound{"result", number}), Bound{"result", number});
    for (const auto &[sum, bound] : sums)
      if (!sum || partOf(sum) != reduce.argument(bound))
        return reduce.error() << "what should be a sum of " << bound.text() << " is one of what is "
                              << reduce.describe(sum ? partOf(sum) : sum) << " (step_c5)";
    return verifySquares(reduce, partOf(clip.getSumSquares()));
  }

  LogicalResult verifySquares(StepFunction &reduce, Value total) {
    auto sum = total.getDefiningOp<AccumulateOp>();
    if (!sum && !total.getDefiningOp<ZeroOp>())
      return reduce.error() << "the sum of squares is of what is " << reduce.describe(total) << "; expected "
                            << AccumulateOp::getOperationName() << " of those of the buckets (step_c5)";
    if (sum && llvm::is_contained(sum.getSigns(), -1))
      return reduce.error() << "squares are subtracted from the sum of squares (step_c5)";
    std::vector<int64_t> counts(buckets_.size());
    for (Value part : sum ? sum.getValues() : ValueRange()) {
      auto ofParts = beforeReshards(part).getDefiningOp<SumOp>();
      auto squares = ofParts ? ofParts.getValue().getDefiningOp<SumSquaresOp>() : SumSquaresOp();
      const int64_t index = squares ? completeGradientOf(reduce, squares.getValue()) : -1;
      if (index < 0)
        return reduce.error() << "the sum of squares has a part of what is "
                              << reduce.describe(squares ? squares.getValue() : part)
                              << "; expected the squares of a complete gradient (step_c5)";
      ++counts[index];
    }
    for (auto [i, bucket] : llvm::enumerate(buckets_))
      if (const int64_t expected = countsInNorm(bucket, stage_.getNumber()); counts[i] != expected)
        return reduce.error() << "the norm has the squares of bucket " << i << " " << counts[i] << " times; expected "
                              << expected << (bucket.getTied().empty() ? "" : ", a tied one's on the first stage")
                              << " (step_c5)";
    return success();
  }

  // The bucket whose complete gradient the value is; -1: none.
  int64_t completeGradientOf(StepFunction &reduce, Value value) {
    for (auto [i, bound] : llvm::enumerate(reduce.results))
      if (bound.kind.starts_with("gradient") && reduce.result(i) == value)
        return bound.index;
    auto argument = dyn_cast<BlockArgument>(value);
    const Bound bound = argument ? reduce.arguments[argument.getArgNumber()] : Bound();
    const bool isComplete = bound.kind.starts_with("gradient") &&
                            bound.kind == completeGradient(buckets_[bound.index]) &&
                            llvm::none_of(reduce.results, [&](const Bound &result) {
                              return result.kind.starts_with("gradient") && result.index == bound.index;
                            });
    return isComplete ? bound.index : -1;
  }

  // --- step_c6

  LogicalResult verifyUpdates(StepFunction &update) {
    SmallVector<int64_t> whole;
    for (auto [i, bucket] : llvm::enumerate(buckets_))
      if (ruleOf(bucket).build && pieces_[i].empty())
        whole.push_back(int64_t(i));
    return verifyUpdates(update, whole);
  }

  LogicalResult verifyUpdates(StepFunction &update, ArrayRef<int64_t> updated) {
    size_t expected = 0;
    for (const int64_t i : updated) {
      const SmallVector<Bound> written = boundToUpdate(i, /*isResult=*/true);
      for (const Bound &bound : written)
        if (!update.result(bound))
          return update.error() << "nothing is bound to " << bound.text() << "; expected its new value (step_c6)";
      expected += written.size();
      if (update.isReadable() && failed(verifyUpdate(update, i)))
        return failure();
    }
    if (update.results.size() != expected)
      return update.error() << "gives " << update.results.size() << " results; expected " << expected << " of "
                            << updated.size() << " buckets (step_c6)";
    return success();
  }

  // The buffers of a bucket that its update reads, or writes.
  SmallVector<Bound> boundToUpdate(int64_t index, bool isResult) {
    BucketOp bucket = buckets_[index];
    SmallVector<Bound> bound;
    if (isResult || !precisionOf(bucket).hasMasters())
      bound.push_back({"value", index});
    if (precisionOf(bucket).hasMasters())
      bound.push_back({"master", index});
    if (!isResult)
      bound.push_back({completeGradient(bucket), index});
    for (StringRef state : ruleOf(bucket).states)
      bound.push_back({state, index});
    return bound;
  }

  // --- step_c8

  LogicalResult verifyPieces() {
    const std::vector<std::vector<UpdatePieces>> expected =
        updatePieces(buckets_, mesh_, trainingOf(stage_->getParentOfType<ModuleOp>()).optimizerOffload);
    pieces_.assign(buckets_.size(), {});
    for (PiecesOp op : stage_.all<PiecesOp>()) {
      const int64_t index = op.getBucket();
      if (index < 0 || index >= int64_t(buckets_.size()))
        return op.emitOpError() << "bucket " << index << " of " << buckets_.size() << " (step_c8)";
      pieces_[index].push_back(
          {int64_t(op.getFirst()), int64_t(op.getParts()), int64_t(op.getCount()), op.getOnHost()});
      if (failed(verifyPiece(op, index)))
        return failure();
    }
    for (size_t i = 0; i < buckets_.size(); ++i)
      if (pieces_[i] != expected[i])
        return buckets_[i].emitOpError() << "is updated in " << textOf(pieces_[i]) << "; expected "
                                         << textOf(expected[i]) << ", by optimizer_offload_fraction (step_c8)";
    return success();
  }

  // "8 times 2 parts from 0, on the host, 1 times 3 parts from 16, on the device"
  static std::string textOf(const std::vector<UpdatePieces> &pieces) {
    std::vector<std::string> texts;
    for (const UpdatePieces &piece : pieces)
      texts.push_back(fmt::format("{} times {} parts from {}, {}", piece.count, piece.parts, piece.first,
                                  piece.isOnHost ? "on the host" : "on the device"));
    return texts.empty() ? "one piece" : fmt::format("{}", fmt::join(texts, ", "));
  }

  LogicalResult verifyPiece(PiecesOp piece, int64_t index) {
    if (failed(verifyTask(piece.getUpdate(), plan::Task::update)))
      return failure();
    StepFunction function(stage_, stage_->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(piece.getUpdate()));
    const BucketTypes types(buckets_[index], mesh_);
    SmallVector<std::pair<Bound, Type>> arguments = {
        {{"factor"}, f32({}, {})}, {{"step_scalar"}, f32({int64_t(plan::kStepScalars.size())}, {"scalar"})}};
    SmallVector<std::pair<Bound, Type>> results;
    for (const bool isResult : {false, true})
      for (const Bound &bound : boundToUpdate(index, isResult))
        (isResult ? results : arguments)
            .push_back({bound, types.pieceOfUpdate(stateNamed(buckets_[index], bound.kind)->element,
                                                   int64_t(piece.getParts()))});
    if (failed(verifyBound(function, StepFunction::kArgument, arguments, "step_c8")) ||
        failed(verifyBound(function, StepFunction::kResult, results, "step_c8")))
      return failure();
    return verifyUpdates(function, {index});
  }

  // The op that the rule builds of the bucket's own buffers, and each of its results where it belongs.
  LogicalResult verifyUpdate(StepFunction &update, int64_t index) {
    BucketOp bucket = buckets_[index];
    const UpdateRule &rule = ruleOf(bucket);
    const bool hasMasters = precisionOf(bucket).hasMasters();
    Value made = beforeReshards(update.result(Bound{"value", index}));
    if (auto cast = made.getDefiningOp<CastOp>(); cast && hasMasters)
      made = cast.getValue();
    Operation *op = made.getDefiningOp();
    const auto refuse = [&] {
      return update.error() << "bucket " << index << " gets what is " << update.describe(made) << "; expected rule "
                            << rule.name << " of its own buffers, and each result in its place (step_c6)";
    };
    const Value own = update.argument({hasMasters ? "master" : "value", index});
    if (!op || op->getNumOperands() == 0 || !own || beforeReshards(op->getOperand(0)) != own)
      return refuse();
    UpdateOperands operands{bucket, op->getOperand(0),           update.argument({completeGradient(bucket), index}),
                            {},     update.argument({"factor"}), update.argument({"step_scalar"})};
    for (StringRef state : rule.states)
      operands.states.push_back(update.argument({state, index}));
    if (!operands.gradient || !operands.factor || !operands.scalars ||
        llvm::any_of(operands.states, [](Value state) { return !state; }))
      return refuse();
    OpBuilder builder(op);
    Operation *expected = rule.build(builder, op->getLoc(), operands);
    const bool isSame =
        OperationEquivalence::isEquivalentTo(expected, op, OperationEquivalence::exactValueMatch,
                                             /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
    expected->erase();
    bool isPlaced = isSame && op->getResult(0) == made;
    if (hasMasters)
      isPlaced = isPlaced && update.result(Bound{"master", index}) == made;
    for (auto [i, state] : llvm::enumerate(rule.states))
      isPlaced = isPlaced && update.result(Bound{state, index}) == op->getResult(1 + i);
    return isPlaced ? success() : LogicalResult(refuse());
  }

  StageOp stage_;
  MeshAttr mesh_;
  const TotalAxes &totals_;
  SmallVector<BucketOp> buckets_;
  std::vector<int64_t> completed_;                // by bucket: how often
  std::vector<std::vector<UpdatePieces>> pieces_; // by bucket
};

} // namespace

LogicalResult verifyStepForm(ModuleOp module, const Blocks &blocks, ArrayRef<StageOp> stages) {
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr); // verifyShardForm: there is one
  auto totals = totalAxesOf(module, blocks);
  if (failed(verifyStepBuckets(module, blocks, stages)) || failed(totals))
    return failure();
  for (StageOp stage : stages)
    if (failed(StepVerifier(stage, mesh, *totals).verify()))
      return failure();
  return success();
}

LogicalResult verifyStepIsLocal(ModuleOp module) {
  for (StageOp stage : module.getOps<StageOp>()) {
    SmallVector<StringRef> symbols = {stage.getBegin(), stage.getReduce(), stage.getUpdate()};
    for (ReductionOp reduction : stage.all<ReductionOp>())
      symbols.push_back(reduction.getFunction());
    for (UnitOp unit : stage.all<UnitOp>())
      llvm::append_range(symbols, unit.functions());
    for (PiecesOp pieces : stage.all<PiecesOp>())
      symbols.push_back(pieces.getUpdate());
    for (StringRef symbol : symbols)
      if (auto function = module.lookupSymbol<func::FuncOp>(symbol); !isLocal(function))
        return errorIn(function) << "its arguments or results lack " << kTypeAttr << ": run mg-local";
  }
  return success();
}

} // namespace mgc
