// See Stages.h.
#include "compiler/emit/Stages.h"

#include "compiler/stage/StepEnd.h"
#include "dialects/mg/Parameter.h"
#include "dialects/mg/RowEmitter.h"

#include <algorithm>

using namespace mlir;

namespace mgc {

namespace {

int64_t intIn(DictionaryAttr dictionary, StringRef name) {
  return dictionary.getAs<IntegerAttr>(name).getInt();
}

class StageEmitter {
public:
  StageEmitter(StageOp stage, const EmitContext &context)
      : stage_(stage), context_(context), memory_(stage.getMemoryAttr()), buckets_(stage.all<BucketOp>()) {
    for (PlaceOp place : stage.all<PlaceOp>())
      places_[{place.getBlock().str(), int64_t(place.getArgument())}].push_back(place);
    for (ChunkOp chunk : stage.all<ChunkOp>())
      layouts_.emplace_back(context.blocks.instancesOf(chunk.getBody()));
  }

  Result<plan::StagePlan> run() {
    addBuckets();
    MGC_TRY(addInputs());
    addRegions();
    addStepChunk(plan::Task::begin, stage_.getBegin());
    for (size_t k = 0; k < layouts_.size(); ++k) {
      for (plan::Task task : passesOf(context_.module))
        addChunk(task, k);
      addGradients(int64_t(k));
    }
    addStepChunk(plan::Task::reduce, stage_.getReduce());
    addStepChunk(plan::Task::update, stage_.getUpdate());
    addSchedule();
    return std::move(out_);
  }

private:
  // --- Memory
  void addBuckets() {
    for (auto [i, op] : llvm::enumerate(buckets_)) {
      plan::Bucket bucket;
      bucket.name = fmt::format("bucket{}", i);
      bucket.elements = op.getElements();
      bucket.splitAxes = axesOf(op.getSplit());
      bucket.dataAxes = axesOf(op.getData());
      bucket.sharded = op.getSharded();
      bucket.tiedStages.assign(op.getTied().begin(), op.getTied().end());
      bucket.valueOffset = offsetOf(i, "value");
      bucket.gradientOffset = offsetOf(i, "gradient");
      bucket.gradientShardOffset = offsetOf(i, "gradient_shard");
      bucket.firstMomentOffset = offsetOf(i, "first_moment");
      bucket.secondMomentOffset = offsetOf(i, "second_moment");
      if (precisionOf(context_.module).hasMasters())
        bucket.masterOffset = offsetOf(i, "master");
      out_.buckets.push_back(std::move(bucket));
    }
  }
  int64_t offsetOf(int64_t bucket, StringRef buffer) {
    return intIn(buckets_[bucket].getOffsetsAttr(), buffer);
  }

  Status addInputs() {
    for (NamedAttribute entry : memory_.getAs<DictionaryAttr>("inputs")) {
      auto facts = cast<DictionaryAttr>(entry.getValue());
      RankedTensorType type = shardedType(facts.get("type"));
      MGC_ASSIGN(known, findDataKind(entry.getName()));
      plan::Input input{known->kind, dtypeOf(type.getElementType()), {}, 0, 0};
      for (auto [name, size, axes] :
           llvm::zip(layoutOf(type).getNames(), type.getShape(), layoutOf(type).getAxes()))
        input.dims.push_back({name.str(), size, axesOf(axes)});
      input.offset = intIn(facts, "offset");
      input.microbatchStride = intIn(facts, "stride");
      out_.inputs.push_back(std::move(input));
    }
    return Status::ok();
  }

  void addRegions() {
    for (NamedAttribute entry : memory_.getAs<DictionaryAttr>("regions")) {
      ArrayRef<int64_t> range = cast<DenseI64ArrayAttr>(entry.getValue()).asArrayRef();
      out_.regions.push_back({entry.getName().str(), range[0], range[1]});
    }
    std::ranges::sort(out_.regions, {}, [](const plan::Region &r) { return std::pair(r.offset, r.bytes); });
    out_.bytes = intIn(memory_, "bytes");
    out_.leastBytes = intIn(memory_, "bound");
    auto scalars = memory_.getAs<DictionaryAttr>("scalars");
    out_.stepScalarsOffset = intIn(scalars, "step_scalars");
    out_.resultsOffset = intIn(scalars, "results");
    factorOffset_ = intIn(scalars, "factor");
    bool any = false;
    for (const ChunkLayout &layout : layouts_)
      for (const Instance &instance : layout.instances())
        if (instance.block->isLayer()) {
          out_.layersBegin = any ? std::min(out_.layersBegin, instance.number) : instance.number;
          out_.layersEnd = any ? std::max(out_.layersEnd, instance.number + 1) : instance.number + 1;
          any = true;
        }
  }

  // --- Chunks of the step's end
  plan::Binding bufferBinding(DictionaryAttr buffer) {
    StringRef kind = buffer.getAs<StringAttr>("kind").getValue();
    auto index = buffer.getAs<IntegerAttr>("index");
    if (kind == "result")
      return {-1, out_.resultsOffset + 4 * index.getInt()};
    if (kind == "step_scalar")
      return {-1, out_.stepScalarsOffset + (index ? 4 * index.getInt() : 0)};
    if (kind == "factor")
      return {-1, factorOffset_};
    return {-1, offsetOf(index.getInt(), kind)};
  }

  plan::Call stepCall(StringRef functionName) {
    auto function = ModuleOp(context_.module).lookupSymbol<func::FuncOp>(functionName);
    plan::Call call;
    call.program = context_.programOf.at(functionName.str());
    for (const SegmentSource &segment : context_.programs[call.program].segments)
      if (segment.kind == SegmentSource::Kind::frame)
        call.segments.push_back({-1, intIn(memory_, "frame")});
      else if (segment.kind == SegmentSource::Kind::argument)
        call.segments.push_back(
            bufferBinding(function.getArgAttrOfType<DictionaryAttr>(segment.index, kBufferAttr)));
      else
        call.segments.push_back(
            bufferBinding(function.getResultAttrOfType<DictionaryAttr>(segment.index, kBufferAttr)));
    return call;
  }

  void addStepChunk(plan::Task task, StringRef functionName) {
    plan::Chunk chunk;
    chunk.task = task;
    chunk.calls.push_back(stepCall(functionName));
    addChunk(-1, std::move(chunk), {});
  }

  // A call for each part of chunk k, if it has any.
  void addGradients(int64_t k) {
    plan::Chunk chunk;
    chunk.task = plan::Task::gradients;
    chunk.virtualStage = k;
    for (ReductionOp reduction : stage_.all<ReductionOp>())
      if (int64_t(reduction.getChunk()) == k)
        chunk.calls.push_back(stepCall(reduction.getFunction()));
    if (!chunk.calls.empty())
      addChunk(k, std::move(chunk), {});
  }

  // --- Chunks
  // A slot stands for a buffer kind, or for a kind of data.
  struct Slot {
    int64_t buffer = -1;
    std::string data;
    bool operator==(const Slot &) const = default;
  };

  void addChunk(int64_t k, plan::Chunk chunk, std::vector<Slot> slots) {
    chunkOf_[{chunk.task, k}] = out_.chunks.size();
    out_.chunks.push_back(std::move(chunk));
    slots_.push_back(std::move(slots));
  }

  void addChunk(plan::Task task, size_t k) {
    const ChunkLayout &layout = layouts_[k];
    plan::Chunk chunk;
    chunk.task = task;
    chunk.virtualStage = int64_t(k);
    std::vector<Slot> slots;
    size_t count = layout.instances().size();
    std::vector<int64_t> &begins = callsBefore_[{task, int64_t(k)}];
    for (size_t n = 0; n < count; ++n) {
      begins.push_back(int64_t(chunk.calls.size()));
      size_t i = task == plan::Task::forward ? n : count - 1 - n;
      const BlockFunction *function = layout.instances()[i].block->functionOf(task);
      if (function && context_.programOf.contains(func::FuncOp(function->function).getName().str()))
        chunk.calls.push_back(makeCall({layout, i, *function, chunk, slots}));
    }
    begins.push_back(int64_t(chunk.calls.size()));
    addChunk(int64_t(k), std::move(chunk), std::move(slots));
  }

  int64_t slotOf(Slot slot, int64_t bytes, plan::Chunk &chunk, std::vector<Slot> &slots) {
    auto it = llvm::find(slots, slot);
    if (it == slots.end()) {
      chunk.slots.push_back(slot.buffer >= 0 ? schedule::nameOf(schedule::BufferKind(slot.buffer))
                                             : slot.data);
      chunk.slotBytes.push_back(bytes);
      slots.push_back(std::move(slot));
      return int64_t(slots.size()) - 1;
    }
    return it - slots.begin();
  }

  // A call of a function for one instance, while the slots of its chunk are collected.
  struct Caller {
    const ChunkLayout &layout;
    size_t instance; // of the layout
    const BlockFunction &function;
    plan::Chunk &chunk;
    std::vector<Slot> &slots;
  };

  plan::Call makeCall(const Caller &caller) {
    plan::Call call;
    call.program = context_.programOf.at(func::FuncOp(caller.function.function).getName().str());
    call.instance = instanceOf(caller).number;
    for (const SegmentSource &segment : context_.programs[call.program].segments)
      call.segments.push_back(
          segment.kind == SegmentSource::Kind::frame      ? plan::Binding{-1, intIn(memory_, "frame")}
          : segment.kind == SegmentSource::Kind::argument ? argumentBinding(caller, segment.index)
                                                          : resultBinding(caller, segment.index));
    return call;
  }

  static const Instance &instanceOf(const Caller &caller) {
    return caller.layout.instances()[caller.instance];
  }

  plan::Binding argumentBinding(const Caller &caller, size_t argument) {
    const BlockFunction::Argument &taken = caller.function.arguments[argument];
    func::FuncOp function = caller.function.function;
    if (taken.kind == BlockFunction::ArgumentKind::data)
      return {slotOf({-1, function.getArgAttrOfType<StringAttr>(argument, kDataAttr).str()},
                     bytesOf(caller.function.argumentType(argument)), caller.chunk, caller.slots),
              0};
    if (taken.kind == BlockFunction::ArgumentKind::parameter)
      return {-1, parameterOffset(instanceOf(caller), taken.index, "value",
                                  elementOf(caller.function.argumentType(argument)))};
    return inBuffer(caller, caller.layout.argument(caller.instance, caller.function, argument));
  }

  plan::Binding resultBinding(const Caller &caller, size_t number) {
    const BlockFunction::Result &result = caller.function.results[number];
    switch (result.kind) {
    case BlockFunction::ResultKind::grad:
      return {-1, parameterOffset(instanceOf(caller), result.index, "gradient",
                                  elementOf(caller.function.resultType(number)))};
    case BlockFunction::ResultKind::lossSum:
      return {-1, out_.resultsOffset + 4 * resultIndex("loss_sum")};
    case BlockFunction::ResultKind::tokens:
      return {-1, out_.resultsOffset + 4 * resultIndex("tokens")};
    default:
      return inBuffer(caller, caller.layout.result(caller.instance, caller.function, number));
    }
  }

  plan::Binding inBuffer(const Caller &caller, ChunkLayout::Spot spot) {
    if (spot.buffer == ChunkLayout::kFlow)
      return {-1, intIn(memory_, "flow") + spot.offset};
    return {slotOf({spot.buffer, ""}, caller.layout.bytes()[spot.buffer], caller.chunk, caller.slots),
            spot.offset};
  }

  int64_t parameterOffset(const Instance &instance, int64_t argument, StringRef buffer, Type element) {
    for (PlaceOp place : places_.at({instance.block->name, argument})) {
      int64_t n = instance.number - int64_t(place.getFirst());
      if (n >= 0 && n < int64_t(place.getCount()))
        return offsetOf(place.getBucket(), buffer) +
               bytesOfElement(element) * (int64_t(place.getOffset()) + n * int64_t(place.getStride()));
    }
    return -1; // verified: every instance of the stage has its places
  }

  // --- Schedule
  void addSchedule() {
    int64_t area = intIn(memory_, "activations");
    auto inputs = memory_.getAs<DictionaryAttr>("inputs");
    std::map<std::string, std::pair<int64_t, int64_t>> data; // offset, stride
    for (NamedAttribute entry : inputs) {
      auto facts = cast<DictionaryAttr>(entry.getValue());
      data[entry.getName().str()] = {intIn(facts, "offset"), intIn(facts, "stride")};
    }
    for (Operation &op : stage_.all<ScheduleOp>().front().getBody().front()) {
      plan::ScheduleStep step;
      if (auto run = dyn_cast<RunOp>(op)) {
        step.chunk = chunkOf_.at({*plan::taskNamed(run.getPass()), int64_t(run.getChunk())});
        step.microbatch = run.getMicrobatch();
        step.waits.assign(run.getWaits().begin(), run.getWaits().end());
        setCalls(run, step);
        for (const Slot &slot : slots_[step.chunk])
          if (slot.buffer >= 0) {
            step.slots.push_back(area + run.getBuffers()[slot.buffer]);
          } else {
            auto [offset, stride] = data.at(slot.data);
            step.slots.push_back(offset + step.microbatch * stride);
          }
      } else if (auto send = dyn_cast<SendOp>(op)) {
        step = transfer(send, plan::ScheduleStep::Kind::send, area);
      } else {
        step = transfer(cast<RecvOp>(op), plan::ScheduleStep::Kind::recv, area);
      }
      out_.schedule.push_back(std::move(step));
    }
  }

  // Sets the calls of a run of a part: those for its instances, or the one that completes their gradients.
  void setCalls(RunOp run, plan::ScheduleStep &step) {
    if (!run.getPart())
      return;
    const int64_t part = *run.getPart();
    step.firstCall = part;
    step.callCount = 1;
    auto calls = callsBefore_.find({*plan::taskNamed(run.getPass()), int64_t(run.getChunk())});
    if (calls == callsBefore_.end())
      return;
    int64_t begin = 0, end = 0, number = 0; // instances
    for (ReductionOp reduction : stage_.all<ReductionOp>())
      if (reduction.getChunk() == run.getChunk() && number++ <= part) {
        begin = end;
        end += int64_t(reduction.getInstances());
      }
    step.firstCall = calls->second[begin];
    step.callCount = calls->second[end] - step.firstCall;
  }

  template <typename Op> plan::ScheduleStep transfer(Op op, plan::ScheduleStep::Kind kind, int64_t area) {
    plan::ScheduleStep step;
    step.kind = kind;
    step.microbatch = op.getMicrobatch();
    step.peer = op.getPeer();
    step.value = op.getValue();
    step.offset = area + int64_t(op.getOffset());
    step.bytes = op.getBytes();
    step.waits.assign(op.getWaits().begin(), op.getWaits().end());
    return step;
  }

  StageOp stage_;
  const EmitContext &context_;
  DictionaryAttr memory_;
  SmallVector<BucketOp> buckets_;
  std::map<std::pair<std::string, int64_t>, std::vector<PlaceOp>> places_; // by block and argument
  std::vector<ChunkLayout> layouts_;
  std::vector<std::vector<Slot>> slots_;                      // by chunk of the plan
  std::map<std::pair<plan::Task, int64_t>, int64_t> chunkOf_; // by task and chunk of the stage
  // For each pass that runs per microbatch: how many calls precede each instance, in the pass's order, and all calls.
  std::map<std::pair<plan::Task, int64_t>, std::vector<int64_t>> callsBefore_;
  int64_t factorOffset_ = 0;
  plan::StagePlan out_;
};

Result<plan::InitKind> initOf(DictionaryAttr param) {
  auto init = param.getAs<StringAttr>("init");
  if (!init || init == "normal")
    return plan::InitKind::normal;
  if (init == "zeros" || init == "ones")
    return init == "zeros" ? plan::InitKind::zeros : plan::InitKind::ones;
  return errorf("mg.param of {}: init is \"{}\"; expected normal, zeros or ones",
                param.getAs<StringAttr>("tensor").str(), init.str());
}

// The dimensions of a view: those of the parameter, but its own in the place of `along`, or none.
std::vector<plan::ParameterDim> dimsOf(DictionaryAttr view, RankedTensorType type, StringAttr along) {
  auto valid = view.getAs<DenseI64ArrayAttr>("valid");
  std::vector<plan::ParameterDim> dims;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    StringAttr name = layoutOf(type).getNames()[i];
    int64_t size = type.getDimSize(i), number = int64_t(dims.size());
    if (name == along) {
      name = view.getAs<StringAttr>("own");
      size = positionsOf(view);
    }
    if (name)
      dims.push_back({name.str(), size, valid && number < valid.size() ? valid[number] : size,
                      axesOf(layoutOf(type).getAxes()[i])});
  }
  return dims;
}

// Where the view's rows lie in the joined matrix: from position `begin` of `along` on.
plan::Parameter::Rows rowsOf(RankedTensorType type, MeshAttr mesh, StringAttr along, int64_t begin) {
  if (!along)
    return {};
  int64_t place = layoutOf(type).indexOf(along), inner = 1; // elements of a position on a rank
  for (int64_t i = place + 1; i < type.getRank(); ++i)
    inner *= type.getDimSize(i) / mesh.sizeOf(layoutOf(type).getAxes()[i]);
  return {place, begin * inner, type.getDimSize(place) * inner};
}

Result<plan::Parameter> describeView(DictionaryAttr view, RankedTensorType type, StringAttr along,
                                     int64_t instance) {
  auto list = [&](StringRef name) {
    auto array = view.getAs<DenseI64ArrayAttr>(name);
    return array ? std::vector<int64_t>(array.asArrayRef().begin(), array.asArrayRef().end())
                 : std::vector<int64_t>();
  };
  plan::Parameter parameter;
  parameter.name = nameForInstance(nameOf(view), instance);
  parameter.tensor = nameForInstance(view.getAs<StringAttr>("tensor").str(), instance);
  for (const std::string &alias : textsIn(view, "aliases"))
    parameter.aliases.push_back(nameForInstance(alias, instance));
  parameter.fileShape = list("file_shape");
  parameter.grouping = list("grouping");
  parameter.offset = list("offset");
  parameter.dims = dimsOf(view, type, along);
  MGC_ASSIGN(init, initOf(view));
  parameter.init = init;
  if (auto std = view.getAs<FloatAttr>("std"))
    parameter.initStd = std.getValueAsDouble();
  return parameter;
}

// One place of the parameters that the argument of forward joins, or of the one that it is.
Status addPlace(func::FuncOp forward, MeshAttr mesh, int64_t argument, int64_t instance,
                plan::Parameter::Place where, std::vector<plan::Parameter> &parameters,
                std::map<std::string, size_t> &known) {
  auto param = forward.getArgAttrOfType<DictionaryAttr>(argument, kParamAttr);
  RankedTensorType type = shardedType(forward.getArgAttr(argument, kTypeAttr));
  int64_t begin = 0;
  for (DictionaryAttr view : viewsOf(param)) {
    MGC_ASSIGN(parameter, describeView(view, type, alongOf(param), instance));
    parameter.rows = rowsOf(type, mesh, alongOf(param), begin);
    begin += positionsOf(view);
    auto [it, isNew] = known.try_emplace(parameter.name, parameters.size());
    if (isNew)
      parameters.push_back(std::move(parameter));
    std::vector<plan::Parameter::Place> &places = parameters[it->second].places;
    if (!llvm::is_contained(places, where))
      places.push_back(where);
  }
  return Status::ok();
}

} // namespace

Result<plan::StagePlan> emitStage(StageOp stage, const EmitContext &context) {
  return StageEmitter(stage, context).run();
}

Status addParameters(StageOp stage, const EmitContext &context, std::vector<plan::Parameter> &parameters,
                     std::map<std::string, size_t> &known) {
  auto mesh = stage->getParentOfType<ModuleOp>()->getAttrOfType<MeshAttr>(kMeshAttr);
  for (PlaceOp place : stage.all<PlaceOp>()) {
    func::FuncOp forward = context.blocks.at(place.getBlock()).forward.function;
    for (int64_t n = 0; n < int64_t(place.getCount()); ++n)
      MGC_TRY(addPlace(forward, mesh, place.getArgument(), int64_t(place.getFirst()) + n,
                       {int64_t(stage.getNumber()), int64_t(place.getBucket()),
                        int64_t(place.getOffset()) + n * int64_t(place.getStride())},
                       parameters, known));
  }
  return Status::ok();
}

} // namespace mgc
