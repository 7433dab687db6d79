// See Blocks.h.
#include "compiler/program/Blocks.h"

#include "dialects/mg/Parameter.h"
#include "dialects/mg/RowEmitter.h"
#include "plan/StepTotals.h"

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

std::optional<int64_t> BlockFunction::Result::total() const {
  if (kind == ResultKind::term)
    return index;
  if (kind != ResultKind::lossSum && kind != ResultKind::tokens)
    return std::nullopt;
  return indexOf(kind == ResultKind::lossSum ? plan::StepTotal::lossSum : plan::StepTotal::tokens);
}

std::vector<int64_t> BlockFunction::resultsOf(ResultKind kind) const {
  std::vector<int64_t> numbers;
  for (auto [i, result] : llvm::enumerate(results))
    if (result.kind == kind)
      numbers.push_back(i);
  return numbers;
}

std::vector<const BlockFunction *> ModelBlock::functions() const {
  std::vector<const BlockFunction *> present;
  for (const BlockFunction *function : {&forward, &backward, &input, &weight})
    if (*function)
      present.push_back(function);
  return present;
}

const BlockFunction *ModelBlock::lossFunction() const {
  for (const BlockFunction *function : {&backward, &input})
    if (llvm::any_of(function->results, [](const BlockFunction::Result &result) { return result.total(); }))
      return function;
  return nullptr;
}

bool ModelBlock::returnsLoss() const {
  return llvm::any_of(functions(), [](const BlockFunction *function) {
    return function->resultsOf(Res::lossSum).size() == 1 && function->resultsOf(Res::tokens).size() == 1;
  });
}

RankedTensorType ModelBlock::gradientType(int64_t argument) const {
  for (const BlockFunction *function : functions())
    for (int64_t i : function->resultsOf(Res::grad))
      if (function->results[i].index == argument)
        return shardedType(func::FuncOp(function->function).getResultAttr(i, kTypeAttr));
  return {};
}

bool ModelBlock::isLayer() const { return !activations.empty() && !forward.resultsOf(Res::out).empty(); }

// memberOf: where a ModelBlock has its function for one of plan::kBlockTasks.
static BlockFunction ModelBlock::*memberOf(plan::Task task) {
  return task == plan::Task::forward    ? &ModelBlock::forward
         : task == plan::Task::backward ? &ModelBlock::backward
         : task == plan::Task::input    ? &ModelBlock::input
                                        : &ModelBlock::weight;
}

bool ModelBlock::computes(plan::Task task) const {
  const BlockFunction *function = functionOf(task);
  return function && !llvm::hasSingleElement(func::FuncOp(function->function).getBody().front());
}

const BlockFunction *ModelBlock::functionOf(plan::Task task) const {
  const BlockFunction &function = this->*memberOf(task);
  return function ? &function : nullptr;
}

const BlockFunction *Instance::functionOf(plan::Task task) const {
  return (recomputed && task != plan::Task::forward ? recomputed : block)->functionOf(task);
}

Status mgc::verifyArgument(func::FuncOp function, unsigned argument) {
  if (Attribute data = function.getArgAttr(argument, kDataAttr)) {
    auto name = dyn_cast<StringAttr>(data);
    return readDataKind(name ? name.getValue() : "").at(fmt::format("argument {}", argument)).status();
  }
  Attribute attr = function.getArgAttr(argument, kParamAttr);
  if (!attr)
    return Status::ok();
  return verifyParameter(attr, function.getArgumentTypes()[argument]).at(fmt::format("argument {}", argument));
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
  auto index = function.getArgAttrOfType<IntegerAttr>(argument, kIndexAttr);
  return index ? index.getInt() : -1;
}

FailureOr<BlockFunction> readArguments(func::FuncOp function) {
  BlockFunction result{function, {}, {}};
  int64_t activations = 0;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto kind = function.getArgAttrOfType<StringAttr>(i, kArgAttr);
    if (Status status = verifyArgument(function, i); !status.isOk())
      return errorIn(function) << status.message();
    if (function.getArgAttr(i, kDataAttr))
      result.arguments.push_back({Arg::data, -1});
    else if (function.getArgAttr(i, kParamAttr))
      result.arguments.push_back(
          {Arg::parameter, i, isFrozen(function.getArgAttrOfType<DictionaryAttr>(i, kParamAttr))});
    else if (!kind)
      result.arguments.push_back({Arg::activation, activations++, bool(function.getArgAttr(i, kFrozenAttr))});
    else if (kind == "dout" || kind == "saved" || kind == "split")
      result.arguments.push_back({kind == "dout"    ? Arg::dout
                                  : kind == "saved" ? Arg::saved
                                                    : Arg::split,
                                  indexAttr(function, i)});
    else
      return errorIn(function) << "argument " << i << " is '" << kind.getValue() << "'; expected dout, saved or split";
  }
  return result;
}

// The number in plan::kResults of a term of the loss; -1: it is none.
int64_t termNumber(StringRef name) {
  const auto found =
      std::find(plan::kResults.begin() + plan::kFirstLossTerm, plan::kResults.end(), std::string_view(name));
  return found == plan::kResults.end() ? -1 : found - plan::kResults.begin();
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
  return termNumber(kind.getValue()) >= 0 ? std::optional(Res::term) : std::nullopt;
}

// The forward's argument that is this parameter.
int64_t parameterArgument(func::FuncOp forward, DictionaryAttr param) {
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto candidate = forward.getArgAttrOfType<DictionaryAttr>(i, kParamAttr);
    if (candidate && param && nameOf(candidate) == nameOf(param))
      return i;
  }
  return -1;
}

LogicalResult readResults(BlockFunction &block, const ModelBlock &of) {
  func::FuncOp forward = of.forward.function;
  func::FuncOp function = block.function;
  Operation *terminator = function.getBody().front().getTerminator();
  std::map<Res, int64_t> counts;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto kind = resultKind(function.getResultAttrOfType<StringAttr>(i, kResultAttr));
    if (!kind)
      return errorIn(function) << "result " << i << " has an unknown " << kResultAttr;
    BlockFunction::Result result{*kind, counts[*kind]++};
    result.frozen = *kind == Res::out && function.getResultAttr(i, kFrozenAttr);
    result.offloaded = *kind == Res::saved && function.getResultAttr(i, kOffloadAttr);
    if (*kind == Res::din && result.index < int64_t(of.differentiated.size())) // others are refused
      result.index = of.differentiated[result.index];
    if (*kind == Res::term)
      result.index = termNumber(function.getResultAttrOfType<StringAttr>(i, kResultAttr).getValue());
    if (*kind == Res::grad) {
      result.index = parameterArgument(forward, function.getResultAttrOfType<DictionaryAttr>(i, kParamAttr));
      if (result.index < 0)
        return errorIn(function) << "result " << i << " is the gradient of no parameter of " << forward.getName();
    }
    auto argument = dyn_cast<BlockArgument>(terminator->getOperand(i));
    if (*kind == Res::saved && argument && block.arguments[argument.getArgNumber()].kind == Arg::activation)
      result.activation = block.arguments[argument.getArgNumber()].index;
    block.results.push_back(result);
  }
  return success();
}

// Results, which arguments are activations, and which of the forward's a parameter is.
LogicalResult finish(ModuleOp module, ModelBlock &block) {
  if (!block.forward)
    return module.emitError() << "block " << block.name << " has no forward function: run mg-grad first";
  for (auto [i, argument] : llvm::enumerate(block.forward.arguments))
    if (argument.kind == Arg::activation) {
      if (!argument.frozen)
        block.differentiated.push_back(int64_t(block.activations.size()));
      block.activations.push_back(i);
    }
  func::FuncOp forward = block.forward.function;
  for (BlockFunction *function : {&block.forward, &block.backward, &block.input, &block.weight}) {
    if (*function && failed(readResults(*function, block)))
      return failure();
    for (auto [i, argument] : llvm::enumerate(function->arguments))
      if (argument.kind == Arg::parameter)
        argument.index = parameterArgument(forward, function->function.getArgAttrOfType<DictionaryAttr>(i, kParamAttr));
  }
  return success();
}

// A variant stands for its base: it takes and gives the same, but for what it saves.
LogicalResult verifyVariant(const Blocks &blocks, const ModelBlock &block) {
  if (block.base == block.name)
    return success();
  func::FuncOp forward = block.forward.function;
  if (!blocks.has(block.base) || blocks.at(block.base).base != block.base)
    return errorIn(forward) << "is of a variant of " << block.base << ", which is no block";
  const BlockFunction &base = blocks.at(block.base).forward;
  func::FuncOp of = base.function;
  const auto attributes = [](func::FuncOp function) {
    return SmallVector<Attribute>(function.getArgAttrsAttr() ? function.getArgAttrsAttr().getValue()
                                                             : ArrayRef<Attribute>());
  };
  const auto outs = [](const BlockFunction &function) {
    return llvm::map_to_vector(function.resultsOf(Res::out), [&](int64_t i) {
      return std::pair(function.resultType(i), func::FuncOp(function.function).getResultAttrDict(i));
    });
  };
  if (forward.getArgumentTypes() != of.getArgumentTypes() || attributes(forward) != attributes(of) ||
      outs(block.forward) != outs(base))
    return errorIn(forward) << "takes or gives other values than " << of.getName() << ", whose variant it is";
  return success();
}

LogicalResult verifyInstances(ModuleOp module, const Blocks &blocks) {
  auto verify = [&](InstanceOp instance) {
    if (blocks.has(instance.getBlock()))
      return WalkResult::advance();
    instance.emitError() << "of " << instance.getBlock() << ", which has no forward function: run mg-grad first";
    return WalkResult::interrupt();
  };
  return failure(module.walk(verify).wasInterrupted());
}

} // namespace

LogicalResult Blocks::add(func::FuncOp function) {
  auto name = function->getAttrOfType<StringAttr>(kBlockAttr);
  const std::optional<plan::Task> task = taskOf(function); // the dialect verifies that it is a block's
  if (!name || !task)
    return success();
  if (const std::string expected = functionName(name.getValue(), *task); function.getName() != expected)
    return errorIn(function) << "is the " << plan::nameOf(*task) << " function of " << name.getValue()
                             << "; expected the name " << expected;
  ModelBlock &block = blocks_[name.str()];
  block.name = name.str();
  if (*task == plan::Task::forward) {
    auto base = function->getAttrOfType<StringAttr>(kVariantAttr),
         stack = function->getAttrOfType<StringAttr>(kStackAttr),
         policy = function->getAttrOfType<StringAttr>(kPolicyAttr);
    block.base = (base ? base : name).str();
    block.stack = stack ? stack.str() : "";
    block.policy = policy ? policy.str() : "";
  }
  auto read = readArguments(function);
  if (failed(read))
    return failure();
  block.*memberOf(*task) = std::move(*read);
  return success();
}

std::vector<const ModelBlock *> Blocks::variantsOf(const ModelBlock &block) const {
  std::vector<const ModelBlock *> variants = {&block};
  for (const auto &[name, other] : blocks_)
    if (other.base == block.base && &other != &block)
      variants.push_back(&other);
  return variants;
}

const ModelBlock *Blocks::variantOf(const ModelBlock &block, StringRef variant) const {
  const auto found = blocks_.find((block.base + "." + variant).str());
  return found == blocks_.end() ? nullptr : &found->second;
}

FailureOr<Blocks> Blocks::read(ModuleOp module) {
  Blocks blocks;
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(blocks.add(function)))
      return failure();
  for (auto &[name, block] : blocks.blocks_)
    if (failed(finish(module, block)) || failed(block.verify()))
      return failure();
  for (const auto &[name, block] : blocks.blocks_)
    if (failed(verifyVariant(blocks, block)))
      return failure();
  if (failed(verifyInstances(module, blocks)))
    return failure();
  return blocks;
}

std::vector<plan::Task> mgc::passesOf(ModuleOp module) {
  using plan::Task;
  if (trainingOf(module).splitBackward)
    return {Task::forward, Task::input, Task::weight};
  return {Task::forward, Task::backward};
}

bool OwnMemory::claim(Value value) {
  Value storage = storageOf(value);
  return !isa<BlockArgument>(storage) && claimed_.insert(storage).second;
}

bool mgc::isOnlyAdded(Value value) {
  Operation *op = value.getDefiningOp();
  if (!value.hasOneUse())
    return false;
  if (auto tile = dyn_cast_or_null<TileOp>(op))
    return tile.isSum(cast<OpResult>(value).getResultNumber());
  auto library = dyn_cast_or_null<LibraryOpInterface>(op);
  return library ? library.canAccumulate() : isa_and_nonnull<RowOpInterface, KernelOp>(op);
}

FailureOr<MeshAttr> mgc::requireMesh(ModuleOp module) {
  if (auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr))
    return mesh;
  return module.emitError() << "needs the attribute " << kMeshAttr;
}

plan::Mesh mgc::meshOf(ModuleOp module) { return module->getAttrOfType<MeshAttr>(kMeshAttr).getMesh(); }

RankedTensorType mgc::shardedType(Attribute typeAttr) {
  auto attr = dyn_cast_or_null<TypeAttr>(typeAttr);
  return attr ? dyn_cast<RankedTensorType>(attr.getValue()) : RankedTensorType();
}

bool mgc::isLocal(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (!function.getArgAttr(i, kTypeAttr))
      return false;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (!function.getResultAttr(i, kTypeAttr))
      return false;
  return true;
}
