// See VerifyForm.h.
#include "compiler/stage/VerifyForm.h"

#include "compiler/stage/Blocks.h"
#include "compiler/stage/TrainingNumbers.h"
#include "compiler/stage/VerifyStepEnd.h"
#include "dialects/mg/Parameter.h"
#include "runtime/base/Checked.h"

#include <set>

using namespace mlir;
using namespace mgc;

using Arg = BlockFunction::ArgumentKind;
using Res = BlockFunction::ResultKind;

namespace {

// --- import

LogicalResult verifyPrecision(ModuleOp module) {
  auto [values, gradients] = precisionOf(module);
  auto isKnown = [](Type type) { return type.isF32() || type.isBF16(); };
  if (isKnown(values) && (gradients.isF32() || gradients == values))
    return success();
  return module.emitError() << kTrainingAttr << ": " << kValueType << " = " << values << ", " << kGradientType
                            << " = " << gradients
                            << "; expected f32 or bf16, and gradients of that type or f32";
}

// Parameters have mg.training's dtype.
LogicalResult verifyParameterTypes(func::FuncOp function) {
  Type expected = precisionOf(function->getParentOfType<ModuleOp>()).values;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if (function.getArgAttr(i, kParamAttr) && elementOf(type) != expected)
      return errorIn(function) << "argument " << i << ": the parameter has elements of " << elementOf(type)
                               << "; expected " << expected << ", the " << kValueType << " of "
                               << kTrainingAttr;
  return success();
}

bool isLogical(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return !tensor || !layoutOf(type) || layoutOf(type).isLogical();
}

LogicalResult verifyBlockArgument(func::FuncOp block, unsigned i) {
  if (Status status = verifyArgument(block, i); !status.isOk())
    return errorIn(block) << status.message();
  if (auto param = block.getArgAttrOfType<DictionaryAttr>(i, kParamAttr);
      param && block.getArgument(i).use_empty())
    return errorIn(block) << "argument " << i << ": the parameter " << nameOf(param) << " is not used";
  return success();
}

// A view of the checkpoint is a parameter, or part of one, the same wherever it stands.
LogicalResult verifyParameterViews(func::FuncOp block, std::map<std::string, std::string> &parameterOf) {
  for (unsigned i = 0; i < block.getNumArguments(); ++i) {
    auto param = block.getArgAttrOfType<DictionaryAttr>(i, kParamAttr);
    for (DictionaryAttr view : param ? viewsOf(param) : SmallVector<DictionaryAttr, 3>())
      if (auto known = parameterOf.try_emplace(nameOf(view), nameOf(param)).first;
          known->second != nameOf(param))
        return errorIn(block) << "argument " << i << ": " << nameOf(view) << " is part of the parameter "
                              << nameOf(param) << " here, of " << known->second << " elsewhere";
  }
  return success();
}

// --- grad

LogicalResult verifyHandedOver(const ModelBlock &block, Res kind, Arg taken,
                               ArrayRef<const BlockFunction *> takers) {
  std::set<int64_t> indices;
  for (const BlockFunction *function : takers)
    for (const BlockFunction::Argument &argument : function->arguments)
      if (argument.kind == taken)
        indices.insert(argument.index);
  const BlockFunction &giver = kind == Res::split ? block.input : block.forward;
  for (size_t i = 0; giver && i < giver.resultsOf(kind).size(); ++i)
    if (!indices.contains(i))
      return errorIn(giver.function) << "hands over " << (kind == Res::split ? "split" : "saved") << " value "
                                     << i << ", which no backward function takes";
  return success();
}

LogicalResult verifyGradients(const ModelBlock &block, ArrayRef<const BlockFunction *> functions) {
  std::map<int64_t, int64_t> gradients; // by argument of forward
  size_t dins = 0;
  for (const BlockFunction *function : functions) {
    dins += function->resultsOf(Res::din).size();
    for (int64_t i : function->resultsOf(Res::grad))
      ++gradients[function->results[i].index];
  }
  func::FuncOp forward = block.forward.function;
  if (dins != block.activations.size())
    return errorIn(forward) << "takes " << block.activations.size()
                            << " activations; backward returns the gradients of " << dins;
  for (auto [i, argument] : llvm::enumerate(block.forward.arguments))
    if (argument.kind == Arg::parameter && gradients[i] != 1)
      return errorIn(forward) << "argument " << i << ": the parameter has " << gradients[i]
                              << " gradients; expected one";
  return success();
}

LogicalResult verifyElements(const BlockFunction &block) {
  func::FuncOp function = block.function;
  Type expected = precisionOf(function->getParentOfType<ModuleOp>()).gradients;
  for (int64_t i : block.resultsOf(Res::grad))
    if (elementOf(block.resultType(i)) != expected)
      return errorIn(function) << "result " << i << ": the gradient has elements of "
                               << elementOf(block.resultType(i)) << "; expected " << expected << ", the "
                               << kGradientType << " of " << kTrainingAttr;
  return verifyParameterTypes(function);
}

// --- local

// Whether `local` is what a rank has of `global`.
bool isPartOf(RankedTensorType local, RankedTensorType global, MeshAttr mesh) {
  LayoutAttr layout = layoutOf(global), bare = layoutOf(local);
  if (!layout || !bare || layout.getNames() != bare.getNames())
    return false;
  for (auto [part, whole, axes] : llvm::zip(local.getShape(), global.getShape(), layout.getAxes()))
    if (checkedMultiply(part, mesh.sizeOf(axes)) != Checked(whole))
      return false;
  return local.getElementType() == global.getElementType();
}

LogicalResult verifyParts(const BlockFunction &block, MeshAttr mesh) {
  func::FuncOp function = block.function;
  auto verify = [&](const char *what, unsigned i, RankedTensorType local, Attribute sharded) {
    RankedTensorType global = shardedType(sharded);
    if (global && isPartOf(local, global, mesh))
      return success();
    auto error = errorIn(function) << what << " " << i << " is " << local;
    return LogicalResult(error << (global ? ", which is not one rank's part of " : "; expected ") << kTypeAttr
                               << (sharded ? " = " : "") << sharded);
  };
  for (unsigned i = 0; i < block.arguments.size(); ++i)
    if (failed(verify("argument", i, block.argumentType(i), function.getArgAttr(i, kTypeAttr))))
      return failure();
  for (unsigned i = 0; i < block.results.size(); ++i)
    if (failed(verify("result", i, block.resultType(i), function.getResultAttr(i, kTypeAttr))))
      return failure();
  return success();
}

// --- stage

// All instances in the order in which values flow: chunk k of stage s is the global chunk k * stages + s.
FailureOr<std::vector<Instance>> flow(ModuleOp module, const Blocks &blocks, ArrayRef<StageOp> stages) {
  int64_t virtualStages = trainingInt(module, "virtual_stages", 1);
  std::vector<SmallVector<ChunkOp>> chunks;
  for (auto [i, stage] : llvm::enumerate(stages)) {
    StageOp op = stage;
    chunks.push_back(op.all<ChunkOp>());
    if (op.getNumber() != i || int64_t(chunks.back().size()) != virtualStages)
      return op.emitOpError() << "expected number " << i << " and " << virtualStages << " chunks, found "
                              << chunks.back().size();
  }
  std::vector<Instance> instances;
  for (int64_t k = 0; k < virtualStages; ++k)
    for (const SmallVector<ChunkOp> &ofStage : chunks) {
      std::vector<Instance> chunk = blocks.instancesOf(ChunkOp(ofStage[k]).getBody());
      instances.insert(instances.end(), chunk.begin(), chunk.end());
    }
  return instances;
}

std::vector<Type> activationsInto(const ModelBlock &block) {
  std::vector<Type> types;
  for (int64_t argument : block.activations)
    types.push_back(block.forward.argumentType(argument));
  return types;
}
std::vector<Type> activationsFrom(const ModelBlock &block) {
  std::vector<Type> types;
  for (int64_t result : block.forward.resultsOf(Res::out))
    types.push_back(block.forward.resultType(result));
  return types;
}

LogicalResult verifyFlow(ModuleOp module, const std::vector<Instance> &instances) {
  std::set<std::pair<const ModelBlock *, int64_t>> seen;
  std::vector<Type> flow;
  for (const Instance &instance : instances) {
    if (!seen.insert({instance.block, instance.number}).second)
      return module.emitError() << "instance " << instance.number << " of " << instance.block->name
                                << " stands in two places; expected each once";
    if (activationsInto(*instance.block) != flow)
      return module.emitError() << "instance " << instance.number << " of " << instance.block->name
                                << " does not take the activations that the instance before it gives";
    flow = activationsFrom(*instance.block);
  }
  if (instances.empty())
    return module.emitError("the stages have no instances of blocks");
  if (!instances.back().block->lossFunction())
    return module.emitError() << "the last instance is of " << instances.back().block->name
                              << ", which does not return one loss_sum and one tokens";
  return success();
}

} // namespace

LogicalResult mgc::verifyImportForm(ModuleOp module) {
  if (failed(verifyPrecision(module)) || failed(verifyTrainingNumbers(module)))
    return failure();
  std::map<std::string, std::string> parameterOf; // by view
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(kBlockAttr))
      continue;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (failed(verifyBlockArgument(function, i)))
        return failure();
    if (failed(verifyParameterTypes(function)) || failed(verifyParameterViews(function, parameterOf)))
      return failure();
    if (!llvm::all_of(function.getArgumentTypes(), isLogical))
      return errorIn(function) << "an argument is split or pending; a logical program splits nothing";
    for (Operation &op : function.getBody().front())
      if (!llvm::all_of(op.getResultTypes(), isLogical))
        return op.emitOpError("is split or pending; a logical program splits nothing");
  }
  return success();
}

LogicalResult mgc::verifyGradForm(ModuleOp module) {
  auto blocks = Blocks::read(module);
  if (failed(blocks) || failed(verifyPrecision(module)) || failed(verifyTrainingNumbers(module)))
    return failure();
  std::vector<std::string> passes = passesOf(module);
  for (const auto &[name, block] : *blocks) {
    for (const BlockFunction *function : block.functions())
      if (failed(verifyElements(*function)))
        return failure();
    SmallVector<const BlockFunction *> backward;
    for (const std::string &pass : passes) {
      const BlockFunction *function = block.functionOf(pass);
      if (!function && pass == "weight")
        continue; // its input half returns all gradients, as is proved below
      if (!function)
        return module.emitError() << "block " << name << " has no " << pass
                                  << " function, which the schedule runs";
      if (function != &block.forward)
        backward.push_back(function);
    }
    if (failed(verifyHandedOver(block, Res::saved, Arg::saved, backward)) ||
        failed(verifyHandedOver(block, Res::split, Arg::split, backward)) ||
        failed(verifyGradients(block, backward)))
      return failure();
  }
  return success();
}

LogicalResult mgc::verifyShardForm(ModuleOp module) {
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
  if (!mesh)
    return module.emitError() << "needs the attribute " << kMeshAttr;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(kPassAttr))
      continue;
    for (Type type : function.getArgumentTypes())
      if (failed(mesh.verifyType([&] { return errorIn(function); }, type)))
        return failure();
    auto verify = [&](Operation *op) {
      for (Type type : op->getResultTypes())
        if (failed(mesh.verifyType([&] { return op->emitOpError(); }, type)))
          return WalkResult::interrupt();
      return WalkResult::advance();
    };
    if (function.walk(verify).wasInterrupted())
      return failure();
  }
  return success();
}

LogicalResult mgc::verifyLocalForm(ModuleOp module) {
  auto blocks = Blocks::read(module);
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr); // verifyShardForm: there is one
  if (failed(blocks))
    return failure();
  for (const auto &[name, block] : *blocks)
    for (const BlockFunction *function : block.functions())
      if (failed(verifyParts(*function, mesh)))
        return failure();
  auto verify = [](Operation *op) {
    if (!isa<ReshardOp>(op) && llvm::all_of(op->getResultTypes(), isLogical))
      return WalkResult::advance();
    op->emitOpError("is split, pending or a reshard; a local program has collectives");
    return WalkResult::interrupt();
  };
  return failure(module.walk(verify).wasInterrupted());
}

LogicalResult mgc::verifyStageForm(ModuleOp module) {
  auto blocks = Blocks::read(module);
  if (failed(blocks))
    return failure();
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr); // verifyShardForm: there is one
  auto stages = llvm::to_vector(module.getOps<StageOp>());
  if (int64_t expected = mesh.sizeOf(mesh.resolve("pp")); int64_t(stages.size()) != expected)
    return module.emitError() << "has " << stages.size() << " mg.stage; expected " << expected
                              << ", the size of pp in " << kMeshAttr;
  auto instances = flow(module, *blocks, stages);
  if (failed(instances) || failed(verifyFlow(module, *instances)) ||
      failed(verifyBuckets(module, *blocks, stages)))
    return failure();
  const BlockFunction &loss = *instances->back().block->lossFunction();
  for (StageOp stage : stages)
    if (failed(verifyStepEnd(stage, mesh)) || failed(verifyTotals(stage, mesh, loss)) ||
        failed(verifyUpdate(stage)))
      return failure();
  return success();
}
