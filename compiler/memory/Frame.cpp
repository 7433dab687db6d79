// See Frame.h.
#include "compiler/memory/Frame.h"

#include "compiler/program/Blocks.h"
#include "dialects/mg/Target.h"

using namespace mlir;

namespace mgc {

namespace {

bool isYieldOfTile(Operation *op) { return isa<YieldOp>(op) && isa<TileOp>(op->getParentOp()); }

// From the function, or from a tile into its result. Uses of a value's memory are those of its other names too.
bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isa<func::ReturnOp>(user) || isYieldOfTile(user) ||
           (isa<RenameOp>(user) && isReturned(user->getResult(0)));
  });
}

// Whether the kernel may make the value (yielded inside) where the captured one lies: a row kernel loads what it needs
// of a row before it stores it, and may be in place (codegen/rows/graph/RowGraph.h). Other places of a row are read by
// kernels that work row by row only; other rows may be overwritten already.
bool mayOverwrite(KernelOp kernel, Value made, Value captured) {
  std::optional<RowSpace> space = kernel.getSpace();
  auto maker = dyn_cast_or_null<RowOpInterface>(made.getDefiningOp());
  bool readsOtherRows =
      llvm::any_of(kernel.getBody().front().getOps<RowOpInterface>(),
                   [&](RowOpInterface op) { return op.getLookupTable() == captured && !op.looksUpInRow(); });
  return space && maker && !readsOtherRows && !maker.onlyAccumulates() &&
         made.getType() == captured.getType() &&
         tensorOf(made).getRank() == int64_t(space->rows.size() + space->columns.size());
}

class FrameBuilder {
public:
  explicit FrameBuilder(func::FuncOp function)
      : body_(function.getBody().front()),
        collectivesRunBeside_(factsOf(targetOf(function)).collectivesRunBeside) {
    number(body_);
  }

  FunctionFrame build() {
    place(body_);
    return std::move(frame_);
  }

private:
  // Ops in order, those of a tile between its begin and its end.
  void number(mlir::Block &block) {
    for (Operation &op : block) {
      begin_[&op] = next_++;
      if (auto tile = dyn_cast<TileOp>(op)) {
        number(tile.getBody().front());
        end_[&op] = next_++;
      }
    }
  }

  void place(mlir::Block &block) {
    for (Operation &op : block.without_terminator()) {
      if (!isView(&op))
        frame_.places.push_back({&op, placesOf(op)});
      if (auto tile = dyn_cast<TileOp>(op))
        place(tile.getBody().front());
    }
  }

  // When the op of the value's block that holds the use is done: every part of a tile may read the value.
  int64_t doneWith(Value value, Operation *user) {
    Operation *holder = value.getParentBlock()->findAncestorOpInBlock(*user);
    return isa<TileOp>(holder) ? end_.lookup(holder) : begin_.lookup(holder);
  }
  // First use of the value under all its names, which are no uses by themselves; the end of its block if there is none.
  int64_t firstUse(Value value) {
    int64_t first = begin_.lookup(value.getParentBlock()->getTerminator());
    for (Operation *user : value.getUsers()) {
      if (!isView(user))
        first = std::min(first, begin_.lookup(value.getParentBlock()->findAncestorOpInBlock(*user)));
      else
        for (Value view : user->getResults())
          first = std::min(first, firstUse(view));
    }
    return first;
  }
  int64_t lastUse(Value value) {
    int64_t last = begin_.lookup(value.getDefiningOp());
    for (Operation *user : value.getUsers()) {
      last = std::max(last, doneWith(value, user));
      if (collectivesRunBeside_ && isCollective(user) && user->getBlock() == value.getParentBlock())
        last = std::max(last, firstUse(user->getResult(0)) - 1);
      if (isView(user))
        for (Value view : user->getResults())
          last = std::max(last, lastUse(view));
    }
    return last;
  }

  // A joined value is there from its first part on, and until the last use of any.
  int64_t addJoined(JoinOp join) {
    int64_t first = begin_.lookup(join), last = lastUse(join.getWhole());
    for (Value part : join.getParts()) {
      Value made = unrenamed(part);
      first = std::min(first, begin_.lookup(made.getDefiningOp()));
      last = std::max(last, lastUse(made));
    }
    return add(bytesOf(join.getWhole().getType()), first, last, join.getWhole());
  }

  // -1: its place is another's, or the caller's.
  int64_t placeOf(Operation &op, Value result) {
    if (op.hasAttr(kInPlaceAttr))
      return extend(op.getOperand(0), result);
    if (isReturned(result) || joinedAs(result).join)
      return -1;
    if (auto join = dyn_cast<JoinOp>(op))
      return addJoined(join);
    if (auto kernel = dyn_cast<KernelOp>(op))
      if (std::optional<int64_t> buffer = takeOver(kernel, cast<OpResult>(result)))
        return *buffer;
    return add(bytesOf(result.getType()), begin_.lookup(&op), lastUse(result), result);
  }

  std::vector<int64_t> placesOf(Operation &op) {
    std::vector<int64_t> places;
    int64_t here = begin_.lookup(&op);
    takenOver_.clear();
    for (Value result : op.getResults())
      places.push_back(placeOf(op, result));
    const bool runsOn = collectivesRunBeside_ && isCollective(&op);
    if (int64_t bytes = workspaceBytes(&op))
      places.push_back(add(bytes, here, runsOn ? firstUse(op.getResult(0)) - 1 : here, Value()));
    return places;
  }

  // The operand's buffer, if it has one here, lives as long as the result.
  int64_t extend(Value operand, Value result) {
    if (auto it = bufferOf_.find(operand); it != bufferOf_.end()) {
      int64_t buffer = it->second;
      frame_.buffers[buffer].end = std::max(frame_.buffers[buffer].end, lastUse(result) + 1);
      bufferOf_[result] = buffer;
    }
    return -1;
  }

  // The buffer of a captured value that nobody reads later, which then is the result's.
  std::optional<int64_t> takeOver(KernelOp kernel, OpResult result) {
    mlir::Block &body = kernel.getBody().front();
    Value made = body.getTerminator()->getOperand(result.getResultNumber());
    int64_t here = begin_.lookup(kernel);
    for (Operation &op : body.without_terminator())
      for (Value captured : op.getOperands()) {
        auto known = bufferOf_.find(captured);
        if (known == bufferOf_.end() || frame_.buffers[known->second].end != here + 1 ||
            llvm::any_of(captured.getUsers(), isView) || !mayOverwrite(kernel, made, captured) ||
            !takenOver_.insert(known->second).second)
          continue;
        int64_t buffer = known->second;
        frame_.buffers[buffer].end = lastUse(result) + 1;
        bufferOf_[result] = buffer;
        return buffer;
      }
    return std::nullopt;
  }

  int64_t add(int64_t bytes, int64_t first, int64_t last, Value value) {
    int64_t buffer = int64_t(frame_.buffers.size());
    frame_.buffers.push_back({bytes, first, last + 1});
    if (value)
      bufferOf_[value] = buffer;
    return buffer;
  }

  mlir::Block &body_;
  const bool collectivesRunBeside_;
  int64_t next_ = 0;
  llvm::DenseMap<Operation *, int64_t> begin_, end_; // end: of tiles
  llvm::DenseMap<Value, int64_t> bufferOf_;
  llvm::DenseSet<int64_t> takenOver_; // by results of the op that is being placed
  FunctionFrame frame_;
};

// Offsets of the frame's buffers as mg.frame has them; an error when it does not fit the frame.
FailureOr<std::vector<int64_t>> recordedOffsets(const FunctionFrame &frame) {
  std::vector<int64_t> offsets(frame.buffers.size(), -1);
  for (const auto &[op, buffers] : frame.places) {
    auto recorded = op->getAttrOfType<DenseI64ArrayAttr>(kFrameAttr);
    if (!recorded || recorded.size() != int64_t(buffers.size()))
      return op->emitOpError() << "has " << (recorded ? recorded.size() : 0) << " places in " << kFrameAttr
                               << ", expected " << buffers.size() << ": run mg-memory first";
    for (auto [buffer, offset] : llvm::zip(buffers, recorded.asArrayRef())) {
      if ((buffer < 0) != (offset == -1))
        return op->emitOpError()
               << kFrameAttr << " is " << recorded
               << "; expected -1 for what is returned, joined or in place, and for nothing else";
      if (buffer >= 0 && offsets[buffer] >= 0 && offsets[buffer] != offset)
        return op->emitOpError() << kFrameAttr << " is " << recorded << "; expected the place "
                                 << offsets[buffer] << " of the value that a result takes over";
      if (buffer >= 0)
        offsets[buffer] = offset;
    }
  }
  return offsets;
}

} // namespace

bool mayWorkInPlace(Operation *op) {
  if (isView(op))
    return true;
  auto reduce = dyn_cast<AllReduceOp>(op);
  if (!reduce || isReturned(reduce.getResult()))
    return false;
  Value source = reduce.getValue();
  if (!source.hasOneUse() || source != storageOf(source) ||
      source.getDefiningOp<JoinOp>() || // whose parts are read besides
      source.getParentBlock() != op->getBlock())
    return false;
  auto argument = dyn_cast<BlockArgument>(source);
  if (!argument)
    return true;
  auto function = dyn_cast<func::FuncOp>(op->getParentOp());
  if (!function) // a part of a value that the tile does not own
    return false;
  auto buffer = function.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), kBufferAttr);
  auto kind = buffer ? buffer.getAs<StringAttr>("kind") : StringAttr();
  return kind && kind == "gradient";
}

FunctionFrame frameOf(func::FuncOp function) { return FrameBuilder(function).build(); }

LogicalResult verifyFrame(func::FuncOp function) {
  auto bytes = function->getAttrOfType<IntegerAttr>(kFrameAttr);
  if (!bytes)
    return errorIn(function) << "has no " << kFrameAttr << ": run mg-memory first";
  WalkResult inPlace = function.walk([](Operation *op) {
    bool isMarked = op->hasAttr(kInPlaceAttr);
    if (isMarked ? mayWorkInPlace(op) : !isView(op))
      return WalkResult::advance();
    op->emitOpError() << (isMarked ? "may not be " : "is always ") << kInPlaceAttr
                      << "; a rename and parts are, and an all-reduce may be whose operand dies in it";
    return WalkResult::interrupt();
  });
  if (inPlace.wasInterrupted())
    return failure();
  FunctionFrame frame = frameOf(function);
  auto offsets = recordedOffsets(frame);
  if (failed(offsets))
    return failure();
  Status apart = memory::verify(frame.buffers, {std::move(*offsets), bytes.getInt()});
  return apart.isOk()
             ? success()
             : errorIn(function) << "frame, values numbered as in " << kFrameAttr << ": " << apart.message();
}

} // namespace mgc
