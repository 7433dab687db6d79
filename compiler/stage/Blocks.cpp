// See Blocks.h.
#include "compiler/stage/Blocks.h"

using namespace mlir;
using namespace mgc;

using Arg = BlockFunction::ArgumentKind;
using Res = BlockFunction::ResultKind;

RankedTensorType BlockFunction::argumentType(size_t i) const {
  return cast<RankedTensorType>(func::FuncOp(function).getArgumentTypes()[i]);
}
RankedTensorType BlockFunction::resultType(size_t i) const {
  return cast<RankedTensorType>(func::FuncOp(function).getResultTypes()[i]);
}

std::vector<int64_t> BlockFunction::resultsOf(ResultKind kind) const {
  std::vector<int64_t> numbers;
  for (auto [i, result] : llvm::enumerate(results))
    if (result.kind == kind)
      numbers.push_back(i);
  return numbers;
}

const BlockFunction *ModelBlock::functionOf(StringRef pass) const {
  const BlockFunction &function = pass == "forward"    ? forward
                                  : pass == "backward" ? backward
                                  : pass == "input"    ? input
                                                       : weight;
  return function ? &function : nullptr;
}

std::vector<Instance> Blocks::instancesOf(Region &body) const {
  std::vector<Instance> instances;
  for (InstanceOp op : body.getOps<InstanceOp>())
    for (int64_t i = 0; i < int64_t(op.getCount()); ++i)
      instances.push_back({&at(op.getBlock()), int64_t(op.getFirst()) + i});
  return instances;
}

namespace {

int64_t indexAttr(func::FuncOp function, unsigned argument) {
  auto index = function.getArgAttrOfType<IntegerAttr>(argument, "mg.index");
  return index ? index.getInt() : -1;
}

FailureOr<BlockFunction> readArguments(func::FuncOp function) {
  BlockFunction result{function, {}, {}};
  int64_t activations = 0;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto kind = function.getArgAttrOfType<StringAttr>(i, "mg.arg");
    if (function.getArgAttr(i, kDataAttr))
      result.arguments.push_back({Arg::data, -1});
    else if (function.getArgAttr(i, kParamAttr))
      result.arguments.push_back({Arg::parameter, -1});
    else if (!kind)
      result.arguments.push_back({Arg::activation, activations++});
    else if (kind == "dout" || kind == "saved" || kind == "split")
      result.arguments.push_back({kind == "dout"    ? Arg::dout
                                  : kind == "saved" ? Arg::saved
                                                    : Arg::split,
                                  indexAttr(function, i)});
    else
      return function.emitError() << "argument " << i << " is '" << kind.getValue()
                                  << "'; expected dout, saved or split";
  }
  return result;
}

std::optional<Res> resultKind(StringAttr kind) {
  if (!kind)
    return Res::out;
  static const std::pair<StringRef, Res> kinds[] = {
      {"out", Res::out}, {"saved", Res::saved}, {"loss_sum", Res::lossSum}, {"tokens", Res::tokens},
      {"din", Res::din}, {"split", Res::split}, {"grad", Res::grad}};
  for (auto [name, value] : kinds)
    if (kind.getValue() == name)
      return value;
  return std::nullopt;
}

// The forward's argument that is this parameter: the same tensor and part.
int64_t parameterArgument(func::FuncOp forward, DictionaryAttr param) {
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto candidate = forward.getArgAttrOfType<DictionaryAttr>(i, kParamAttr);
    if (candidate && param && candidate.get("tensor") == param.get("tensor") &&
        candidate.get("part") == param.get("part"))
      return i;
  }
  return -1;
}

LogicalResult readResults(BlockFunction &block, func::FuncOp forward) {
  func::FuncOp function = block.function;
  Operation *terminator = function.getBody().front().getTerminator();
  std::map<Res, int64_t> counts;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto kind = resultKind(function.getResultAttrOfType<StringAttr>(i, kResultAttr));
    if (!kind)
      return function.emitError() << "result " << i << " has an unknown " << kResultAttr;
    BlockFunction::Result result{*kind, counts[*kind]++};
    if (*kind == Res::grad) {
      result.index = parameterArgument(forward, function.getResultAttrOfType<DictionaryAttr>(i, kParamAttr));
      if (result.index < 0)
        return function.emitError() << "result " << i << " is the gradient of no parameter of "
                                    << forward.getName();
    }
    auto argument = dyn_cast<BlockArgument>(terminator->getOperand(i));
    if (*kind == Res::saved && argument && block.arguments[argument.getArgNumber()].kind == Arg::activation)
      result.activation = block.arguments[argument.getArgNumber()].index;
    block.results.push_back(result);
  }
  return success();
}

// What backward functions take is what forward and input give.
LogicalResult checkArguments(const ModelBlock &block, BlockFunction &function) {
  auto count = [](const BlockFunction &of, Res kind) { return of ? int64_t(of.resultsOf(kind).size()) : 0; };
  for (auto [i, argument] : llvm::enumerate(function.arguments)) {
    int64_t limit = argument.kind == Arg::dout    ? count(block.forward, Res::out)
                    : argument.kind == Arg::saved ? count(block.forward, Res::saved)
                    : argument.kind == Arg::split ? count(block.input, Res::split)
                                                  : -1;
    if (limit >= 0 && (argument.index < 0 || argument.index >= limit))
      return function.function.emitError()
             << "argument " << i << " has mg.index " << argument.index << " of " << limit;
    auto param = function.function.getArgAttrOfType<DictionaryAttr>(i, kParamAttr);
    if (argument.kind == Arg::parameter && parameterArgument(block.forward.function, param) < 0)
      return function.function.emitError()
             << "argument " << i << " is no parameter of the block's forward function";
  }
  int64_t dins = count(function, Res::din);
  if (dins != 0 && dins != int64_t(block.activations.size()))
    return function.function.emitError()
           << "returns " << dins << " din for " << block.activations.size() << " activations";
  return success();
}

} // namespace

FailureOr<Blocks> Blocks::read(ModuleOp module) {
  Blocks blocks;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto name = function->getAttrOfType<StringAttr>("mg.block"),
         pass = function->getAttrOfType<StringAttr>("mg.pass");
    if (!name || !pass)
      continue;
    ModelBlock &block = blocks.blocks_[name.str()];
    block.name = name.str();
    auto read = readArguments(function);
    if (failed(read))
      return failure();
    BlockFunction *place = pass == "forward"    ? &block.forward
                           : pass == "backward" ? &block.backward
                           : pass == "input"    ? &block.input
                           : pass == "weight"   ? &block.weight
                                                : nullptr;
    if (!place)
      return function.emitError() << "mg.pass is '" << pass.getValue() << "'";
    *place = std::move(*read);
  }
  for (auto &[name, block] : blocks.blocks_) {
    if (!block.forward)
      return module.emitError() << "block " << name << " has no forward function: run mg-grad first";
    for (auto [i, argument] : llvm::enumerate(block.forward.arguments))
      if (argument.kind == Arg::activation)
        block.activations.push_back(i);
    for (BlockFunction *function : {&block.forward, &block.backward, &block.input, &block.weight})
      if (*function && failed(readResults(*function, block.forward.function)))
        return failure();
    for (BlockFunction *function : {&block.backward, &block.input, &block.weight})
      if (*function && failed(checkArguments(block, *function)))
        return failure();
  }
  auto verify = [&](InstanceOp instance) {
    if (blocks.has(instance.getBlock()))
      return WalkResult::advance();
    instance.emitError() << "of " << instance.getBlock()
                         << ", which has no forward function: run mg-grad first";
    return WalkResult::interrupt();
  };
  if (module.walk(verify).wasInterrupted())
    return failure();
  return blocks;
}

std::vector<std::string> mgc::passesOf(ModuleOp module) {
  if (trainingFlag(module, "split_backward"))
    return {"forward", "input", "weight"};
  return {"forward", "backward"};
}

Value mgc::storageOf(Value value) {
  while (auto rename = value.getDefiningOp<RenameOp>())
    value = rename.getOperand();
  return value;
}

int64_t mgc::bytesOf(Type type) { return cast<RankedTensorType>(type).getNumElements() * 4; }

RankedTensorType mgc::shardedType(Attribute typeAttr) {
  auto attr = dyn_cast_or_null<TypeAttr>(typeAttr);
  return attr ? dyn_cast<RankedTensorType>(attr.getValue()) : RankedTensorType();
}

static Attribute trainingAttr(ModuleOp module, StringRef name) {
  auto training = module->getAttrOfType<DictionaryAttr>(kTrainingAttr);
  return training ? training.get(name) : Attribute();
}
int64_t mgc::trainingInt(ModuleOp module, StringRef name, int64_t otherwise) {
  auto value = dyn_cast_or_null<IntegerAttr>(trainingAttr(module, name));
  return value ? value.getInt() : otherwise;
}
std::string mgc::trainingString(ModuleOp module, StringRef name) {
  auto value = dyn_cast_or_null<StringAttr>(trainingAttr(module, name));
  return value ? value.str() : "";
}
bool mgc::trainingFlag(ModuleOp module, StringRef name) {
  auto value = dyn_cast_or_null<BoolAttr>(trainingAttr(module, name));
  return value && value.getValue();
}
