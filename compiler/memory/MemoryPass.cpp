// mg-memory: an offset for every buffer.
//
// before:  %1 = mg.einsum %x, %w : ...
// after:   %1 = mg.einsum %x, %w {mg.frame = array<i64: 4096>} : ...          func attribute mg.frame = bytes
//          mg.bucket 4096 {offsets = {value = 0, gradient = 16384, ...}}
//          mg.stage 0 ... attributes {memory = {bytes = .., regions = {..}, inputs = {..}, ..}}
//
// Within a function: a value that is no result lives in the function's frame from its definition to its last
// use; one entry of mg.frame per result, -1 for what is returned (it has a place already), then one for a
// workspace. An all-reduce of a value that dies there works in place: mg.in_place. Within a stage: regions
// one after another.
#include "compiler/Passes.h"
#include "compiler/memory/Memory.h"
#include "compiler/stage/ChunkLayout.h"
#include "runtime/plan/Plan.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_MEMORY
#include "compiler/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

// --- Frames

class FrameBuilder {
public:
  explicit FrameBuilder(func::FuncOp function) : function_(function), body_(function.getBody().front()) {
    for (auto [i, op] : llvm::enumerate(body_))
      position_[&op] = i;
  }

  Status run() {
    for (Operation &op : body_.without_terminator())
      place(op);
    MGC_ASSIGN(assignment, memory::solve(buffers_));
    MGC_TRY(memory::verify(buffers_, assignment));
    Builder builder(function_.getContext());
    for (auto &[op, numbers] : frames_) {
      for (int64_t &number : numbers)
        number = number < 0 ? -1 : assignment.offsets[number];
      op->setAttr("mg.frame", builder.getDenseI64ArrayAttr(numbers));
    }
    function_->setAttr("mg.frame", builder.getI64IntegerAttr(assignment.peak));
    return Status::ok();
  }

private:
  // The op of this body that holds the use.
  int64_t positionOf(Operation *user) { return position_.lookup(body_.findAncestorOpInBlock(*user)); }
  // Uses of the value's memory: those of its other names too.
  int64_t lastUse(Value value) {
    int64_t last = position_.lookup(value.getDefiningOp());
    for (Operation *user : value.getUsers())
      last = std::max(last, isa<RenameOp>(user) ? lastUse(user->getResult(0)) : positionOf(user));
    return last;
  }
  bool isReturned(Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return user == body_.getTerminator() || (isa<RenameOp>(user) && isReturned(user->getResult(0)));
    });
  }

  // A value in the frame that dies here, or a gradient bucket.
  bool mayWorkInPlace(AllReduceOp op) {
    Value source = op.getValue();
    if (!source.hasOneUse() || source != storageOf(source))
      return false;
    if (auto argument = dyn_cast<BlockArgument>(source)) {
      auto buffer = function_.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), "mg.buffer");
      return buffer && buffer.getAs<StringAttr>("kind") == "gradient";
    }
    return true;
  }

  void place(Operation &op) {
    std::vector<int64_t> numbers;
    int64_t here = position_.lookup(&op);
    if (isa<RenameOp>(op)) {
      op.setAttr("mg.in_place", UnitAttr::get(op.getContext()));
      return;
    }
    auto reduce = dyn_cast<AllReduceOp>(op);
    if (reduce && !isReturned(reduce.getResult()) && mayWorkInPlace(reduce)) {
      op.setAttr("mg.in_place", UnitAttr::get(op.getContext()));
      int64_t last = lastUse(reduce.getResult());
      if (auto it = bufferOf_.find(reduce.getValue()); it != bufferOf_.end()) {
        buffers_[it->second].end = std::max(buffers_[it->second].end, last + 1);
        bufferOf_[reduce.getResult()] = it->second;
      }
      numbers.push_back(-1);
    } else {
      for (Value result : op.getResults())
        numbers.push_back(
            isReturned(result) ? -1 : addBuffer(result, bytesOf(result.getType()), here, lastUse(result)));
    }
    if (int64_t bytes = workspaceBytes(&op))
      numbers.push_back(addBuffer(Value(), bytes, here, here));
    frames_.emplace_back(&op, std::move(numbers));
  }

  int64_t addBuffer(Value value, int64_t bytes, int64_t first, int64_t last) {
    buffers_.push_back({bytes, first, last + 1});
    if (value)
      bufferOf_[value] = int64_t(buffers_.size()) - 1;
    return int64_t(buffers_.size()) - 1;
  }

  func::FuncOp function_;
  mlir::Block &body_;
  llvm::DenseMap<Operation *, int64_t> position_;
  llvm::DenseMap<Value, int64_t> bufferOf_;
  std::vector<memory::Buffer> buffers_;
  std::vector<std::pair<Operation *, std::vector<int64_t>>> frames_;
};

int64_t frameBytes(func::FuncOp function) {
  return function->getAttrOfType<IntegerAttr>("mg.frame").getInt();
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
    stage_.setMemoryAttr(memory_.getDictionary(builder_.getContext()));
    return inputs;
  }

private:
  IntegerAttr number(int64_t value) { return builder_.getI64IntegerAttr(value); }
  int64_t take(int64_t bytes) { return std::exchange(end_, end_ + aligned(bytes)); }

  template <typename Fill> void region(StringRef name, Fill fill) {
    int64_t begin = end_;
    fill();
    regions_.append(name, builder_.getDenseI64ArrayAttr({begin, end_ - begin}));
  }

  void placeBuckets() {
    auto buckets = stage_.all<BucketOp>();
    std::vector<NamedAttrList> offsets(buckets.size());
    auto placeAll = [&](StringRef name, bool ofShard) {
      for (auto [bucket, list] : llvm::zip(buckets, offsets)) {
        int64_t share = bucket.getSharded() ? mesh_.sizeOf(bucket.getData()) : 1;
        list.append(name, number(take(bucket.getElements() * 4 / (ofShard ? share : 1))));
      }
    };
    region("parameters", [&] { placeAll("value", false); });
    region("gradients", [&] {
      placeAll("gradient", false);
      for (auto [bucket, list] : llvm::zip(buckets, offsets))
        list.append("gradient_shard",
                    bucket.getSharded()
                        ? number(take(bucket.getElements() * 4 / mesh_.sizeOf(bucket.getData())))
                        : IntegerAttr(cast<IntegerAttr>(list.get("gradient"))));
    });
    region("optimizer", [&] {
      placeAll("first_moment", true);
      placeAll("second_moment", true);
    });
    for (auto [bucket, list] : llvm::zip(buckets, offsets))
      bucket.setOffsetsAttr(list.getDictionary(builder_.getContext()));
  }

  // All microbatches of each kind of data that the stage's functions read; positions are the same for all.
  LogicalResult placeInputs() {
    NamedAttrList inputs;
    for (const ChunkLayout &chunk : chunks_)
      for (const ModelBlock *block : distinct(chunk))
        for (const BlockFunction *function :
             {&block->forward, &block->backward, &block->input, &block->weight})
          if (*function && failed(placeInputsOf(*function, inputs)))
            return failure();
    memory_.append("inputs", inputs.getDictionary(builder_.getContext()));
    return success();
  }

  static llvm::SmallSetVector<const ModelBlock *, 4> distinct(const ChunkLayout &chunk) {
    llvm::SmallSetVector<const ModelBlock *, 4> blocks;
    for (const Instance &instance : chunk.instances())
      blocks.insert(instance.block);
    return blocks;
  }

  LogicalResult placeInputsOf(const BlockFunction &block, NamedAttrList &inputs) {
    func::FuncOp function = block.function;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto data = function.getArgAttrOfType<StringAttr>(i, kDataAttr);
      if (!data)
        continue;
      Attribute type = function.getArgAttr(i, "mg.type");
      if (auto known = dyn_cast_or_null<DictionaryAttr>(inputs.get(data))) {
        if (known.get("type") != type)
          return function.emitError()
                 << "reads " << data << " as " << type << ", another function as " << known.get("type");
        continue;
      }
      bool same = data == "positions" || data == "key_positions";
      int64_t stride = aligned(bytesOf(function.getArgumentTypes()[i]));
      NamedAttrList input;
      input.append("type", type);
      input.append("stride", number(same ? 0 : stride));
      input.append("offset", number(take(stride * (same ? 1 : trainingInt(module_, "microbatches", 1)))));
      inputs.append(data, input.getDictionary(builder_.getContext()));
    }
    return success();
  }

  // Gradients that flow between instances, then the largest frame.
  void placeFrame() {
    int64_t flow = 0, frame = 0;
    for (FlatSymbolRefAttr name : {stage_.getBeginAttr(), stage_.getReduceAttr(), stage_.getUpdateAttr()})
      frame = std::max(frame, frameBytes(symbols_.lookup<func::FuncOp>(name.getValue())));
    for (const ChunkLayout &chunk : chunks_) {
      flow = std::max(flow, chunk.flowBytes());
      for (const ModelBlock *block : distinct(chunk))
        for (const BlockFunction *function :
             {&block->forward, &block->backward, &block->input, &block->weight})
          if (*function)
            frame = std::max(frame, frameBytes(function->function));
    }
    memory_.append("flow", number(take(flow)));
    memory_.append("frame", number(take(frame)));
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
      if (function->hasAttr("mg.pass"))
        if (Status status = FrameBuilder(function).run(); !status.isOk()) {
          function.emitError() << status.message();
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
