// See ChunkLayout.h.
#include "compiler/assemble/ChunkLayout.h"

#include <set>

using namespace mlir;
using namespace mgc;

using schedule::BufferKind;
using Arg = BlockFunction::ArgumentKind;
using Res = BlockFunction::ResultKind;

namespace {

int64_t kind(BufferKind buffer) { return int64_t(buffer); }

// Aligned offsets of values laid side by side, then the end of the last: what a message of them carries.
class OffsetGroup {
public:
  int64_t add(int64_t bytes) { // returns where it lies
    offsets_.push_back(plan::aligned(end_));
    end_ = offsets_.back() + bytes;
    return offsets_.back();
  }
  int64_t end() const { return end_; }
  std::vector<int64_t> finish() {
    offsets_.push_back(end_);
    return std::move(offsets_);
  }

private:
  std::vector<int64_t> offsets_;
  int64_t end_ = 0;
};

std::vector<int64_t> resultOffsets(const BlockFunction &function, Res wanted) {
  OffsetGroup group;
  if (function)
    for (auto [i, result] : llvm::enumerate(function.results))
      if (result.kind == wanted)
        group.add(result.activation >= 0 ? 0 : bytesOf(function.resultType(i)));
  return group.finish();
}

std::vector<int64_t> activationOffsets(const ModelBlock &block) {
  OffsetGroup group;
  for (int64_t argument : block.activations)
    group.add(bytesOf(block.forward.argumentType(argument)));
  return group.finish();
}

// Whether backward reads some activation that the block takes.
bool savesActivation(const ModelBlock &block) {
  return llvm::any_of(block.forward.results,
                      [](const BlockFunction::Result &result) { return result.activation >= 0; });
}

// Offsets of the gradients of the values that enter the block and of those that leave it.
std::vector<int64_t> offsetsOfDins(const ModelBlock &block) {
  OffsetGroup group;
  for (int64_t argument : block.activations)
    group.add(block.forward.arguments[argument].frozen ? 0 : bytesOf(block.forward.argumentType(argument)));
  return group.finish();
}
std::vector<int64_t> offsetsOfDouts(const BlockFunction &forward) {
  OffsetGroup group;
  for (int64_t i : forward.resultsOf(Res::out))
    group.add(forward.results[i].frozen ? 0 : bytesOf(forward.resultType(i)));
  return group.finish();
}

} // namespace

ChunkLayout::BlockOffsets ChunkLayout::offsetsFor(const ModelBlock &block, bool isOffloaded, bool isFirst) {
  BlockOffsets offsets = {activationOffsets(block),
                          resultOffsets(block.forward, Res::out),
                          offsetsOfDins(block),
                          offsetsOfDouts(block.forward),
                          {},
                          resultOffsets(block.input, Res::split)};
  OffsetGroup saved, moved;
  const auto move = [&](int64_t bytes) {
    offsets.moved.emplace_back(moved.add(bytes), bytes);
    return offsets.moved.back().first;
  };
  std::vector<BlockFunction::Result> results;
  llvm::copy_if(block.forward.results, std::back_inserter(results),
                [](const BlockFunction::Result &result) { return result.kind == Res::saved; });
  offsets.entersMoved =
      isOffloaded && !isFirst && block.activations.size() == 1 &&
      llvm::any_of(results, [](const auto &result) { return result.offloaded && result.activation >= 0; });
  if (offsets.entersMoved)
    move(offsets.in.back());
  for (auto [result, number] : llvm::zip(results, block.forward.resultsOf(Res::saved))) {
    const int64_t bytes = result.activation >= 0 ? 0 : bytesOf(block.forward.resultType(number));
    offsets.isMoved.push_back(isOffloaded && result.offloaded && result.activation < 0);
    offsets.saved.push_back(offsets.isMoved.back() ? move(bytes) : saved.add(bytes));
  }
  offsets.saved.push_back(saved.end());
  offsets.movedBytes = moved.end();
  return offsets;
}

const ChunkLayout::BlockOffsets &ChunkLayout::addBlock(const ModelBlock &block, size_t instance) {
  if (!llvm::is_contained(blocks_, &block))
    blocks_.push_back(&block);
  const Key key = keyOf(block, instance);
  auto it = offsets_.find(key);
  if (it == offsets_.end())
    it = offsets_.emplace(key, offsetsFor(block, std::get<1>(key), std::get<2>(key))).first;
  return it->second;
}

ChunkLayout::ChunkLayout(std::vector<Instance> instances) : instances_(std::move(instances)) {
  int64_t &activation = bytes_[kind(BufferKind::activation)], &split = bytes_[kind(BufferKind::split)];
  int64_t &offloaded = bytes_[kind(BufferKind::offloaded)];
  int64_t recomputed = 0; // bytes of the unit so far
  for (size_t i = 0; i < instances_.size(); ++i) {
    const ModelBlock &block = *instances_[i].block;
    const BlockOffsets &offsets = addBlock(block, i);
    const bool continuesUnit = instances_[i].continuesUnit;
    isKept_.push_back(i == 0 || (savesActivation(block) && !continuesUnit && !offsets.entersMoved));
    entering_.push_back(i == 0 ? 0 : isKept_[i] ? activation : int64_t(i % 2)); // or the half of the flow
    const int64_t entering = plan::aligned(offsets.in.back());
    if (i > 0) {
      if (isKept_[i])
        activation += entering;
      else if (!offsets.entersMoved)
        forwardFlowHalf_ = std::max(forwardFlowHalf_, entering);
      flowHalf_ = std::max(flowHalf_, plan::aligned(offsets.gradientOfIn.back()));
    }
    savedStart_.push_back(activation);
    activation += plan::aligned(offsets.saved.back());
    splitStart_.push_back(split);
    split += plan::aligned(offsets.split.back());
    enteringRecomputed_.push_back(continuesUnit ? recomputed : 0);
    recomputed = continuesUnit ? recomputed + entering : 0;
    savedRecomputed_.push_back(recomputed);
    if (instances_[i].recomputed)
      recomputed += plan::aligned(addBlock(*instances_[i].recomputed, i).saved.back());
    recomputedBytes_ = std::max(recomputedBytes_, recomputed);
    hostStart_.push_back(offloaded);
    ordinal_.push_back(offloaded_);
    offloaded_ += instances_[i].isOffloaded;
    offloaded += plan::aligned(offsets.movedBytes);
    stagedHalf_ = std::max(stagedHalf_, plan::aligned(offsets.movedBytes));
    entersMoved_ |= offsets.entersMoved;
  }
  const BlockOffsets &front = offsetsAt(0), &back = offsetsAt(instances_.size() - 1);
  bytes_[kind(BufferKind::input)] = front.in.back();
  bytes_[kind(BufferKind::output)] = back.out.back();
  bytes_[kind(BufferKind::gradientOut)] = front.gradientOfIn.back();
  bytes_[kind(BufferKind::gradientIn)] = back.gradientOfOut.back();
}

std::vector<ChunkLayout::Call> ChunkLayout::callsOf(plan::Task task) const {
  std::vector<Call> calls;
  const size_t count = instances_.size();
  for (size_t n = 0; n < count; ++n) {
    const size_t i = task == plan::Task::forward ? n : count - 1 - n;
    const bool isLast = i + 1 == count || !instances_[i + 1].continuesUnit;
    if (task == plan::Task::backward && isLast && instances_[i].continuesUnit) {
      size_t first = i;
      while (instances_[first].continuesUnit)
        --first;
      for (; first < i; ++first)
        calls.push_back({task, first, &instances_[first].recomputed->forward, true});
    }
    calls.push_back({task, i, instances_[i].functionOf(task)});
  }
  return calls;
}

int64_t ChunkLayout::keptBytes(const ModelBlock &block) {
  const int64_t entering = savesActivation(block) ? plan::aligned(activationOffsets(block).back()) : 0;
  return entering + plan::aligned(resultOffsets(block.forward, Res::saved).back());
}
std::vector<int64_t> ChunkLayout::keptSizes(const ModelBlock &block) {
  std::vector<int64_t> sizes;
  if (savesActivation(block))
    for (const int64_t argument : block.activations)
      sizes.push_back(bytesOf(block.forward.argumentType(argument)));
  for (auto [i, result] : llvm::enumerate(block.forward.results))
    if (result.kind == Res::saved && result.activation < 0)
      sizes.push_back(bytesOf(block.forward.resultType(i)));
  return sizes;
}
int64_t ChunkLayout::splitBytes(const ModelBlock &block) {
  return plan::aligned(resultOffsets(block.input, Res::split).back());
}

bool ChunkLayout::computes(plan::Task task) const {
  return llvm::any_of(blocks_, [&](const ModelBlock *block) { return block->computes(task); });
}

std::vector<ChunkLayout::Moved> ChunkLayout::movedOf(const Call &call) const {
  std::vector<Moved> all;
  if (!instances_[call.instance].isOffloaded || !call.function)
    return all;
  std::set<int64_t> read; // offsets
  for (auto [i, taken] : llvm::enumerate(call.function->arguments))
    if (taken.kind == Arg::saved)
      if (const Offset at = argument(call, i); at.buffer == kStaged)
        read.insert(at.offset);
  for (const auto &[offset, bytes] : offsetsAt(call.instance).moved)
    if (const int64_t staged = stagedAt(call.instance) + offset;
        call.task == plan::Task::forward || read.contains(staged))
      all.push_back({staged, hostStart_[call.instance] + offset, bytes});
  return all;
}

const ModelBlock &ChunkLayout::blockOf(const Call &call) const {
  const Instance &instance = instances_[call.instance];
  return instance.recomputed && call.task != plan::Task::forward ? *instance.recomputed : *instance.block;
}

ChunkLayout::Offset ChunkLayout::activation(plan::Task task, size_t instance, int64_t index) const {
  const int64_t inside = offsetsAt(instance).in[index];
  if (offsetsAt(instance).entersMoved)
    return {kStaged, stagedAt(instance) + inside};
  if (isKept_[instance])
    return {kind(instance == 0 ? BufferKind::input : BufferKind::activation), entering_[instance] + inside};
  if (task != plan::Task::forward && instances_[instance].continuesUnit)
    return {kRecomputed, enteringRecomputed_[instance] + inside};
  return {kForwardFlow, entering_[instance] * forwardFlowHalf_ + inside};
}

ChunkLayout::Offset ChunkLayout::out(const Call &call, int64_t index) const {
  if (call.instance + 1 < instances_.size())
    return activation(call.task, call.instance + 1, index);
  return {kind(BufferKind::output), offsetsAt(call.instance).out[index]};
}

ChunkLayout::Offset ChunkLayout::gradient(size_t instance, int64_t index) const {
  if (instance == instances_.size())
    return {kind(BufferKind::gradientIn), offsetsAt(instances_.size() - 1).gradientOfOut[index]};
  int64_t offset = offsetsAt(instance).gradientOfIn[index];
  if (instance == 0)
    return {kind(BufferKind::gradientOut), offset};
  return {kFlow, int64_t(instance % 2) * flowHalf_ + offset};
}

ChunkLayout::Offset ChunkLayout::saved(const Call &call, int64_t index) const {
  const ModelBlock &block = blockOf(call);
  const BlockFunction::Result &result = block.forward.results[block.forward.resultsOf(Res::saved)[index]];
  if (result.activation >= 0)
    return activation(call.task, call.instance, result.activation);
  const BlockOffsets &offsets = offsetsAt(block, call.instance);
  const int64_t inside = offsets.saved[index];
  if (offsets.isMoved[index])
    return {kStaged, stagedAt(call.instance) + inside};
  if (&block != instances_[call.instance].block)
    return {kRecomputed, savedRecomputed_[call.instance] + inside};
  return {kind(BufferKind::activation), savedStart_[call.instance] + inside};
}

ChunkLayout::Offset ChunkLayout::argument(const Call &call, size_t argument) const {
  const auto &[what, index, isFrozen] = call.function->arguments[argument];
  switch (what) {
  case Arg::activation:
    return activation(call.task, call.instance, index);
  case Arg::dout:
    return gradient(call.instance + 1, index);
  case Arg::saved:
    return saved(call, index);
  case Arg::split:
    return {kind(BufferKind::split), splitStart_[call.instance] + offsetsAt(blockOf(call), call.instance).split[index]};
  case Arg::data:
  case Arg::parameter:
    return {};
  }
  return {};
}

ChunkLayout::Offset ChunkLayout::result(const Call &call, size_t number) const {
  const BlockFunction::Result &result = call.function->results[number];
  switch (result.kind) {
  case Res::out:
    return out(call, result.index);
  case Res::saved:
    return saved(call, result.index);
  case Res::din:
    return gradient(call.instance, result.index);
  case Res::split:
    return {kind(BufferKind::split),
            splitStart_[call.instance] + offsetsAt(blockOf(call), call.instance).split[result.index]};
  case Res::lossSum:
  case Res::tokens:
  case Res::term:
  case Res::grad:
    return {};
  }
  return {};
}
