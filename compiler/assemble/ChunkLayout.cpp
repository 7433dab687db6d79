// See ChunkLayout.h.
#include "compiler/assemble/ChunkLayout.h"

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
  void add(int64_t bytes) {
    offsets_.push_back(plan::aligned(end_));
    end_ = offsets_.back() + bytes;
  }
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

ChunkLayout::ChunkLayout(std::vector<Instance> instances) : instances_(std::move(instances)) {
  int64_t &activation = bytes_[kind(BufferKind::activation)], &split = bytes_[kind(BufferKind::split)];
  for (size_t i = 0; i < instances_.size(); ++i) {
    const ModelBlock &block = *instances_[i].block;
    auto [it, isNew] = offsets_.try_emplace(&block);
    BlockOffsets &offsets = it->second;
    if (isNew) {
      blocks_.push_back(&block);
      offsets = {activationOffsets(block),
                 resultOffsets(block.forward, Res::out),
                 offsetsOfDins(block),
                 offsetsOfDouts(block.forward),
                 resultOffsets(block.forward, Res::saved),
                 resultOffsets(block.input, Res::split)};
    }
    isKept_.push_back(i == 0 || savesActivation(block));
    entering_.push_back(i == 0 ? 0 : isKept_[i] ? activation : int64_t(i % 2)); // or the half of the flow
    if (i > 0) {
      if (isKept_[i])
        activation += plan::aligned(offsets.in.back());
      else
        forwardFlowHalf_ = std::max(forwardFlowHalf_, plan::aligned(offsets.in.back()));
      flowHalf_ = std::max(flowHalf_, plan::aligned(offsets.gradientOfIn.back()));
    }
    savedStart_.push_back(activation);
    activation += plan::aligned(offsets.saved.back());
    splitStart_.push_back(split);
    split += plan::aligned(offsets.split.back());
  }
  const BlockOffsets &front = offsets_.at(instances_.front().block), &back = offsets_.at(instances_.back().block);
  bytes_[kind(BufferKind::input)] = front.in.back();
  bytes_[kind(BufferKind::output)] = back.out.back();
  bytes_[kind(BufferKind::gradientOut)] = front.gradientOfIn.back();
  bytes_[kind(BufferKind::gradientIn)] = back.gradientOfOut.back();
}

int64_t ChunkLayout::keptBytes(const ModelBlock &block) {
  const int64_t entering = savesActivation(block) ? plan::aligned(activationOffsets(block).back()) : 0;
  return entering + plan::aligned(resultOffsets(block.forward, Res::saved).back());
}
int64_t ChunkLayout::splitBytes(const ModelBlock &block) {
  return plan::aligned(resultOffsets(block.input, Res::split).back());
}

bool ChunkLayout::computes(plan::Task task) const {
  return llvm::any_of(blocks_, [&](const ModelBlock *block) { return block->computes(task); });
}

ChunkLayout::Offset ChunkLayout::activation(size_t instance, int64_t index) const {
  const int64_t inside = offsets_.at(instances_[instance].block).in[index];
  if (!isKept_[instance])
    return {kForwardFlow, entering_[instance] * forwardFlowHalf_ + inside};
  const int64_t offset = entering_[instance] + inside;
  return {kind(instance == 0 ? BufferKind::input : BufferKind::activation), offset};
}

ChunkLayout::Offset ChunkLayout::out(size_t instance, int64_t index) const {
  if (instance + 1 < instances_.size())
    return activation(instance + 1, index);
  return {kind(BufferKind::output), offsets_.at(instances_[instance].block).out[index]};
}

ChunkLayout::Offset ChunkLayout::gradient(size_t instance, int64_t index) const {
  if (instance == instances_.size())
    return {kind(BufferKind::gradientIn), offsets_.at(instances_.back().block).gradientOfOut[index]};
  int64_t offset = offsets_.at(instances_[instance].block).gradientOfIn[index];
  if (instance == 0)
    return {kind(BufferKind::gradientOut), offset};
  return {kFlow, int64_t(instance % 2) * flowHalf_ + offset};
}

ChunkLayout::Offset ChunkLayout::saved(size_t instance, int64_t index) const {
  const ModelBlock &block = *instances_[instance].block;
  const BlockFunction::Result &result = block.forward.results[block.forward.resultsOf(Res::saved)[index]];
  if (result.activation >= 0)
    return activation(instance, result.activation);
  return {kind(BufferKind::activation), savedStart_[instance] + offsets_.at(&block).saved[index]};
}

ChunkLayout::Offset ChunkLayout::argument(size_t instance, const BlockFunction &function, size_t argument) const {
  const auto &[what, index, isFrozen] = function.arguments[argument];
  switch (what) {
  case Arg::activation:
    return activation(instance, index);
  case Arg::dout:
    return gradient(instance + 1, index);
  case Arg::saved:
    return saved(instance, index);
  case Arg::split:
    return {kind(BufferKind::split), splitStart_[instance] + offsets_.at(instances_[instance].block).split[index]};
  case Arg::data:
  case Arg::parameter:
    return {};
  }
  return {};
}

ChunkLayout::Offset ChunkLayout::result(size_t instance, const BlockFunction &function, size_t number) const {
  const BlockFunction::Result &result = function.results[number];
  switch (result.kind) {
  case Res::out:
    return out(instance, result.index);
  case Res::saved:
    return saved(instance, result.index);
  case Res::din:
    return gradient(instance, result.index);
  case Res::split:
    return {kind(BufferKind::split),
            splitStart_[instance] + offsets_.at(instances_[instance].block).split[result.index]};
  case Res::lossSum:
  case Res::tokens:
  case Res::term:
  case Res::grad:
    return {};
  }
  return {};
}
