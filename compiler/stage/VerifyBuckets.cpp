// Each bucket says of its parameters what their types say: the axes that split them (mg.type of the parameter), those over
// which their gradients are pending (mg.type of the gradient; none where they are frozen), whether they decay, load moves them,
// they count it or are frozen, and which stages have the same ones. The step's end is proved by what the bucket says.
#include "compiler/stage/StepFunction.h"
#include "compiler/stage/VerifyStepEnd.h"
#include "dialects/mg/Parameter.h"

#include <set>

using namespace mlir;
using namespace mgc;

namespace {

// A parameter of an instance.
struct Use {
  const ModelBlock *block;
  func::FuncOp forward; // the block's forward function
  unsigned argument;
  BucketOp bucket;
  std::string name;
};

std::string text(const plan::Axes &axes) { return fmt::format("[{}]", fmt::join(axes, ", ")); }

// The bucket that has the parameter (stage_c4: one has).
BucketOp bucketOf(StageOp stage, const Instance &instance, uint64_t argument) {
  for (PlaceOp place : stage.all<PlaceOp>())
    if (const int64_t first = place.getFirst(); place.getBlock() == instance.block->name &&
                                                place.getArgument() == argument && instance.number >= first &&
                                                instance.number - first < int64_t(place.getCount()))
      return stage.all<BucketOp>()[place.getBucket()];
  return {};
}

class Buckets {
public:
  explicit Buckets(ModuleOp module) : module_(module), mesh_(module->getAttrOfType<MeshAttr>(kMeshAttr)) {}

  void add(StageOp stage, const Blocks &blocks) {
    for (ChunkOp chunk : stage.all<ChunkOp>())
      for (const Instance &instance : blocks.instancesOf(chunk.getBody()))
        for (auto [i, argument] : llvm::enumerate(instance.block->forward.arguments))
          if (argument.kind == BlockFunction::ArgumentKind::parameter) {
            func::FuncOp forward = instance.block->forward.function;
            auto param = forward.getArgAttrOfType<DictionaryAttr>(i, kParamAttr);
            std::string name = nameForInstance(nameOf(param), instance.number);
            stages_[name].insert(stage.getNumber());
            uses_.push_back({instance.block, forward, unsigned(i), bucketOf(stage, instance, i), name});
          }
  }

  LogicalResult verify() {
    for (const Use &use : uses_)
      if (failed(verifyAxes(use)) || failed(verifyTreatment(use)))
        return failure();
    return success();
  }

private:
  static InFlightDiagnostic error(const Use &use) {
    return BucketOp(use.bucket).emitOpError() << "has " << use.name << ", argument " << use.argument << " of "
                                              << func::FuncOp(use.forward).getName() << ", ";
  }
  bool isData(const std::string &axis) {
    return plan::seesOtherTokens(mesh_.roleOf(StringAttr::get(module_.getContext(), axis)));
  }

  LogicalResult verifyAxes(const Use &use) {
    BucketOp bucket = use.bucket;
    plan::Axes split, data, reduce;
    Attribute type = func::FuncOp(use.forward).getArgAttr(use.argument, kTypeAttr);
    for (ArrayAttr axes : layoutOf(shardedType(type)).getAxes())
      llvm::append_range(split, axesOf(axes));
    if (RankedTensorType gradient = use.block->gradientType(use.argument))
      for (const std::string &axis : axesOf(layoutOf(gradient).getPending()))
        (isData(axis) ? data : reduce).push_back(axis);
    const std::tuple<StringRef, plan::Axes, plan::Axes, StringRef> rows[] = {
        {"split", axesOf(bucket.getSplit()), split, "which its type splits"},
        {"reduce", axesOf(bucket.getReduce()), reduce, "over which its gradient is pending"},
        {"data", axesOf(bucket.getData()), data, "over which its gradient is pending"}};
    for (const auto &[field, found, expected, why] : rows)
      if (sorted(found) != sorted(expected))
        return error(use) << "but " << field << " = " << text(found) << "; expected " << text(expected) << ", the axes "
                          << why;
    return success();
  }

  LogicalResult verifyTreatment(const Use &use) {
    BucketOp bucket = use.bucket;
    auto param = func::FuncOp(use.forward).getArgAttrOfType<DictionaryAttr>(use.argument, kParamAttr);
    if (const bool decay = decays(viewsOf(param).front()); bucket.getDecay() != decay)
      return error(use) << (decay ? "which decays" : "which does not decay") << "; expected a bucket that "
                        << (decay ? "does" : "does not");
    if (const double load = meanLoadOf(param); bucket.getMeanLoad().convertToDouble() != load)
      return error(use) << "which has mean_load = " << load << "; expected a bucket with this meanLoad, not "
                        << bucket.getMeanLoad().convertToDouble();
    if (const bool counts = isCounter(param); bucket.getCounts() != counts)
      return error(use) << (counts ? "a counter" : "which is no counter") << "; expected a bucket "
                        << (counts ? "that counts" : "that does not count");
    if (const bool frozen = isFrozen(param); bucket.getFrozen() != frozen)
      return error(use) << (frozen ? "which is frozen" : "which is trained") << "; expected a bucket that is "
                        << (frozen ? "frozen" : "not frozen");
    const bool sharded = trainingOf(module_).zero > 0 && !bucket.getData().empty();
    if (bucket.getSharded() != sharded)
      return error(use) << "and is " << (sharded ? "not sharded" : "sharded")
                        << "; expected otherwise, with zero = " << trainingOf(module_).zero << " in " << kTrainingAttr
                        << " and data = " << text(axesOf(bucket.getData()));
    const std::set<int64_t> &stages = stages_.at(use.name);
    SmallVector<int64_t> tied;
    if (stages.size() > 1)
      tied.assign(stages.begin(), stages.end());
    if (bucket.getTied() != ArrayRef(tied))
      return error(use) << "but tied = "
                        << fmt::format("[{}]; expected [{}], the stages that have it",
                                       fmt::join(bucket.getTied(), ", "), fmt::join(tied, ", "));
    return success();
  }

  ModuleOp module_;
  MeshAttr mesh_;
  std::vector<Use> uses_;
  std::map<std::string, std::set<int64_t>> stages_; // by name
};

} // namespace

LogicalResult mgc::verifyBuckets(ModuleOp module, const Blocks &blocks, ArrayRef<StageOp> stages) {
  Buckets buckets(module);
  for (StageOp stage : stages)
    buckets.add(stage, blocks);
  return buckets.verify();
}
