// See TrainedStages.h. The attribute:
//
//   mg.trained = {chunks = array<i64: 4, 3>,
//                 stages = [{buckets = [{elements = 4096 : i64, data = ["dp"], ..}, ..],           as mg.bucket's attributes
//                            places = [{block = "layer", tensor = "h.{}.w", part = "q", bucket = 0 : i64, ..}, ..]}, ..]}
#include "compiler/stage/TrainedStages.h"

#include "compiler/program/Blocks.h"
#include "compiler/stage/PipelineShape.h"
#include "dialects/mg/Parameter.h"

using namespace mlir;

namespace mgc {

namespace {

// Numbers of a place, by the names that they have in the attribute.
constexpr std::pair<StringLiteral, int64_t PlannedPlace::*> kNumbers[] = {
    {"first", &PlannedPlace::first},   {"count", &PlannedPlace::count},   {"bucket", &PlannedPlace::bucket},
    {"offset", &PlannedPlace::offset}, {"stride", &PlannedPlace::stride},
};

// Tensor and part of the first view of a parameter.
std::pair<StringRef, StringRef> identityOf(DictionaryAttr param) {
  const DictionaryAttr first = viewsOf(param).front();
  const auto part = first.getAs<StringAttr>("part");
  return {first.getAs<StringAttr>("tensor").getValue(), part ? part.getValue() : StringRef()};
}

DictionaryAttr describe(Builder &builder, PlaceOp place, const Blocks &blocks) {
  func::FuncOp forward = blocks.at(place.getBlock()).forward.function;
  const auto [tensor, part] = identityOf(forward.getArgAttrOfType<DictionaryAttr>(place.getArgument(), kParamAttr));
  NamedAttrList entries;
  entries.append("block", builder.getStringAttr(place.getBlock()));
  entries.append("tensor", builder.getStringAttr(tensor));
  entries.append("part", builder.getStringAttr(part));
  const int64_t values[] = {int64_t(place.getFirst()), int64_t(place.getCount()), int64_t(place.getBucket()),
                            int64_t(place.getOffset()), int64_t(place.getStride())};
  for (const auto &[number, value] : llvm::zip(kNumbers, values))
    entries.append(number.first, builder.getI64IntegerAttr(value));
  return entries.getDictionary(builder.getContext());
}

class Reader {
public:
  Reader(ArrayRef<EvaluatedBlock> blocks, int64_t level) : level_(level) {
    for (auto [b, block] : llvm::enumerate(blocks))
      for (auto [p, parameter] : llvm::enumerate(block.parameters))
        known_[{block.name, parameter.tensor, parameter.part}] = {int64_t(b), int64_t(p)};
  }

  Result<StageBuckets> read(DictionaryAttr stage) {
    const auto buckets = stage ? stage.getAs<ArrayAttr>("buckets") : ArrayAttr(),
               places = stage ? stage.getAs<ArrayAttr>("places") : ArrayAttr();
    if (!buckets || !places)
      return errorf("{}: a stage lacks its buckets or places; expected what a training of the same program has",
                    kTrainedAttr.str());
    StageBuckets out;
    for (Attribute bucket : buckets) {
      MGC_ASSIGN(made, readBucket(dyn_cast<DictionaryAttr>(bucket)));
      out.buckets.push_back(std::move(made));
    }
    for (Attribute place : places) {
      MGC_ASSIGN(made, readPlace(dyn_cast<DictionaryAttr>(place), int64_t(out.buckets.size())));
      out.places.push_back(made);
    }
    return out;
  }

private:
  static Status refuse(const char *what) {
    return errorf("{}: {} is not one of a training of the same program", kTrainedAttr.str(), what);
  }

  Result<PlannedBucket> readBucket(DictionaryAttr from) const {
    const auto elements = from ? from.getAs<IntegerAttr>("elements") : IntegerAttr();
    const auto split = from ? from.getAs<ArrayAttr>("split") : ArrayAttr(),
               reduce = from ? from.getAs<ArrayAttr>("reduce") : ArrayAttr(),
               data = from ? from.getAs<ArrayAttr>("data") : ArrayAttr();
    if (!elements || !split || !reduce || !data)
      return refuse("a bucket");
    PlannedBucket bucket;
    bucket.elements = elements.getInt();
    if (const auto units = from.getAs<IntegerAttr>("units"))
      bucket.units = units.getInt();
    const auto use = from.getAs<StringAttr>("use");
    const bool isCounter = use && std::string_view(use.getValue()) == nameOf(plan::BucketUse::loadCounter);
    BucketKey &key = bucket.key;
    key.use = isCounter ? plan::BucketUse::loadCounter : plan::BucketUse::frozen;
    key.split = axesOf(split), key.data = axesOf(data);
    if (isCounter)
      key.reduce = axesOf(reduce);
    if (const auto tied = from.getAs<DenseI64ArrayAttr>("tied"))
      key.tied.assign(tied.asArrayRef().begin(), tied.asArrayRef().end());
    key.decay = from.contains("decay");
    if (const auto load = from.getAs<FloatAttr>("meanLoad"))
      key.meanLoad = load.getValueAsDouble();
    key.unit = isPerUnit(key, level_) ? 0 : -1;
    bucket.sharded = isSharded(key, level_);
    return bucket;
  }

  Result<PlannedPlace> readPlace(DictionaryAttr from, int64_t buckets) const {
    const auto text = [&](StringRef name) {
      const auto found = from ? from.getAs<StringAttr>(name) : StringAttr();
      return found ? found.str() : std::string();
    };
    const auto found = known_.find({text("block"), text("tensor"), text("part")});
    if (found == known_.end())
      return errorf("{}: the program has no parameter {} of block {}; expected the parameters of the training",
                    kTrainedAttr.str(), text("tensor"), text("block"));
    PlannedPlace place;
    std::tie(place.block, place.parameter) = found->second;
    for (const auto &[name, member] : kNumbers)
      if (const auto number = from.getAs<IntegerAttr>(name))
        place.*member = number.getInt();
      else
        return refuse("a place");
    if (place.bucket < 0 || place.bucket >= buckets)
      return refuse("the bucket of a place");
    return place;
  }

  const int64_t level_;
  std::map<std::tuple<std::string, std::string, std::string>, std::pair<int64_t, int64_t>> known_;
};

} // namespace

DictionaryAttr describeStages(ModuleOp trained) {
  Builder builder(trained.getContext());
  const auto blocks = Blocks::read(trained); // proved: it can be read
  const schedule::Shape shape = shapeOf(trained, plan::stageCount(meshOf(trained)));
  SmallVector<Attribute> stages;
  SmallVector<int64_t> chunks(shape.chunks());
  for (StageOp stage : trained.getOps<StageOp>()) {
    for (ChunkOp chunk : stage.all<ChunkOp>())
      chunks[shape.globalChunk(stage.getNumber(), chunk.getNumber())] =
          int64_t(blocks->instancesOf(chunk.getBody()).size());
    SmallVector<Attribute> buckets, places;
    for (BucketOp bucket : stage.all<BucketOp>())
      buckets.push_back(bucket->getAttrDictionary());
    for (PlaceOp place : stage.all<PlaceOp>())
      places.push_back(describe(builder, place, *blocks));
    stages.push_back(builder.getDictionaryAttr({builder.getNamedAttr("buckets", builder.getArrayAttr(buckets)),
                                                builder.getNamedAttr("places", builder.getArrayAttr(places))}));
  }
  return builder.getDictionaryAttr({builder.getNamedAttr("chunks", builder.getDenseI64ArrayAttr(chunks)),
                                    builder.getNamedAttr("stages", builder.getArrayAttr(stages))});
}

std::vector<int64_t> trainedChunks(DictionaryAttr trained) {
  const auto chunks = trained.getAs<DenseI64ArrayAttr>("chunks");
  return chunks ? std::vector<int64_t>(chunks.asArrayRef()) : std::vector<int64_t>();
}

Result<std::vector<StageBuckets>> trainedBuckets(DictionaryAttr trained, ArrayRef<EvaluatedBlock> blocks,
                                                 int64_t level) {
  Reader reader(blocks, level);
  std::vector<StageBuckets> stages;
  if (const auto all = trained.getAs<ArrayAttr>("stages"))
    for (Attribute stage : all) {
      MGC_ASSIGN(read, reader.read(dyn_cast<DictionaryAttr>(stage)));
      stages.push_back(std::move(read));
    }
  return stages;
}

} // namespace mgc
