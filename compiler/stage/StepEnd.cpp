// See StepEnd.h.
#include "compiler/stage/StepEnd.h"
#include "dialects/mg/Parameter.h"

#include "compiler/program/Blocks.h"
#include "compiler/stage/StateBuffers.h"
#include "plan/mesh/Mesh.h"

#include <algorithm>

using namespace mlir;

namespace mgc {

namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kPartRows = kPartElements / kLanes;

// A bucket in parts of rows of kLanes: parts are summed independently, and no dimension of a kernel is beyond 32 bits.
struct BucketParts {
  int64_t count, rows;
};

// By size alone, so that a sum does not depend on the number of threads. The divisor nearest to kPartRows by ratio: a
// bucket is a sum of multiples of the hidden size or so, which has many; a large slice of it is a multiple of
// kPartRows.
int64_t partRowsOf(int64_t rows) {
  auto distance = [](int64_t part) { return double(std::max(part, kPartRows)) / double(std::min(part, kPartRows)); };
  int64_t best = rows;
  for (int64_t low = 1; low * low <= rows; ++low)
    if (rows % low == 0)
      best = std::min({best, low, rows / low}, [&](int64_t a, int64_t b) { return distance(a) < distance(b); });
  return best;
}

int64_t shardElements(const plan::Mesh &mesh, const PlannedBucket &bucket) {
  return bucket.sharded ? bucket.elements / plan::groupSize(mesh, bucket.key.data) : bucket.elements;
}

BucketParts shardParts(const plan::Mesh &mesh, const PlannedBucket &bucket) {
  int64_t all = shardElements(mesh, bucket) / kLanes, rows = partRowsOf(all);
  return {all / rows, rows};
}

// As many rows in each part as the shard has, so that a shard is a run of parts.
BucketParts wholeParts(const plan::Mesh &mesh, const PlannedBucket &bucket) {
  int64_t rows = shardParts(mesh, bucket).rows;
  return {bucket.elements / kLanes / rows, rows};
}

// Collects arguments and results of one function while its body is built.
class FunctionBuilder {
public:
  FunctionBuilder(ModuleOp module, plan::Task task, const Twine &number)
      : builder(module.getContext()), loc(module.getLoc()) {
    builder.setInsertionPointToEnd(module.getBody());
    function = func::FuncOp::create(builder, loc, (Twine(StringRef(plan::nameOf(task))) + "." + number).str(),
                                    builder.getFunctionType({}, {}));
    function->setAttr(kPassAttr, builder.getStringAttr(plan::nameOf(task)));
    builder.setInsertionPointToStart(function.addEntryBlock());
  }

  RankedTensorType bucket(const BucketParts &parts, Type element) {
    return RankedTensorType::get({parts.count, parts.rows, kLanes}, element,
                                 LayoutAttr::get(builder.getContext(), {"part", "flat", "lane"}));
  }
  Precision precisionOf(const PlannedBucket &planned) {
    return mgc::precisionOf(function->getParentOfType<ModuleOp>(), planned.key.meanLoad);
  }
  RankedTensorType gradient(const PlannedBucket &planned, const BucketParts &parts) {
    return bucket(parts, precisionOf(planned).gradients);
  }
  RankedTensorType vector(int64_t elements, StringRef name = "scalar") {
    return RankedTensorType::get({elements}, builder.getF32Type(), LayoutAttr::get(builder.getContext(), {name}));
  }
  RankedTensorType scalar() {
    return RankedTensorType::get({}, builder.getF32Type(),
                                 LayoutAttr::get(builder.getContext(), ArrayRef<StringRef>()));
  }
  ArrayAttr axes(const plan::Axes &names) {
    SmallVector<Attribute> list;
    for (const std::string &name : names)
      list.push_back(builder.getStringAttr(name));
    return builder.getArrayAttr(list);
  }

  Value argument(Type type, StringRef kind, int64_t index = -1) {
    argumentAttrs_.push_back(buffer(kind, index));
    return function.getBody().front().addArgument(type, loc);
  }
  void result(Value value, StringRef kind, int64_t index = -1) {
    results_.push_back(value);
    resultAttrs_.push_back(buffer(kind, index));
  }
  Value demote(Value value, const plan::Axes &over) {
    return over.empty() ? value : DemoteOp::create(builder, loc, value.getType(), value, axes(over));
  }
  Value allReduce(Value value, const plan::Axes &over) {
    return over.empty() ? value : AllReduceOp::create(builder, loc, value.getType(), value, axes(over), "sum");
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

// All axes of the mesh but those of stages and those listed.
plan::Axes others(const plan::Mesh &mesh, const plan::Axes &listed) {
  plan::Axes result;
  for (const plan::Axis &axis : mesh.axes)
    if (axis.role != plan::AxisRole::stage && !llvm::is_contained(listed, axis.name))
      result.push_back(axis.name);
  return result;
}

plan::Axes concat(const plan::Axes &a, const plan::Axes &b) {
  plan::Axes all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

func::FuncOp buildBegin(ModuleOp module, int64_t stage, const StageBuckets &buckets) {
  FunctionBuilder f(module, plan::Task::begin, Twine(stage));
  plan::Mesh mesh = meshOf(module);
  for (auto [i, bucket] : llvm::enumerate(buckets.buckets))
    if (!bucket.key.frozen)
      f.result(ZeroOp::create(f.builder, f.loc, f.gradient(bucket, wholeParts(mesh, bucket))), "gradient", i);
  f.result(ZeroOp::create(f.builder, f.loc, f.vector(plan::kResults.size())), "result", 0);
  return f.finish();
}

// --- reduce

// First the axes that are no data axes, then the stages of a tie, then the data axes: a tied gradient is
// summed as a whole, before it is divided.
Value reduceBucket(FunctionBuilder &f, Value gradient, const plan::Mesh &mesh, const PlannedBucket &bucket) {
  const BucketKey &key = bucket.key;
  bool oneCall = key.tied.empty() && !bucket.sharded;
  Value value = f.allReduce(gradient, oneCall ? concat(key.reduce, key.data) : key.reduce);
  if (!key.tied.empty()) {
    auto reduce = AllReduceOp::create(f.builder, f.loc, value.getType(), value, f.axes({}), "sum");
    reduce->setAttr("stages", f.builder.getDenseI64ArrayAttr(key.tied));
    value = reduce;
  }
  if (bucket.sharded)
    return ReduceScatterOp::create(f.builder, f.loc, f.gradient(bucket, shardParts(mesh, bucket)), value,
                                   f.axes(key.data), 0, "sum");
  return oneCall ? value : f.allReduce(value, key.data);
}

// The function that completes the gradients of the buckets of one part of the stage.
func::FuncOp buildGradients(ModuleOp module, int64_t stage, int64_t part, const StageBuckets &buckets) {
  FunctionBuilder f(module, plan::Task::gradients, Twine(stage) + "." + Twine(part));
  plan::Mesh mesh = meshOf(module);
  for (auto [i, bucket] : llvm::enumerate(buckets.buckets)) {
    if (bucket.key.frozen || bucket.key.part != part)
      continue;
    Value gradient = f.argument(f.gradient(bucket, wholeParts(mesh, bucket)), "gradient", i);
    Value reduced = reduceBucket(f, gradient, mesh, bucket);
    if (reduced != gradient)
      f.result(reduced, completeGradient(bucket.sharded), i);
  }
  return f.finish();
}

// Sum of squares of all gradients, each element counted on one rank: pending over all axes. Loads are no gradients. A
// frozen bucket's gradient is null.
Value sumSquares(FunctionBuilder &f, int64_t stage, const plan::Mesh &mesh, const StageBuckets &buckets,
                 ArrayRef<Value> gradients) {
  SmallVector<Value> squares;
  for (auto [bucket, gradient] : llvm::zip(buckets.buckets, gradients)) {
    const BucketKey &key = bucket.key;
    if (key.frozen || key.meanLoad > 0 || (!key.tied.empty() && key.tied.front() != stage))
      continue;
    Type parts = f.vector(shardParts(mesh, bucket).count, "part");
    Value sums = SumSquaresOp::create(f.builder, f.loc, parts, gradient);
    Value sum = SumOp::create(f.builder, f.loc, f.scalar(), sums);
    squares.push_back(f.demote(sum, others(mesh, bucket.sharded ? concat(key.split, key.data) : key.split)));
  }
  if (squares.empty())
    return ZeroOp::create(f.builder, f.loc, f.scalar());
  SmallVector<int64_t> signs(squares.size(), 1);
  return AccumulateOp::create(f.builder, f.loc, f.scalar(), squares, f.builder.getDenseI64ArrayAttr(signs));
}

// The sums over all ranks, in one collective.
SmallVector<Value> overAllRanks(FunctionBuilder &f, const plan::Mesh &mesh, ArrayRef<Value> parts) {
  plan::Axes all;
  for (const plan::Axis &axis : mesh.axes)
    all.push_back(axis.name);
  Value packed = PackOp::create(f.builder, f.loc, f.vector(int64_t(parts.size())), parts);
  SmallVector<Type> scalars(parts.size(), f.scalar());
  return llvm::to_vector_of<Value>(UnpackOp::create(f.builder, f.loc, scalars, f.allReduce(packed, all)).getResults());
}

func::FuncOp buildReduce(ModuleOp module, int64_t stage, const StageBuckets &buckets, const TotalAxes &totals) {
  FunctionBuilder f(module, plan::Task::reduce, Twine(stage));
  plan::Mesh mesh = meshOf(module);
  SmallVector<Value> gradients;
  for (auto [i, bucket] : llvm::enumerate(buckets.buckets)) {
    if (bucket.key.frozen) {
      gradients.push_back(Value());
      continue;
    }
    if (bucket.key.part >= 0) { // complete
      gradients.push_back(
          f.argument(f.gradient(bucket, shardParts(mesh, bucket)), completeGradient(bucket.sharded), i));
      continue;
    }
    Value gradient = f.argument(f.gradient(bucket, wholeParts(mesh, bucket)), "gradient", i);
    Value reduced = reduceBucket(f, gradient, mesh, bucket);
    if (reduced != gradient)
      f.result(reduced, completeGradient(bucket.sharded), i);
    gradients.push_back(reduced);
  }
  SmallVector<Value> sums; // sums of the totals, in their order, then the squares
  for (const auto &[number, pending] : totals)
    sums.push_back(f.demote(f.argument(f.scalar(), "result", number), others(mesh, pending)));
  sums.push_back(sumSquares(f, stage, mesh, buckets, gradients));
  if (!mesh.axes.empty()) {
    sums = overAllRanks(f, mesh, sums);
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

// The argument that the optimizer updates: the masters, or the values themselves; under ZeRO-1 the rank's slice of it.
Value updatedArgument(FunctionBuilder &f, const plan::Mesh &mesh, const PlannedBucket &bucket, int64_t index) {
  RankedTensorType shard = f.bucket(shardParts(mesh, bucket), f.builder.getF32Type());
  const Precision precision = f.precisionOf(bucket);
  if (precision.hasMasters())
    return f.argument(shard, "master", index);
  Value value = f.argument(f.bucket(wholeParts(mesh, bucket), precision.values), "value", index);
  return bucket.sharded ? SliceOp::create(f.builder, f.loc, shard, value, f.axes(bucket.key.data), 0) : value;
}

// The results of a shard's update. Moments are null where load moves it.
struct Updated {
  Value value, firstMoment = nullptr, secondMoment = nullptr;
};

Updated updateShard(FunctionBuilder &f, const PlannedBucket &bucket, int64_t index, Value old, Value gradient,
                    Value factor, Value scalars) {
  Type shard = old.getType();
  if (bucket.key.meanLoad > 0)
    return {BalanceBiasOp::create(f.builder, f.loc, shard, old, gradient, scalars,
                                  f.builder.getF64FloatAttr(bucket.key.meanLoad))};
  Value first = f.argument(shard, "first_moment", index), second = f.argument(shard, "second_moment", index);
  auto update = AdamWOp::create(f.builder, f.loc, shard, shard, shard, old, gradient, first, second, factor, scalars,
                                bucket.key.decay);
  return {update.getNewValue(), update.getNewFirstMoment(), update.getNewSecondMoment()};
}

// ZeRO-1 updates the rank's slice and gathers the values.
void updateBucket(FunctionBuilder &f, const plan::Mesh &mesh, const PlannedBucket &bucket, int64_t index, Value factor,
                  Value scalars) {
  const BucketParts parts = shardParts(mesh, bucket);
  const Precision precision = f.precisionOf(bucket);
  Value old = updatedArgument(f, mesh, bucket, index);
  Value gradient = f.argument(f.gradient(bucket, parts), completeGradient(bucket.sharded), index);
  const Updated updated = updateShard(f, bucket, index, old, gradient, factor, scalars);
  Value value = updated.value;
  if (precision.hasMasters()) {
    f.result(value, "master", index);
    value = CastOp::create(f.builder, f.loc, f.bucket(parts, precision.values), value);
  }
  if (bucket.sharded)
    value = AllGatherOp::create(f.builder, f.loc, f.bucket(wholeParts(mesh, bucket), precision.values), value,
                                f.axes(bucket.key.data), 0);
  f.result(value, "value", index);
  if (updated.firstMoment)
    f.result(updated.firstMoment, "first_moment", index);
  if (updated.secondMoment)
    f.result(updated.secondMoment, "second_moment", index);
}

func::FuncOp buildUpdate(ModuleOp module, int64_t stage, const StageBuckets &buckets) {
  FunctionBuilder f(module, plan::Task::update, Twine(stage));
  plan::Mesh mesh = meshOf(module);
  Value factor = f.argument(f.scalar(), "factor");
  Value scalars = f.argument(f.vector(plan::kStepScalars.size()), "step_scalar");
  for (auto [i, bucket] : llvm::enumerate(buckets.buckets))
    if (!bucket.key.counts && !bucket.key.frozen)
      updateBucket(f, mesh, bucket, i, factor, scalars);
  return f.finish();
}

} // namespace

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

StepEnd buildStepEnd(ModuleOp module, int64_t stage, int64_t parts, const StageBuckets &buckets,
                     const TotalAxes &totals) {
  StepEnd end{buildBegin(module, stage, buckets),
              buildReduce(module, stage, buckets, totals),
              buildUpdate(module, stage, buckets),
              {}};
  for (int64_t part = 0; part < parts; ++part)
    end.gradients.push_back(buildGradients(module, stage, part, buckets));
  return end;
}

} // namespace mgc
