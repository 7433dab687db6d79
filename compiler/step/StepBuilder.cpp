// See StepBuilder.h.
#include "compiler/step/StepBuilder.h"

#include "compiler/step/StateBuffers.h"
#include "compiler/step/UpdateRules.h"
#include "plan/StepScalars.h"
#include "plan/mesh/Mesh.h"

#include <algorithm>

using namespace mlir;

namespace mgc {

namespace {

// Collects arguments and results of one function while its body is built.
class FunctionBuilder {
public:
  FunctionBuilder(StageOp stage, plan::Task task, const Twine &number)
      : builder(stage.getContext()), loc(stage->getParentOfType<ModuleOp>().getLoc()), buckets(stage.all<BucketOp>()),
        stage(int64_t(stage.getNumber())) {
    auto module = stage->getParentOfType<ModuleOp>();
    mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
    builder.setInsertionPoint(stage);
    function = func::FuncOp::create(builder, loc, (Twine(StringRef(plan::nameOf(task))) + "." + number).str(),
                                    builder.getFunctionType({}, {}));
    function->setAttr(kPassAttr, builder.getStringAttr(plan::nameOf(task)));
    builder.setInsertionPointToStart(function.addEntryBlock());
  }

  BucketTypes types(int64_t index) const { return {buckets[index], mesh}; }
  RankedTensorType vector(int64_t elements, StringRef name, ArrayRef<Attribute> axes = {}) {
    return tensor({elements}, {name}, axes, {});
  }
  RankedTensorType scalar(ArrayRef<Attribute> pending = {}) { return tensor({}, {}, {}, pending); }
  RankedTensorType tensor(ArrayRef<int64_t> shape, ArrayRef<StringRef> dims, ArrayRef<Attribute> axes,
                          ArrayRef<Attribute> pending) {
    MLIRContext *context = builder.getContext();
    SmallVector<StringAttr> names;
    for (StringRef name : dims)
      names.push_back(builder.getStringAttr(name));
    return RankedTensorType::get(shape, builder.getF32Type(),
                                 LayoutAttr::get(context, names,
                                                 SmallVector<ArrayAttr>(dims.size(), ArrayAttr::get(context, axes)),
                                                 ArrayAttr::get(context, pending), Reduction::sum));
  }
  SmallVector<Attribute> allAxes() const { return SmallVector<Attribute>(llvm::iterator_range(mesh.getNames())); }

  // A buffer of a bucket, by its name.
  Value state(StringRef name, int64_t index) {
    return argument(types(index).of(*stateNamed(buckets[index], name)), name, index);
  }
  // Some parts of what a rank updates of it.
  Value pieceOf(StringRef name, int64_t index, int64_t parts) {
    return argument(types(index).pieceOfUpdate(stateNamed(buckets[index], name)->element, parts), name, index);
  }
  Value argument(Type type, StringRef kind, int64_t index = -1) {
    argumentAttrs_.push_back(buffer(kind, index));
    return function.getBody().front().addArgument(type, loc);
  }
  void result(Value value, StringRef kind, int64_t index = -1) {
    results_.push_back(value);
    resultAttrs_.push_back(buffer(kind, index));
  }
  Value reshard(Value value, Type type) {
    return value.getType() == type ? value : ReshardOp::create(builder, loc, type, value);
  }

  func::FuncOp finish() {
    func::ReturnOp::create(builder, loc, results_);
    function.setType(
        builder.getFunctionType(function.getBody().front().getArgumentTypes(), ValueRange(results_).getTypes()));
    for (auto [i, attr] : llvm::enumerate(argumentAttrs_))
      function.setArgAttr(i, kBufferAttr, attr);
    for (auto [i, attr] : llvm::enumerate(resultAttrs_))
      function.setResultAttr(i, kBufferAttr, attr);
    return function;
  }

  OpBuilder builder;
  Location loc;
  func::FuncOp function;
  MeshAttr mesh;
  SmallVector<BucketOp> buckets;
  const int64_t stage;

private:
  DictionaryAttr buffer(StringRef kind, int64_t index) {
    NamedAttrList list;
    list.append("kind", builder.getStringAttr(kind));
    if (index >= 0)
      list.append("index", builder.getI64IntegerAttr(index));
    return list.getDictionary(builder.getContext());
  }
  SmallVector<Value> results_;
  SmallVector<DictionaryAttr> argumentAttrs_, resultAttrs_;
};

func::FuncOp buildBegin(StageOp stage) {
  FunctionBuilder f(stage, plan::Task::begin, Twine(stage.getNumber()));
  for (auto [i, bucket] : llvm::enumerate(f.buckets))
    if (ruleOf(bucket).hasGradients)
      f.result(ZeroOp::create(f.builder, f.loc, f.types(i).accumulatedGradient()), accumulatedGradient(bucket), i);
  f.result(ZeroOp::create(f.builder, f.loc, f.vector(plan::kResults.size(), "scalar")), "result", 0);
  return f.finish();
}

// --- reduce

// Completes a bucket's gradient. First over the axes that are no data axes, as a whole: sums have their order whether or not data
// ranks then share it out. One sum where they do not.
Value reduceBucket(FunctionBuilder &f, int64_t index) {
  BucketOp bucket = f.buckets[index];
  const BucketTypes types = f.types(index);
  const Value gradient = f.argument(types.accumulatedGradient(), accumulatedGradient(bucket), index);
  const bool isInSteps = bucket.isSharded() && !bucket.getPerUnit();
  const Value ofReplicas = isInSteps ? f.reshard(gradient, types.gradientOfReplicas()) : gradient;
  const Value complete = f.reshard(ofReplicas, types.completeGradient());
  if (complete != gradient)
    f.result(complete, completeGradient(bucket), index);
  return complete;
}

// The function that completes the gradients of the buckets of one part of the stage.
func::FuncOp buildGradients(StageOp stage, int64_t part, ArrayRef<int64_t> partOf) {
  FunctionBuilder f(stage, plan::Task::gradients, Twine(stage.getNumber()) + "." + Twine(part));
  for (size_t i = 0; i < f.buckets.size(); ++i)
    if (ruleOf(f.buckets[i]).hasGradients && partOf[i] == part)
      reduceBucket(f, int64_t(i));
  return f.finish();
}

// Sum of squares of all gradients, pending over all axes.
Value sumSquares(FunctionBuilder &f, ArrayRef<Value> gradients) {
  SmallVector<Value> squares;
  const RankedTensorType ofRank = f.scalar(f.allAxes());
  for (auto [bucket, gradient] : llvm::zip(f.buckets, gradients)) {
    if (!countsInNorm(bucket, f.stage))
      continue;
    const RankedTensorType type = tensorOf(gradient);
    // All but the rows of a part.
    const int64_t rank = type.getRank() - 2;
    const LayoutAttr layout = layoutOf(type);
    const ArrayAttr axes = layout.getAxes()[rank - 1];
    Value sums = SumSquaresOp::create(
        f.builder, f.loc,
        RankedTensorType::get(type.getShape().take_front(rank), f.builder.getF32Type(),
                              LayoutAttr::get(f.builder.getContext(), layout.getNames().take_front(rank),
                                              layout.getAxes().take_front(rank), f.builder.getArrayAttr({}),
                                              Reduction::sum)),
        gradient);
    Value sum = SumOp::create(f.builder, f.loc, f.scalar(axes.getValue()), sums);
    squares.push_back(f.reshard(sum, ofRank));
  }
  if (squares.empty())
    return ZeroOp::create(f.builder, f.loc, ofRank);
  SmallVector<int64_t> signs(squares.size(), 1);
  return AccumulateOp::create(f.builder, f.loc, ofRank, squares, f.builder.getDenseI64ArrayAttr(signs));
}

// The sums over all ranks, in one collective.
SmallVector<Value> overAllRanks(FunctionBuilder &f, ArrayRef<Value> parts) {
  const RankedTensorType whole = f.vector(int64_t(parts.size()), "scalar");
  Value packed = PackOp::create(f.builder, f.loc, f.tensor(whole.getShape(), {"scalar"}, {}, f.allAxes()), parts);
  SmallVector<Type> scalars(parts.size(), f.scalar());
  return llvm::to_vector_of<Value>(UnpackOp::create(f.builder, f.loc, scalars, f.reshard(packed, whole)).getResults());
}

func::FuncOp buildReduce(StageOp stage, ArrayRef<int64_t> partOf, const TotalAxes &totals) {
  FunctionBuilder f(stage, plan::Task::reduce, Twine(stage.getNumber()));
  SmallVector<Value> gradients;
  for (auto [i, bucket] : llvm::enumerate(f.buckets)) {
    if (!ruleOf(bucket).hasGradients)
      gradients.push_back(Value());
    else if (partOf[i] >= 0) // complete
      gradients.push_back(f.state(completeGradient(bucket), i));
    else
      gradients.push_back(reduceBucket(f, i));
  }
  SmallVector<Value> sums; // sums of the totals, in their order, then the squares
  for (const auto &[number, pending] : totals)
    sums.push_back(f.reshard(f.argument(typeOfTotal(f.mesh, pending), "result", number), f.scalar(f.allAxes())));
  sums.push_back(sumSquares(f, gradients));
  if (!f.mesh.getNames().empty()) {
    sums = overAllRanks(f, sums);
    for (auto [total, sum] : llvm::zip(totals, sums))
      f.result(sum, "result", total.first);
  }
  Value tokens = sums[std::distance(totals.begin(), totals.find(resultIndex(plan::StepTotal::tokens)))];
  Value clip = f.argument(f.scalar(), "step_scalar", indexOf(plan::StepScalar::clip));
  auto factor = ClipFactorOp::create(f.builder, f.loc, f.scalar(), f.scalar(), sums.back(), tokens, clip);
  f.result(factor.getNorm(), "result", resultIndex(plan::StepTotal::gradNorm));
  f.result(factor.getFactor(), "factor");
  return f.finish();
}

// --- update

// The rule updates the masters, or the values themselves, each rank the slice that it has the gradient of; all ranks get the new
// values, unless they keep slices. `parts`: of a piece; 0: all.
void updateBucket(FunctionBuilder &f, int64_t index, Value factor, Value scalars, int64_t parts = 0) {
  BucketOp bucket = f.buckets[index];
  const UpdateRule &rule = ruleOf(bucket);
  const Precision precision = precisionOf(bucket);
  const BucketTypes types = f.types(index);
  const auto state = [&](StringRef name) { return parts > 0 ? f.pieceOf(name, index, parts) : f.state(name, index); };
  const auto typeOf = [&](Type element) {
    return parts > 0 ? types.pieceOfUpdate(element, parts) : types.ofUpdate(element);
  };
  UpdateOperands operands{bucket, {}, {}, {}, factor, scalars};
  operands.value = precision.hasMasters() ? state("master") : f.reshard(state("value"), typeOf(precision.values));
  operands.gradient = state(completeGradient(bucket));
  for (StringRef name : rule.states)
    operands.states.push_back(state(name));
  Operation *update = rule.build(f.builder, f.loc, operands);
  Value value = update->getResult(0);
  if (precision.hasMasters()) {
    f.result(value, "master", index);
    value = CastOp::create(f.builder, f.loc, typeOf(precision.values), value);
  }
  f.result(parts > 0 ? value : f.reshard(value, types.of(*stateNamed(bucket, "value"))), "value", index);
  for (auto [name, result] : llvm::zip(rule.states, update->getResults().drop_front()))
    f.result(result, name, index);
}

// --- units

func::FuncOp buildGather(StageOp stage, int64_t index) {
  FunctionBuilder f(stage, plan::Task::gradients, fmt::format("gather.{}.{}", int64_t(stage.getNumber()), index));
  const BucketTypes types = f.types(index);
  f.result(f.reshard(f.argument(types.unitValueSlice(), "value", index), types.unitValue()),
           gatheredValues(f.buckets[index]), index);
  return f.finish();
}

// The sum over the data axes, in the type of the gradients, is added in f32; sums over other axes are completed at the end of the step.
UnitFunctions buildGradientOfUnit(StageOp stage, int64_t index) {
  const std::string name = fmt::format("{}.{}", int64_t(stage.getNumber()), index);
  FunctionBuilder clear(stage, plan::Task::gradients, "clear." + name), s(stage, plan::Task::gradients, "sum." + name),
      f(stage, plan::Task::gradients, "unit." + name);
  const BucketTypes types = f.types(index);
  clear.result(ZeroOp::create(clear.builder, clear.loc, types.unitGradient()), "unit_gradient", index);
  const RankedTensorType sumType = types.unitSum(types.unitGradient().getElementType());
  s.result(s.reshard(s.argument(types.unitGradient(), "unit_gradient", index), sumType), "unit_sum", index);
  Value sum = f.argument(sumType, "unit_sum", index);
  const RankedTensorType f32 = types.unitSum(f.builder.getF32Type());
  if (sum.getType() != f32)
    sum = CastOp::create(f.builder, f.loc, f32, sum);
  const Value before = f.argument(f32, "gradient_slice", index);
  f.result(AccumulateOp::create(f.builder, f.loc, f32, ValueRange{before, sum}, f.builder.getDenseI64ArrayAttr({1, 1})),
           "gradient_slice", index);
  return {clear.finish(), s.finish(), f.finish(), {}};
}

UnitFunctions buildUnit(StageOp stage, int64_t index) {
  BucketOp bucket = stage.all<BucketOp>()[index];
  UnitFunctions functions = hasUnitGradients(bucket) ? buildGradientOfUnit(stage, index) : UnitFunctions();
  if (!gatheredValues(bucket).empty())
    functions.gather = buildGather(stage, index);
  return functions;
}

func::FuncOp buildUpdate(StageOp stage, const std::vector<std::vector<UpdatePieces>> &pieces) {
  FunctionBuilder f(stage, plan::Task::update, Twine(stage.getNumber()));
  Value factor = f.argument(f.scalar(), "factor");
  Value scalars = f.argument(f.vector(plan::kStepScalars.size(), "scalar"), "step_scalar");
  for (auto [i, bucket] : llvm::enumerate(f.buckets))
    if (ruleOf(bucket).build && pieces[i].empty())
      updateBucket(f, i, factor, scalars);
  return f.finish();
}

func::FuncOp buildPiece(StageOp stage, int64_t index, int64_t number, int64_t parts) {
  FunctionBuilder f(stage, plan::Task::update, fmt::format("{}.{}.{}", int64_t(stage.getNumber()), index, number));
  Value factor = f.argument(f.scalar(), "factor");
  Value scalars = f.argument(f.vector(plan::kStepScalars.size(), "scalar"), "step_scalar");
  updateBucket(f, index, factor, scalars, parts);
  return f.finish();
}

} // namespace

bool countsInNorm(BucketOp bucket, int64_t stage) {
  return ruleOf(bucket).isInNorm && (bucket.getTied().empty() || bucket.getTied().front() == stage);
}

int64_t resultIndex(plan::StepTotal total) { return static_cast<int64_t>(indexOf(total)); }

FailureOr<TotalAxes> totalAxesOf(ModuleOp module, const Blocks &blocks) {
  const MeshAttr mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
  TotalAxes totals;
  std::map<int64_t, std::string> from; // the function that was seen first
  for (const auto &[name, block] : blocks)
    for (const BlockFunction *function : block.functions())
      for (auto [i, result] : llvm::enumerate(function->results)) {
        const std::optional<int64_t> number = result.total();
        if (!number)
          continue;
        func::FuncOp op = function->function;
        RankedTensorType type = shardedType(op.getResultAttr(i, kTypeAttr));
        if (!type)
          return module.emitError() << "block " << name << ": results lack mg.type: run mg-local first";
        plan::Axes pending;
        for (StringAttr axis : mesh.getNames())
          if (llvm::is_contained(layoutOf(type).getPending(), axis))
            pending.push_back(axis.str());
        auto [known, isNew] = totals.try_emplace(*number, pending);
        if (isNew)
          from[*number] = op.getName().str();
        else if (known->second != pending)
          return errorIn(op) << "its " << plan::kResults[*number]
                             << fmt::format(" is pending over [{}], that of {} over [{}]; expected the same "
                                            "axes in all blocks, which add to one total",
                                            fmt::join(pending, ", "), from[*number], fmt::join(known->second, ", "));
      }
  return totals;
}

RankedTensorType typeOfTotal(MeshAttr mesh, const plan::Axes &pending) {
  SmallVector<Attribute> axes;
  for (StringAttr axis : mesh.getNames())
    if (mesh.roleOf(axis) == plan::AxisRole::stage || llvm::is_contained(pending, axis.getValue()))
      axes.push_back(axis);
  MLIRContext *context = mesh.getContext();
  return RankedTensorType::get({}, Float32Type::get(context),
                               LayoutAttr::get(context, {}, {}, ArrayAttr::get(context, axes), Reduction::sum));
}

StepFunctions buildStep(StageOp stage, ArrayRef<int64_t> partOf, int64_t parts, const TotalAxes &totals,
                        const std::vector<std::vector<UpdatePieces>> &pieces) {
  StepFunctions step{buildBegin(stage), buildReduce(stage, partOf, totals), buildUpdate(stage, pieces), {}, {}, {}};
  for (size_t bucket = 0; bucket < pieces.size(); ++bucket) {
    step.pieces.emplace_back();
    for (size_t i = 0; i < pieces[bucket].size(); ++i)
      step.pieces.back().push_back(buildPiece(stage, int64_t(bucket), int64_t(i), pieces[bucket][i].parts));
  }
  for (auto [i, bucket] : llvm::enumerate(stage.all<BucketOp>()))
    if (hasUnitFunctions(bucket))
      step.units[int64_t(i)] = buildUnit(stage, int64_t(i));
  for (int64_t part = 0; part < parts; ++part)
    step.gradients.push_back(buildGradients(stage, part, partOf));
  return step;
}

} // namespace mgc
