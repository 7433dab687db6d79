// The frame of a GPU's kernel, and its accesses to memory: 16 bytes at once where an operand allows, else elements.
#include "codegen/rows/gpu/EmitGpu.h"
#include "codegen/rows/loops/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "plan/instructions/RowKernelInstruction.h"

namespace mgc::rowgen {

using namespace mlir;

static constexpr unsigned kGlobalMemory = 1, kSharedMemory = 3; // address spaces
static constexpr int64_t kMostBlocks = INT32_MAX;
static constexpr int64_t kMostBytes = 16; // the widest access; a longer vector takes several
// Shared memory of a block that a kernel of every GPU may declare; more is asked for at a launch, and GPUs differ in how
// much there is.
static constexpr int64_t kMostSharedBytes = 48 << 10;

// Alignment in bytes of a vector's address.
static int64_t alignmentOf(Element element, int64_t width) { return std::min(width * bytesOf(element), kMostBytes); }

Status emitGpuKernel(gpu::GPUModuleOp module, const std::string &symbol, const LoopLayout &layout) {
  return GpuEmitter(module, layout).emit(symbol);
}

Status GpuEmitter::emit(const std::string &symbol) {
  if (shape_.blocks > kMostBlocks)
    return errorf("kernel {}: {} blocks, a launch has at most {}", symbol, shape_.blocks, kMostBlocks);
  gpu::GPUFuncOp function = makeFunction(symbol);
  emitKernelValues();
  if (graph_.count())
    whereRowsAre([&] { emitVersions(); });
  else
    emitVersions();
  b_.setInsertionPointToEnd(&function.getBody().back());
  gpu::ReturnOp::create(b_, loc_);
  addFacts(symbol);
  if (const int64_t bytes = 4 * sharedFloats_; bytes > kMostSharedBytes)
    return errorf("kernel {}: its sums over rows need {} bytes of shared memory of a block; expected at most {}, which "
                  "every GPU has: fewer sums, as --no-fusion makes",
                  symbol, bytes, kMostSharedBytes);
  return error_.empty() ? Status::ok() : errorf("kernel {}: {}", symbol, error_);
}

// A block that has none of the rows that there are does nothing; its threads agree on that.
void GpuEmitter::whereRowsAre(const std::function<void()> &body) {
  const bool areRows = layout_.form() == LoopLayout::Form::rows;
  const bool isFlat = !areRows && layout_.firstColumn() == 0;
  const int64_t all = areRows ? layout_.rows() : isFlat ? layout_.innerSize() : layout_.rows() * shape_.vectors;
  there_ = fit(countedRange(all / graph_[Dim{0}].size, isFlat ? shape_.width : 1));
  Value first = times(block_, areRows ? shape_.rowsAtOnce() : shape_.threads * shape_.unroll);
  onlyIf(arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::ult, first, there_), body);
}

void GpuEmitter::emitVersions() {
  if (Value aligned = isAligned()) {
    auto versions = scf::IfOp::create(b_, loc_, aligned, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPoint(versions.thenBlock()->getTerminator());
    emitForm();
    b_.setInsertionPoint(versions.elseBlock()->getTerminator());
    aligned_ = false;
    emitForm();
  } else {
    emitForm();
  }
}

gpu::GPUFuncOp GpuEmitter::makeFunction(const std::string &symbol) {
  Type pointer = LLVM::LLVMPointerType::get(b_.getContext(), kGlobalMemory);
  const size_t operands = graph_.operands().size();
  SmallVector<Type> types(operands, pointer);
  types.append(layout_.info().scalars, b_.getI64Type());
  b_.setInsertionPointToEnd(module_.getBody());
  auto function = gpu::GPUFuncOp::create(b_, loc_, symbol, b_.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b_.getUnitAttr());
  function.setKnownBlockSizeAttr(b_.getDenseI32ArrayAttr({int32_t(shape_.threads), 1, 1}));
  b_.setInsertionPointToStart(&function.getBody().front());
  for (BlockArgument argument : function.getArguments())
    (argument.getArgNumber() < operands ? operands_ : scalars_).push_back(argument);
  // Positions fit i32 unless there are very many: 64 bits cost several instructions each.
  bool isLarge = layout_.rows() * shape_.vectors > INT32_MAX - shape_.threads * shape_.unroll;
  auto number = [&](Value value) -> Value {
    Type type = isLarge ? b_.getI64Type() : b_.getI32Type();
    return arith::IndexCastUIOp::create(b_, loc_, type, value);
  };
  thread_ = number(gpu::ThreadIdOp::create(b_, loc_, gpu::Dimension::x));
  block_ = number(gpu::BlockIdOp::create(b_, loc_, gpu::Dimension::x));
  sharedName_ = symbol + "_shared";
  return function;
}

void GpuEmitter::emitForm() {
  uniforms_.clear();
  kept_.clear();
  reducedFloats_ = 0;
  waited_ = false;
  rowIsInside_ = {};
  if (layout_.form() == LoopLayout::Form::rows)
    emitRows();
  else if (layout_.form() == LoopLayout::Form::blocks)
    emitBlocks();
  else
    emitColumns();
}

// Globals with the facts of plan::RowKernel (needs and launch), and the block's shared memory.
void GpuEmitter::addFacts(const std::string &symbol) {
  b_.setInsertionPointToEnd(module_.getBody());
  auto addArray = [&](std::string_view suffix, ArrayRef<int64_t> values) {
    auto type = LLVM::LLVMArrayType::get(b_.getI64Type(), values.size());
    LLVM::GlobalOp::create(b_, loc_, type, /*isConstant=*/true, LLVM::Linkage::External, symbol + std::string(suffix),
                           b_.getI64TensorAttr(values), /*alignment=*/8, kGlobalMemory);
  };
  addArray(plan::kNeedsSuffix, needsOf(layout_.info()));
  addArray(plan::kLaunchSuffix, {shape_.blocks, shape_.threads, /*dynamic shared memory=*/0});
  if (sharedFloats_ > 0)
    LLVM::GlobalOp::create(b_, loc_, LLVM::LLVMArrayType::get(b_.getF32Type(), sharedFloats_),
                           /*isConstant=*/false, LLVM::Linkage::Internal, sharedName_, Attribute(),
                           /*alignment=*/16, kSharedMemory);
}

// --- Accesses ----------------------------------------------------------------------------------------------

// Do its vectors begin at multiples of their size, if the operand does?
bool GpuEmitter::mayBeVector(RowOperand operand, const std::vector<At> &at) const {
  if (shape_.width == 1 || layout_.innerStride(operand, at) != 1)
    return false;
  auto divides = [&](int64_t elements) { return elements % shape_.width == 0; };
  for (size_t number = 0; number + 1 < layout_.loops().size(); ++number)
    if (!divides(layout_.stride(operand, at, number)))
      return false;
  for (const At &position : at) {
    const int64_t *constant = std::get_if<int64_t>(&position.index);
    if (!divides(layout_.stride(operand, position.dim) * (constant ? *constant : 1)))
      return false;
  }
  return true;
}

// i1; null: nothing asks for it.
Value GpuEmitter::isAligned() {
  std::vector<int64_t> masks(graph_.operands().size());
  auto look = [&](RowOperand operand, const std::vector<At> &at) {
    if (mayBeVector(operand, at))
      masks[operand.id] = alignmentOf(graph_[operand].element, shape_.width) - 1;
  };
  for (int id = 0; id < int(graph_.nodes().size()); ++id)
    if (const RowGraph::NodeInfo &node = graph_[Node{id}];
        layout_.isUsed({id}) && layout_.varies({id}) && node.kind == RowGraph::NodeKind::load)
      look(node.operand, node.at);
  for (const RowGraph::Effect &effect : graph_.effects())
    look(effect.operand, effect.at);
  Value rests;
  for (size_t number = 0; number < masks.size(); ++number) {
    if (masks[number] == 0)
      continue;
    Value address = LLVM::PtrToIntOp::create(b_, loc_, b_.getI64Type(), operands_[number]);
    Value rest = arith::AndIOp::create(b_, loc_, address, i64(masks[number]));
    rests = rests ? arith::OrIOp::create(b_, loc_, rests, rest).getResult() : rest;
  }
  return rests ? arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::eq, rests, i64(0)).getResult() : Value();
}

Value GpuEmitter::elementAddress(Value base, Element element, int64_t number) {
  return LLVM::GEPOp::create(b_, loc_, base.getType(), memoryType(element), base,
                             ArrayRef<LLVM::GEPArg>{int32_t(number)});
}

Value GpuEmitter::loadVector(Value base, RowOperand operand, const std::vector<At> &at, const Lanes &lanes) {
  const Element element = graph_[operand].element;
  const int64_t stride = layout_.innerStride(operand, at);
  if (stride == 0 || lanes.width == 1)
    return splat(loadElement(base, element), lanes.width);
  if (aligned_ && mayBeVector(operand, at))
    return loadWords(base, element, lanes.width);
  Values elements;
  for (int64_t lane = 0; lane < lanes.width; ++lane)
    elements.push_back(loadElement(elementAddress(base, element, lane * stride), element));
  return vector::FromElementsOp::create(b_, loc_, VectorType::get({lanes.width}, elements[0].getType()), elements);
}

void GpuEmitter::storeVectorTo(Value base, RowOperand operand, const std::vector<At> &at, Value value,
                               const Lanes &lanes) {
  const Element element = graph_[operand].element;
  if (aligned_ && lanes.width > 1 && mayBeVector(operand, at))
    return storeWords(base, element, value);
  for (int64_t lane = 0; lane < lanes.width; ++lane) {
    Value single = vector::ExtractOp::create(b_, loc_, value, ArrayRef<int64_t>{lane});
    Value address = elementAddress(base, element, lane * layout_.innerStride(operand, at));
    LLVM::StoreOp::create(b_, loc_, toMemory(element, single), address, unsigned(bytesOf(element)));
  }
}

// Pairs of bf16 in words: the lower half comes first.
Value GpuEmitter::loadWords(Value base, Element element, int64_t width) {
  const unsigned alignment = unsigned(alignmentOf(element, width));
  if (element != Element::bf16)
    return LLVM::LoadOp::create(b_, loc_, vectorType(element, width), base, alignment);
  auto type = VectorType::get({width / 2}, b_.getI32Type());
  return unpacked(LLVM::LoadOp::create(b_, loc_, type, base, alignment));
}

Value GpuEmitter::unpacked(Value words) {
  auto type = cast<VectorType>(words.getType());
  const int64_t width = 2 * type.getDimSize(0);
  Value first = arith::ShLIOp::create(b_, loc_, words, constantOf(type, 16));
  Value second = arith::AndIOp::create(b_, loc_, words, constantOf(type, double(0xffff0000)));
  SmallVector<int64_t> order;
  for (int64_t pair = 0; pair < width / 2; ++pair)
    order.append({pair, pair + width / 2});
  Value bits = vector::ShuffleOp::create(b_, loc_, first, second, order);
  return arith::BitcastOp::create(b_, loc_, vectorType(Element::f32, width), bits);
}

Value GpuEmitter::packed(Value value) {
  const int64_t width = cast<VectorType>(value.getType()).getDimSize(0);
  Values words;
  for (int64_t pair = 0; pair < width / 2; ++pair) {
    Value first = vector::ExtractOp::create(b_, loc_, value, ArrayRef<int64_t>{2 * pair});
    Value second = vector::ExtractOp::create(b_, loc_, value, ArrayRef<int64_t>{2 * pair + 1});
    Value both = LLVM::CallIntrinsicOp::create(b_, loc_, VectorType::get({2}, b_.getBF16Type()),
                                               b_.getStringAttr("llvm.nvvm.ff2bf16x2.rn"), ValueRange{second, first})
                     .getResult(0);
    words.push_back(LLVM::BitcastOp::create(b_, loc_, b_.getI32Type(), both));
  }
  return vector::FromElementsOp::create(b_, loc_, VectorType::get({width / 2}, b_.getI32Type()), words);
}

void GpuEmitter::storeWords(Value base, Element element, Value value) {
  const int64_t width = cast<VectorType>(value.getType()).getDimSize(0);
  const unsigned alignment = unsigned(alignmentOf(element, width));
  LLVM::StoreOp::create(b_, loc_, element == Element::bf16 ? packed(value) : value, base, alignment);
}

// Packed as they are stored, values take half of the registers until they are read.
Value GpuEmitter::rounded(Value value) {
  auto lanes = dyn_cast<VectorType>(value.getType());
  return lanes && lanes.getDimSize(0) % 2 == 0 ? unpacked(packed(value)) : KernelEmitter::rounded(value);
}

// The GPU rounds by itself.
Value GpuEmitter::toMemory(Element element, Value value) {
  if (element != Element::bf16)
    return value;
  Value rounded = arith::TruncFOp::create(b_, loc_, shapedLike(value, b_.getBF16Type()), value);
  return arith::BitcastOp::create(b_, loc_, shapedLike(value, b_.getI16Type()), rounded);
}

} // namespace mgc::rowgen
