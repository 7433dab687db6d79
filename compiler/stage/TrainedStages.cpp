// See TrainedStages.h. The attribute:
//
//   mg.trained = {chunks = array<i64: 4, 3>,
//                 stages = [{buckets = [{elements = 4096 : i64, data = ["dp"], ..}, ..],     as mg.bucket's attributes
//                            places = [{tensor = "h.{}.w", part = "q", bucket = 0 : i64, ..}, ..]}, ..]}
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

DictionaryAttr describe(Builder &builder, PlaceOp place, const Blocks &blocks) {
  func::FuncOp forward = blocks.at(place.getBlock()).forward.function;
  const DictionaryAttr first =
      viewsOf(forward.getArgAttrOfType<DictionaryAttr>(place.getArgument(), kParamAttr)).front();
  NamedAttrList entries;
  entries.append("tensor", first.get("tensor"));
  if (const Attribute part = first.get("part"))
    entries.append("part", part);
  const int64_t values[] = {int64_t(place.getFirst()), int64_t(place.getCount()), int64_t(place.getBucket()),
                            int64_t(place.getOffset()), int64_t(place.getStride())};
  for (const auto &[number, value] : llvm::zip(kNumbers, values))
    entries.append(number.first, builder.getI64IntegerAttr(value));
  return entries.getDictionary(builder.getContext());
}

// A dictionary in the attribute, with its place for messages.
class Fields {
public:
  Fields(Attribute attribute, std::string where)
      : fields_(dyn_cast<DictionaryAttr>(attribute)), where_(std::move(where)) {}

  Status refuse(StringRef name, StringRef expected) const {
    std::string found;
    llvm::raw_string_ostream out(found);
    if (const Attribute value = fields_ ? fields_.get(name) : Attribute())
      out << value;
    else
      out << "missing";
    return errorf("{}: {}.{} is {}; expected {}, as mgc writes it for a training of the same program",
                  kTrainedAttr.str(), where_, name.str(), found, expected.str());
  }
  Result<int64_t> number(StringRef name, int64_t least, int64_t most) const {
    const auto found = fields_ ? fields_.getAs<IntegerAttr>(name) : IntegerAttr();
    if (!found || !found.getType().isInteger(64) || found.getInt() < least || found.getInt() > most)
      return refuse(name, fmt::format("a number of 64 bits from {} to {}", least, most));
    return found.getInt();
  }
  Result<plan::Axes> axes(StringRef name) const {
    const auto found = fields_ ? fields_.getAs<ArrayAttr>(name) : ArrayAttr();
    if (!found || !llvm::all_of(found, llvm::IsaPred<StringAttr>))
      return refuse(name, "a list of axes' names");
    return axesOf(found);
  }
  std::string text(StringRef name) const {
    const auto found = fields_ ? fields_.getAs<StringAttr>(name) : StringAttr();
    return found ? found.str() : std::string();
  }
  template <typename Attr> Attr get(StringRef name) const { return fields_ ? fields_.getAs<Attr>(name) : Attr(); }
  bool has(StringRef name) const { return fields_ && fields_.contains(name); }
  const std::string &where() const { return where_; }

private:
  DictionaryAttr fields_;
  std::string where_;
};

constexpr int64_t kMost = int64_t(1) << 42; // elements, instances: 2^20 strides of it fit into 64 bits

Result<PlannedBucket> readBucket(const Fields &from, const Sharding &sharding) {
  PlannedBucket bucket;
  MGC_SET(bucket.elements, from.number("elements", 1, kMost));
  if (from.has("units"))
    MGC_SET(bucket.units, from.number("units", 1, bucket.elements));
  if (bucket.elements % bucket.units != 0)
    return from.refuse("units", fmt::format("a divisor of elements = {}", bucket.elements));
  BucketKey &key = bucket.key;
  const std::optional<plan::BucketUse> use =
      from.has("use") ? plan::valueNamed<plan::BucketUse>(from.text("use")) : plan::BucketUse::trained;
  if (!use)
    return from.refuse("use", fmt::format("one of {}", fmt::join(plan::enumNames<plan::BucketUse>, ", ")));
  key.use = *use == plan::BucketUse::loadCounter ? plan::BucketUse::loadCounter : plan::BucketUse::frozen;
  key.isEvaluated = *use == plan::BucketUse::trained || *use == plan::BucketUse::routerBias;
  MGC_SET(key.split, from.axes("split"));
  MGC_SET(key.data, from.axes("data"));
  MGC_ASSIGN(reduce, from.axes("reduce"));
  if (key.use == plan::BucketUse::loadCounter)
    key.reduce = std::move(reduce);
  if (const auto tied = from.get<DenseI64ArrayAttr>("tied"))
    key.tied.assign(tied.asArrayRef().begin(), tied.asArrayRef().end());
  key.decay = from.has("decay");
  if (const auto load = from.get<FloatAttr>("meanLoad"))
    key.meanLoad = load.getValueAsDouble();
  key.unit = isPerUnit(key, sharding) ? 0 : -1;
  bucket.shard = shardAxesOf(key, sharding);
  bucket.gather = gatherTimeOf(key, sharding);
  return bucket;
}

// Where a stage of the training has a parameter of an instance; instance -1: its names have no number.
using Identity = std::tuple<std::string, std::string, int64_t>; // tensor, part, instance
struct InBucket {
  int64_t bucket = 0, offset = 0;
};
using Places = std::map<Identity, InBucket>;

Identity identityOf(const std::string &tensor, const std::string &part, int64_t instance) {
  return {tensor, part, tensor.find("{}") != std::string::npos ? instance : -1};
}

Status readPlace(const Fields &from, int64_t buckets, Places &places) {
  PlannedPlace place;
  for (const auto &[name, member] : kNumbers)
    MGC_SET(place.*member, from.number(name, 0, name == "bucket" ? buckets - 1 : kMost));
  if (from.text("tensor").empty())
    return from.refuse("tensor", "the name of a tensor");
  constexpr int64_t kMostInstances = int64_t(1) << 20;
  if (place.count > kMostInstances)
    return from.refuse("count", fmt::format("at most {} instances", kMostInstances));
  for (int64_t i = 0; i < place.count; ++i)
    places[identityOf(from.text("tensor"), from.text("part"), place.first + i)] = {place.bucket,
                                                                                   place.offset + i * place.stride};
  return Status::ok();
}

// The places of a block's instances: as few as their strides allow.
Status addPlaces(const InstanceRange &range, int64_t parameter, const BlockParameter &of, const Places &places,
                 std::vector<PlannedPlace> &out) {
  const size_t begin = out.size();
  for (int64_t i = range.first; i < range.first + range.count; ++i) {
    const auto found = places.find(identityOf(of.tensor, of.part, i));
    if (found == places.end())
      return errorf("{}: the stage of the training has no {}{} of instance {}; expected the parameters of the "
                    "program that is evaluated",
                    kTrainedAttr.str(), of.tensor, of.part.empty() ? "" : "[" + of.part + "]", i);
    const auto [bucket, offset] = found->second;
    PlannedPlace *last = out.size() > begin ? &out.back() : nullptr;
    const bool isBehind = last && last->bucket == bucket && offset > last->offset; // several may share one place
    if (isBehind && (last->count == 1 || offset == last->offset + last->count * last->stride)) {
      last->stride = last->count == 1 ? offset - last->offset : last->stride;
      ++last->count;
    } else {
      out.push_back({range.block, parameter, i, 1, bucket, offset, 0});
    }
  }
  return Status::ok();
}

Result<StageBuckets> readStage(const Fields &stage, const EvaluatedStages &evaluated,
                               const std::vector<InstanceRange> &ranges) {
  const auto buckets = stage.get<ArrayAttr>("buckets"), places = stage.get<ArrayAttr>("places");
  if (!buckets || !places)
    return stage.refuse(buckets ? "places" : "buckets", "a list");
  StageBuckets out;
  for (auto [i, bucket] : llvm::enumerate(buckets)) {
    MGC_ASSIGN(made, readBucket({bucket, fmt::format("{}.buckets[{}]", stage.where(), i)}, evaluated.sharding));
    out.buckets.push_back(std::move(made));
  }
  Places known;
  for (auto [i, place] : llvm::enumerate(places))
    MGC_TRY(readPlace({place, fmt::format("{}.places[{}]", stage.where(), i)}, int64_t(out.buckets.size()), known));
  for (const InstanceRange &range : ranges)
    for (auto [p, parameter] : llvm::enumerate(evaluated.blocks[range.block]))
      MGC_TRY(addPlaces(range, int64_t(p), parameter, known, out.places));
  return out;
}

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

Result<std::vector<StageBuckets>> trainedBuckets(DictionaryAttr trained, const EvaluatedStages &evaluated) {
  const auto all = trained.getAs<ArrayAttr>("stages");
  if (!all || all.size() != evaluated.stages.size())
    return errorf(
        "{}: has the buckets of {} stages; expected those of {}, as mgc writes them for a training of the same "
        "program",
        kTrainedAttr.str(), all ? all.size() : 0, evaluated.stages.size());
  std::vector<StageBuckets> stages;
  for (auto [i, stage] : llvm::enumerate(all)) {
    MGC_ASSIGN(read, readStage({stage, fmt::format("stages[{}]", i)}, evaluated, evaluated.stages[i]));
    stages.push_back(std::move(read));
  }
  return stages;
}

} // namespace mgc
