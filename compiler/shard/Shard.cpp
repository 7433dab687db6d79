// mg-shard: gives every value its layout and puts mg.reshard at uses.
//
// before:  logical types          %y = mg.einsum %x, %w
// after:   sharded types          %x1 = mg.reshard %x : s [tp], b, h -> s, b, h
//                                 %y = mg.einsum %x1, %w -> s, b, f [tp]
//
// There is no propagation: types are a pure function of the op's rule and the placement table. The pass decides where a
// reshard stands: at a use (P1), from the cheapest copy (P2), with pending sums carried through linear uses (P3),
// cotangents summed before they are reduced (P4), complete home types at block ends (P5), the smallest complete copy
// saved (P6), parameter gradients left pending (P7), equal reshards at one op joined (P8, Coalesce.h).
#include "compiler/program/Passes.h"
#include "compiler/shard/Coalesce.h"
#include "compiler/shard/Placement.h"
#include "compiler/shard/Reshard.h"
#include "plan/StepTotals.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_SHARD
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

// Rows of dimensions that are merged of others and placed by one, on all ranks: each has room for those it may get.
using Rooms = llvm::DenseMap<StringAttr, int64_t>;

StringRef blockOf(func::FuncOp function) { return function->getAttrOfType<StringAttr>(kBlockAttr).getValue(); }

// Ops on the rows of one value agree on how many experts there are.
LogicalResult verifyPlacing(Operation *op, int64_t size, llvm::DenseMap<StringAttr, int64_t> &sizes,
                            StringAttr placing) {
  if (auto [known, isNew] = sizes.try_emplace(placing, size); !isNew && known->second != size)
    return op->emitOpError() << "has rows placed by " << size << " '" << placing.getValue()
                             << "', an op of the block before it by " << known->second
                             << "; expected one number of them";
  return success();
}

int64_t roomOnRanks(Operation *op, const AxisRule &rule, const AxisRule::Merged &merged, const Placement &placement) {
  const Placement::Assignment assignment = placement.assign(rule, op);
  const ArrayAttr none = ArrayAttr::get(op->getContext(), {});
  return roomOfAllRanks(
      op, rule, merged, [&](StringAttr factor) { return factsOf(op, factor).size; },
      [&](StringAttr factor) {
        const ArrayAttr axes = assignment.lookup(factor);
        return axes ? axes : none;
      },
      [&](ArrayRef<Attribute> axes) { return placement.mesh().sizeOf(ArrayAttr::get(op->getContext(), axes)); },
      capacityOf(op));
}

// Finds the rooms of the functions of a block, whose ops agree.
LogicalResult findRooms(func::FuncOp function, const Placement &placement, Rooms &rooms) {
  llvm::DenseMap<StringAttr, int64_t> placingSizes;
  for (Operation &op : function.getBody().front()) {
    auto compute = dyn_cast<ComputeOpInterface>(op);
    const AxisRule rule = compute ? compute.getAxisRule() : AxisRule();
    if (!rule.merged.empty() && (op.hasAttr("coordinates") || op.hasAttr(kExchangeAttr)))
      return op.emitOpError("has coordinates or exchanges rows; a logical program knows no ranks");
    for (const AxisRule::Merged &merged : rule.merged) {
      const auto size = [&](StringAttr factor) { return factsOf(&op, factor).size; };
      if (merged.placing && failed(verifyPlacing(&op, size(merged.placing), placingSizes, merged.placing)))
        return failure();
      int64_t room = size(merged.whole);
      if (merged.placing)
        room = roomOnRanks(&op, rule, merged, placement);
      if (auto [known, isNew] = rooms.try_emplace(merged.whole, room); !isNew && known->second != room)
        return op.emitOpError() << "has room for " << room << " rows '" << merged.whole.getValue()
                                << "', an op of the block before it for " << known->second << "; expected rows of "
                                << kPlacementAttr << " that place them alike";
    }
  }
  return success();
}

// Layouts of saved and split results by block, so that the backward functions take what the earlier ones give.
struct Handed {
  llvm::StringMap<SmallVector<LayoutAttr>> saved, split;
};

class FunctionSharder {
public:
  FunctionSharder(func::FuncOp function, const Placement &placement, const Rooms &rooms, Handed &handed)
      : function_(function), placement_(placement), rooms_(rooms), handed_(handed), builder_(function.getContext()),
        block_(blockOf(function)) {}

  LogicalResult run() {
    decomposeOps();
    Block &body = function_.getBody().front();
    if (failed(typeArguments(body)))
      return failure();
    for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
      builder_.setInsertionPoint(&op);
      LogicalResult typed = isa<AccumulateOp>(op) ? shardAccumulate(cast<AccumulateOp>(op)) : shardOp(&op);
      if (failed(typed))
        return failure();
      done_.push_back(&op);
    }
    shardReturn(cast<func::ReturnOp>(body.getTerminator()));
    for (Operation *op : llvm::reverse(done_))
      op->erase();
    return success();
  }

private:
  // --- Copies of a value

  // Every logical value has copies of different layouts, all meaning the same.
  llvm::DenseMap<Value, SmallVector<Value, 2>> copies_;

  Type withLayout(Type type, LayoutAttr layout) const {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape;
    for (auto [name, size] : llvm::zip(layout.getNames(), tensor.getShape()))
      shape.push_back(rooms_.contains(name) ? rooms_.lookup(name) : size);
    return RankedTensorType::get(shape, tensor.getElementType(), layout);
  }

  void addCopy(Value logical, Value typed) { copies_[logical].push_back(typed); }

  // The copy with the layout wanted: an existing one, or a reshard of the cheapest (P1, P2).
  Value use(Value logical, LayoutAttr wanted) {
    SmallVector<Value, 2> &copies = copies_[logical];
    Value best;
    double bestCost = 0;
    for (Value copy : copies) {
      LayoutAttr layout = layoutOf(copy);
      if (layout == wanted)
        return copy;
      auto steps = planReshard(layout, wanted);
      // Slices and demotes are free; among equals the fewest steps.
      double cost = reshardCost(steps, layout, tensorOf(copy).getShape(), placement_.mesh()) + 1e-6 * steps.size();
      if (!best || cost < bestCost)
        std::tie(best, bestCost) = std::pair(copy, cost);
    }
    Value resharded = ReshardOp::create(builder_, best.getLoc(), withLayout(best.getType(), wanted), best);
    copies.push_back(resharded);
    return resharded;
  }

  // The copy that was defined first: what the value's own op (or the function's argument) gave.
  LayoutAttr definedLayout(Value logical) { return layoutOf(copies_[logical].front()); }
  // Axes over which the defined copy is a pending sum. A pending maximum is linear in nothing: it is completed
  // before any use.
  ArrayAttr pendingSum(Value logical) {
    LayoutAttr layout = definedLayout(logical);
    return layout.getReduction() == Reduction::sum ? layout.getPending() : builder_.getArrayAttr({});
  }
  bool isPending(Value logical) {
    return !pendingSum(logical).empty() &&
           llvm::none_of(copies_[logical], [](Value v) { return layoutOf(v).isComplete(); });
  }

  // --- Carrying (P3)

  // A use that only makes a parameter gradient, which stays pending anyway.
  bool isWeightGradientUse(OpOperand &use) {
    Operation *op = use.getOwner();
    return op->getNumResults() == 1 && op->getResult(0).hasOneUse() && isGradient(*op->getResult(0).use_begin());
  }
  // Sums over all microbatches stay pending until the step's end (P7).
  static bool isAddedUp(StringRef resultKind) {
    return resultKind == "grad" || llvm::is_contained(plan::kResults, std::string_view(resultKind));
  }
  bool isGradient(OpOperand &use) {
    if (!isa<func::ReturnOp>(use.getOwner()))
      return false;
    auto kind = function_.getResultAttrOfType<StringAttr>(use.getOperandNumber(), kResultAttr);
    return kind && isAddedUp(kind.getValue());
  }
  bool mayCarry(Value logical, OpOperand &here) {
    if (isWeightGradientUse(here))
      return true;
    return llvm::all_of(logical.getUses(), [&](OpOperand &use) {
      return &use == &here || isWeightGradientUse(use) || isReturnedAs(use, "split");
    });
  }
  // Passed to the weight half, which is linear in it too.
  bool isReturnedAs(OpOperand &use, StringRef name) {
    if (!isa<func::ReturnOp>(use.getOwner()))
      return false;
    auto kind = function_.getResultAttrOfType<StringAttr>(use.getOperandNumber(), kResultAttr);
    return kind && kind == name;
  }

  // --- Homes
  bool isParameter(Value logical) {
    if (auto argument = dyn_cast<BlockArgument>(logical))
      return function_.getArgAttr(argument.getArgNumber(), kParamAttr) != nullptr;
    return llvm::any_of(logical.getUses(), [&](OpOperand &use) { return isReturnedAs(use, "grad"); });
  }
  LayoutAttr homeOf(Value logical) {
    using enum Placement::ValueKind;
    return placement_.home(layoutOf(logical), isParameter(logical) ? parameter : activation);
  }

  // --- Ops

  void decomposeOps() {
    for (Operation &op : llvm::make_early_inc_range(function_.getBody().front()))
      if (auto whole = dyn_cast<DecomposableOpInterface>(op)) {
        builder_.setInsertionPoint(&op);
        op.replaceAllUsesWith(whole.decompose(builder_));
        op.erase();
      }
  }

  // Pending axes that may pass through the operand: those of its defined copy, minus what the op's assignment uses.
  SmallVector<Attribute> carriable(OpOperand &operand, const Placement::Assignment &assignment) {
    Value value = operand.get();
    if (!isPending(value) || !mayCarry(value, operand))
      return {};
    SmallVector<Attribute> axes;
    llvm::copy_if(pendingSum(value), std::back_inserter(axes),
                  [&](Attribute axis) { return isFree(axis, assignment); });
    return axes;
  }
  static bool isFree(Attribute axis, const Placement::Assignment &assignment) {
    return llvm::none_of(assignment, [&](auto &entry) { return llvm::is_contained(entry.second, axis); });
  }

  // Pending axes that the op's result takes over, and from which operands.
  struct Carried {
    SmallVector<Attribute> axes = {};
    SmallVector<bool> through = {}; // per operand; empty: none
    bool isThrough(OpOperand &operand) const { return !axes.empty() && through[operand.getOperandNumber()]; }
  };

  Carried carriedThrough(Operation *op, const AxisRule &rule, const Placement::Assignment &assignment) {
    for (OpOperand &operand : op->getOpOperands()) {
      const unsigned number = operand.getOperandNumber();
      SmallVector<Attribute> axes;
      if (rule.linear[number] != Linear::none)
        axes = carriable(operand, assignment);
      if (axes.empty())
        continue;
      Carried carried{axes, SmallVector<bool>(op->getNumOperands(), false)};
      carried.through[number] = true;
      if (rule.linear[number] == Linear::alone)
        return carried;
      for (unsigned i = 0; i < op->getNumOperands(); ++i)
        carried.through[i] = rule.linear[i] == Linear::joint;
      if (passesOn(op, axes) || allArePending(op, carried, assignment))
        return carried;
    }
    return {};
  }

  // Whether what is pending in the result would go through its next use too, so that the op's complete operands, demoted
  // to it, cost nothing.
  bool passesOn(Operation *op, ArrayRef<Attribute> axes) {
    Value result = op->getResult(0);
    return op->getNumResults() == 1 && llvm::any_of(result.getUses(), [&](OpOperand &use) {
             auto user = dyn_cast<ComputeOpInterface>(use.getOwner());
             if (!user || !mayCarry(result, use))
               return false;
             AxisRule rule = user.getAxisRule();
             Placement::Assignment assignment = placement_.assign(rule, user);
             return rule.linear[use.getOperandNumber()] == Linear::alone &&
                    llvm::all_of(axes, [&](Attribute axis) { return isFree(axis, assignment); });
           });
  }

  // One reduction, of the result, then takes the place of one for each operand.
  bool allArePending(Operation *op, const Carried &carried, const Placement::Assignment &assignment) {
    return llvm::count(carried.through, true) > 1 && llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
             return !carried.isThrough(operand) || carriable(operand, assignment) == carried.axes;
           });
  }

  LogicalResult shardOp(Operation *op) {
    auto compute = dyn_cast<ComputeOpInterface>(op);
    if (!compute)
      return op->emitOpError("is no op of a logical program");
    AxisRule rule = compute.getAxisRule();
    if (!rule.error.empty())
      return op->emitOpError() << rule.error;
    Placement::Assignment assignment = placement_.assign(rule, op);
    auto emitError = [&] { return op->emitOpError(); };
    if (failed(Placement::verify(emitError, assignment, &rule)) || failed(verifyExchanged(emitError, rule, assignment)))
      return failure();
    SmallVector<Value> operands;
    const Carried carried = carriedThrough(op, rule, assignment);
    for (OpOperand &operand : op->getOpOperands()) {
      LayoutAttr wanted = placement_.restrict(layoutOf(operand.get()), assignment);
      if (carried.isThrough(operand))
        wanted = wanted.withPending(placement_.inMeshOrder(carried.axes));
      if (failed(verifyType(emitError, operand.get(), wanted)) || failed(verifyRows(emitError, operand, wanted)))
        return failure();
      operands.push_back(use(operand.get(), wanted));
    }
    Operation *typed = builder_.clone(*op);
    typed->setOperands(operands);
    recordPlacing(typed, rule, assignment);
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      LayoutAttr layout = resultLayout(rule, i, layoutOf(result), assignment, carried.axes);
      if (failed(verifyType(emitError, result, layout)))
        return failure();
      typed->getResult(i).setType(withLayout(result.getType(), layout));
      addCopy(result, typed->getResult(i));
    }
    return success();
  }

  // Rows are exchanged over all axes of what places them, or over none.
  static LogicalResult verifyExchanged(function_ref<InFlightDiagnostic()> emitError, const AxisRule &rule,
                                       const Placement::Assignment &assignment) {
    const SmallVector<Attribute> exchanged =
        rule.exchanged([&](StringAttr factor) { return assignment.lookup(factor); });
    for (const AxisRule::Merged &merged : rule.merged)
      if (merged.placing && !exchanged.empty() && assignment.lookup(merged.placing).size() != exchanged.size())
        return emitError() << "has rows placed over " << assignment.lookup(merged.placing)
                           << ", of which some split tokens too; expected rows of " << kPlacementAttr
                           << " for it that split tokens over all of these or none";
    return success();
  }

  // Axes of what places rows, which no type of the op need have.
  void recordPlacing(Operation *typed, const AxisRule &rule, const Placement::Assignment &assignment) {
    for (const AxisRule::Merged &merged : rule.merged)
      if (ArrayAttr axes = merged.placing ? assignment.lookup(merged.placing) : ArrayAttr(); axes && !axes.empty())
        typed->setAttr("coordinates",
                       builder_.getDictionaryAttr(builder_.getNamedAttr(merged.placing.getValue(), axes)));
  }

  // A merged dimension has rows in an order that each rank has for itself: no reshard means the same value.
  LogicalResult verifyRows(function_ref<InFlightDiagnostic()> emitError, OpOperand &operand, LayoutAttr wanted) {
    const LayoutAttr defined = definedLayout(operand.get());
    for (auto [name, own, used] : llvm::zip(defined.getNames(), defined.getAxes(), wanted.getAxes()))
      if (rooms_.contains(name) && own != used)
        return emitError() << "rows '" << name.getValue() << "' of operand " << operand.getOperandNumber()
                           << " are split over " << own << ", but used over " << used << "; expected rows of "
                           << kPlacementAttr << " that split them as the tokens that they are made of, in every op";
    return success();
  }

  LayoutAttr resultLayout(const AxisRule &rule, size_t i, LayoutAttr names, const Placement::Assignment &assignment,
                          ArrayRef<Attribute> carried) {
    SmallVector<Attribute> pending(carried);
    llvm::append_range(
        pending, rule.reducedAxes(names.getNames(), [&](StringAttr factor) { return assignment.lookup(factor); }));
    return placement_.restrict(names, assignment).withPending(placement_.inMeshOrder(pending), rule.reductions[i]);
  }

  LogicalResult verifyType(function_ref<InFlightDiagnostic()> emitError, Value value, LayoutAttr layout) {
    return placement_.mesh().verifyType(emitError, withLayout(value.getType(), layout));
  }

  // Whether the sum only leaves the function as it is, and each summand has the splits of home.
  bool sumStaysPending(AccumulateOp op, LayoutAttr home) {
    ArrayAttr none = ArrayAttr::get(op.getContext(), {});
    return llvm::all_of(op.getResult().getUses(), [&](OpOperand &use) { return isGradient(use); }) &&
           llvm::any_of(op.getValues(), [&](Value value) { return isPending(value); }) &&
           llvm::all_of(op.getValues(), [&](Value value) {
             LayoutAttr layout = definedLayout(value);
             return layout.getReduction() == Reduction::sum && layout.withPending(none) == home;
           });
  }

  struct Summands {
    SmallVector<Value> values;
    SmallVector<int64_t> signs;
    void add(Value value, int64_t sign) {
      values.push_back(value);
      signs.push_back(sign);
    }
  };
  using Groups = llvm::MapVector<Attribute, Summands>; // by splits

  // P4: pending contributions with equal splits are summed as they are and reduced once; complete ones are added after
  // that, at the home type. Where the sum itself stays pending (P7), complete ones are demoted into it.
  LogicalResult shardAccumulate(AccumulateOp op) {
    LayoutAttr home = homeOf(op.getResult());
    auto [groups, complete] = groupSummands(op, home);
    Summands partial;
    for (auto &[splits, group] : groups)
      addGroup(op, cast<LayoutAttr>(splits), group, partial);
    if (complete.values.empty() && partial.values.size() == 1 && partial.signs.front() == 1) {
      addCopy(op.getResult(), partial.values.front());
      return success();
    }
    for (auto [value, sign] : llvm::zip(partial.values, partial.signs))
      complete.add(ReshardOp::create(builder_, op.getLoc(), withLayout(op.getType(), home), value), sign);
    addCopy(op.getResult(), makeSum(op, home, complete));
    return success();
  }

  std::pair<Groups, Summands> groupSummands(AccumulateOp op, LayoutAttr home) {
    Groups groups;
    Summands complete;
    ArrayAttr none = ArrayAttr::get(op.getContext(), {});
    bool staysPending = sumStaysPending(op, home);
    for (auto [value, sign] : llvm::zip(op.getValues(), op.getSigns()))
      if (isPending(value) || staysPending)
        groups[definedLayout(value).withPending(none)].add(value, sign);
      else
        complete.add(use(value, home), sign);
    return {std::move(groups), std::move(complete)};
  }

  // Their sum, pending over all that one of them is; one alone keeps its sign.
  void addGroup(AccumulateOp op, LayoutAttr splits, const Summands &group, Summands &sums) {
    llvm::SmallSetVector<Attribute, 4> pending;
    for (Value value : group.values) {
      ArrayAttr axes = definedLayout(value).getPending();
      pending.insert(axes.begin(), axes.end());
    }
    LayoutAttr layout = splits.withPending(placement_.inMeshOrder(pending.getArrayRef()));
    Summands parts;
    for (auto [value, sign] : llvm::zip(group.values, group.signs))
      parts.add(use(value, layout), sign);
    if (parts.values.size() == 1)
      sums.add(parts.values.front(), parts.signs.front());
    else
      sums.add(makeSum(op, layout, parts), 1);
  }

  Value makeSum(AccumulateOp op, LayoutAttr layout, const Summands &parts) {
    return AccumulateOp::create(builder_, op.getLoc(), withLayout(op.getType(), layout), parts.values,
                                builder_.getDenseI64ArrayAttr(parts.signs));
  }

  // --- Ends of the function

  LogicalResult typeArguments(Block &body) {
    SmallVector<Value> typed;
    unsigned count = body.getNumArguments();
    for (unsigned i = 0; i < count; ++i) {
      Value logical = body.getArgument(i);
      LayoutAttr layout = argumentLayout(i);
      if (!layout)
        return function_.emitError() << "argument " << i << " has no layout";
      if (failed(verifyType([&] { return function_.emitError(); }, logical, layout)))
        return failure();
      Value argument = body.addArgument(withLayout(logical.getType(), layout), logical.getLoc());
      addCopy(logical, argument);
    }
    return success();
  }

  LayoutAttr argumentLayout(unsigned i) {
    auto kind = function_.getArgAttrOfType<StringAttr>(i, kArgAttr);
    if (kind && (kind == "saved" || kind == "split")) {
      auto &given = (kind == "saved" ? handed_.saved : handed_.split)[block_];
      auto index = function_.getArgAttrOfType<IntegerAttr>(i, kIndexAttr);
      return index && size_t(index.getInt()) < given.size() ? given[index.getInt()] : LayoutAttr();
    }
    return homeOf(function_.getArgument(i));
  }

  void shardReturn(func::ReturnOp terminator) {
    builder_.setInsertionPoint(terminator);
    SmallVector<Value> results;
    for (auto [i, value] : llvm::enumerate(terminator.getOperands())) {
      auto kind = function_.getResultAttrOfType<StringAttr>(i, kResultAttr);
      StringRef name = kind ? kind.getValue() : "out";
      bool handed = name == "saved" || name == "split";
      if (name == "split" && isPending(value))
        results.push_back(copies_[value].front()); // stays pending: the weight half resolves what it must
      else
        results.push_back(handed ? smallestComplete(value) : use(value, endLayout(value, isAddedUp(name))));
      if (handed)
        (name == "saved" ? handed_.saved : handed_.split)[block_].push_back(layoutOf(results.back()));
    }
    terminator->setOperands(results);
    Block &body = function_.getBody().front();
    unsigned count = body.getNumArguments() / 2;
    // Old arguments have no uses but in ops that are erased next.
    for (Operation *op : llvm::reverse(done_))
      op->dropAllReferences();
    body.eraseArguments(0, count);
    function_.setType(FunctionType::get(function_.getContext(), llvm::to_vector(body.getArgumentTypes()),
                                        llvm::map_to_vector(results, [](Value v) { return v.getType(); })));
  }

  // Home; a gradient keeps what is pending, less what its home splits (P5, P7).
  LayoutAttr endLayout(Value value, bool pends) {
    LayoutAttr home = homeOf(value);
    if (!pends)
      return home;
    SmallVector<Attribute> pending;
    for (Attribute axis : pendingSum(value))
      if (llvm::none_of(home.getAxes(), [&](ArrayAttr axes) { return llvm::is_contained(axes, axis); }))
        pending.push_back(axis);
    return home.withPending(placement_.inMeshOrder(pending));
  }

  // P6. Arguments keep the copy they came with; of copies of one size the last, which an all-to-all gave: backward wants
  // that too.
  Value smallestComplete(Value logical) {
    Value best;
    for (Value copy : copies_[logical]) {
      if (!layoutOf(copy).isComplete())
        continue;
      auto size = [&](Value v) { return localElements(tensorOf(v).getShape(), layoutOf(v), placement_.mesh()); };
      if (!best || (size(copy) <= size(best) && !isa<BlockArgument>(best)))
        best = copy;
    }
    return best ? best : use(logical, homeOf(logical));
  }

  func::FuncOp function_;
  const Placement &placement_;
  const Rooms &rooms_;
  Handed &handed_;
  OpBuilder builder_;
  std::string block_;
  SmallVector<Operation *> done_;
};

// Ranks along an axis that neither has data ranks or stages nor splits a value would all compute the same.
LogicalResult verifyAxesAreUsed(ModuleOp module) {
  llvm::SmallDenseSet<StringRef> used;
  const auto use = [&](TypeRange types) {
    for (Type type : types)
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        for (ArrayAttr axes : layoutOf(tensor).getAxes())
          for (StringAttr axis : axes.getAsRange<StringAttr>())
            used.insert(axis.getValue());
  };
  module.walk([&](Operation *op) { use(op->getResultTypes()); });
  for (auto function : module.getOps<func::FuncOp>())
    use(function.getArgumentTypes());
  for (const plan::Axis &axis : module->getAttrOfType<MeshAttr>(kMeshAttr).getMesh().axes)
    if (axis.role != plan::AxisRole::data && axis.role != plan::AxisRole::stage && !used.contains(axis.name))
      return module.emitError() << kMeshAttr << ": axis '" << axis.name << "' of " << axis.size
                                << " ranks splits nothing, so all would compute the same; expected a row of "
                                << kPlacementAttr
                                << " that gives it a dimension, the role data or stage, or no such axis";
  return success();
}

struct ShardPass : mgc::impl::ShardBase<ShardPass> {
  void runOnForm() override {
    ModuleOp module = getOperation();
    auto placement = Placement::of(module);
    if (failed(placement))
      return signalPassFailure();
    llvm::StringMap<Rooms> rooms;
    for (auto function : module.getOps<func::FuncOp>())
      if (auto block = function->getAttrOfType<StringAttr>(kBlockAttr);
          block && failed(findRooms(function, *placement, rooms[block.getValue()])))
        return signalPassFailure();
    Handed handed;
    // Program order: forward, then backward or input, then weight; each takes what the ones before give.
    for (plan::Task task : plan::kBlockTasks)
      for (auto function : module.getOps<func::FuncOp>())
        if (taskOf(function) == task &&
            failed(FunctionSharder(function, *placement, rooms[blockOf(function)], handed).run()))
          return signalPassFailure();
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(kPassAttr))
        coalesceReshards(function);
    if (failed(verifyAxesAreUsed(module)))
      return signalPassFailure();
    module->setAttr(kPhaseAttr, StringAttr::get(&getContext(), "shard"));
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createShardPass() { return std::make_unique<ShardPass>(); }
