// See TrainingNumbers.h.
#include "compiler/program/TrainingNumbers.h"

#include "compiler/program/Blocks.h"
#include "dialects/mg/DataKind.h"
#include "dialects/mg/Target.h"
#include "dialects/mg/training/OffloadWords.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <ranges>

using namespace mlir;
using namespace mgc;

namespace {

constexpr llvm::StringLiteral kValidAttr = "valid"; // columns without padding, on ops over the vocabulary

// The numbers of mg.training and mg.mesh.
struct Numbers {
  const TrainingSettings &training;
  int64_t replicas;
  explicit Numbers(ModuleOp module) : training(trainingOf(module)), replicas(replicasOf(module)) {}

  // The size of a dimension of the whole microbatch; nothing: any.
  std::optional<int64_t> sizeOf(StringRef dimension, bool ofEncoder) const {
    const auto known = [](int64_t size) { return size > 0 ? std::optional(size) : std::nullopt; };
    if (dimension == "s" || dimension == "t")
      return known(ofEncoder ? training.encoderLength : training.sequenceLength);
    if (dimension == "n")
      return training.images.channels;
    if (dimension == "o" || dimension == "u")
      return training.images.patchSize;
    return dimension == "b" ? known(training.microBatchSize * replicas) : std::nullopt;
  }

private:
  static int64_t replicasOf(ModuleOp module) {
    auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
    return mesh ? mesh.sizeOf(mesh.axesOf(plan::AxisRole::data)) : 1;
  }
};

std::string nameOf(const Numbers &numbers, StringRef dimension, bool ofEncoder) {
  if (dimension == "b")
    return fmt::format("micro_batch_size {} * dp {}", numbers.training.microBatchSize, numbers.replicas);
  if (dimension == "s" || dimension == "t")
    return std::string(nameOf(ofEncoder ? &TrainingSettings::encoderLength : &TrainingSettings::sequenceLength));
  return dimension == "n" ? "images.channels" : "images.patch_size";
}

LogicalResult verifyBatch(ModuleOp module, const Numbers &numbers) {
  const TrainingSettings &training = numbers.training;
  if (training.globalBatchSize == 0 || training.microBatchSize == 0 ||
      training.globalBatchSize == training.microBatchSize * numbers.replicas * training.microbatches)
    return success();
  return module.emitError() << kTrainingAttr << ": global_batch_size = " << training.globalBatchSize
                            << "; expected micro_batch_size " << training.microBatchSize << " * dp " << numbers.replicas
                            << " * microbatches " << training.microbatches;
}

// Combinations that mgc compile refuses before it writes them.
LogicalResult verifySaved(ModuleOp module, const TrainingSettings &training) {
  const auto error = [&] { return module.emitError() << kTrainingAttr << ": "; };
  if (targetOf(module) == plan::Target::cpu && (training.optimizerOffload > 0 || training.activationOffload > 0))
    return error() << (training.optimizerOffload > 0 ? "optimizer_offload_fraction" : "activation_offload_fraction")
                   << " with " << kTargetAttr
                   << " = 'cpu': ranks of CPUs are in the host's memory; expected a GPU, or a fraction of 0";
  if (!(training.activationOffload >= 0 && training.activationOffload <= 1))
    return error() << "activation_offload_fraction = " << fmt::format("{}", training.activationOffload)
                   << "; expected 0 to 1";
  for (const std::string &name : training.offloadModules)
    if (std::ranges::find(kOffloadModules, name, &OffloadModule::name) == kOffloadModules.end())
      return error() << "offload_modules has '" << name << "'; expected some of "
                     << fmt::format("{}",
                                    fmt::join(std::views::transform(kOffloadModules, &OffloadModule::name), ", "));
  const bool hasUnits = training.recompute == RecomputeGranularity::full &&
                        training.recomputeMethod == RecomputeMethod::uniform && training.recomputeLayers > 1;
  if (hasUnits && training.splitBackward)
    return error() << "split_backward with units of several layers, whose backward is one; expected "
                      "recompute_num_layers = 1";
  if (training.activationOffload > 0 && (hasUnits || !training.memory.empty()))
    return error() << "activation_offload_fraction with "
                   << (hasUnits ? "units of several layers: expected recompute_num_layers = 1"
                                : "memory: expected one of the two");
  return success();
}

// The type of the whole microbatch, before and after going local.
RankedTensorType wholeType(func::FuncOp function, unsigned argument) {
  RankedTensorType sharded = shardedType(function.getArgAttr(argument, kTypeAttr));
  return sharded ? sharded : dyn_cast<RankedTensorType>(function.getArgument(argument).getType());
}

LogicalResult verifyData(func::FuncOp function, unsigned argument, const Numbers &numbers) {
  RankedTensorType type = wholeType(function, argument);
  LayoutAttr layout = type ? layoutOf(type) : LayoutAttr();
  auto data = function.getArgAttrOfType<StringAttr>(argument, kDataAttr);
  const bool ofEncoder = data && data.getValue().starts_with(kOfEncoder);
  for (unsigned i = 0; layout && i < layout.getNames().size(); ++i) {
    StringRef name = layout.getNames()[i];
    const std::optional<int64_t> expected = numbers.sizeOf(name, ofEncoder);
    const int64_t found = type.getDimSize(i);
    if (expected && found != *expected)
      return errorIn(function) << "argument " << argument << ": " << name << " = " << found << "; expected "
                               << *expected << ", the " << nameOf(numbers, name, ofEncoder) << " of " << kTrainingAttr;
  }
  return success();
}

LogicalResult verifyColumns(func::FuncOp function, const Numbers &numbers) {
  auto verify = [&](Operation *op) {
    auto valid = op->getAttrOfType<IntegerAttr>(kValidAttr);
    const int64_t vocabulary = numbers.training.vocabulary;
    if (!valid || vocabulary == 0 || valid.getInt() == vocabulary)
      return WalkResult::advance();
    op->emitOpError() << "counts " << valid.getInt() << " columns; expected " << vocabulary << ", the vocabulary of "
                      << kTrainingAttr;
    return WalkResult::interrupt();
  };
  return failure(function.walk(verify).wasInterrupted());
}

} // namespace

LogicalResult mgc::verifyTrainingNumbers(ModuleOp module) {
  const Numbers numbers(module);
  if (failed(verifyBatch(module, numbers)) || failed(verifySaved(module, numbers.training)))
    return failure();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(kBlockAttr) && !function->hasAttr(kPassAttr))
      continue;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (function.getArgAttr(i, kDataAttr) && failed(verifyData(function, i, numbers)))
        return failure();
    if (failed(verifyColumns(function, numbers)))
      return failure();
  }
  return success();
}
