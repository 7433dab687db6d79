// See Blocks.h.
#include "compiler/stage/Blocks.h"

#include "dialects/mg/RowEmitter.h"

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

std::vector<const BlockFunction *> ModelBlock::functions() const {
  std::vector<const BlockFunction *> present;
  for (const BlockFunction *function : {&forward, &backward, &input, &weight})
    if (*function)
      present.push_back(function);
  return present;
}

bool ModelBlock::isLayer() const { return !activations.empty() && !forward.resultsOf(Res::out).empty(); }

const BlockFunction *ModelBlock::functionOf(StringRef pass) const {
  const BlockFunction &function = pass == "forward"    ? forward
                                  : pass == "backward" ? backward
                                  : pass == "input"    ? input
                                                       : weight;
  return function ? &function : nullptr;
}

Result<const DataKind *> mgc::findDataKind(StringRef name) {
  using Input = plan::Input::Kind;
  static const DataKind kinds[] = {{"tokens", Input::tokens, false},
                                   {"labels", Input::labels, false},
                                   {"loss_weights", Input::lossWeights, false},
                                   {"positions", Input::positions, true},
                                   {"key_positions", Input::keyPositions, true},
                                   {"samples", Input::samples, false}};
  std::string names;
  for (const DataKind &kind : kinds) {
    if (kind.name == name)
      return &kind;
    names += (names.empty() ? "" : ", ") + kind.name.str();
  }
  return errorf("mg.data is '{}'; expected one of {}", name.str(), names);
}

Status mgc::verifyArgument(func::FuncOp function, unsigned argument) {
  if (Attribute data = function.getArgAttr(argument, kDataAttr)) {
    auto name = dyn_cast<StringAttr>(data);
    auto known = findDataKind(name ? name.getValue() : "");
    return Status(known.status()).at(fmt::format("argument {}", argument));
  }
  Attribute attr = function.getArgAttr(argument, kParamAttr);
  auto param = dyn_cast_or_null<DictionaryAttr>(attr);
  if (attr && (!param || !param.getAs<StringAttr>("tensor")))
    return errorf("argument {}: {} names no tensor", argument, kParamAttr.str());
  return Status::ok();
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
      result.arguments.push_back({Arg::parameter, i});
    else if (!kind)
      result.arguments.push_back({Arg::activation, activations++});
    else if (kind == "dout" || kind == "saved" || kind == "split")
      result.arguments.push_back({kind == "dout"    ? Arg::dout
                                  : kind == "saved" ? Arg::saved
                                                    : Arg::split,
                                  indexAttr(function, i)});
    else
      return errorIn(function) << "argument " << i << " is '" << kind.getValue()
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
      return errorIn(function) << "result " << i << " has an unknown " << kResultAttr;
    BlockFunction::Result result{*kind, counts[*kind]++};
    if (*kind == Res::grad) {
      result.index = parameterArgument(forward, function.getResultAttrOfType<DictionaryAttr>(i, kParamAttr));
      if (result.index < 0)
        return errorIn(function) << "result " << i << " is the gradient of no parameter of "
                                 << forward.getName();
    }
    auto argument = dyn_cast<BlockArgument>(terminator->getOperand(i));
    if (*kind == Res::saved && argument && block.arguments[argument.getArgNumber()].kind == Arg::activation)
      result.activation = block.arguments[argument.getArgNumber()].index;
    block.results.push_back(result);
  }
  return success();
}

// --- What backward functions take is what forward and input give

// The type of an argument or result, and from local on its sharded type.
struct Types {
  RankedTensorType type;
  Attribute sharded;
  bool operator==(const Types &) const = default;
};
Types argumentTypes(const BlockFunction &function, size_t i) {
  return {function.argumentType(i), func::FuncOp(function.function).getArgAttr(i, kTypeAttr)};
}
Types resultTypes(const BlockFunction &function, size_t i) {
  return {function.resultType(i), func::FuncOp(function.function).getResultAttr(i, kTypeAttr)};
}

std::string describe(const Types &types) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << types.type;
  if (types.sharded)
    out << " (" << kTypeAttr << " = " << types.sharded << ")";
  return text;
}

// A gradient has the type of its parameter, but for what is pending.
bool fitsGradient(RankedTensorType parameter, RankedTensorType gradient) {
  if (!parameter || !gradient)
    return parameter == gradient;
  LayoutAttr from = layoutOf(parameter), to = layoutOf(gradient);
  return parameter.getShape() == gradient.getShape() && from && to && from.getNames() == to.getNames() &&
         from.getAxes() == to.getAxes();
}

InFlightDiagnostic argumentError(const BlockFunction &function, size_t i) {
  return errorIn(function.function) << "argument " << i << " ";
}

// The types of what an argument is given; an error when nothing gives it. A parameter learns which it is.
FailureOr<Types> givenTo(const ModelBlock &block, BlockFunction &function, size_t i) {
  BlockFunction::Argument &argument = function.arguments[i];
  func::FuncOp op = function.function, forward = block.forward.function;
  if (argument.kind == Arg::parameter) {
    argument.index = parameterArgument(forward, op.getArgAttrOfType<DictionaryAttr>(i, kParamAttr));
    if (argument.index < 0)
      return argumentError(function, i) << "is no parameter of the block's forward function";
    return argumentTypes(block.forward, argument.index);
  }
  if (argument.kind == Arg::data) {
    for (unsigned k = 0; k < forward.getNumArguments(); ++k)
      if (forward.getArgAttr(k, kDataAttr) == op.getArgAttr(i, kDataAttr))
        return argumentTypes(block.forward, k);
    return argumentError(function, i) << "is data that the block's forward function does not read";
  }
  if (argument.kind == Arg::activation)
    return argumentError(function, i) << "has no " << kArgAttr << "; expected dout, saved or split";
  const BlockFunction &giver = argument.kind == Arg::split ? block.input : block.forward;
  Res kind = argument.kind == Arg::dout ? Res::out : argument.kind == Arg::saved ? Res::saved : Res::split;
  std::vector<int64_t> given = giver ? giver.resultsOf(kind) : std::vector<int64_t>();
  if (argument.index < 0 || argument.index >= int64_t(given.size()))
    return argumentError(function, i)
           << "has " << kIndexAttr << " " << argument.index << " of " << given.size();
  return resultTypes(giver, given[argument.index]);
}

LogicalResult checkArguments(const ModelBlock &block, BlockFunction &function) {
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    auto given = givenTo(block, function, i);
    if (failed(given))
      return failure();
    if (argumentTypes(function, i) != *given)
      return argumentError(function, i)
             << "is " << describe(argumentTypes(function, i)) << ", but is given " << describe(*given);
  }
  return success();
}

LogicalResult checkGradients(const ModelBlock &block, const BlockFunction &function) {
  func::FuncOp op = function.function;
  std::vector<int64_t> dins = function.resultsOf(Res::din);
  if (!dins.empty() && dins.size() != block.activations.size())
    return errorIn(op) << "returns " << dins.size() << " din for " << block.activations.size()
                       << " activations";
  for (auto [din, activation] : llvm::zip(dins, block.activations))
    if (resultTypes(function, din) != argumentTypes(block.forward, activation))
      return errorIn(op) << "result " << din << " is " << describe(resultTypes(function, din))
                         << ", but the activation " << describe(argumentTypes(block.forward, activation));
  for (int64_t grad : function.resultsOf(Res::grad)) {
    Types parameter = argumentTypes(block.forward, function.results[grad].index);
    Types gradient = resultTypes(function, grad);
    if (!fitsGradient(parameter.type, gradient.type) ||
        !fitsGradient(shardedType(parameter.sharded), shardedType(gradient.sharded)))
      return errorIn(op) << "result " << grad << " is " << describe(gradient) << ", but the parameter "
                         << describe(parameter);
  }
  return success();
}

} // namespace

FailureOr<Blocks> Blocks::read(ModuleOp module) {
  Blocks blocks;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto name = function->getAttrOfType<StringAttr>(kBlockAttr),
         pass = function->getAttrOfType<StringAttr>(kPassAttr);
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
      return errorIn(function) << "mg.pass is '" << pass.getValue() << "'";
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
      if (*function && (failed(checkArguments(block, *function)) || failed(checkGradients(block, *function))))
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

plan::Mesh mgc::meshOf(ModuleOp module) {
  plan::Mesh mesh;
  auto attr = module->getAttrOfType<MeshAttr>(kMeshAttr);
  for (auto [name, size] : llvm::zip(attr.getNames(), attr.getSizes())) {
    mesh.axes.push_back({name.str(), size});
    mesh.named[name.str()] = {name.str()};
  }
  for (NamedAttribute alias : attr.getNamed())
    mesh.named[alias.getName().str()] = axesOf(cast<ArrayAttr>(alias.getValue()));
  return mesh;
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
