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
    if (auto policy = function_->getAttrOfType<StringAttr>(kPolicyAttr))
      out_.program.policy = policy.str();
    addSegments();
    MGC_TRY(emitBlock(body_));
    return std::move(out_);
  }

private:
  // --- Places
  // Place of a value; in a tile, the place of its first part, and as stride the bytes from one part to the next.
  using Place = Operand;

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
      places_[argument] =
          newValue(addSegment({SegmentSource::Kind::argument, i}, nameOf("in", i, function_.getArgAttrDict(i)),
                              bytesOf(argument.getType())));
    }
    Operation *terminator = body_.getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      if (block_ && block_->results[i].activation >= 0)
        continue;
      places_[storageOf(value)] =
          newValue(addSegment({SegmentSource::Kind::result, i}, nameOf("out", i, function_.getResultAttrDict(i)),
                              bytesOf(value.getType())));
      if (block_ && block_->results[i].accumulates())
        accumulated_.insert(value);
    }
    if (frame_.bytes > 0)
      out_.program.frame = addSegment({SegmentSource::Kind::frame}, "frame", frame_.bytes);
  }

  void placeResults(Operation *op) {
    if (isView(op) || isa<JoinOp>(op)) // have their places
      return;
    for (Value result : op->getResults())
      if (const Value whole = frame_.inResults.lookup(result))
        placeLike(result, whole);
      else if (frame_.inPlace.contains(op))
        placeLike(result, op->getOperand(0));
      else
        placeInFrame(result);
  }

  // Where another value lies, which is gone by then or not yet there.
  void placeLike(Value value, Value other) {
    const Place place = placeOf(other);
    places_[value] = newValue(place.segment, place.offset, place.stride);
  }

  void placeInFrame(Value value) {
    if (auto it = frame_.offsets.find(value); it != frame_.offsets.end())
      places_[value] = newValue(out_.program.frame, it->second);
  }

  Place placeOf(Value value) const {
    View view = viewOf(value);
    if (view.base == value)
      return places_.at(value);
    Place place = placeOf(view.base);
    place.offset += view.offset * bytesOfElement(value);
    return place;
  }
  Place workspaceOf(Operation *op) { return newValue(out_.program.frame, frame_.workspaces.at(op)); }
  Place newValue(int64_t segment, int64_t offset = 0, int64_t stride = 0) {
    return {segment, offset, stride, values_++};
  }

  // "layer.forward/einsum h.{}.attn.c_attn.weight[q]": a matrix product is known by its parameter, an op by its name.
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
  void add(plan::InstructionBody body, std::vector<Place> operands) {
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
        .Case<InstructionOpInterface>([&](InstructionOpInterface instruction) { return emitCall(instruction); })
        .Case<KernelOp>([&](KernelOp kernel) { return emitKernel(kernel); })
        .Case<TileOp>([&](TileOp tile) { return emitTile(tile); })
        .Case<RenameOp, PartsOp, JoinOp>([](Operation *) { return Status::ok(); })
        .Case<PackOp, UnpackOp>([&](Operation *packing) { return emitPacking(packing); })
        .Default([](Operation *) { return Status::error("is no op of the phase fuse"); });
  }

  Status emitCall(InstructionOpInterface op) {
    InstructionCall call = op.getCall();
    if (accumulated_.contains(op->getResult(0)) && !accumulate(call.body))
      return Status::error("adds to its result, which its instruction cannot");
    std::vector<Place> operands = placesOf(call.operands);
    if (workspaceBytes(op) > 0)
      operands.push_back(workspaceOf(op));
    add(std::move(call.body), std::move(operands));
    return Status::ok();
  }

  // Whether the kind can add to its result; those of ops that can (LibraryOpInterface::canAccumulate) do.
  static bool accumulate(plan::InstructionBody &body) {
    return std::visit(
        [](auto &kind) {
          constexpr bool can = requires { kind.accumulate; };
          if constexpr (can)
            kind.accumulate = true;
          return can;
        },
        body);
  }

  // --- Row kernels
  Status emitKernel(KernelOp op) {
    RowEmitter emitter(*op.getSpace());
    if (op.getNumber())
      emitter.countRows(op.getNumber());
    mlir::Block &body = op.getBody().front();
    llvm::DenseMap<Value, Value> leaving; // value inside -> result
    for (auto [inside, result] : llvm::zip(body.getTerminator()->getOperands(), op.getResults())) {
      bool accumulates = accumulated_.contains(result);
      leaving[inside] = result;
      emitter.store(inside, accumulates ? rowgen::Access::accumulate : rowgen::Access::out, viewOf(result).pitch);
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
    rowgen::KernelInfo info = rowgen::describeKernel(emitter.graph());
    plan::RowKernel kernel;
    kernel.range = info.range;
    kernel.scalars = emitter.scalars();
    kernel.flops = info.flops;
    kernel.bytes = info.bytes;
    kernel.uses = std::move(info.operands);
    std::vector<Place> operands;
    for (const RowEmitter::Operand &operand : emitter.operands())
      operands.push_back(placeOf(leaving.contains(operand.value) ? leaving.lookup(operand.value) : operand.value));
    kernels_.uses.push_back({number_, out_.program.instructions.size(), kernels_.graphs.size()});
    kernels_.graphs.push_back(
        {fmt::format("k{}_{}", kernels_.graphs.size(), names.substr(0, 80)), std::move(emitter.graph())});
    add(kernel, operands);
    return Status::ok();
  }

  // --- Tiles
  Status emitTile(TileOp op) {
    placeParts(op);
    const auto begin = int64_t(out_.program.instructions.size());
    MGC_TRY(emitBlock(op.getBody().front()));
    const auto end = int64_t(out_.program.instructions.size());
    if (end > begin)
      out_.program.repeats.push_back({begin, end, int64_t(op.getCount())});
    return Status::ok();
  }

  void placeParts(TileOp op) {
    for (auto [value, argument] : llvm::zip(op.getValues(), op.getBody().getArguments()))
      places_[argument] = inTile(placeOf(value), bytesOf(argument.getType()));
    for (auto [i, value] : llvm::enumerate(op.getYield().getOperands())) {
      Value result = op.getResult(i);
      bool isSum = op.isSum(i);
      if (isSum && !accumulated_.contains(result))
        addFill(result);
      if (isSum)
        accumulated_.insert(value);
      places_[storageOf(value)] = inTile(placeOf(result), isSum ? 0 : bytesOf(value.getType()));
    }
  }

  static Place inTile(Place place, int64_t stride) {
    place.stride = stride;
    return place;
  }

  void addFill(Value value) {
    plan::Move fill;
    fill.kind = plan::Move::Kind::fill;
    fill.bytes = bytesOf(value.getType());
    add(fill, {placeOf(value)});
  }

  // --- Scalars side by side
  Status emitPacking(Operation *op) {
    plan::Move move;
    move.bytes = bytesOfElement(op->getOperand(0));
    const bool packs = isa<PackOp>(op);
    const Place whole = placeOf(packs ? op->getResult(0) : op->getOperand(0));
    for (auto [i, part] : llvm::enumerate(placesOf(packs ? ValueRange(op->getOperands()) : op->getResults()))) {
      Place element = whole;
      element.offset += int64_t(i) * move.bytes;
      add(move, packs ? std::vector<Place>{part, element} : std::vector<Place>{element, part});
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
  int64_t values_ = 0; // number of values so far
  llvm::DenseMap<Value, Place> places_;
  llvm::DenseSet<Value> accumulated_; // results that are added to their place
};

} // namespace

Result<AssembledProgram> assembleProgram(func::FuncOp function, const FunctionFrame &frame, const BlockFunction *block,
                                         size_t number, KernelGraphs &kernels) {
  return ProgramBuilder(function, frame, block, number, kernels).run();
}

} // namespace mgc
