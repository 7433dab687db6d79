// The chain of block instances: verifiers.
#include "dialects/mg/Mg.h"

using namespace mlir;
using namespace mgc;

LogicalResult InstanceOp::verify() {
  constexpr int64_t most = 1 << 16;
  const int64_t first = getFirst(), count = getCount();
  if (first < 0 || first > most || count < 1 || count > most - first)
    return emitOpError() << "first is " << first << " and count " << count << "; expected first >= 0, count >= 1 and "
                         << "first + count at most " << most << " (instance_c2)";
  return success();
}

// Activations of a block: the arguments that are neither data nor parameters, and the results called "out".
static SmallVector<Type> activationsOf(func::FuncOp block) {
  SmallVector<Type> types;
  for (auto [i, type] : llvm::enumerate(block.getArgumentTypes()))
    if (!block.getArgAttr(i, kDataAttr) && !block.getArgAttr(i, kParamAttr))
      types.push_back(type);
  return types;
}
static SmallVector<Type> outputsOf(func::FuncOp block) {
  SmallVector<Type> types;
  for (auto [i, type] : llvm::enumerate(block.getResultTypes())) {
    auto kind = block.getResultAttrOfType<StringAttr>(i, kResultAttr);
    if (!kind || kind == "out")
      types.push_back(type);
  }
  return types;
}

// The block, or its forward function once it is differentiated.
static func::FuncOp lookupBlock(SymbolTableCollection &symbols, InstanceOp instance) {
  if (auto block = symbols.lookupNearestSymbolFrom<func::FuncOp>(instance, instance.getBlockAttr()))
    return block;
  auto forward = StringAttr::get(instance.getContext(), instance.getBlock() + ".forward");
  return symbols.lookupNearestSymbolFrom<func::FuncOp>(instance, forward);
}

static bool returns(func::FuncOp function, StringRef what) {
  return llvm::any_of(llvm::seq(function.getNumResults()), [&](unsigned i) {
    auto kind = function.getResultAttrOfType<StringAttr>(i, kResultAttr);
    return kind && kind == what;
  });
}

// The block itself, or once it is differentiated one of its functions.
static bool returnsLoss(InstanceOp instance, SymbolTableCollection &symbols) {
  auto returnsLoss = [&](const std::string &name) {
    auto function =
        symbols.lookupNearestSymbolFrom<func::FuncOp>(instance, StringAttr::get(instance.getContext(), name));
    return function && returns(function, "loss_sum") && returns(function, "tokens");
  };
  auto isOf = [&](plan::Task task) { return returnsLoss(functionName(instance.getBlock(), task)); };
  return returnsLoss(instance.getBlock().str()) || llvm::any_of(plan::kBlockTasks, isOf);
}

LogicalResult ChainOp::verifyRegions() {
  SmallVector<Type> flow;
  InstanceOp last;
  int64_t losses = 0;
  SymbolTableCollection symbols;
  for (Operation &op : *getBody().begin()) {
    auto instance = dyn_cast<InstanceOp>(op);
    if (!instance)
      return op.emitOpError("a chain holds instances only");
    func::FuncOp block = lookupBlock(symbols, instance);
    if (!block || !block->hasAttr(kBlockAttr))
      return instance.emitOpError() << instance.getBlock() << " is no function with mg.block (instance_c1)";
    SmallVector<Type> inputs = activationsOf(block), outputs = outputsOf(block);
    if (inputs != flow)
      return instance.emitOpError("activations do not fit the results of the instance before (chain_c1)");
    if (instance.getCount() > 1 && inputs != outputs)
      return instance.emitOpError("a repeated block must return what it takes (chain_c1)");
    flow = outputs;
    last = instance;
    losses += returnsLoss(instance, symbols) ? int64_t(instance.getCount()) : 0;
  }
  if (losses != 1)
    return emitOpError() << losses << " instances return loss_sum and tokens; expected one (chain_c2)";
  if (!flow.empty())
    return emitOpError() << "ends with " << last.getBlock() << ", whose activations no instance takes (chain_c2)";
  return success();
}
