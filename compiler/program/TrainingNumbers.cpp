// See TrainingNumbers.h.
#include "compiler/program/TrainingNumbers.h"

#include "compiler/program/Blocks.h"
#include "dialects/mg/DataKind.h"
#include "dialects/mg/Images.h"

using namespace mlir;
using namespace mgc;

namespace {

constexpr llvm::StringLiteral kValidAttr = "valid"; // columns without padding, on ops over the vocabulary

// The numbers of mg.training; -1 for a number that it lacks.
struct Numbers {
  int64_t sequence, encoderSequence, microBatch, globalBatch, microbatches, vocabulary, replicas;
  explicit Numbers(ModuleOp module)
      : sequence(trainingInt(module, "sequence_length", -1)), encoderSequence(trainingInt(module, kEncoderLength, -1)),
        microBatch(trainingInt(module, "micro_batch_size", -1)),
        globalBatch(trainingInt(module, "global_batch_size", -1)),
        microbatches(trainingInt(module, "microbatches", -1)), vocabulary(trainingInt(module, "vocabulary", -1)),
        replicas(replicasOf(module)) {
    if (auto training = module->getAttrOfType<DictionaryAttr>(kTrainingAttr))
      images = readImages(training.getAs<DictionaryAttr>(kImages));
  }

  plan::Images images;

  // The size of a dimension of the whole microbatch; -1: any.
  int64_t sizeOf(StringRef dimension, bool ofEncoder) const {
    if (dimension == "s" || dimension == "t")
      return ofEncoder ? encoderSequence : sequence;
    if (dimension == "n")
      return images.channels;
    if (dimension == "o" || dimension == "u")
      return images.patchSize;
    return dimension == "b" && microBatch >= 0 ? microBatch * replicas : -1;
  }

private:
  static int64_t replicasOf(ModuleOp module) {
    auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
    return mesh ? mesh.sizeOf(mesh.axesOf(plan::AxisRole::data)) : 1;
  }
};

std::string nameOf(const Numbers &numbers, StringRef dimension, bool ofEncoder) {
  if (dimension == "b")
    return fmt::format("micro_batch_size {} * dp {}", numbers.microBatch, numbers.replicas);
  if (dimension == "s" || dimension == "t")
    return ofEncoder ? kEncoderLength.str() : "sequence_length";
  return kImages.str() + (dimension == "n" ? ".channels" : ".patch_size");
}

LogicalResult verifyBatch(ModuleOp module, const Numbers &numbers) {
  if (numbers.globalBatch < 0 || numbers.microbatches < 0 || numbers.microBatch < 0 ||
      numbers.globalBatch == numbers.microBatch * numbers.replicas * numbers.microbatches)
    return success();
  return module.emitError() << kTrainingAttr << ": global_batch_size = " << numbers.globalBatch
                            << "; expected micro_batch_size " << numbers.microBatch << " * dp " << numbers.replicas
                            << " * microbatches " << numbers.microbatches;
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
    const int64_t expected = numbers.sizeOf(name, ofEncoder), found = type.getDimSize(i);
    if (expected >= 0 && found != expected)
      return errorIn(function) << "argument " << argument << ": " << name << " = " << found << "; expected " << expected
                               << ", the " << nameOf(numbers, name, ofEncoder) << " of " << kTrainingAttr;
  }
  return success();
}

LogicalResult verifyColumns(func::FuncOp function, const Numbers &numbers) {
  auto verify = [&](Operation *op) {
    auto valid = op->getAttrOfType<IntegerAttr>(kValidAttr);
    if (!valid || numbers.vocabulary < 0 || valid.getInt() == numbers.vocabulary)
      return WalkResult::advance();
    op->emitOpError() << "counts " << valid.getInt() << " columns; expected " << numbers.vocabulary
                      << ", the vocabulary of " << kTrainingAttr;
    return WalkResult::interrupt();
  };
  return failure(function.walk(verify).wasInterrupted());
}

} // namespace

LogicalResult mgc::verifyTrainingNumbers(ModuleOp module) {
  const Numbers numbers(module);
  if (failed(verifyBatch(module, numbers)))
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
