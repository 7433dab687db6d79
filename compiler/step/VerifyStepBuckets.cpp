// See VerifyStepBuckets.h.
#include "compiler/step/VerifyStepBuckets.h"

#include "compiler/step/BlockParameters.h"
#include "compiler/step/StateBuffers.h"
#include "dialects/mg/Parameter.h"

#include <set>

using namespace mlir;

namespace mgc {

namespace {

// A parameter of an instance.
struct Use {
  BlockParameter parameter;
  func::FuncOp forward; // the block's forward function
  BucketOp bucket;
  std::string name;
};

// The bucket that has the parameter (stage_c4: one has).
BucketOp bucketOf(StageOp stage, const Instance &instance, int64_t argument) {
  for (PlaceOp place : stage.all<PlaceOp>())
    if (const int64_t first = place.getFirst(); place.getBlock() == instance.block->name &&
                                                int64_t(place.getArgument()) == argument && instance.number >= first &&
                                                instance.number - first < int64_t(place.getCount()))
      return stage.all<BucketOp>()[place.getBucket()];
  return {};
}

class Buckets {
public:
  explicit Buckets(ModuleOp module) : sharding_(shardingOf(module)) {}

  LogicalResult add(StageOp stage, const Blocks &blocks) {
    std::map<const ModelBlock *, std::vector<BlockParameter>> known;
    for (ChunkOp chunk : stage.all<ChunkOp>())
      for (const Instance &instance : blocks.instancesOf(chunk.getBody())) {
        auto [it, isNew] = known.try_emplace(instance.block);
        if (isNew) {
          auto parameters = parametersOf(*instance.block);
          if (failed(parameters))
            return failure();
          it->second = std::move(*parameters);
        }
        for (const BlockParameter &parameter : it->second) {
          func::FuncOp forward = instance.block->forward.function;
          auto param = forward.getArgAttrOfType<DictionaryAttr>(parameter.argument, kParamAttr);
          std::string name = nameForInstance(nameOf(param), instance.number);
          stages_[name].insert(stage.getNumber());
          uses_.push_back({parameter, forward, bucketOf(stage, instance, parameter.argument), name});
        }
      }
    return success();
  }

  LogicalResult verify() {
    for (Use &use : uses_) {
      const std::set<int64_t> &stages = stages_.at(use.name);
      BucketKey &key = use.parameter.key;
      if (stages.size() > 1)
        key.tied.assign(stages.begin(), stages.end());
      if (failed(verify(use)))
        return failure();
    }
    return success();
  }

private:
  LogicalResult verify(const Use &use) {
    const BucketKey &key = use.parameter.key;
    BucketOp bucket = use.bucket;
    const auto axes = [](const plan::Axes &list) { return fmt::format("[{}]", fmt::join(list, ", ")); };
    const std::tuple<StringRef, std::string, std::string> rows[] = {
        {"split", axes(axesOf(bucket.getSplit())), axes(key.split)},
        {"reduce", axes(axesOf(bucket.getReduce())), axes(key.reduce)},
        {"data", axes(axesOf(bucket.getData())), axes(key.data)},
        {"tied", fmt::format("[{}]", fmt::join(bucket.getTied(), ", ")),
         fmt::format("[{}]", fmt::join(key.tied, ", "))},
        {"decay", fmt::format("{}", bucket.getDecay()), fmt::format("{}", key.decay)},
        {"meanLoad", fmt::format("{}", bucket.getMeanLoad().convertToDouble()), fmt::format("{}", key.meanLoad)},
        {"use", bucket.getUse().str(), std::string(nameOf(key.use))},
        {"shard", axes(axesOf(bucket.getShard())), axes(shardAxesOf(key, sharding_))},
        {"outer", axes(axesOf(bucket.getOuter())), axes(outerAxesOf(key, sharding_))},
        {"gather", bucket.getGather().str(), std::string(plan::nameOf(gatherTimeOf(key, sharding_)))},
        {"perUnit", fmt::format("{}", bucket.getPerUnit()), fmt::format("{}", isPerUnit(key, sharding_))}};
    for (const auto &[field, found, expected] : rows)
      if (found != expected)
        return bucket.emitOpError() << "has " << use.name << ", argument " << use.parameter.argument << " of "
                                    << func::FuncOp(use.forward).getName() << ", but " << field << " = " << found
                                    << "; expected " << expected << ", as its type and mg.param say (step_c1)";
    return success();
  }

  const Sharding sharding_;
  std::vector<Use> uses_;
  std::map<std::string, std::set<int64_t>> stages_; // by name
};

bool areNames(ArrayAttr axes) { return llvm::all_of(axes, llvm::IsaPred<StringAttr>); }

} // namespace

LogicalResult verifyStepBuckets(ModuleOp module, const Blocks &blocks, ArrayRef<StageOp> stages) {
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr); // verifyShardForm: there is one
  Buckets buckets(module);
  for (StageOp stage : stages) {
    for (BucketOp bucket : stage.all<BucketOp>()) {
      if (!llvm::all_of(
              ArrayRef({bucket.getSplit(), bucket.getReduce(), bucket.getData(), bucket.getShard(), bucket.getOuter()}),
              areNames))
        return bucket.emitOpError("split, reduce, data, shard and outer are lists of axes' names");
      if (const int64_t unit = BucketTypes::unitOf(bucket, mesh), elements = bucket.getElements();
          elements <= 0 || elements % unit != 0)
        return bucket.emitOpError() << "has " << elements << " elements; expected a multiple of " << unit
                                    << ", rows of a slice for each rank (step_c1)";
    }
    if (failed(buckets.add(stage, blocks)))
      return failure();
  }
  return buckets.verify();
}

} // namespace mgc
