// See Programs.h.
#include "compiler/assemble/Programs.h"

#include "dialects/mg/Parameter.h"
#include "dialects/mg/RowEmitter.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace mgc {

namespace {

using plan::Instruction;
using plan::Operand;

class ProgramBuilder {
public:
  ProgramBuilder(func::FuncOp function, const FunctionFrame &frame, const BlockFunction *block, size_t number,
                 KernelGraphs &kernels)
      : function_(function), body_(function.getBody().front()), frame_(frame), block_(block), number_(number),
        kernels_(kernels) {}

  Result<AssembledProgram> run() {
    out_.program.name = function_.getName().str();
    addSegments();
    MGC_TRY(emitBlock(body_));
    return std::move(out_);
  }

private:
  // --- Places
  // Place of a value; in a tile, the place of its first part, and the bytes from one part to the next.
  struct Place {
    Operand first;
    int64_t step = 0;
  };

  int64_t addSegment(SegmentSource source, std::string name, int64_t bytes) {
    out_.segments.push_back(source);
    out_.program.segments.push_back(std::move(name));
    out_.program.segmentBytes.push_back(bytes);
    return int64_t(out_.segments.size()) - 1;
  }

  std::string nameOf(StringRef side, unsigned i, DictionaryAttr attrs) {
    for (StringRef key : {kDataAttr, kArgAttr, kResultAttr})
      if (auto name = attrs ? attrs.getAs<StringAttr>(key) : StringAttr())
        return fmt::format("{}{}.{}", side.str(), i, name.str());
    if (auto param = attrs ? attrs.getAs<DictionaryAttr>(kParamAttr) : DictionaryAttr())
      return fmt::format("{}{}.{}", side.str(), i, mgc::nameOf(param));
    return fmt::format("{}{}", side.str(), i);
  }

  void addSegments() {
    for (BlockArgument argument : body_.getArguments()) {
      unsigned i = argument.getArgNumber();
      if (llvm::all_of(argument.getUsers(), llvm::IsaPred<func::ReturnOp>)) // no instruction reads it
        continue;
      places_[argument].first = {addSegment({SegmentSource::Kind::argument, i},
                                            nameOf("in", i, function_.getArgAttrDict(i)),
                                            bytesOf(argument.getType()))};
    }
    Operation *terminator = body_.getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      if (block_ && block_->results[i].activation >= 0)
        continue;
      places_[storageOf(value)].first = {addSegment({SegmentSource::Kind::result, i},
                                                    nameOf("out", i, function_.getResultAttrDict(i)),
                                                    bytesOf(value.getType()))};
      if (block_ && block_->results[i].accumulates())
        accumulated_.insert(value);
    }
    if (frame_.bytes > 0)
      frameSegment_ = addSegment({SegmentSource::Kind::frame}, "frame", frame_.bytes);
  }

  void placeResults(Operation *op) {
    if (isView(op) || isa<JoinOp>(op)) // have their places
      return;
    if (frame_.inPlace.contains(op)) {
      Place place = placeOf(op->getOperand(0)); // a copy: the new entry may move the others
      places_[op->getResult(0)] = place;
      return;
    }
    for (Value result : op->getResults())
      placeInFrame(result);
  }

  void placeInFrame(Value value) {
    if (auto it = frame_.offsets.find(value); it != frame_.offsets.end())
      places_[value].first = {frameSegment_, it->second};
  }

  Place placeOf(Value value) const {
    View view = viewOf(value);
    if (view.base == value)
      return places_.at(value);
    Place place = placeOf(view.base);
    place.first.offset += view.offset * bytesOfElement(value);
    return place;
  }
  Place workspaceOf(Operation *op) const { return {{frameSegment_, frame_.workspaces.at(op)}}; }

  // "layer.forward/einsum h.{}.attn.c_attn.weight[q]": a product is known by its parameter, an op by its
  // name.
  std::string labelOf(Operation *op) {
    std::string label = fmt::format("{}/{}", out_.program.name, op->getName().stripDialect().str());
    DictionaryAttr param;
    for (Value operand : op->getOperands())
      if (auto argument = dyn_cast<BlockArgument>(operand); argument && isa<EinsumOp, LinearOp>(op) && !param)
        param = function_.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), kParamAttr);
    for (OpOperand &use : op->getUses())
      if (use.getOwner() == body_.getTerminator() && !param)
        param = function_.getResultAttrOfType<DictionaryAttr>(use.getOperandNumber(), kParamAttr);
    return param ? fmt::format("{} {}", label, mgc::nameOf(param)) : label;
  }

  // --- Instructions
  template <typename Body> void add(Body body, const std::vector<Place> &places) {
    std::vector<Operand> operands;
    std::vector<int64_t> &steps = steps_.emplace_back();
    for (const Place &place : places) {
      operands.push_back(place.first);
      steps.push_back(place.step);
    }
    out_.program.instructions.push_back({std::move(body), std::move(operands), label_});
  }
  std::vector<Place> placesOf(ValueRange values) const {
    std::vector<Place> places;
    for (Value value : values)
      places.push_back(placeOf(value));
    return places;
  }

  // A joined value has its place before its parts are made.
  void placeJoined(mlir::Block &block) {
    for (JoinOp join : block.getOps<JoinOp>())
      placeInFrame(join.getWhole());
  }

  Status emitBlock(mlir::Block &block) {
    placeJoined(block);
    for (Operation &op : block.without_terminator()) {
      label_ = labelOf(&op);
      placeResults(&op);
      MGC_TRY(emit(&op).at(label_));
    }
    return Status::ok();
  }

  Status emit(Operation *op) {
    return llvm::TypeSwitch<Operation *, Status>(op)
        .Case<LibraryOpInterface>([&](LibraryOpInterface library) { return emitCall(library); })
        .Case<KernelOp>([&](KernelOp kernel) { return emitKernel(kernel); })
        .Case<TileOp>([&](TileOp tile) { return emitTile(tile); })
        .Case<AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp>(
            [&](Operation *o) { return emitCollective(o); })
        .Case<RenameOp, PartsOp, JoinOp>([](Operation *) { return Status::ok(); })
        .Case<SliceOp, DemoteOp, ZeroOp, PackOp, UnpackOp>([&](Operation *move) { return emitMove(move); })
        .Default([](Operation *) { return Status::error("is no op of the phase fuse"); });
  }

  Status emitCall(LibraryOpInterface op) {
    LibraryCall call = op.getCall();
    if (auto *gemm = std::get_if<plan::Gemm>(&call.body))
      gemm->accumulate = accumulated_.contains(op->getResult(0));
    std::vector<Place> operands = placesOf(call.operands);
    if (workspaceBytes(op) > 0)
      operands.push_back(workspaceOf(op));
    std::visit([&](const auto &body) { add(body, operands); }, call.body);
    return Status::ok();
  }

  // --- Row kernels
  Status emitKernel(KernelOp op) {
    RowEmitter emitter(*op.getSpace());
    mlir::Block &body = op.getBody().front();
    llvm::DenseMap<Value, Value> leaving; // value inside -> result
    for (auto [inside, result] : llvm::zip(body.getTerminator()->getOperands(), op.getResults())) {
      bool accumulates = accumulated_.contains(result);
      leaving[inside] = result;
      emitter.store(inside, accumulates ? rowgen::Access::accumulate : rowgen::Access::out,
                    viewOf(result).pitch);
      if (!accumulates && cast<RowOpInterface>(inside.getDefiningOp()).onlyAccumulates())
        addFill(result);
    }
    std::string names;
    for (Operation &inner : body.without_terminator()) {
      names += (names.empty() ? "" : "_") + inner.getName().stripDialect().str();
      if (failed(emitter.emit(cast<RowOpInterface>(inner))))
        return errorf("{} cannot be emitted", inner.getName().getStringRef().str());
    }
    label_ = fmt::format("{}/{}", out_.program.name, names);
    MGC_TRY(emitter.graph().verify());
    plan::RowKernel kernel;
    kernel.scalars = emitter.scalars();
    std::vector<Place> operands;
    for (const RowEmitter::Operand &operand : emitter.operands())
      operands.push_back(
          placeOf(leaving.contains(operand.value) ? leaving.lookup(operand.value) : operand.value));
    kernels_.uses.push_back({number_, out_.program.instructions.size(), kernels_.graphs.size()});
    kernels_.graphs.push_back(
        {fmt::format("k{}_{}", kernels_.graphs.size(), names.substr(0, 80)), std::move(emitter.graph())});
    add(kernel, operands);
    return Status::ok();
  }

  // --- Tiles
  // The body once, for the first part; then the same instructions for each other part, their operands steps further.
  Status emitTile(TileOp op) {
    placeParts(op);
    size_t begin = out_.program.instructions.size();
    MGC_TRY(emitBlock(op.getBody().front()));
    size_t end = out_.program.instructions.size(), uses = kernels_.uses.size();
    for (int64_t part = 1; part < int64_t(op.getCount()); ++part)
      repeat(begin, end, uses, part);
    return Status::ok();
  }

  void placeParts(TileOp op) {
    for (auto [value, argument] : llvm::zip(op.getValues(), op.getBody().getArguments()))
      places_[argument] = {placeOf(value).first, bytesOf(argument.getType())};
    for (auto [i, value] : llvm::enumerate(op.getYield().getOperands())) {
      Value result = op.getResult(i);
      bool isSum = op.isSum(i);
      if (isSum && !accumulated_.contains(result))
        addFill(result);
      if (isSum)
        accumulated_.insert(value);
      places_[storageOf(value)] = {placeOf(result).first, isSum ? 0 : bytesOf(value.getType())};
    }
  }

  void repeat(size_t begin, size_t end, size_t uses, int64_t part) {
    size_t moved = out_.program.instructions.size() - begin;
    for (size_t i = begin; i < end; ++i) {
      Instruction instruction = out_.program.instructions[i];
      for (auto [operand, step] : llvm::zip(instruction.operands, steps_[i]))
        operand.offset += part * step;
      out_.program.instructions.push_back(std::move(instruction));
      steps_.emplace_back(steps_[i].size(), 0);
    }
    for (size_t i = 0; i < uses; ++i)
      if (KernelGraphs::Use use = kernels_.uses[i]; use.program == number_ && use.instruction >= begin)
        kernels_.uses.push_back({use.program, use.instruction + moved, use.graph});
  }

  void addFill(Value value) {
    plan::Move fill;
    fill.kind = plan::Move::Kind::fill;
    fill.bytes = bytesOf(value.getType());
    add(fill, {placeOf(value)});
  }

  // --- Collectives and moves
  static int64_t sizeBefore(Value value, int64_t dim) {
    int64_t size = 1;
    for (int64_t extent : tensorOf(value).getShape().take_front(dim))
      size *= extent;
    return size;
  }
  static int64_t sizeFrom(Value value, int64_t dim) {
    return tensorOf(value).getNumElements() / sizeBefore(value, dim);
  }

  Status emitCollective(Operation *op) {
    plan::Collective collective;
    Value value = op->getOperand(0), result = op->getResult(0);
    collective.type = dtypeOf(elementOf(value));
    collective.axes = axesOf(op->getAttrOfType<ArrayAttr>("axes"));
    if (auto stages = op->getAttrOfType<DenseI64ArrayAttr>("stages"))
      collective.stages.assign(stages.asArrayRef().begin(), stages.asArrayRef().end());
    if (auto reduction = op->getAttrOfType<StringAttr>("reduction"))
      collective.reduce = reduction == "max" ? plan::ReduceKind::max : plan::ReduceKind::sum;
    MGC_TRY(shapeCollective(op, collective));
    std::vector<Place> operands = placesOf({value, result});
    if ((collective.workspaceBytes = workspaceBytes(op)) > 0)
      operands.push_back(workspaceOf(op));
    add(collective, operands);
    return Status::ok();
  }

  // Kind and sizes: the buffers seen as plan::Collective says.
  static Status shapeCollective(Operation *op, plan::Collective &collective) {
    using Kind = plan::Collective::Kind;
    Value value = op->getOperand(0), result = op->getResult(0);
    if (auto gather = dyn_cast<AllGatherOp>(op)) {
      collective.kind = Kind::allGather;
      collective.outer = sizeBefore(value, gather.getDim());
      collective.chunk = sizeFrom(value, gather.getDim());
    } else if (auto scatter = dyn_cast<ReduceScatterOp>(op)) {
      collective.kind = Kind::reduceScatter;
      collective.outer = sizeBefore(result, scatter.getDim());
      collective.chunk = sizeFrom(result, scatter.getDim());
    } else if (auto exchange = dyn_cast<AllToAllOp>(op)) {
      collective.kind = Kind::allToAll;
      collective.splitsInner = exchange.getSplit() > exchange.getConcat();
      // The side whose outer one of the two dimensions is the whole block of a rank.
      Value chunks = collective.splitsInner ? result : value,
            blocks = collective.splitsInner ? value : result;
      const auto [first, second] = std::minmax(exchange.getSplit(), exchange.getConcat());
      collective.outer = sizeBefore(blocks, first);
      collective.chunk = sizeFrom(chunks, second);
      collective.middle = sizeFrom(blocks, first) / sizeFrom(blocks, second);
    } else {
      collective.kind = Kind::allReduce;
      collective.chunk = tensorOf(value).getNumElements();
    }
    return Status::ok();
  }

  Status emitMove(Operation *op) {
    plan::Move move;
    if (auto slice = dyn_cast<SliceOp>(op)) {
      move.kind = plan::Move::Kind::slice;
      move.outer = sizeBefore(slice.getResult(), slice.getDim());
      move.chunkBytes = sizeFrom(slice.getResult(), slice.getDim()) * bytesOfElement(slice.getResult());
      move.axes = axesOf(slice.getAxes());
      add(move, placesOf({slice.getValue(), slice.getResult()}));
    } else if (auto demote = dyn_cast<DemoteOp>(op)) {
      move.kind = plan::Move::Kind::demote;
      move.bytes = bytesOf(demote.getType());
      move.axes = axesOf(demote.getAxes());
      add(move, placesOf({demote.getValue(), demote.getResult()}));
    } else if (isa<ZeroOp>(op)) {
      addFill(op->getResult(0));
    } else {
      move.bytes = bytesOfElement(op->getOperand(0));
      bool packs = isa<PackOp>(op);
      Operand whole = placeOf(packs ? op->getResult(0) : op->getOperand(0)).first;
      for (auto [i, part] :
           llvm::enumerate(placesOf(packs ? ValueRange(op->getOperands()) : op->getResults()))) {
        Place element{{whole.segment, whole.offset + int64_t(i) * move.bytes}};
        add(move, packs ? std::vector<Place>{part, element} : std::vector<Place>{element, part});
      }
    }
    return Status::ok();
  }

  func::FuncOp function_;
  mlir::Block &body_;
  const FunctionFrame &frame_;
  const BlockFunction *block_;
  size_t number_;
  KernelGraphs &kernels_;
  AssembledProgram out_;
  std::string label_;
  int64_t frameSegment_ = -1;
  llvm::DenseMap<Value, Place> places_;
  std::vector<std::vector<int64_t>> steps_; // by instruction, of its operands
  llvm::DenseSet<Value> accumulated_;       // results that are added to their place
};

} // namespace

Result<AssembledProgram> assembleProgram(func::FuncOp function, const FunctionFrame &frame,
                                         const BlockFunction *block, size_t number, KernelGraphs &kernels) {
  return ProgramBuilder(function, frame, block, number, kernels).run();
}

} // namespace mgc
