// mg-memory: an offset for every buffer.
//
// before:  %1 = mg.einsum %x, %w : ...
// after:   %1 = mg.einsum %x, %w {mg.frame = array<i64: 4096>} : ...          func attribute mg.frame = bytes
//          mg.bucket 4096 {offsets = {value = 0, gradient = 16384, ...}}
//          mg.stage 0 ... attributes {memory = {bytes = .., regions = {..}, inputs = {..}, ..}}
//
// Within a function: a value that is no result lives in the function's frame from its definition to its last
// use; one entry of mg.frame per result, -1 for what is returned or joined (it has a place already), then one for a
// workspace. A kernel's result takes over the place of a value of its type that dies in it (Frame.cpp); an
// all-reduce of a value that dies there works in place: mg.in_place. Within a stage: regions one after another.
#include "compiler/memory/Frame.h"
#include "compiler/program/Passes.h"
#include "compiler/stage/ChunkLayout.h"
#include "compiler/stage/StateBuffers.h"
#include "plan/Plan.h"

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_MEMORY
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

// --- Frames

Status placeFrame(func::FuncOp function) {
  Builder builder(function.getContext());
  function.walk([&](Operation *op) {
    if (mayWorkInPlace(op))
      op->setAttr(kInPlaceAttr, builder.getUnitAttr());
  });
  FunctionFrame frame = frameOf(function);
  MGC_ASSIGN(assignment, memory::solve(frame.buffers));
  for (auto &[op, places] : frame.places) {
    for (int64_t &place : places)
      place = place < 0 ? -1 : assignment.offsets[place];
    op->setAttr(kFrameAttr, builder.getDenseI64ArrayAttr(places));
  }
  function->setAttr(kFrameAttr, builder.getI64IntegerAttr(assignment.peak));
  return Status::ok();
}

int64_t frameBytes(func::FuncOp function) {
  return function->getAttrOfType<IntegerAttr>(kFrameAttr).getInt();
}

// --- The rank's allocation

class StageMemory {
public:
  StageMemory(StageOp stage, ModuleOp module, const Blocks &blocks, SymbolTable &symbols)
      : stage_(stage), module_(module), blocks_(blocks), symbols_(symbols), builder_(module.getContext()) {
    mesh_ = module->getAttrOfType<MeshAttr>(kMeshAttr);
  }

  LogicalResult run() {
    for (ChunkOp chunk : stage_.all<ChunkOp>())
      chunks_.emplace_back(blocks_.instancesOf(chunk.getBody()));
    placeBuckets();
    region("scalars", [&] {
      NamedAttrList scalars;
      scalars.append("step_scalars", number(take(plan::kStepScalars.size() * 4)));
      scalars.append("results", number(take(plan::kResults.size() * 4)));
      scalars.append("factor", number(take(4)));
      memory_.append("scalars", scalars.getDictionary(builder_.getContext()));
    });
    LogicalResult inputs = success();
    region("inputs", [&] { inputs = placeInputs(); });
    auto schedules = stage_.all<ScheduleOp>();
    if (schedules.size() != 1)
      return stage_.emitError("has no mg.schedule: run mg-schedule first");
    region("activations", [&] { memory_.append("activations", number(take(schedules.front().getBytes()))); });
    region("frame", [&] { placeFrame(); });
    memory_.append("regions", regions_.getDictionary(builder_.getContext()));
    memory_.append("bytes", number(end_));
    memory_.append("bound", number(lowerBound(schedules.front())));
    stage_.setMemoryAttr(memory_.getDictionary(builder_.getContext()));
    return inputs;
  }

private:
  IntegerAttr number(int64_t value) { return builder_.getI64IntegerAttr(value); }
  int64_t take(int64_t bytes) { return std::exchange(end_, end_ + plan::aligned(bytes)); }

  template <typename Fill> void region(StringRef name, Fill fill) {
    int64_t begin = end_;
    fill();
    regions_.append(name, builder_.getDenseI64ArrayAttr({begin, end_ - begin}));
  }

  void placeBuckets() {
    auto buckets = stage_.all<BucketOp>();
    std::vector<NamedAttrList> offsets(buckets.size());
    auto buffers = stateBuffers(precisionOf(module_));
    auto placeAll = [&](const StateBuffer &buffer) {
      for (auto [bucket, list] : llvm::zip(buckets, offsets))
        list.append(buffer.name,
                    buffer.isOwnOf(bucket)
                        ? number(take(buffer.elementsOf(bucket, mesh_) * bytesOfElement(buffer.element)))
                        : cast<IntegerAttr>(list.get(buffer.unsplit)));
    };
    for (StringRef name : {"parameters", "gradients", "optimizer"})
      region(name, [&] {
        for (const StateBuffer &buffer : buffers)
          if (buffer.region == name)
            placeAll(buffer);
      });
    for (auto [bucket, list] : llvm::zip(buckets, offsets))
      bucket.setOffsetsAttr(list.getDictionary(builder_.getContext()));
  }

  // All microbatches of each kind of data that the stage's functions read; positions are the same for all.
  LogicalResult placeInputs() {
    NamedAttrList inputs;
    for (const ChunkLayout &chunk : chunks_)
      for (const ModelBlock *block : chunk.blocks())
        for (const BlockFunction *function : block->functions())
          if (failed(placeInputsOf(*function, inputs)))
            return failure();
    memory_.append("inputs", inputs.getDictionary(builder_.getContext()));
    return success();
  }

  LogicalResult placeInputsOf(const BlockFunction &block, NamedAttrList &inputs) {
    func::FuncOp function = block.function;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto data = function.getArgAttrOfType<StringAttr>(i, kDataAttr);
      if (!data)
        continue;
      Attribute type = function.getArgAttr(i, kTypeAttr);
      if (auto known = dyn_cast_or_null<DictionaryAttr>(inputs.get(data))) {
        if (known.get("type") != type)
          return errorIn(function) << "reads " << data << " as " << type << ", another function as "
                                   << known.get("type");
        continue;
      }
      bool same = (*findDataKind(data))->isPosition; // known: Blocks::read
      int64_t stride = plan::aligned(bytesOf(function.getArgumentTypes()[i]));
      NamedAttrList input;
      input.append("type", type);
      input.append("stride", number(same ? 0 : stride));
      input.append("offset", number(take(stride * (same ? 1 : trainingInt(module_, "microbatches", 1)))));
      inputs.append(data, input.getDictionary(builder_.getContext()));
    }
    return success();
  }

  // The bytes that the stage would take if the buffers of its area and of its frame were placed without any loss.
  int64_t lowerBound(ScheduleOp schedule) {
    auto recorded = schedule->getAttrOfType<IntegerAttr>(kBoundAttr); // a schedule written by hand has none
    int64_t area = recorded ? recorded.getInt() : schedule.getBytes();
    auto frame = [&](func::FuncOp function) { return memory::lowerBound(frameOf(function).buffers); };
    return end_ - plan::aligned(schedule.getBytes()) - plan::aligned(largestFrame(frameBytes)) +
           plan::aligned(area) + plan::aligned(largestFrame(frame));
  }

  // Over the functions that the stage runs.
  template <typename Bytes> int64_t largestFrame(Bytes bytes) {
    int64_t most = 0;
    for (FlatSymbolRefAttr name : {stage_.getBeginAttr(), stage_.getReduceAttr(), stage_.getUpdateAttr()})
      most = std::max(most, bytes(symbols_.lookup<func::FuncOp>(name.getValue())));
    for (const ChunkLayout &chunk : chunks_)
      for (const ModelBlock *block : chunk.blocks())
        for (const BlockFunction *function : block->functions())
          most = std::max(most, bytes(function->function));
    return most;
  }

  // Gradients that flow between instances, then the largest frame.
  void placeFrame() {
    int64_t flow = 0;
    for (const ChunkLayout &chunk : chunks_)
      flow = std::max(flow, chunk.flowBytes());
    memory_.append("flow", number(take(flow)));
    memory_.append("frame", number(take(largestFrame(frameBytes))));
  }

  StageOp stage_;
  ModuleOp module_;
  const Blocks &blocks_;
  SymbolTable &symbols_;
  Builder builder_;
  MeshAttr mesh_;
  std::vector<ChunkLayout> chunks_;
  int64_t end_ = 0;
  NamedAttrList memory_, regions_;
};

struct MemoryPass : mgc::impl::MemoryBase<MemoryPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto blocks = Blocks::read(module);
    if (failed(blocks))
      return signalPassFailure();
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(kPassAttr))
        if (Status status = placeFrame(function); !status.isOk()) {
          errorIn(function) << status.message();
          return signalPassFailure();
        }
    SymbolTable symbols(module);
    for (StageOp stage : module.getOps<StageOp>())
      if (failed(StageMemory(stage, module, *blocks, symbols).run()))
        return signalPassFailure();
    module->setAttr(kPhaseAttr, StringAttr::get(&getContext(), "memory"));
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createMemoryPass() { return std::make_unique<MemoryPass>(); }
