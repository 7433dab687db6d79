// See Recompute.h.
#include "compiler/grad/Recompute.h"

#include "compiler/program/Precision.h"
#include "dialects/mg/Complete.h"

#include <fmt/ranges.h>

using namespace mlir;

namespace mgc {

namespace {

bool hasModule(Operation *op, llvm::function_ref<bool(StringRef)> isWanted) {
  auto modules = op->getAttrOfType<ArrayAttr>(kModulesAttr);
  return modules && llvm::any_of(modules.getAsRange<StringAttr>(), [&](StringAttr name) { return isWanted(name); });
}

bool dropsOutputs(StringRef module) {
  return llvm::any_of(kRecomputeModules, [&](const RecomputeModule &row) {
    return row.dropsOutputs && module == StringRef(row.name.data(), row.name.size());
  });
}

class Recomputation {
public:
  Recomputation(Block &body, size_t firstGradient, const RecomputePolicy &policy,
                llvm::function_ref<bool(BlockArgument)> isKept)
      : policy_(policy), isKept_(isKept) {
    for (Operation &op : body.without_terminator())
      if (forward_.size() < firstGradient)
        forward_.push_back(&op);
      else
        backward_.insert(&op);
  }

  void run() {
    for (Operation *op : llvm::reverse(forward_)) // users that are recomputed are there already
      if (isOfPolicy(op))
        makeAgain(op);
    for (Operation *op :
         llvm::reverse(forward_)) // moves no data; and what it names may be smaller (docs/sharding.md, P6)
      if (isa<RenameOp>(op) && isNeeded(op->getResult(0)))
        makeAgain(op);
    if (policy_.ofRows)
      makeRowsAgain();
    // If backward reads every part of a joined value, the joined value is saved; otherwise only the parts it reads are.
    for (Operation *op : forward_)
      if (isa<PartsOp>(op) && llvm::all_of(op->getResults(), [&](Value part) { return isNeeded(part); }))
        makeAgain(op);
  }

private:
  bool isNeeded(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) { return backward_.contains(user); });
  }
  bool isThere(Value value) const {
    auto argument = dyn_cast<BlockArgument>(value);
    return isNeeded(value) || (argument && isKept_(argument));
  }

  bool isOfModule(StringRef name) const { return llvm::is_contained(policy_.modules, name); }

  // Whether the policy recomputes the op: backward reads a result of it, and the reader is of the same module, or the module
  // drops what leaves it.
  bool isOfPolicy(Operation *op) const {
    if (op->hasTrait<Discontinuous>())
      return false;
    const auto isRead = [&](llvm::function_ref<bool(Operation *)> isReader) {
      return llvm::any_of(op->getUsers(), [&](Operation *user) { return backward_.contains(user) && isReader(user); });
    };
    if (policy_.ofAll)
      return isRead([](Operation *) { return true; });
    return hasModule(op, [&](StringRef module) {
      return isOfModule(module) && isRead([&](Operation *user) {
               return dropsOutputs(module) || hasModule(user, [&](StringRef other) { return other == module; });
             });
    });
  }

  // The activations of a norm or an MLP take more memory than a kernel takes time.
  void makeRowsAgain() {
    for (Operation *op : llvm::reverse(forward_)) // the cast of a result that is recomputed costs nothing
      if (Operation *source = sourceOfCast(op);
          source && isNeeded(op->getResult(0)) && isMadeOfWhatIsThere(source) &&
          savesMemory(source, [&](Value value) { return value == op->getOperand(0) || isNeeded(value); }))
        makeAgain(op);
    SmallVector<Operation *> again;
    for (Operation *op : forward_)
      if (isMadeOfWhatIsThere(op) && savesMemory(op, [&](Value value) { return isNeeded(value); }))
        again.push_back(op);
    for (Operation *op : llvm::reverse(again))
      makeAgain(op);
  }

  bool isMadeOfWhatIsThere(Operation *op) const {
    return isa<RowOpInterface>(op) && !op->hasTrait<Discontinuous>() &&
           llvm::all_of(op->getOperands(), [&](Value value) { return isThere(value); });
  }

  // The op, a norm, whose result a cast brings from the residual stream's type to the model's; null: there is none.
  static Operation *sourceOfCast(Operation *op) {
    return isa<CastOp>(op) && op->hasAttr(kCompleteAttr) ? op->getOperand(0).getDefiningOp() : nullptr;
  }

  // Some result that backward needs is as large as any operand: a norm's mean alone is saved.
  static bool savesMemory(Operation *op, llvm::function_ref<bool(Value)> isNeeded) {
    int64_t read = 0, needed = 0;
    for (Value operand : op->getOperands())
      read = std::max(read, bytesOf(operand.getType()));
    for (Value result : op->getResults())
      if (isNeeded(result))
        needed = std::max(needed, bytesOf(result.getType()));
    return needed > 0 && needed >= read;
  }

  // Just before its first use in backward.
  void makeAgain(Operation *op) {
    Operation *first = nullptr;
    for (Operation *user : op->getUsers())
      if (backward_.contains(user) && (!first || user->isBeforeInBlock(first)))
        first = user;
    Operation *copy = OpBuilder(first).clone(*op);
    op->replaceUsesWithIf(copy->getResults(),
                          [&](OpOperand &use) { return backward_.contains(use.getOwner()) && use.getOwner() != copy; });
    backward_.insert(copy);
  }

  const RecomputePolicy &policy_;
  llvm::function_ref<bool(BlockArgument)> isKept_;
  SmallVector<Operation *> forward_;
  llvm::DenseSet<Operation *> backward_;
};

} // namespace

std::string RecomputePolicy::label() const {
  return ofAll ? "full" : !ofRows ? "none" : fmt::format("{}", fmt::join(modules, "+"));
}

// The modules that ops of the block belong to, in the order of kRecomputeModules, without those that are always recomputed.
static std::vector<std::string> modulesOf(func::FuncOp block) {
  std::vector<std::string> modules;
  for (const RecomputeModule &row : kRecomputeModules)
    if (const auto isRow = [&](StringRef name) { return name == StringRef(row.name.data(), row.name.size()); };
        !row.isAlways && llvm::any_of(block.getBody().front(), [&](Operation &op) { return hasModule(&op, isRow); }))
      modules.emplace_back(row.name);
  return modules;
}

// Policies among which a layer's is chosen: each module by itself and all together, what saves more and what saves least.
static std::vector<RecomputePolicy> allPolicies(func::FuncOp block) {
  std::vector<RecomputePolicy> policies = {{}, {.name = "none", .ofRows = false}};
  const std::vector<std::string> modules = modulesOf(block);
  for (const std::string &module : modules)
    policies.push_back({.name = module, .modules = {module}});
  if (modules.size() > 1)
    policies.push_back({.name = fmt::format("{}", fmt::join(modules, ".")), .modules = modules});
  policies.push_back({.name = "full", .ofAll = true});
  return policies;
}

std::vector<RecomputePolicy> policiesOf(func::FuncOp block) {
  const TrainingSettings &training = trainingOf(block->getParentOfType<ModuleOp>());
  const bool isLayer = block->hasAttr(kStackAttr);
  if (!training.memory.empty())
    return isLayer ? allPolicies(block) : std::vector<RecomputePolicy>{{}};
  switch (training.recompute) {
  case RecomputeGranularity::standard:
    return {{}};
  case RecomputeGranularity::none:
    return {{.ofRows = false}};
  case RecomputeGranularity::selective:
    return {{.modules = training.recomputeModules}};
  case RecomputeGranularity::full:
    if (!isLayer)
      return {{}};
    if (training.recomputeMethod == RecomputeMethod::block || training.recomputeLayers > 1)
      return {{}, {.name = "full", .ofAll = true}};
    return {{.ofAll = true}};
  }
  llvm_unreachable("every granularity is listed");
}

void recompute(Block &body, size_t firstGradient, const RecomputePolicy &policy,
               llvm::function_ref<bool(BlockArgument)> isKept) {
  Recomputation(body, firstGradient, policy, isKept).run();
}

} // namespace mgc
