// mg-grad: differentiates each logical block.
//
// before:  func @B(activations, data, params) -> (activations)
// after:   func @B.forward(same) -> (activations, saved)
//          func @B.backward(dout, saved, data, params) -> (din, grad)
//     or   func @B.input(dout, saved, data, params) -> (din, split)
//          func @B.weight(split, saved, data, params) -> (grad)
//   for each policy of recomputation of the block (Recompute.h), @B.full.forward .. for its variant "full"
//     and where the block has a loss over logits (OfLogits)
//          func @B.forward(same) -> (activations, saved)             ops that the activations need; the last block: none
//          func @B.backward(dout, saved, data, params) -> (din, grad, loss_sum, tokens)     or @B.input, and no @B.weight
//
// A term of the loss that a layer returns is a result of its forward. Its gradient waits for nothing, but starts from
// the saved values when the layer's backward runs: mg.loss_term says with what.
//
// The gradient of a loss over logits waits for nothing either: computed with it, no logits are kept from one function to the
// other, and a part of the tokens can be finished before the next is begun (mg-tile).
//
// Gradients of parameters have the element type gradient_dtype of mg.training (GradientTypes.h), all others that of what
// they are gradients of.
//
// Frozen parameters have no grad, activations without gradients no dout and no din (GradientFlow.h). Gradients that
// nobody needs are not built, and values that only they would read are not saved.
//
// The gradient ops are first built inside a copy of the block, where they may use any forward value, and are then cut
// out: what a cut uses from outside becomes its arguments. The input half is the backward slice of the din values.
#include "compiler/grad/GradientFlow.h"
#include "compiler/grad/GradientTypes.h"
#include "compiler/grad/OffloadModules.h"
#include "compiler/grad/Recompute.h"
#include "compiler/program/Passes.h"
#include "dialects/mg/Complete.h"
#include "dialects/mg/Gradient.h"
#include "dialects/mg/Parameter.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_GRAD
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

// Cotangents of one block's values, built at the end of its body.
class BlockGradient : public GradientBuilder {
public:
  BlockGradient(func::FuncOp block)
      : block_(block), terminator_(cast<func::ReturnOp>(block.getBody().front().getTerminator())),
        builder_(terminator_), trained_(block) {
    for (BlockArgument argument : block.getArguments())
      if (auto param = paramOf(argument); meanLoadOf(param) > 0 && !isFrozen(param))
        loads_.insert(argument);
  }

  OpBuilder &builder() override { return builder_; }
  Location loc() override { return loc_; }
  bool isSeed(Value result) override {
    begun_.insert(result);
    return seeds_.contains(result);
  }
  bool wants(Value operand) override { return trained_.contains(operand) || loads_.contains(operand); }
  void contribute(Value operand, Value contribution) override { contributions_[operand].push_back(contribution); }

  // The sum of the contributions so far: one n-ary op (docs/sharding.md, P4).
  Value cotangent(Value value) override {
    auto it = contributions_.find(value);
    if (it == contributions_.end())
      return {};
    SmallVector<Value> &parts = it->second;
    if (parts.size() > 1) {
      SmallVector<int64_t> signs(parts.size(), 1);
      Value sum = make<AccumulateOp>(value, parts, builder_.getDenseI64ArrayAttr(signs));
      parts.assign({sum});
    }
    return parts.front();
  }

  // Builds everything; afterwards gradient ops stand between the last forward op and the terminator.
  LogicalResult build() {
    Block &body = block_.getBody().front();
    const size_t deferred = deferLoss();
    SmallVector<Operation *> forward;
    for (Operation &op : body.without_terminator())
      forward.push_back(&op);
    firstGradient_ = forward.size() - deferred;
    seedResults();
    for (Operation *op : llvm::reverse(forward)) {
      loc_ = op->getLoc();
      if (!isBegun(op) || !llvm::any_of(op->getOperands(), [&](Value v) { return wants(v); }))
        continue;
      auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
      if (!differentiable)
        return op->emitOpError("has no gradient");
      Operation *last = terminator_->getPrevNode();
      if (failed(differentiable.buildGradient(*this)))
        return failure();
      if (Attribute modules = op->getAttr(kModulesAttr))
        for (Operation *made = last->getNextNode(); made != terminator_; made = made->getNextNode())
          made->setAttr(kModulesAttr, modules);
    }
    loc_ = block_.getLoc();
    if (failed(verifyBegun()))
      return failure();
    for (Operation *op : forward)
      if (auto differentiable = dyn_cast<DifferentiableOpInterface>(op))
        differentiable.forgetGradient();
    prune();
    return success();
  }

  SmallVector<Value> douts; // placeholders: extra block arguments
  bool hasLoss = false;     // over logits

private:
  DictionaryAttr paramOf(BlockArgument argument) {
    return block_.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), kParamAttr);
  }

  // Whether the op has something to pass on: a cotangent, or load to count.
  bool isBegun(Operation *op) {
    return llvm::any_of(op->getResults(), [&](Value r) { return seeds_.contains(r) || contributions_.contains(r); }) ||
           llvm::any_of(op->getOperands(), [&](Value v) { return loads_.contains(v); });
  }

  // Erases gradient ops that no wanted gradient needs.
  void prune() {
    llvm::DenseSet<Value> needed;
    for (BlockArgument argument : block_.getArguments())
      if (wants(argument))
        if (auto known = contributions_.find(argument); known != contributions_.end())
          needed.insert(known->second.begin(), known->second.end());
    SmallVector<Operation *> made;
    for (auto [i, op] : llvm::enumerate(block_.getBody().front().without_terminator()))
      if (i >= firstGradient_)
        made.push_back(&op);
    for (Operation *op : llvm::reverse(made))
      if (op->use_empty() && llvm::none_of(op->getResults(), [&](Value result) { return needed.contains(result); }))
        op->erase();
  }

  // Moves the ops that no activation needs behind the others, where a loss over logits is among them; how many these are.
  size_t deferLoss() {
    Block &body = block_.getBody().front();
    hasLoss = llvm::any_of(body, [](Operation &op) { return op.hasTrait<OfLogits>(); });
    if (!hasLoss)
      return 0;
    llvm::DenseSet<Operation *> needed;
    SmallVector<Value> work;
    for (auto [i, value] : llvm::enumerate(terminator_.getOperands()))
      if (isActivationResult(block_, i))
        work.push_back(value);
    while (!work.empty())
      if (Operation *op = work.pop_back_val().getDefiningOp(); op && needed.insert(op).second)
        llvm::append_range(work, op->getOperands());
    SmallVector<Operation *> deferred;
    for (Operation &op : body.without_terminator())
      if (!needed.contains(&op))
        deferred.push_back(&op);
    for (Operation *op : deferred)
      op->moveBefore(terminator_);
    return deferred.size();
  }

  // A loss result that depends on a parameter has a gradient that some op begins.
  LogicalResult verifyBegun() {
    for (auto [i, value] : llvm::enumerate(terminator_.getOperands()))
      if (seeds_.contains(value) && trained_.contains(value) && !begun_.contains(value))
        return block_.emitError() << "result " << i << " is added to the step's "
                                  << block_.getResultAttr(i, kResultAttr) << ", but what makes it begins no gradient; "
                                  << "expected " << CrossEntropyOp::getOperationName() << " or "
                                  << LossTermOp::getOperationName();
    return success();
  }

  void seedResults() {
    for (auto [i, value] : llvm::enumerate(terminator_.getOperands())) {
      if (!isActivationResult(block_, i)) {
        seeds_.insert(value);
        continue;
      }
      Value dout = block_.getBody().front().addArgument(value.getType(), loc_);
      douts.push_back(dout);
      if (trained_.contains(value))
        contribute(value, dout);
    }
  }

  func::FuncOp block_;
  func::ReturnOp terminator_;
  OpBuilder builder_;
  Location loc_ = UnknownLoc::get(block_.getContext());
  const TrainedValues trained_;
  llvm::DenseSet<Value> loads_; // parameters in the place of whose gradients load stands
  llvm::DenseMap<Value, SmallVector<Value>> contributions_;
  llvm::DenseSet<Value> seeds_; // gradients of the values added to the results of the step
  llvm::DenseSet<Value> begun_; // values with gradient ops begun

public:
  size_t firstGradient_ = 0; // number of the first op that backward has, of a loss or a gradient
};

// A function to be cut out of the block: its ops, and results with their attributes.
struct Cut {
  plan::Task task; // backward, input or weight
  llvm::SetVector<Operation *> ops;
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> resultAttrs;
};

class BlockCutter {
public:
  BlockCutter(func::FuncOp original, func::FuncOp forward, const RecomputePolicy &policy)
      : original_(original), forward_(forward), policy_(policy) {}

  LogicalResult run(bool split) {
    BlockGradient gradient(forward_);
    if (failed(gradient.build()))
      return failure();
    douts_ = gradient.douts;
    hasLoss_ = gradient.hasLoss;
    recompute(forward_.getBody().front(), gradient.firstGradient_, policy_,
              [&](BlockArgument argument) { return !isActivation(original_, argument.getArgNumber()); });
    collect(gradient);
    SmallVector<Cut> cuts = split && !hasLoss_ ? splitHalves() : SmallVector<Cut>{whole(split)};
    for (Cut &cut : cuts)
      emit(cut);
    setPolicy(forward_);
    finishForward();
    return success();
  }

private:
  Builder attributes() { return Builder(forward_.getContext()); }
  DictionaryAttr dictionary(ArrayRef<NamedAttribute> entries) { return attributes().getDictionaryAttr(entries); }
  NamedAttribute named(StringRef name, Attribute value) { return attributes().getNamedAttr(name, value); }

  // Gradient ops in order, and the values to return.
  void collect(BlockGradient &gradient) {
    for (BlockArgument argument : original_.getArguments()) {
      unsigned i = argument.getArgNumber();
      Value value = forward_.getArgument(i);
      if (!isa<FloatType>(elementOf(value)) || original_.getArgAttr(i, kDataAttr) ||
          original_.getArgAttr(i, kFrozenAttr) || isFrozen(original_.getArgAttrOfType<DictionaryAttr>(i, kParamAttr)))
        continue;
      Value cotangent = gradient.cotangent(value);
      if (!cotangent)
        continue;
      if (isActivation(original_, i)) {
        dins_.push_back(cotangent);
      } else {
        grads_.push_back(cotangent);
        gradAttrs_.push_back(dictionary({named(kResultAttr, attributes().getStringAttr("grad")),
                                         named(kParamAttr, original_.getArgAttr(i, kParamAttr))}));
      }
    }
    typeGradients();
    size_t i = 0;
    for (Operation &op : forward_.getBody().front().without_terminator())
      if (i++ >= gradient.firstGradient_)
        gradientOps_.insert(&op);
  }

  void typeGradients() {
    Precision precision = precisionOf(original_->getParentOfType<ModuleOp>());
    if (precision.gradients == precision.values)
      return;
    GradientTypes types(precision.gradients, dins_);
    for (auto [gradient, attributes] : llvm::zip(grads_, gradAttrs_))
      // A parameter with load has its own gradient type, f32.
      if (meanLoadOf(cast<DictionaryAttr>(attributes.get(kParamAttr))) == 0)
        gradient = types.make(gradient, forward_.getBody().front().getTerminator());
  }

  llvm::SetVector<Operation *> sliceOf(ArrayRef<Value> roots) {
    llvm::DenseSet<Operation *> reached;
    SmallVector<Value> work(roots);
    while (!work.empty()) {
      Operation *op = work.pop_back_val().getDefiningOp();
      if (op && gradientOps_.contains(op) && reached.insert(op).second)
        llvm::append_range(work, op->getOperands());
    }
    llvm::SetVector<Operation *> slice;
    for (Operation *op : gradientOps_)
      if (reached.contains(op))
        slice.insert(op);
    return slice;
  }

  DictionaryAttr kind(StringRef name) { return dictionary(named(kResultAttr, attributes().getStringAttr(name))); }

  Cut whole(bool split) {
    SmallVector<Value> roots(dins_);
    roots.append(grads_);
    SmallVector<DictionaryAttr> attrs(dins_.size(), kind("din"));
    attrs.append(gradAttrs_);
    if (hasLoss_)
      for (auto [i, value] : llvm::enumerate(forward_.getBody().front().getTerminator()->getOperands()))
        if (!isActivationResult(original_, i)) {
          roots.push_back(value);
          attrs.push_back(original_.getResultAttrDict(i));
        }
    return {split ? plan::Task::input : plan::Task::backward, sliceOf(roots), roots, attrs};
  }

  SmallVector<Cut> splitHalves() {
    Cut input{plan::Task::input, sliceOf(dins_), dins_, {}}, weight{plan::Task::weight, {}, grads_, gradAttrs_};
    for (Operation *op : sliceOf(grads_))
      if (!input.ops.contains(op))
        weight.ops.insert(op);
    auto hand = [&](Value value) {
      bool fromInput =
          llvm::is_contained(douts_, value) || (value.getDefiningOp() && input.ops.contains(value.getDefiningOp()));
      if (fromInput)
        splits_.insert(value);
    };
    takeJoined(input, weight);
    for (Operation *op : weight.ops)
      llvm::for_each(op->getOperands(), hand);
    llvm::for_each(grads_, hand);
    input.resultAttrs.assign(dins_.size(), kind("din"));
    for (Value value : splits_) {
      input.results.push_back(value);
      input.resultAttrs.push_back(kind("split"));
    }
    return {input, weight};
  }

  // The weight half reads the parts of a joined value that the input half passes on anyway, instead of receiving the
  // parts too.
  void takeJoined(const Cut &input, Cut &weight) {
    llvm::SetVector<Operation *> taken;
    for (Operation *op : input.ops) {
      auto join = dyn_cast<JoinOp>(op);
      auto isHanded = [&](Operation *user) { return weight.ops.contains(user); };
      if (!join || !llvm::any_of(join->getUsers(), isHanded))
        continue;
      OpBuilder builder(forward_.getBody().front().getTerminator());
      auto parts =
          PartsOp::create(builder, join.getLoc(), join.getParts().getTypes(), join.getWhole(), join.getAlongAttr());
      for (auto [made, part] : llvm::zip(join.getParts(), parts.getParts()))
        made.replaceUsesWithIf(part, [&](OpOperand &use) { return weight.ops.contains(use.getOwner()); });
      taken.insert(parts);
    }
    for (Operation *op : taken)
      gradientOps_.insert(op); // erased with the others
    taken.insert(weight.ops.begin(), weight.ops.end());
    weight.ops = std::move(taken);
  }

  // The kind of argument that an outside value becomes, as a sort key (dout, split, saved, data, param) and attributes.
  std::pair<int, DictionaryAttr> argumentFor(Value value, bool isWeight) {
    auto arg = [&](StringRef name, int64_t index) {
      return dictionary({named(kArgAttr, attributes().getStringAttr(name)),
                         named(kIndexAttr, attributes().getI64IntegerAttr(index))});
    };
    if (isWeight && splits_.contains(value))
      return {1, arg("split", llvm::find(splits_, value) - splits_.begin())};
    if (auto it = llvm::find(douts_, value); it != douts_.end())
      return {0, arg("dout", it - douts_.begin())};
    if (auto argument = dyn_cast<BlockArgument>(value); argument && !isActivation(original_, argument.getArgNumber())) {
      bool isData = bool(original_.getArgAttr(argument.getArgNumber(), kDataAttr));
      return {isData ? 3 : 4, original_.getArgAttrDict(argument.getArgNumber())};
    }
    saved_.insert(value);
    return {2, arg("saved", llvm::find(saved_, value) - saved_.begin())};
  }

  void emit(const Cut &cut) {
    struct Argument {
      int order;
      Value value;
      DictionaryAttr attrs;
    };
    SmallVector<Argument> arguments;
    llvm::DenseSet<Value> seen;
    auto need = [&](Value value) {
      if ((value.getDefiningOp() && cut.ops.contains(value.getDefiningOp())) || !seen.insert(value).second)
        return;
      auto [order, attrs] = argumentFor(value, cut.task == plan::Task::weight);
      arguments.push_back({order, value, attrs});
    };
    for (Operation *op : cut.ops)
      llvm::for_each(op->getOperands(), need);
    llvm::for_each(cut.results, need);
    llvm::stable_sort(arguments, [](const Argument &a, const Argument &b) { return a.order < b.order; });

    SmallVector<Type> inputs, outputs;
    for (const Argument &argument : arguments)
      inputs.push_back(argument.value.getType());
    for (Value value : cut.results)
      outputs.push_back(value.getType());
    OpBuilder builder(forward_->getContext());
    builder.setInsertionPoint(forward_);
    const auto name = forward_->getAttrOfType<StringAttr>(kBlockAttr);
    auto function = func::FuncOp::create(builder, forward_.getLoc(), functionName(name, cut.task),
                                         builder.getFunctionType(inputs, outputs));
    function->setAttr(kBlockAttr, name);
    function->setAttr(kPassAttr, builder.getStringAttr(plan::nameOf(cut.task)));
    setPolicy(function);
    IRMapping mapping;
    Block *body = function.addEntryBlock();
    for (auto [i, argument] : llvm::enumerate(arguments)) {
      function.setArgAttrs(i, argument.attrs);
      mapping.map(argument.value, body->getArgument(i));
    }
    for (auto [i, attrs] : llvm::enumerate(cut.resultAttrs))
      function.setResultAttrs(i, attrs);
    builder.setInsertionPointToStart(body);
    for (Operation *op : cut.ops)
      builder.clone(*op, mapping);
    SmallVector<Value> results;
    for (Value value : cut.results)
      results.push_back(mapping.lookup(value));
    func::ReturnOp::create(builder, function.getLoc(), results);
    function->moveAfter(forward_);
  }

  void setPolicy(func::FuncOp function) {
    if (const std::string label = policy_.label(); !label.empty())
      function->setAttr(kPolicyAttr, attributes().getStringAttr(label));
  }

  // Drops the gradient ops and placeholders; returns the saved values too. In a block with a loss over logits, backward
  // returns the values added to the step's results.
  void finishForward() {
    Block &body = forward_.getBody().front();
    Operation *terminator = body.getTerminator();
    SmallVector<Value> results;
    SmallVector<DictionaryAttr> attrs;
    for (unsigned i = 0; i < original_.getNumResults(); ++i)
      if (!hasLoss_ || isActivationResult(original_, i)) {
        results.push_back(terminator->getOperand(i));
        attrs.push_back(original_.getResultAttrDict(i));
      }
    terminator->setOperands(results);
    for (Operation *op : llvm::reverse(gradientOps_.getArrayRef())) {
      op->dropAllUses();
      op->erase();
    }
    body.eraseArguments(original_.getNumArguments(), douts_.size());
    const TrainingSettings &training = trainingOf(original_->getParentOfType<ModuleOp>());
    for (Value value : saved_) {
      results.push_back(value);
      attrs.push_back(kind("saved"));
      if (original_->hasAttr(kStackAttr) && llvm::is_contained(training.offloadModules, offloadModuleOf(value).str()))
        attrs.back() = dictionary(
            {named(kOffloadAttr, attributes().getUnitAttr()), named(kResultAttr, attributes().getStringAttr("saved"))});
    }
    terminator->setOperands(results);
    forward_.setType(FunctionType::get(forward_.getContext(), original_.getArgumentTypes(),
                                       llvm::map_to_vector(results, [](Value value) { return value.getType(); })));
    for (auto [i, dict] : llvm::enumerate(attrs))
      forward_.setResultAttrs(i, dict ? dict : dictionary({}));
  }

  func::FuncOp original_, forward_;
  const RecomputePolicy &policy_;
  bool hasLoss_ = false; // over logits
  SmallVector<Value> douts_, dins_, grads_;
  SmallVector<DictionaryAttr> gradAttrs_;
  llvm::SetVector<Operation *> gradientOps_;
  llvm::SetVector<Value> saved_, splits_;
};

struct GradPass : mgc::impl::GradBase<GradPass> {
  void runOnForm() override {
    ModuleOp module = getOperation();
    markFrozenActivations(module);
    SmallVector<func::FuncOp> blocks;
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(kBlockAttr))
        blocks.push_back(function);
    for (func::FuncOp block : blocks) {
      for (const RecomputePolicy &policy : policiesOf(block))
        if (failed(differentiate(block, policy)))
          return signalPassFailure();
      block.erase();
    }
    module.walk([](Operation *op) { op->removeAttr(kModulesAttr); });
    module->setAttr(kPhaseAttr, StringAttr::get(&getContext(), "grad"));
  }

  LogicalResult differentiate(func::FuncOp block, const RecomputePolicy &policy) {
    ModuleOp module = getOperation();
    OpBuilder builder(block);
    auto forward = cast<func::FuncOp>(builder.clone(*block));
    const std::string name = block.getName().str() + (policy.name.empty() ? "" : "." + policy.name);
    forward.setName(functionName(name, plan::Task::forward));
    forward->setAttr(kBlockAttr, builder.getStringAttr(name));
    forward->setAttr(kPassAttr, builder.getStringAttr(plan::nameOf(plan::Task::forward)));
    if (!policy.name.empty())
      forward->setAttr(kVariantAttr, block.getNameAttr());
    return BlockCutter(block, forward, policy).run(trainingOf(module).splitBackward);
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createGradPass() { return std::make_unique<GradPass>(); }
