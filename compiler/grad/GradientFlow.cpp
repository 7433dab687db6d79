// See GradientFlow.h.
#include "compiler/grad/GradientFlow.h"

#include "dialects/mg/Parameter.h"

#include <map>
#include <string>
#include <vector>

using namespace mlir;
using namespace mgc;

// --- Values of a block -------------------------------------------------------------------------------------

TrainedValues::TrainedValues(func::FuncOp block) {
  for (BlockArgument argument : block.getArguments()) {
    const unsigned i = argument.getArgNumber();
    auto param = block.getArgAttrOfType<DictionaryAttr>(i, kParamAttr);
    const bool isTrainedHere =
        param ? isTrained(param) : !block.getArgAttr(i, kDataAttr) && !block.getArgAttr(i, kFrozenAttr);
    if (isTrainedHere && isa<FloatType>(elementOf(argument)))
      values_.insert(argument);
  }
  add(block.getBody().front());
}

// A kernel's and a tile's results are what it yields.
void TrainedValues::add(Block &body) {
  for (Operation &op : body) {
    if (op.getNumRegions() == 0) {
      if (llvm::any_of(op.getOperands(), [&](Value operand) { return contains(operand); }))
        values_.insert(op.result_begin(), op.result_end());
      continue;
    }
    Block &inner = op.getRegion(0).front();
    for (auto [operand, argument] : llvm::zip(op.getOperands(), inner.getArguments()))
      if (contains(operand))
        values_.insert(argument);
    add(inner);
    for (auto [yielded, result] : llvm::zip(inner.getTerminator()->getOperands(), op.getResults()))
      if (contains(yielded))
        values_.insert(result);
  }
}

// --- Activations of the chain ------------------------------------------------------------------------------

bool mgc::isActivation(func::FuncOp block, unsigned argument) {
  return !block.getArgAttr(argument, kDataAttr) && !block.getArgAttr(argument, kParamAttr);
}

bool mgc::isActivationResult(func::FuncOp block, unsigned result) {
  auto kind = block.getResultAttrOfType<StringAttr>(result, kResultAttr);
  return !kind || kind == "out";
}

namespace {

// One flag per activation that crosses from an instance to the next, in order.
using FrozenSet = std::vector<bool>;

// A block for the activations that some of its instances take.
struct Variant {
  func::FuncOp block;
  FrozenSet gives;
};

class ChainMarker {
public:
  ChainMarker(ModuleOp module, ChainOp chain) : module_(module), chain_(chain) {}

  void run() {
    FrozenSet flow;
    for (InstanceOp instance : llvm::to_vector(chain_.getBody().getOps<InstanceOp>())) {
      const int64_t first = instance.getFirst();
      func::FuncOp before;
      for (int64_t number = first; number < first + int64_t(instance.getCount()); ++number) {
        const Variant &variant = variantOf(instance.getBlock(), flow);
        if (variant.block == before)
          runs_.back().count += 1;
        else
          runs_.push_back({variant.block, number, 1, instance.getLoc()});
        before = variant.block;
        flow = variant.gives;
      }
      instance.erase();
    }
    nameVariants();
    OpBuilder builder = OpBuilder::atBlockEnd(&chain_.getBody().front());
    for (Run &run : runs_)
      InstanceOp::create(builder, run.loc, run.block.getName(), run.first, run.count);
  }

private:
  struct Run { // consecutive instances of a block
    func::FuncOp block;
    int64_t first, count;
    Location loc;
  };

  const Variant &variantOf(StringRef block, const FrozenSet &takes) {
    Variants &of = variants_[block.str()];
    if (!of.original) // clones have its name for a while
      of.original = module_.lookupSymbol<func::FuncOp>(block);
    auto [known, isNew] = of.byTaken.try_emplace(takes);
    if (isNew) {
      func::FuncOp original = of.original;
      known->second.block = cast<func::FuncOp>(OpBuilder(original).clone(*original));
      known->second.gives = mark(known->second.block, takes);
    }
    return known->second;
  }

  // Marks the activations without gradient in a block that takes these, and returns those among its results.
  static FrozenSet mark(func::FuncOp block, const FrozenSet &takes) {
    const auto unit = UnitAttr::get(block.getContext());
    size_t next = 0;
    for (unsigned i = 0; i < block.getNumArguments(); ++i)
      if (isActivation(block, i) && takes[next++])
        block.setArgAttr(i, kFrozenAttr, unit);
    const TrainedValues trained(block);
    FrozenSet gives;
    for (auto [i, value] : llvm::enumerate(block.getBody().front().getTerminator()->getOperands()))
      if (isActivationResult(block, i)) {
        gives.push_back(!trained.contains(value));
        if (gives.back())
          block.setResultAttr(i, kFrozenAttr, unit);
      }
    return gives;
  }

  // @layer, and @layer_frozen0 where others take its first activation frozen; @layer where all take the same.
  void nameVariants() {
    for (auto &[name, of] : variants_) {
      of.original.erase();
      for (auto &[takes, variant] : of.byTaken)
        variant.block.setName(of.byTaken.size() == 1 ? name : nameOf(name, takes));
    }
  }

  std::string nameOf(const std::string &block, const FrozenSet &takes) {
    std::string name = block;
    for (auto [i, isFrozen] : llvm::enumerate(takes))
      if (isFrozen)
        name += (name == block ? "_frozen" : "_") + std::to_string(i);
    while (name != block && module_.lookupSymbol(name))
      name += "_";
    return name;
  }

  ModuleOp module_;
  ChainOp chain_;
  struct Variants {
    func::FuncOp original;
    std::map<FrozenSet, Variant> byTaken;
  };
  std::map<std::string, Variants> variants_; // by the block's name
  std::vector<Run> runs_;
};

bool hasFrozen(ModuleOp module) {
  for (auto block : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < block.getNumArguments(); ++i)
      if (isFrozen(block.getArgAttrOfType<DictionaryAttr>(i, kParamAttr)))
        return true;
  return false;
}

} // namespace

void mgc::markFrozenActivations(ModuleOp module) {
  if (hasFrozen(module))
    for (ChainOp chain : module.getOps<ChainOp>())
      ChainMarker(module, chain).run();
}
