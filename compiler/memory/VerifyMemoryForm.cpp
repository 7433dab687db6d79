// See VerifyMemoryForm.h.
#include "compiler/memory/VerifyMemoryForm.h"

#include "compiler/memory/Frame.h"
#include "compiler/program/Blocks.h"
#include "compiler/stage/ChunkLayout.h"
#include "compiler/stage/StateBuffers.h"
#include "runtime/base/Checked.h"

#include <algorithm>

using namespace mlir;
using namespace mgc;

namespace {

bool hasInts(DictionaryAttr dictionary, ArrayRef<StringRef> names) {
  return dictionary &&
         llvm::all_of(names, [&](StringRef name) { return bool(dictionary.getAs<IntegerAttr>(name)); });
}
int64_t intIn(DictionaryAttr dictionary, StringRef name) {
  return dictionary.getAs<IntegerAttr>(name).getInt();
}

bool isComplete(StageOp stage) {
  DictionaryAttr memory = stage.getMemoryAttr();
  if (!hasInts(memory, {"bytes", "bound", "activations", "flow", "frame"}) ||
      !hasInts(memory.getAs<DictionaryAttr>("scalars"), {"step_scalars", "results", "factor"}))
    return false;
  auto regions = memory.getAs<DictionaryAttr>("regions"), inputs = memory.getAs<DictionaryAttr>("inputs");
  auto isRegion = [](NamedAttribute region) {
    auto range = dyn_cast<DenseI64ArrayAttr>(region.getValue());
    return range && range.size() == 2;
  };
  auto isInput = [](NamedAttribute input) {
    auto facts = dyn_cast<DictionaryAttr>(input.getValue());
    return hasInts(facts, {"offset", "stride"}) && shardedType(facts.get("type")) &&
           layoutOf(shardedType(facts.get("type"))) && findDataKind(input.getName()).isOk();
  };
  auto isPlaced = [&](BucketOp bucket) {
    return llvm::all_of(
        stateBuffers(precisionOf(stage->getParentOfType<ModuleOp>())),
        [&](const StateBuffer &buffer) { return hasInts(bucket.getOffsetsAttr(), buffer.name); });
  };
  return regions && llvm::all_of(regions, isRegion) && inputs && llvm::all_of(inputs, isInput) &&
         llvm::all_of(stage.all<BucketOp>(), isPlaced);
}

// The parts of one stage's allocation.
class MemoryMap {
public:
  MemoryMap(StageOp stage, ModuleOp module, const Blocks &blocks)
      : stage_(stage), module_(module), memory_(stage.getMemoryAttr()),
        mesh_(module->getAttrOfType<MeshAttr>(kMeshAttr)) {
    addBuckets();
    auto scalars = memory_.getAs<DictionaryAttr>("scalars");
    add("the step's scalars", intIn(scalars, "step_scalars"), 4 * plan::kStepScalars.size());
    add("the step's results", intIn(scalars, "results"), 4 * plan::kResults.size());
    add("the clip factor", intIn(scalars, "factor"), 4);
    add("the schedule's area", intIn(memory_, "activations"), stage.all<ScheduleOp>().front().getBytes());
    addFrames(blocks);
  }

  LogicalResult verify() {
    int64_t bytes = intIn(memory_, "bytes");
    std::ranges::sort(parts_, {}, &Part::offset);
    for (size_t i = 0; i < parts_.size(); ++i) {
      const auto &[name, offset, size] = parts_[i];
      if (offset % plan::kAlignment != 0 || !fitsInside(offset, size, bytes))
        return stage_.emitOpError() << "memory: " << name << " has " << size.value_or(-1) << " bytes at "
                                    << offset << "; expected a multiple of " << plan::kAlignment
                                    << " and a place inside the " << bytes << " of the allocation";
      if (i > 0 && parts_[i - 1].offset + *parts_[i - 1].bytes > offset)
        return stage_.emitOpError() << "memory: " << parts_[i - 1].name << " and " << name << " overlap at "
                                    << offset;
    }
    return success();
  }

private:
  struct Part {
    std::string name;
    int64_t offset;
    Checked bytes;
  };

  void add(std::string name, int64_t offset, Checked bytes) {
    if (bytes != 0)
      parts_.push_back({std::move(name), offset, bytes});
  }

  void addBuckets() {
    for (auto [i, bucket] : llvm::enumerate(stage_.all<BucketOp>())) {
      for (const StateBuffer &buffer : stateBuffers(precisionOf(module_)))
        if (buffer.isOwnOf(bucket))
          add(fmt::format("{} of bucket {}", buffer.name.str(), i),
              intIn(bucket.getOffsetsAttr(), buffer.name),
              checkedMultiply(buffer.elementsOf(bucket, mesh_), bytesOfElement(buffer.element)));
    }
  }

  // Inputs, what flows between instances, and the frame: as large as the functions of the stage need them.
  void addFrames(const Blocks &blocks) {
    int64_t flow = 0, frame = 0;
    auto take = [&](func::FuncOp function) {
      frame = std::max(frame, function->getAttrOfType<IntegerAttr>(kFrameAttr).getInt());
    };
    for (StringRef name : {stage_.getBegin(), stage_.getReduce(), stage_.getUpdate()})
      take(module_.lookupSymbol<func::FuncOp>(name));
    for (ReductionOp reduction : stage_.all<ReductionOp>())
      take(module_.lookupSymbol<func::FuncOp>(reduction.getFunction()));
    std::map<StringRef, int64_t> inputs; // bytes of one microbatch
    for (ChunkOp chunk : stage_.all<ChunkOp>()) {
      ChunkLayout layout(blocks.instancesOf(chunk.getBody()));
      flow = std::max(flow, layout.flowBytes());
      for (const ModelBlock *block : layout.blocks())
        for (const BlockFunction *function : block->functions()) {
          take(function->function);
          addInputsOf(*function, inputs);
        }
    }
    add("what flows between instances", intIn(memory_, "flow"), flow);
    add("the frame", intIn(memory_, "frame"), frame);
    addInputs(inputs);
  }

  static void addInputsOf(const BlockFunction &block, std::map<StringRef, int64_t> &inputs) {
    func::FuncOp function = block.function;
    for (unsigned i = 0; i < block.arguments.size(); ++i)
      if (auto data = function.getArgAttrOfType<StringAttr>(i, kDataAttr))
        inputs[data.getValue()] = bytesOf(block.argumentType(i));
  }

  void addInputs(const std::map<StringRef, int64_t> &inputs) {
    auto map = memory_.getAs<DictionaryAttr>("inputs");
    int64_t microbatches = trainingInt(module_, "microbatches", 1);
    for (auto [name, bytes] : inputs) {
      auto facts = map.getAs<DictionaryAttr>(name);
      int64_t stride = facts ? intIn(facts, "stride") : 0;
      int64_t offset = facts ? intIn(facts, "offset") : -1;
      bool repeats = stride == 0 && (*findDataKind(name))->isPosition;
      if (repeats || stride >= bytes)
        add("input " + name.str(), offset, checkedAdd(checkedMultiply(stride, microbatches - 1), bytes));
      else
        add("input " + name.str() + ", whose stride is below the bytes of a microbatch,", offset,
            std::nullopt);
    }
  }

  StageOp stage_;
  ModuleOp module_;
  DictionaryAttr memory_;
  MeshAttr mesh_;
  std::vector<Part> parts_;
};

} // namespace

LogicalResult mgc::verifyMemoryForm(ModuleOp module) {
  auto blocks = Blocks::read(module);
  if (failed(blocks))
    return failure();
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kPassAttr) && failed(verifyFrame(function)))
      return failure();
  for (StageOp stage : module.getOps<StageOp>()) {
    if (!isComplete(stage))
      return stage.emitOpError("or one of its buckets has no complete memory map: run mg-memory first");
    if (failed(MemoryMap(stage, module, *blocks).verify()))
      return failure();
  }
  return success();
}
