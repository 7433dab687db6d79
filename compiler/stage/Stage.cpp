// mg-stage: what each pipeline stage holds and runs.
//
// before:  mg.chain { mg.instance @embed  mg.instance @layer count 12  mg.instance @head }
// after:   mg.stage 0 begin @begin.0 reduce @reduce.0 update @update.0 {
//            mg.bucket ...  mg.place @layer 3 ...
//            mg.reduction @gradients.0.0 chunk 0 instances 4 ...
//            mg.chunk 0 { mg.instance @embed  mg.instance @layer count 6 } }
//          mg.stage 1 ...
//
// The chain is cut into stages * virtual stages contiguous chunks of balanced cost, which the placement spreads over
// the stages. With bucket_elements in mg.training, and ranks that have the same parameters, a chunk is cut into parts
// from its end on, each of the fewest instances with so many elements of parameters: their gradients are completed
// while those before them are computed.
#include "compiler/program/Blocks.h"
#include "compiler/program/Passes.h"
#include "compiler/program/VerifyLowered.h"
#include "compiler/schedule/Balance.h"
#include "compiler/stage/PipelineShape.h"
#include "compiler/stage/TaskCosts.h"
#include "compiler/stage/TrainedStages.h"
#include "compiler/step/BlockParameters.h"
#include "compiler/step/StepBuilder.h"
#include "dialects/mg/Parameter.h"
#include "dialects/mg/training/StageSizes.h"
#include "runtime/base/Checked.h"

#include <numeric>

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_STAGE
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

class Stager {
public:
  Stager(ModuleOp module, Blocks blocks) : module_(module), blocks_(std::move(blocks)), builder_(module.getContext()) {
    mesh_ = module->getAttrOfType<MeshAttr>(kMeshAttr);
    trained_ = module->getAttrOfType<DictionaryAttr>(kTrainedAttr);
    shape_ = shapeOf(module, plan::stageCount(mesh_.getMesh()));
    stages_ = shape_.stages;
    virtualStages_ = shape_.virtualStages;
  }

  LogicalResult run() {
    if (virtualStages_ < 1)
      return module_.emitError() << "mg.training: virtual_stages = " << virtualStages_ << "; expected at least 1";
    auto chains = llvm::to_vector(module_.getOps<ChainOp>());
    if (chains.size() != 1)
      return module_.emitError() << "found " << chains.size() << " mg.chain; expected one";
    chain_ = chains.front();
    if (failed(split()) || failed(readParameters()) || failed(verifyTrained()) || failed(readTotals()))
      return failure();
    if (failed(emitStages()))
      return failure();
    chain_.erase();
    return success();
  }

private:
  // --- Chunks
  LogicalResult split() {
    std::vector<Instance> chain = blocks_.instancesOf(chain_.getBody());
    const auto isHead = [](const Instance &instance) { return instance.block->returnsLoss(); };
    // The head stays together with what is behind it, modules that predict later tokens.
    const size_t end = llvm::find_if(chain, isHead) - chain.begin();
    size_t begin = 0;
    while (begin < end && !chain[begin].block->isLayer())
      ++begin;
    schedule::LayerCosts costs;
    struct Known {
      double flops = 0, kept = 0, states = 0;
    };
    std::map<const ModelBlock *, Known> known;
    const auto costOf = [&](const ModelBlock *block) {
      auto [it, isNew] = known.try_emplace(block);
      if (isNew) {
        it->second = {0, keptBytes(*block), stateBytes(*block)};
        for (const BlockFunction *function : block->functions())
          it->second.flops += flopsOf(function->function);
      }
      return it->second;
    };
    for (size_t i = 0; i < chain.size(); ++i)
      if (const Known cost = costOf(chain[i].block); i >= begin && i < end) {
        costs.layers.push_back(cost.flops);
        costs.kept.push_back(cost.kept);
        costs.states.push_back(cost.states);
      } else {
        (i < begin ? costs.embed : costs.head) += cost.flops;
      }
    Checked chunks = checkedMultiply(stages_, virtualStages_);
    if (!chunks || int64_t(costs.layers.size()) < *chunks)
      return module_.emitError() << costs.layers.size() << " layers do not fill " << stages_ << " stages x "
                                 << virtualStages_ << " virtual stages; at most " << costs.layers.size() << " chunks";
    const int64_t parts = *chunks;
    if (trained_)
      return cut(chain, trainedChunks(trained_));
    std::vector<int64_t> sizes;
    if (trainingOf(module_).stages.empty())
      sizes = schedule::balance(costs, parts);
    else if (failed(cutAsAsked(ArrayRef(chain).slice(begin, end - begin), parts, sizes)))
      return failure();
    sizes.front() += int64_t(begin), sizes.back() += int64_t(chain.size() - end);
    return cut(chain, sizes);
  }

  // The instances of each part whose layers were given. What stands between two stacks, as a decoder's embedding, is with the
  // layer behind it.
  LogicalResult cutAsAsked(ArrayRef<Instance> instances, int64_t parts, std::vector<int64_t> &sizes) {
    const std::string &asked = trainingOf(module_).stages;
    const auto isLayer = [](const Instance &instance) { return !instance.block->stack.empty(); };
    const int64_t layers = llvm::count_if(instances, isLayer);
    const Result<std::vector<int64_t>> given = parseStageSizes(asked);
    if (!given.isOk())
      return module_.emitError() << "mg.training: stages: " << given.status().message();
    if (int64_t(given->size()) != parts || std::accumulate(given->begin(), given->end(), int64_t(0)) != layers)
      return module_.emitError() << "mg.training: stages = \"" << asked << "\"; expected " << layers << " layers in "
                                 << parts << " chunks";
    size_t next = 0;
    for (int64_t left : *given) {
      const size_t first = next;
      for (; left > 0; ++next)
        left -= isLayer(instances[next]);
      sizes.push_back(int64_t(next - first));
    }
    sizes.back() += int64_t(instances.size() - next);
    return success();
  }

  // Bytes that a rank keeps of a microbatch for an instance's backward.
  static double keptBytes(const ModelBlock &block) {
    double bytes = 0;
    for (auto [i, result] : llvm::enumerate(block.forward.results))
      if (result.kind == BlockFunction::ResultKind::saved && result.activation < 0)
        bytes += double(bytesOf(block.forward.resultType(i)));
    return bytes;
  }

  // Bytes of an instance's parameters, about: their values, gradients, masters and two moments, or slices of them.
  double stateBytes(const ModelBlock &block) const {
    const TrainingSettings &training = trainingOf(module_);
    const Sharding sharding = shardingOf(module_);
    const auto width = [](plan::DType type) { return double(plan::sizeInBytes(type)); };
    const double states = (training.dtype == plan::DType::f32 ? 2 : 3) * width(plan::DType::f32);
    auto parameters = mgc::parametersOf(block);
    double bytes = 0;
    for (const BlockParameter &parameter : succeeded(parameters) ? *parameters : std::vector<BlockParameter>()) {
      const double ranks = double(plan::groupSize(sharding.mesh, shardAxesOf(parameter.key, sharding)));
      const auto share = [&](int64_t level) { return sharding.level >= level ? 1 / ranks : 1; };
      double own = width(training.dtype) * share(3);
      if (!isFrozen(parameter))
        own += width(training.gradientType) * share(2) + states * share(1);
      bytes += own * double(parameter.elements);
    }
    return bytes;
  }

  LogicalResult cut(const std::vector<Instance> &chain, ArrayRef<int64_t> sizes) {
    int64_t next = 0, left = int64_t(chain.size());
    for (int64_t size : sizes) {
      if (size < 0 || size > left)
        break;
      chunks_.emplace_back(chain.begin() + next, chain.begin() + next + size);
      next += size, left -= size;
    }
    if (left == 0 && int64_t(chunks_.size()) == stages_ * virtualStages_)
      return success();
    return module_.emitError() << kTrainedAttr << ": chunks = [" << fmt::format("{}", fmt::join(sizes, ", "))
                               << "]; expected the " << chain.size() << " instances of the chain in "
                               << stages_ * virtualStages_ << " chunks";
  }

  // --- Parameters
  bool isData(StringAttr axis) { return plan::seesOtherTokens(mesh_.roleOf(axis)); }

  LogicalResult readParameters() {
    for (const std::vector<Instance> &chunk : chunks_)
      for (const Instance &instance : chunk) {
        auto [it, isNew] = blockIndex_.try_emplace(instance.block, parameters_.size());
        if (!isNew)
          continue;
        auto list = mgc::parametersOf(*instance.block);
        if (failed(list))
          return failure();
        parameters_.push_back(std::move(*list));
      }
    for (const std::vector<Instance> &chunk : chunks_)
      for (const Instance &instance : chunk)
        for (const BlockParameter &parameter : parametersOf(instance))
          ++uses_[nameOf(parameter, instance)];
    return success();
  }

  // Where values lie in another program is of use to one that trains none.
  LogicalResult verifyTrained() {
    const Attribute attribute = module_->getAttr(kTrainedAttr);
    if (attribute && !trained_)
      return module_.emitError() << kTrainedAttr << " is " << attribute << "; expected a dictionary";
    for (const std::vector<BlockParameter> &block : parameters_)
      for (const BlockParameter &parameter : block)
        if (trained_ && parameter.key.use != plan::BucketUse::frozen &&
            parameter.key.use != plan::BucketUse::loadCounter)
          return module_.emitError() << kTrainedAttr << " in a program that trains " << parameter.tensor
                                     << "; expected one that mg-evaluate has frozen, or no " << kTrainedAttr;
    return success();
  }

  const std::vector<BlockParameter> &parametersOf(const Instance &instance) const {
    return parameters_[blockIndex_.at(instance.block)];
  }
  static std::pair<std::string, std::string> nameOf(const BlockParameter &parameter, const Instance &instance) {
    return {nameForInstance(parameter.tensor, instance.number), parameter.part};
  }

  LogicalResult readTotals() {
    if (llvm::none_of(chunks_.back(), [](const Instance &instance) { return instance.block->returnsLoss(); }))
      return module_.emitError() << "no block of the last stage returns one loss_sum and one tokens";
    auto totals = totalAxesOf(module_, blocks_);
    if (succeeded(totals))
      totals_ = std::move(*totals);
    return success(succeeded(totals));
  }

  // --- Parts
  static bool isFrozen(const BlockParameter &parameter) { return parameter.key.use == plan::BucketUse::frozen; }
  // Elements of gradients.
  int64_t elementsOf(const Instance &instance) {
    int64_t elements = 0;
    for (const BlockParameter &parameter : parametersOf(instance))
      elements += isFrozen(parameter) ? 0 : parameter.elements;
    return elements;
  }
  // Whether the instance has gradients that no other instance adds to: those of its part.
  bool hasOwnGradients(const Instance &instance) const {
    return llvm::any_of(parametersOf(instance), [&](const BlockParameter &parameter) {
      return !isFrozen(parameter) && uses_.at(nameOf(parameter, instance)) == 1;
    });
  }

  // The first instance of a chunk whose part runs something in the task that completes gradients: those of a loss are complete
  // before weight. No part lies wholly before it.
  int64_t firstCompleted(const std::vector<Instance> &chunk) const {
    const bool isSplit = trainingOf(module_).splitBackward;
    return llvm::find_if(chunk,
                         [&](const Instance &instance) {
                           return hasOwnGradients(instance) &&
                                  instance.block->computes(isSplit ? plan::Task::weight : plan::Task::backward);
                         }) -
           chunk.begin();
  }

  // How many instances each part of a chunk has, the last instances first; none: the chunk has no parts. Each part has
  // gradients of its own.
  std::vector<int64_t> partsOf(const std::vector<Instance> &chunk) {
    const int64_t least = trainingOf(module_).bucketElements;
    std::vector<int64_t> parts;
    // Units are complete at the end alone, and so are loads of what has no backward.
    if (trained_ || least <= 0 || trainingOf(module_).zero > 1 ||
        llvm::none_of(mesh_.getNames(), [&](StringAttr axis) { return isData(axis); }) ||
        llvm::none_of(chunk, [&](const Instance &instance) { return hasOwnGradients(instance); }))
      return parts;
    bool isFilled = false; // the last part
    const int64_t first = firstCompleted(chunk);
    for (int64_t i = int64_t(chunk.size()) - 1, elements = 0; i >= 0; --i) {
      const bool hasOwn = hasOwnGradients(chunk[i]);
      if (parts.empty() || (isFilled && hasOwn && i >= first && elements >= least)) {
        parts.push_back(0);
        elements = 0;
        isFilled = false;
      }
      ++parts.back();
      elements += elementsOf(chunk[i]);
      isFilled |= hasOwn;
    }
    return parts;
  }

  // --- Emission
  static void appendRange(std::vector<InstanceRange> &ranges, const InstanceRange &next) {
    InstanceRange *last = ranges.empty() ? nullptr : &ranges.back();
    if (last && last->block == next.block && last->part == next.part && last->first + last->count == next.first)
      last->count += next.count;
    else
      ranges.push_back(next);
  }

  // parts: as partsOf; the first of them has the number `firstPart`.
  std::vector<InstanceRange> rangesOf(const std::vector<Instance> &chunk, const std::vector<int64_t> &parts = {},
                                      int64_t firstPart = 0) {
    std::vector<int64_t> partOf; // from the last instance on
    for (auto [i, count] : llvm::enumerate(parts))
      partOf.insert(partOf.end(), count, firstPart + int64_t(i));
    std::vector<InstanceRange> ranges;
    for (auto [i, instance] : llvm::enumerate(chunk))
      appendRange(ranges, {blockIndex_.at(instance.block), instance.number, 1,
                           parts.empty() ? -1 : partOf[chunk.size() - 1 - i]});
    return ranges;
  }

  LogicalResult emitStages() {
    BucketProblem problem;
    problem.blocks = parameters_;
    problem.sharding = shardingOf(module_);
    Precision precision = precisionOf(module_);
    problem.alignment =
        plan::kAlignment / std::min(bytesOfElement(precision.values), bytesOfElement(precision.gradients));
    problem.stages.resize(stages_);
    std::vector<int64_t> parts(stages_, 0);
    for (size_t c = 0; c < chunks_.size(); ++c) {
      std::vector<int64_t> own = partsOf(chunks_[c]);
      const int64_t stage = shape_.stageOf(int64_t(c));
      llvm::append_range(problem.stages[stage], rangesOf(chunks_[c], own, parts[stage]));
      parts[stage] += int64_t(own.size());
    }
    for (const auto &[block, index] : blockIndex_)
      names_[index] = block->name;
    auto planned =
        trained_ ? trainedBuckets(trained_, {problem.blocks, problem.stages, problem.sharding}) : planBuckets(problem);
    if (!planned.isOk())
      return module_.emitError() << planned.status().message();
    for (int64_t stage = 0; stage < stages_; ++stage)
      emitStage(stage, parts[stage], (*planned)[stage]);
    return success();
  }

  ArrayAttr axesAttr(const plan::Axes &axes) {
    return builder_.getStrArrayAttr(SmallVector<StringRef>(axes.begin(), axes.end()));
  }

  // Equal functions of several stages are one. Of none there is none.
  FlatSymbolRefAttr unique(func::FuncOp function) {
    if (!function)
      return {};
    std::string text;
    llvm::raw_string_ostream out(text);
    StringAttr name = function.getNameAttr();
    function.setName(function->getAttrOfType<StringAttr>(kPassAttr).getValue());
    function->print(out, OpPrintingFlags().useLocalScope());
    function.setName(name.getValue());
    auto [it, isNew] = functions_.try_emplace(text, name);
    if (!isNew)
      function.erase();
    return FlatSymbolRefAttr::get(it->second);
  }

  void emitStage(int64_t stage, int64_t parts, const StageBuckets &buckets) {
    Location loc = module_.getLoc();
    builder_.setInsertionPointToEnd(module_.getBody());
    const auto none = FlatSymbolRefAttr::get(builder_.getContext(), "none"); // until they are built
    auto op = StageOp::create(builder_, loc, builder_.getI64IntegerAttr(stage), none, none, none);
    builder_.setInsertionPointToStart(&op.getBody().emplaceBlock());
    std::vector<int64_t> partOf;
    for (const PlannedBucket &bucket : buckets.buckets) {
      BucketOp::create(builder_, loc, bucket.elements, axesAttr(bucket.key.split), axesAttr(bucket.key.reduce),
                       axesAttr(bucket.key.data), bucket.key.tied, bucket.key.decay, axesAttr(bucket.shard),
                       axesAttr(bucket.outer), llvm::APFloat(bucket.key.meanLoad),
                       StringRef(plan::nameOf(bucket.key.use)), bucket.units, bucket.key.unit >= 0,
                       StringRef(plan::nameOf(bucket.gather)));
      partOf.push_back(bucket.key.part);
    }
    const std::vector<std::vector<UpdatePieces>> pieces =
        updatePieces(op.all<BucketOp>(), mesh_, trainingOf(module_).optimizerOffload);
    const StepFunctions step = buildStep(op, partOf, parts, totals_, pieces);
    op.setBeginAttr(unique(step.begin));
    op.setReduceAttr(unique(step.reduce));
    op.setUpdateAttr(unique(step.update));
    SmallVector<FlatSymbolRefAttr> gradients;
    for (func::FuncOp function : step.gradients)
      gradients.push_back(unique(function));
    for (const auto &[bucket, unit] : step.units)
      UnitOp::create(builder_, loc, builder_.getI64IntegerAttr(bucket), unique(unit.clear), unique(unit.sum),
                     unique(unit.accumulate), unique(unit.gather));
    for (size_t bucket = 0; bucket < pieces.size(); ++bucket)
      for (auto [piece, function] : llvm::zip(pieces[bucket], step.pieces[bucket]))
        PiecesOp::create(builder_, loc, builder_.getI64IntegerAttr(int64_t(bucket)),
                         builder_.getI64IntegerAttr(piece.first), builder_.getI64IntegerAttr(piece.parts),
                         builder_.getI64IntegerAttr(piece.count), unique(function),
                         piece.isOnHost ? builder_.getUnitAttr() : UnitAttr());
    for (const PlannedPlace &place : buckets.places)
      PlaceOp::create(builder_, loc, names_[place.block], parameters_[place.block][place.parameter].argument,
                      place.first, place.count, place.bucket, place.offset, place.stride);
    for (int64_t k = 0, part = 0; k < virtualStages_; ++k)
      for (int64_t instances : partsOf(chunks_[shape_.globalChunk(stage, k)]))
        ReductionOp::create(builder_, loc, gradients[part++], builder_.getI64IntegerAttr(k),
                            builder_.getI64IntegerAttr(instances));
    for (int64_t k = 0; k < virtualStages_; ++k) {
      OpBuilder::InsertionGuard guard(builder_);
      auto chunk = ChunkOp::create(builder_, loc, k);
      builder_.setInsertionPointToStart(&chunk.getBody().emplaceBlock());
      for (const InstanceRange &range : rangesOf(chunks_[shape_.globalChunk(stage, k)]))
        InstanceOp::create(builder_, loc, names_[range.block], range.first, range.count);
    }
  }

  ModuleOp module_;
  Blocks blocks_;
  OpBuilder builder_;
  MeshAttr mesh_;
  ChainOp chain_;
  DictionaryAttr trained_; // stages of the training, where the program is evaluated; null: it is none
  schedule::Shape shape_;
  int64_t stages_ = 1, virtualStages_ = 1;
  std::vector<std::vector<Instance>> chunks_; // global
  std::map<const ModelBlock *, int64_t> blockIndex_;
  std::map<int64_t, std::string> names_;
  std::vector<std::vector<BlockParameter>> parameters_;
  std::map<std::pair<std::string, std::string>, int64_t> uses_; // instances, by tensor and part
  TotalAxes totals_;
  std::map<std::string, StringAttr> functions_;
};

struct StagePass : mgc::impl::StageBase<StagePass> {
  void runOnForm() override {
    ModuleOp module = getOperation();
    const auto isUnlowered = [](Operation *op) {
      return failed(verifyLowered(op)) ? WalkResult::interrupt() : WalkResult::advance();
    };
    if (module.walk(isUnlowered).wasInterrupted())
      return signalPassFailure();
    auto blocks = Blocks::read(module);
    if (failed(requireMesh(module)))
      return signalPassFailure();
    if (failed(blocks) || failed(Stager(module, std::move(*blocks)).run()))
      return signalPassFailure();
    module->setAttr(kPhaseAttr, StringAttr::get(&getContext(), "stage"));
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createStagePass() { return std::make_unique<StagePass>(); }
