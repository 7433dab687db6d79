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
#include "compiler/stage/ChainCost.h"
#include "compiler/stage/ChunkParameters.h"
#include "compiler/stage/PipelineShape.h"
#include "compiler/stage/TrainedStages.h"
#include "compiler/step/BlockParameters.h"
#include "compiler/step/StepBuilder.h"
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
    const std::vector<Instance> chain = blocks_.instancesOf(chain_.getBody());
    BlockWorks works;
    for (const Instance &instance : chain)
      if (const auto [work, isNew] = works.try_emplace(instance.block->name); isNew)
        work->second = workOf(*instance.block);
    const ChainCost cost = costOf(chain, works, trainingOf(module_), shardingOf(module_));
    Checked chunks = checkedMultiply(stages_, virtualStages_);
    const size_t layers = cost.costs.layers.size();
    if (!chunks || int64_t(layers) < *chunks)
      return module_.emitError() << layers << " layers do not fill " << stages_ << " stages x " << virtualStages_
                                 << " virtual stages; at most " << layers << " chunks";
    const int64_t parts = *chunks;
    if (trained_)
      return cut(chain, trainedChunks(trained_));
    const Result<std::vector<int64_t>> sizes = chunksOf(cost, int64_t(chain.size()), trainingOf(module_), parts);
    if (!sizes.isOk())
      return module_.emitError() << "mg.training: stages: " << sizes.status().message();
    return cut(chain, *sizes);
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
    auto parameters = ChunkParameters::of(chunks_);
    if (failed(parameters))
      return failure();
    parameters_ = std::move(*parameters);
    return success();
  }

  // Where values lie in another program is of use to one that trains none.
  LogicalResult verifyTrained() {
    const Attribute attribute = module_->getAttr(kTrainedAttr);
    if (attribute && !trained_)
      return module_.emitError() << kTrainedAttr << " is " << attribute << "; expected a dictionary";
    for (const std::vector<BlockParameter> &block : parameters_.blocks())
      for (const BlockParameter &parameter : block)
        if (trained_ && parameter.key.use != plan::BucketUse::frozen &&
            parameter.key.use != plan::BucketUse::loadCounter)
          return module_.emitError() << kTrainedAttr << " in a program that trains " << parameter.tensor
                                     << "; expected one that mg-evaluate has frozen, or no " << kTrainedAttr;
    return success();
  }

  LogicalResult readTotals() {
    if (llvm::none_of(chunks_.back(), [](const Instance &instance) { return instance.block->returnsLoss(); }))
      return module_.emitError() << "no block of the last stage returns one loss_sum and one tokens";
    auto totals = totalAxesOf(module_, blocks_);
    if (succeeded(totals))
      totals_ = std::move(*totals);
    return success(succeeded(totals));
  }

  // --- Emission
  // An evaluation has no gradients.
  std::vector<int64_t> partsOf(const std::vector<Instance> &chunk) {
    const bool hasDataAxes = llvm::any_of(mesh_.getNames(), [&](StringAttr axis) { return isData(axis); });
    return trained_ ? std::vector<int64_t>() : parameters_.partsOf(chunk, trainingOf(module_), hasDataAxes);
  }

  LogicalResult emitStages() {
    std::vector<std::vector<int64_t>> partsOfChunks;
    std::vector<int64_t> parts(stages_, 0);
    for (size_t c = 0; c < chunks_.size(); ++c) {
      partsOfChunks.push_back(partsOf(chunks_[c]));
      parts[shape_.stageOf(int64_t(c))] += std::ssize(partsOfChunks.back());
    }
    const BucketProblem problem =
        parameters_.problemOf(chunks_, partsOfChunks, shape_, shardingOf(module_), trainingOf(module_));
    names_ = parameters_.names();
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
      PlaceOp::create(builder_, loc, names_[place.block], parameters_.blocks()[place.block][place.parameter].argument,
                      place.first, place.count, place.bucket, place.offset, place.stride);
    for (int64_t k = 0, part = 0; k < virtualStages_; ++k)
      for (int64_t instances : partsOf(chunks_[shape_.globalChunk(stage, k)]))
        ReductionOp::create(builder_, loc, gradients[part++], builder_.getI64IntegerAttr(k),
                            builder_.getI64IntegerAttr(instances));
    for (int64_t k = 0; k < virtualStages_; ++k) {
      OpBuilder::InsertionGuard guard(builder_);
      auto chunk = ChunkOp::create(builder_, loc, k);
      builder_.setInsertionPointToStart(&chunk.getBody().emplaceBlock());
      for (const InstanceRange &range : parameters_.rangesOf(chunks_[shape_.globalChunk(stage, k)]))
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
  Chunks chunks_; // global
  ChunkParameters parameters_;
  std::map<int64_t, std::string> names_; // names of blocks, by index
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
