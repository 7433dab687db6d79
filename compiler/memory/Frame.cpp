// See Frame.h.
#include "compiler/memory/Frame.h"

#include "compiler/stage/Blocks.h"

using namespace mlir;

namespace mgc {

namespace {

// Uses of a value's memory are those of its other names too.
bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isa<func::ReturnOp>(user) || (isa<RenameOp>(user) && isReturned(user->getResult(0)));
  });
}

class FrameBuilder {
public:
  explicit FrameBuilder(func::FuncOp function) : body_(function.getBody().front()) {
    for (auto [i, op] : llvm::enumerate(body_))
      position_[&op] = i;
  }

  Frame build() {
    for (Operation &op : body_.without_terminator())
      if (!isa<RenameOp>(op))
        frame_.places.push_back({&op, placesOf(op)});
    return std::move(frame_);
  }

private:
  // The op of this body that holds the use.
  int64_t positionOf(Operation *user) { return position_.lookup(body_.findAncestorOpInBlock(*user)); }
  int64_t lastUse(Value value) {
    int64_t last = position_.lookup(value.getDefiningOp());
    for (Operation *user : value.getUsers())
      last = std::max(last, isa<RenameOp>(user) ? lastUse(user->getResult(0)) : positionOf(user));
    return last;
  }

  std::vector<int64_t> placesOf(Operation &op) {
    std::vector<int64_t> places;
    int64_t here = position_.lookup(&op);
    for (Value result : op.getResults())
      places.push_back(op.hasAttr(kInPlaceAttr) ? extend(op.getOperand(0), result)
                       : isReturned(result) ? -1
                                            : add(bytesOf(result.getType()), here, lastUse(result), result));
    if (int64_t bytes = workspaceBytes(&op))
      places.push_back(add(bytes, here, here, Value()));
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

  int64_t add(int64_t bytes, int64_t first, int64_t last, Value value) {
    int64_t buffer = int64_t(frame_.buffers.size());
    frame_.buffers.push_back({bytes, first, last + 1});
    if (value)
      bufferOf_[value] = buffer;
    return buffer;
  }

  mlir::Block &body_;
  llvm::DenseMap<Operation *, int64_t> position_;
  llvm::DenseMap<Value, int64_t> bufferOf_;
  Frame frame_;
};

// Offsets of the frame's buffers as mg.frame has them; an error when it does not fit the frame.
FailureOr<std::vector<int64_t>> recordedOffsets(const Frame &frame) {
  std::vector<int64_t> offsets(frame.buffers.size());
  for (const auto &[op, buffers] : frame.places) {
    auto recorded = op->getAttrOfType<DenseI64ArrayAttr>(kFrameAttr);
    if (!recorded || recorded.size() != int64_t(buffers.size()))
      return op->emitOpError() << "has " << (recorded ? recorded.size() : 0) << " places in " << kFrameAttr
                               << ", expected " << buffers.size() << ": run mg-memory first";
    for (auto [buffer, offset] : llvm::zip(buffers, recorded.asArrayRef())) {
      if ((buffer < 0) != (offset == -1))
        return op->emitOpError() << kFrameAttr << " is " << recorded
                                 << "; expected -1 for what is returned or in place, and for nothing else";
      if (buffer >= 0)
        offsets[buffer] = offset;
    }
  }
  return offsets;
}

} // namespace

bool mayWorkInPlace(Operation *op) {
  if (isa<RenameOp>(op))
    return true;
  auto reduce = dyn_cast<AllReduceOp>(op);
  if (!reduce || isReturned(reduce.getResult()))
    return false;
  Value source = reduce.getValue();
  if (!source.hasOneUse() || source != storageOf(source))
    return false;
  auto argument = dyn_cast<BlockArgument>(source);
  if (!argument)
    return true;
  auto function = cast<func::FuncOp>(op->getParentOp());
  auto buffer = function.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), kBufferAttr);
  auto kind = buffer ? buffer.getAs<StringAttr>("kind") : StringAttr();
  return kind && kind == "gradient";
}

Frame frameOf(func::FuncOp function) { return FrameBuilder(function).build(); }

LogicalResult verifyFrame(func::FuncOp function) {
  auto bytes = function->getAttrOfType<IntegerAttr>(kFrameAttr);
  if (!bytes)
    return errorIn(function) << "has no " << kFrameAttr << ": run mg-memory first";
  for (Operation &op : function.getBody().front()) {
    bool inPlace = op.hasAttr(kInPlaceAttr);
    if (inPlace ? !mayWorkInPlace(&op) : isa<RenameOp>(op))
      return op.emitOpError() << (inPlace ? "may not be " : "is always ") << kInPlaceAttr
                              << "; a rename is, and an all-reduce may be whose operand dies in it";
  }
  Frame frame = frameOf(function);
  auto offsets = recordedOffsets(frame);
  if (failed(offsets))
    return failure();
  Status apart = memory::verify(frame.buffers, {std::move(*offsets), bytes.getInt()});
  return apart.isOk()
             ? success()
             : errorIn(function) << "frame, values numbered as in " << kFrameAttr << ": " << apart.message();
}

} // namespace mgc
