// Stages, tiles, kernels and moves: verifiers.
#include "dialects/mg/GatherTime.h"
#include "dialects/mg/Mg.h"
#include "dialects/mg/Tiling.h"
#include "plan/ParameterBuckets.h"
#include "runtime/base/Checked.h"

using namespace mlir;
using namespace mgc;

// --- stage

static func::FuncOp forwardOf(Operation *from, StringRef block, SymbolTableCollection &symbols) {
  auto name = StringAttr::get(from->getContext(), block + ".forward");
  return symbols.lookupNearestSymbolFrom<func::FuncOp>(from, name);
}

// Instances have numbers of their own and elements of the bucket, all of them apart.
static LogicalResult verifyElements(PlaceOp place, func::FuncOp block, BucketOp bucket) {
  const int64_t first = place.getFirst(), count = place.getCount(), offset = place.getOffset(),
                stride = place.getStride();
  if (first < 0 || count < 1 || !checkedAdd(first, count))
    return place.emitOpError() << "instances " << first << " count " << count
                               << "; expected at least one, and numbers below 2^63 (stage_c2)";
  const int64_t elements = cast<RankedTensorType>(block.getArgumentTypes()[place.getArgument()]).getNumElements();
  if (offset < 0 || stride < 0 || (count > 1 && stride < elements))
    return place.emitOpError() << "offset " << offset << " stride " << stride << "; expected instances of " << elements
                               << " elements one behind the other (stage_c2)";
  const Checked end = checkedAdd(checkedAdd(offset, checkedMultiply(count - 1, stride)), elements);
  if (!end || *end > int64_t(bucket.getElements()))
    return place.emitOpError() << "ends at element " << (end ? std::to_string(*end) : "2^63 or more")
                               << " of a bucket of " << bucket.getElements() << " (stage_c2)";
  return success();
}

static LogicalResult verifyPlace(PlaceOp place, SmallVectorImpl<BucketOp> &buckets, SymbolTableCollection &symbols) {
  func::FuncOp block = forwardOf(place, place.getBlock(), symbols);
  if (!block || place.getArgument() >= block.getNumArguments() || !block.getArgAttr(place.getArgument(), kParamAttr))
    return place.emitOpError() << "argument " << place.getArgument() << " of " << place.getBlock()
                               << ".forward is no parameter (stage_c2)";
  if (place.getBucket() >= buckets.size())
    return place.emitOpError() << "bucket " << place.getBucket() << " of " << buckets.size() << " (stage_c2)";
  return verifyElements(place, block, buckets[place.getBucket()]);
}

// How many of the instances first .. first + count - 1 the place covers.
static int64_t covered(PlaceOp place, int64_t first, int64_t count) {
  int64_t begin = place.getFirst(), end = begin + int64_t(place.getCount());
  return std::max<int64_t>(0, std::min(end, first + count) - std::max(begin, first));
}

// The places of a parameter, and that no instance has two.
static LogicalResult findPlaces(ArrayRef<PlaceOp> places, StringRef block, unsigned argument,
                                SmallVectorImpl<PlaceOp> &found) {
  for (PlaceOp place : places) {
    if (place.getBlock() != block || place.getArgument() != argument)
      continue;
    for (PlaceOp other : found)
      if (covered(other, place.getFirst(), place.getCount()) > 0)
        return place.emitOpError() << "is a second one of argument " << argument << " of " << block
                                   << ".forward in the same instances (stage_c4)";
    found.push_back(place);
  }
  return success();
}

static LogicalResult verifyInstance(InstanceOp instance, ArrayRef<PlaceOp> places, SymbolTableCollection &symbols) {
  func::FuncOp forward = forwardOf(instance, instance.getBlock(), symbols);
  if (!forward || !forward->hasAttr(kBlockAttr))
    return instance.emitOpError() << instance.getBlock() << ".forward is no function of a block (stage_c1)";
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    if (!forward.getArgAttr(i, kParamAttr))
      continue;
    SmallVector<PlaceOp> own;
    if (failed(findPlaces(places, instance.getBlock(), i, own)))
      return failure();
    int64_t found = 0;
    for (PlaceOp place : own)
      found += covered(place, instance.getFirst(), instance.getCount());
    if (found != int64_t(instance.getCount()))
      return instance.emitOpError() << "argument " << i << " has a place in " << found << " of "
                                    << int64_t(instance.getCount()) << " instances (stage_c4)";
  }
  return success();
}

static LogicalResult verifyReductions(StageOp stage, SymbolTableCollection &symbols) {
  DenseMap<int64_t, int64_t> reduced; // chunk -> instances
  for (ReductionOp reduction : stage.all<ReductionOp>()) {
    if (!symbols.lookupNearestSymbolFrom<func::FuncOp>(stage, reduction.getFunctionAttr()))
      return reduction.emitOpError() << reduction.getFunctionAttr() << " is no function (stage_c3)";
    if (int64_t(reduction.getInstances()) < 1)
      return reduction.emitOpError() << "has " << int64_t(reduction.getInstances()) << " instances (reduction_c1)";
    reduced[reduction.getChunk()] += int64_t(reduction.getInstances());
  }
  for (ChunkOp chunk : stage.all<ChunkOp>()) {
    int64_t all = 0;
    for (InstanceOp instance : chunk.getBody().getOps<InstanceOp>())
      all += instance.getCount();
    auto found = reduced.find(chunk.getNumber());
    if (found != reduced.end() && found->second != all)
      return chunk.emitOpError() << "its reductions have " << found->second << " of " << all
                                 << " instances (reduction_c1)";
    if (found != reduced.end())
      reduced.erase(found);
  }
  if (!reduced.empty())
    return stage.emitOpError() << "a reduction of chunk " << reduced.begin()->first
                               << ", which it has not (reduction_c1)";
  return success();
}

LogicalResult StageOp::verifyRegions() {
  SymbolTableCollection symbols;
  for (auto function : {getBeginAttr(), getReduceAttr(), getUpdateAttr()})
    if (!symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, function))
      return emitOpError() << function << " is no function (stage_c3)";
  for (auto [i, chunk] : llvm::enumerate(all<ChunkOp>()))
    if (chunk.getNumber() != i || chunk.getBody().front().empty())
      return chunk.emitOpError() << "expected number " << i << " and at least one instance (stage_c1)";
  if (failed(verifyReductions(*this, symbols)))
    return failure();
  SmallVector<BucketOp> buckets = all<BucketOp>();
  for (PlaceOp place : getBody().front().getOps<PlaceOp>())
    if (failed(verifyPlace(place, buckets, symbols)))
      return failure();
  SmallVector<PlaceOp> places = all<PlaceOp>();
  for (ChunkOp chunk : all<ChunkOp>())
    for (Operation &op : chunk.getBody().front()) {
      auto instance = dyn_cast<InstanceOp>(op);
      if (!instance)
        return op.emitOpError("a chunk holds instances only (stage_c1)");
      if (failed(verifyInstance(instance, places, symbols)))
        return failure();
    }
  return success();
}

// --- tile

YieldOp TileOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }
bool TileOp::isSum(unsigned i) { return getResult(i).getType() == getYield().getOperand(i).getType(); }

// Whether `whole` is `part` with its first dimension, called `dim`, times `count`.
static bool isWholeOf(Type whole, Type part, StringAttr dim, int64_t count) {
  auto from = cast<RankedTensorType>(whole), to = cast<RankedTensorType>(part);
  LayoutAttr layout = layoutOf(from);
  return layout && layout == layoutOf(to) && from.getElementType() == to.getElementType() && from.getRank() > 0 &&
         from.getRank() == to.getRank() && layout.getNames().front() == dim &&
         from.getDimSize(0) == to.getDimSize(0) * count && from.getShape().drop_front() == to.getShape().drop_front();
}

LogicalResult TileOp::verify() {
  const int64_t count = getCount();
  if (count < 2)
    return emitOpError() << "count is " << count << "; expected at least 2 (tile_c1)";
  Block &body = getBody().front();
  LayoutAttr layout = getValues().empty() ? LayoutAttr() : layoutOf(getValues().front());
  if (!layout || layout.getNames().empty() || body.getNumArguments() != getValues().size())
    return emitOpError("has values whose first dimension is tiled, and an argument of its body for each (tile_c2)");
  StringAttr dim = layout.getNames().front();
  for (auto [value, argument] : llvm::zip(getValues(), body.getArguments()))
    if (!isWholeOf(value.getType(), argument.getType(), dim, count))
      return emitOpError() << "argument " << argument.getArgNumber() << " is " << argument.getType()
                           << ", which is no part of " << value.getType() << " (tile_c2)";
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || yield.getNumOperands() != getNumResults())
    return emitOpError("yields another number of values than it has results (tile_c3)");
  for (auto [yielded, result] : llvm::zip(yield.getOperands(), getResults()))
    if (yielded.getType() != result.getType() && !isWholeOf(result.getType(), yielded.getType(), dim, count))
      return emitOpError() << "yields " << yielded.getType() << " for the result " << result.getType()
                           << "; expected that type, or a part of it (tile_c3)";
  return success();
}

LogicalResult TileOp::verifyRegions() {
  TileFlow flow(layoutOf(getValues().front()).getNames().front());
  for (Operation &op : getBody().front().without_terminator())
    if (!flow.add(&op))
      return op.emitOpError("cannot be done on a part of the tiled dimension (tile_c4)");
  for (auto [i, value] : llvm::enumerate(getYield().getOperands())) {
    if (value.getParentBlock() != &getBody().front())
      return emitOpError() << "yields for result " << i << " a value of outside its body (tile_c3)";
    if ((flow.stateOf(value) == TileFlow::State::part) == isSum(i))
      return emitOpError() << "result " << i << (isSum(i) ? " adds up what is no summand" : " is a part that is summed")
                           << " (tile_c3)";
  }
  return success();
}

// --- kernel

std::optional<RowSpace> KernelOp::getSpace() {
  std::optional<RowSpace> space;
  for (Operation &op : getBody().front().without_terminator()) {
    auto row = dyn_cast<RowOpInterface>(op);
    if (!row)
      return std::nullopt;
    space = space ? mergeSpaces(*space, row.getRowSpace()) : std::optional(row.getRowSpace());
    if (!space)
      return std::nullopt;
  }
  return space;
}

// Whether all ops iterate one dimension first, and none sums over it.
static bool startsAlike(KernelOp kernel) {
  std::optional<RowSpace::NamedDim> first;
  for (auto op : kernel.getBody().front().getOps<RowOpInterface>()) {
    const RowSpace space = op.getRowSpace();
    const RowSpace::Dims dims = rowDims(op->getResult(0));
    if (space.kind == RowSpace::Kind::columns || dims.empty() || (first && *first != dims.front()))
      return false;
    first = dims.front();
  }
  return first.has_value();
}

LogicalResult KernelOp::verifyRegions() {
  Block &body = getBody().front();
  if (!getSpace())
    return emitOpError("the ops inside are not row ops over one space (kernel_c1)");
  for (auto op : body.getOps<RowOpInterface>())
    for (Value operand : op->getOperands())
      if (operand.getParentBlock() == &body && isDoneAfterKernel(op, operand))
        return op->emitOpError("reads a table or a sum over rows of its own kernel (kernel_c2)");
  llvm::SmallPtrSet<void *, 4> yielded;
  for (Value value : body.getTerminator()->getOperands()) {
    if (value.getParentBlock() != &body)
      return emitOpError("yields a value that it does not make (kernel_c1)");
    if (!yielded.insert(value.getAsOpaquePointer()).second)
      return emitOpError("yields a value twice (kernel_c3)");
  }
  if (body.getTerminator()->getOperandTypes() != getResultTypes())
    return emitOpError("results do not fit what is yielded (kernel_c1)");
  if (getNumber() && (tensorOf(getNumber()).getRank() != 0 || !startsAlike(*this)))
    return emitOpError("does a number of rows; expected a number without dimensions, and ops whose first "
                       "dimension is one and not summed over (kernel_c4)");
  return success();
}

// --- moves

InstructionCall ZeroOp::getCall() {
  return {plan::Move{.kind = plan::Move::Kind::fill, .bytes = bytesOf(getType())}, {getResult()}};
}

// Several scalars and the vector of them.
static LogicalResult verifyPacked(Operation *op, Value vector, ValueRange scalars, StringRef name) {
  if (tensorOf(vector).getNumElements() != int64_t(scalars.size()))
    return op->emitOpError() << "as many scalars as elements expected (" << name << "_c1)";
  for (Value scalar : scalars)
    if (!layoutOf(scalar) || !layoutOf(vector))
      return op->emitOpError() << "scalars and vector have layouts (" << name << "_c2)";
    else if (layoutOf(scalar).getPending() != layoutOf(vector).getPending())
      return op->emitOpError() << "a scalar is pending over " << layoutOf(scalar).getPending() << ", the vector over "
                               << layoutOf(vector).getPending() << " (" << name << "_c2)";
  return success();
}

LogicalResult BucketOp::verify() {
  const int64_t units = getUnits(), elements = getElements();
  if (units < 1 || elements % units != 0 || (units > 1 && !getPerUnit()))
    return emitOpError() << units << " units of " << elements
                         << " elements; expected 1, or with perUnit a number that divides these (bucket_c2)";
  const std::optional<GatherTime> gather = plan::valueNamed<GatherTime>(getGather());
  if (!gather || (*gather != GatherTime::never && getShard().empty()) || (*gather == GatherTime::use && !getPerUnit()))
    return emitOpError() << "gather = '" << getGather() << "'; expected one of "
                         << fmt::format("{}", fmt::join(plan::enumNames<GatherTime>, ", "))
                         << ", never without shard, use with perUnit alone (bucket_c3)";
  if (llvm::is_contained(plan::enumNames<plan::BucketUse>, std::string_view(getUse())))
    return success();
  return emitOpError() << "use = '" << getUse() << "'; expected one of "
                       << fmt::format("{}", fmt::join(plan::enumNames<plan::BucketUse>, ", ")) << " (bucket_c1)";
}

LogicalResult PiecesOp::verify() {
  if (int64_t(getCount()) >= 1 && int64_t(getParts()) >= 1 && int64_t(getFirst()) >= 0)
    return success();
  return emitOpError() << int64_t(getCount()) << " times " << int64_t(getParts()) << " parts from part "
                       << int64_t(getFirst()) << " on; expected at least one of each, from 0 on (pieces_c1)";
}

LogicalResult PackOp::verify() { return verifyPacked(*this, getResult(), getValues(), "pack"); }
LogicalResult UnpackOp::verify() { return verifyPacked(*this, getValue(), getResults(), "unpack"); }
