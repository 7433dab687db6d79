// See Frame.h.
#include "compiler/assemble/Frame.h"

#include "compiler/assemble/memory/MemorySolver.h"
#include "compiler/program/Blocks.h"
#include "dialects/mg/Target.h"

using namespace mlir;

namespace mgc {

namespace {

bool isYieldOfTile(Operation *op) { return isa<YieldOp>(op) && isa<TileOp>(op->getParentOp()); }

// From the function, or from a tile into its result. Uses of a value's memory are those of its other names too.
bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isa<func::ReturnOp>(user) || isYieldOfTile(user) || (isa<RenameOp>(user) && isReturned(user->getResult(0)));
  });
}

// Whether the kernel may make the value (yielded inside) where the captured one lies: a row kernel loads what it needs
// of a row before it stores it, and may be in place (codegen/rows/graph/RowGraph.h). Other places of a row are read by
// kernels that work row by row only; other rows may be overwritten already.
bool mayOverwrite(KernelOp kernel, Value made, Value captured) {
  std::optional<RowSpace> space = kernel.getSpace();
  auto maker = dyn_cast_or_null<RowOpInterface>(made.getDefiningOp());
  bool readsOtherRows = llvm::any_of(kernel.getBody().front().getOps<RowOpInterface>(), [&](RowOpInterface op) {
    return op.getLookupTable() == captured && !op.looksUpInRow();
  });
  return space && maker && !readsOtherRows && !maker.onlyAccumulates() && made.getType() == captured.getType() &&
         tensorOf(made).getRank() == int64_t(space->rows.size() + space->columns.size());
}

// Whether the op is an all-reduce whose result may have the operand's memory.
bool mayWorkInPlace(Operation *op) {
  auto reduce = dyn_cast<AllReduceOp>(op);
  if (!reduce || isReturned(reduce.getResult()))
    return false;
  Value source = reduce.getValue();
  if (!source.hasOneUse() || source != storageOf(source) ||
      source.getDefiningOp<JoinOp>() || // its parts are read as well
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

// The result of a step's function that is made of the sum of slices by all-reduces alone, whose place it may have; null: there is none.
Value resultMadeOf(Value sum) {
  if (!sum.getDefiningOp<ReduceScatterOp>())
    return {};
  while (sum.hasOneUse() && isa<AllReduceOp>(*sum.user_begin()))
    sum = sum.user_begin()->getResult(0);
  const bool isOfStep = llvm::any_of(sum.getUses(), [](OpOperand &use) {
    auto function = dyn_cast<func::FuncOp>(use.getOwner()->getParentOp());
    return function && isa<func::ReturnOp>(use.getOwner()) &&
           function.getResultAttr(use.getOperandNumber(), kBufferAttr);
  });
  return isOfStep ? sum : Value();
}

class FrameBuilder {
public:
  explicit FrameBuilder(func::FuncOp function) : body_(function.getBody().front()) { number(body_); }

  Result<FunctionFrame> build() {
    place(body_);
    MGC_ASSIGN(assignment, memory::solve(buffers_));
    MGC_TRY(memory::verify(buffers_, assignment));
    frame_.bytes = assignment.peak;
    frame_.leastBytes = memory::lowerBound(buffers_);
    for (auto [value, buffer] : bufferOf_)
      frame_.offsets[value] = assignment.offsets[buffer];
    for (auto [op, buffer] : workspaceOf_)
      frame_.workspaces[op] = assignment.offsets[buffer];
    frame_.buffers = std::move(buffers_);
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
        placeResults(op);
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
      if (isCollective(user) && user->getBlock() == value.getParentBlock())
        last = std::max(last, firstUse(user->getResult(0)) - 1);
      if (isView(user))
        for (Value view : user->getResults())
          last = std::max(last, lastUse(view));
    }
    return last;
  }

  // A joined value is there from its first part on, and until the last use of any.
  void addJoined(JoinOp join) {
    int64_t first = begin_.lookup(join), last = lastUse(join.getWhole());
    for (Value part : join.getParts()) {
      Value made = unrenamed(part);
      first = std::min(first, begin_.lookup(made.getDefiningOp()));
      last = std::max(last, lastUse(made));
    }
    bufferOf_[join.getWhole()] = add(bytesOf(join.getWhole().getType()), first, last);
  }

  void placeResult(Operation &op, Value result) {
    if (const Value whole = resultMadeOf(result); whole && whole != result) {
      frame_.inResults[result] = whole;
    } else if (mayWorkInPlace(&op)) {
      frame_.inPlace.insert(&op);
      extend(op.getOperand(0), result);
    } else if (isReturned(result) || joinedAs(result).join) {
      return; // its place is another's, or the caller's
    } else if (auto join = dyn_cast<JoinOp>(op)) {
      addJoined(join);
    } else if (auto kernel = dyn_cast<KernelOp>(op); !kernel || !takeOver(kernel, cast<OpResult>(result))) {
      bufferOf_[result] = add(bytesOf(result.getType()), begin_.lookup(&op), lastUse(result));
    }
  }

  void placeResults(Operation &op) {
    int64_t here = begin_.lookup(&op);
    takenOver_.clear();
    for (Value result : op.getResults())
      placeResult(op, result);
    const bool runsOn = isCollective(&op);
    if (int64_t bytes = workspaceBytes(&op))
      workspaceOf_[&op] = add(bytes, here, runsOn ? firstUse(op.getResult(0)) - 1 : here);
  }

  // The operand's buffer, if it has one here, lives as long as the result.
  void extend(Value operand, Value result) {
    auto it = bufferOf_.find(operand);
    if (it == bufferOf_.end())
      return;
    int64_t buffer = it->second;
    buffers_[buffer].end = std::max(buffers_[buffer].end, lastUse(result) + 1);
    bufferOf_[result] = buffer;
  }

  // Whether a captured value that is not read later has a buffer, which then is the result's.
  bool takeOver(KernelOp kernel, OpResult result) {
    mlir::Block &body = kernel.getBody().front();
    Value made = body.getTerminator()->getOperand(result.getResultNumber());
    int64_t here = begin_.lookup(kernel);
    for (Operation &op : body.without_terminator())
      for (Value captured : op.getOperands()) {
        auto known = bufferOf_.find(captured);
        if (known == bufferOf_.end() || buffers_[known->second].end != here + 1 ||
            llvm::any_of(captured.getUsers(), isView) || !mayOverwrite(kernel, made, captured) ||
            !takenOver_.insert(known->second).second)
          continue;
        int64_t buffer = known->second;
        buffers_[buffer].end = lastUse(result) + 1;
        bufferOf_[result] = buffer;
        return true;
      }
    return false;
  }

  int64_t add(int64_t bytes, int64_t first, int64_t last) {
    buffers_.push_back({bytes, first, last + 1});
    return int64_t(buffers_.size()) - 1;
  }

  mlir::Block &body_;
  int64_t next_ = 0;
  llvm::DenseMap<Operation *, int64_t> begin_, end_; // end: of tiles
  std::vector<memory::LiveBuffer> buffers_;          // lifetimes in ops, those of a tile between its begin and end
  llvm::DenseMap<Value, int64_t> bufferOf_;
  llvm::DenseMap<Operation *, int64_t> workspaceOf_;
  llvm::DenseSet<int64_t> takenOver_; // by results of the op that is being placed
  FunctionFrame frame_;
};

} // namespace

Result<FunctionFrame> placeFrame(func::FuncOp function) { return FrameBuilder(function).build(); }

} // namespace mgc
