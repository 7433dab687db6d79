// See Coalesce.h.
#include "compiler/shard/Coalesce.h"
#include "compiler/shard/Reshard.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mgc;

namespace {

constexpr llvm::StringLiteral kAlong = "n"; // the dimension that is joined along; n1 .. where values have an n

bool communicates(ReshardOp op) {
  return llvm::any_of(planReshard(layoutOf(op.getValue()), layoutOf(op.getResult())), [](const ReshardStep &step) {
    return step.kind != ReshardKind::slice && step.kind != ReshardKind::demote;
  });
}

// A reshard's value as one of several: dimensions that all have, and one of its own before the last.
struct JoinedReshard {
  mutable ReshardOp op;
  int64_t own = 1; // positions of the joined dimension
};

// The dimensions of a type, to be changed and made a type again.
struct Dimensions {
  RankedTensorType type;
  SmallVector<int64_t> shape;
  SmallVector<StringAttr> names;
  SmallVector<ArrayAttr> axes;

  explicit Dimensions(RankedTensorType type)
      : type(type), shape(type.getShape()), names(layoutOf(type).getNames()), axes(layoutOf(type).getAxes()) {}

  RankedTensorType get() const {
    LayoutAttr old = layoutOf(type);
    return RankedTensorType::get(shape, type.getElementType(),
                                 LayoutAttr::get(type.getContext(), names, axes, old.getPending(), old.getReduction()));
  }
};

RankedTensorType without(RankedTensorType type, int64_t index) {
  Dimensions dims(type);
  dims.shape.erase(dims.shape.begin() + index);
  dims.names.erase(dims.names.begin() + index);
  dims.axes.erase(dims.axes.begin() + index);
  return dims.get();
}

RankedTensorType with(RankedTensorType type, int64_t index, StringAttr name, int64_t size) {
  Dimensions dims(type);
  dims.shape.insert(dims.shape.begin() + index, size);
  dims.names.insert(dims.names.begin() + index, name);
  dims.axes.insert(dims.axes.begin() + index, ArrayAttr::get(type.getContext(), {}));
  return dims.get();
}

class Coalescer {
public:
  explicit Coalescer(func::FuncOp function) : function_(function) {}

  void run() {
    SmallVector<Operation *> ops;
    for (Operation &op : function_.getBody().front())
      if (isa<ComputeOpInterface>(op) && !isa<RenameOp, PartsOp, JoinOp>(op))
        ops.push_back(&op);
    for (Operation *op : ops) {
      coalesce(reshardsBefore(op), /*isBefore=*/true);
      coalesce(reshardsAfter(op), /*isBefore=*/false);
    }
  }

private:
  using Reshards = SmallVector<ReshardOp>;

  static Value unrenamed(Value value) {
    while (auto rename = value.getDefiningOp<RenameOp>())
      value = rename.getValue();
    return value;
  }

  // The communicating reshards that make the op's operands, under other names too.
  static Reshards reshardsBefore(Operation *op) {
    llvm::SmallSetVector<Operation *, 4> found;
    for (Value operand : op->getOperands())
      if (auto reshard = unrenamed(operand).getDefiningOp<ReshardOp>(); reshard && communicates(reshard))
        found.insert(reshard);
    return llvm::map_to_vector(found, [](Operation *each) { return cast<ReshardOp>(each); });
  }

  static void addUsers(Value value, Reshards &found) {
    for (Operation *user : value.getUsers())
      if (auto reshard = dyn_cast<ReshardOp>(user); reshard && communicates(reshard))
        found.push_back(reshard);
      else if (isa<RenameOp>(user))
        addUsers(user->getResult(0), found);
  }
  static Reshards reshardsAfter(Operation *op) {
    Reshards found;
    for (Value result : op->getResults())
      addUsers(result, found);
    return found;
  }

  // Reshards of one change of layout; `common` counts the dimensions that all have.
  void coalesce(const Reshards &reshards, bool isBefore) {
    size_t common = SIZE_MAX;
    for (ReshardOp reshard : reshards)
      common = std::min(common, layoutOf(reshard.getValue()).getNames().size());
    llvm::MapVector<std::pair<Type, Type>, SmallVector<JoinedReshard>> groups;
    for (ReshardOp reshard : reshards)
      if (std::optional<JoinedReshard> part = partOf(reshard, common)) {
        auto [from, to] = commonTypes(reshard, common);
        groups[{from, to}].push_back(*part);
      }
    for (auto &[types, parts] : groups)
      if (parts.size() > 1)
        join(cast<RankedTensorType>(types.first), cast<RankedTensorType>(types.second), parts, isBefore);
  }

  // Nothing where the value has more dimensions of its own, or an axis splits it.
  static std::optional<JoinedReshard> partOf(ReshardOp op, size_t common) {
    LayoutAttr from = layoutOf(op.getValue()), to = layoutOf(op.getResult());
    const size_t count = from.getNames().size();
    if (count == common)
      return JoinedReshard{op};
    const size_t own = count - 2;
    if (count > common + 1 || count < 2 || !from.getAxes()[own].empty() || !to.getAxes()[own].empty())
      return std::nullopt;
    return JoinedReshard{op, tensorOf(op.getValue()).getDimSize(own)};
  }

  static std::pair<RankedTensorType, RankedTensorType> commonTypes(ReshardOp op, size_t common) {
    RankedTensorType from = tensorOf(op.getValue()), to = tensorOf(op.getResult());
    if (size_t(from.getRank()) == common)
      return {from, to};
    return {without(from, from.getRank() - 2), without(to, to.getRank() - 2)};
  }

  StringAttr freeName(ArrayRef<StringAttr> names) {
    auto *context = function_.getContext();
    auto name = StringAttr::get(context, kAlong);
    for (int64_t i = 1; llvm::is_contained(names, name); ++i)
      name = StringAttr::get(context, kAlong + Twine(i));
    return name;
  }

  // Before the op that uses them all, behind the last of the values; after the op that gives them all, at the first use.
  void join(RankedTensorType from, RankedTensorType to, ArrayRef<JoinedReshard> parts, bool isBefore) {
    Operation *place = parts.front().op;
    for (const JoinedReshard &part : parts)
      if (place->isBeforeInBlock(part.op) == isBefore)
        place = part.op;
    if (isBefore ? !usersMoveBehind(parts, place) : !valuesMoveBefore(parts, place))
      return;
    OpBuilder builder(place);
    SmallVector<Value> values;
    SmallVector<Type> types;
    int64_t size = 0;
    for (const JoinedReshard &part : parts) {
      values.push_back(part.op.getValue());
      types.push_back(part.op.getType());
      size += part.own;
    }
    const int64_t index = from.getRank() - 1;
    Value whole = wholeOf(values, index);
    StringAttr along =
        whole ? values.front().getDefiningOp<PartsOp>().getAlongAttr() : freeName(layoutOf(from).getNames());
    if (!whole)
      whole = JoinOp::create(builder, place->getLoc(), with(from, index, along, size), values, along);
    Value resharded = ReshardOp::create(builder, place->getLoc(), with(to, index, along, size), whole);
    auto results = PartsOp::create(builder, place->getLoc(), types, resharded, along);
    for (auto [part, result] : llvm::zip(parts, results.getParts()))
      part.op.getResult().replaceAllUsesWith(result);
    for (const JoinedReshard &part : parts)
      part.op.erase();
  }

  // The value that has exactly these parts along dimension `index`, if there is one.
  static Value wholeOf(ArrayRef<Value> values, int64_t index) {
    auto parts = values.front().getDefiningOp<PartsOp>();
    const bool areAll = parts && llvm::equal(parts.getParts(), values) &&
                        layoutOf(parts.getWhole()).indexOf(parts.getAlongAttr()) == index;
    return areAll ? parts.getWhole() : Value();
  }

  // Renames that stand between the reshards; other users there want their value earlier.
  static bool usersMoveBehind(ArrayRef<JoinedReshard> parts, Operation *place) {
    SmallVector<Operation *> early;
    for (const JoinedReshard &part : parts)
      for (Operation *user : part.op->getUsers())
        if (user->isBeforeInBlock(place))
          early.push_back(user);
    const auto isLate = [&](Operation *user) { return place->isBeforeInBlock(user); };
    if (!llvm::all_of(early, [&](Operation *op) { return isa<RenameOp>(op) && llvm::all_of(op->getUsers(), isLate); }))
      return false;
    for (Operation *op : early)
      op->moveAfter(place);
    return true;
  }

  static bool valuesMoveBefore(ArrayRef<JoinedReshard> parts, Operation *place) {
    SmallVector<Operation *> late;
    for (const JoinedReshard &part : parts) {
      Operation *value = part.op.getValue().getDefiningOp();
      if (value && !value->isBeforeInBlock(place))
        late.push_back(value);
    }
    const auto isThere = [&](Value value) {
      return !value.getDefiningOp() || value.getDefiningOp()->isBeforeInBlock(place);
    };
    if (!llvm::all_of(late,
                      [&](Operation *op) { return isa<RenameOp>(op) && llvm::all_of(op->getOperands(), isThere); }))
      return false;
    for (Operation *op : late)
      op->moveBefore(place);
    return true;
  }

  func::FuncOp function_;
};

} // namespace

void mgc::coalesceReshards(func::FuncOp function) { Coalescer(function).run(); }
