// Values that a chunk keeps for each microbatch, and where. In: block instances in order. Out: bytes of the chunk's
// buffers (by schedule::BufferKind), and for every argument and result of every call the buffer and offset it
// is bound to.
//
//   input        activations that enter the chunk
//   activation   those between its instances, and saved values
//   output       activations that leave it
//   gradientIn   gradients of the output
//   gradientOut  gradients of the input
//   split        values that input halves pass to weight halves
//   flow         gradients between instances: lives only while a chunk runs; two halves, used alternately
//   forwardFlow  the same of activations between instances that no backward reads, as in front of frozen layers
//   recomputed   what the backward of a unit recomputes: lives only while the chunk runs
//   offloaded    of instances that are offloaded, what is on the host
//   staged       where it is made and read on the device: buffers that offloaded instances use in turn, two, or three where what
//                enters them is offloaded, for the instance before makes it while its own values are copied
#pragma once

#include "compiler/program/Blocks.h"
#include "compiler/schedule/Schedule.h"

namespace mgc {

class ChunkLayout {
public:
  static constexpr int64_t kFlow = schedule::kBufferKinds, kForwardFlow = kFlow + 1, kRecomputed = kFlow + 2,
                           kStaged = kFlow + 3; // further kinds of places
  struct Offset {
    // schedule::BufferKind, kFlow, kForwardFlow, kRecomputed or kStaged; -1: in no buffer of the chunk (parameters, data, results).
    int64_t buffer = -1;
    int64_t offset = 0;
  };

  // The call of a function for an instance in a run of the task. One of forward in another task recomputes values.
  struct Call {
    plan::Task task;
    size_t instance;
    const BlockFunction *function; // null: the instance has none for the task
    bool recomputes = false;
  };

  explicit ChunkLayout(std::vector<Instance> instances);

  const std::vector<Instance> &instances() const { return instances_; }
  const std::vector<const ModelBlock *> &blocks() const { return blocks_; } // each once
  // In their order: forward passes the instances in ascending order, all other tasks in descending order, and what a unit
  // recomputes comes in front of the call for its last instance.
  std::vector<Call> callsOf(plan::Task task) const;
  const schedule::Sizes &bytes() const { return bytes_; }
  // Whether an instance's function for the task does something.
  bool computes(plan::Task task) const;
  // Bytes that an instance of the block adds to activations, where it is not the first, and to split values.
  static int64_t keptBytes(const ModelBlock &block);
  static std::vector<int64_t> keptSizes(const ModelBlock &block); // bytes of each of these values
  static int64_t splitBytes(const ModelBlock &block);
  int64_t flowBytes() const { return 2 * flowHalf_; }
  int64_t forwardFlowBytes() const { return 2 * forwardFlowHalf_; }
  int64_t recomputedBytes() const { return recomputedBytes_; }
  int64_t stagedBytes() const { return stagedBuffers() * stagedHalf_; }
  // Values between the staged buffer of an instance and the host: all that its forward makes, those that another call reads.
  struct Moved {
    int64_t staged, host, bytes; // offsets in kStaged and in BufferKind::offloaded
  };
  std::vector<Moved> movedOf(const Call &call) const;
  // Where the staged buffer of an offloaded instance begins.
  int64_t stagedAt(size_t instance) const {
    return stagedHalf_ == 0 ? 0 : ordinal_[instance] % stagedBuffers() * stagedHalf_;
  }
  Offset argument(const Call &call, size_t argument) const;
  Offset result(const Call &call, size_t result) const;

private:
  // Per block, by index: offsets of activations, outs, gradients of both, saved and split values from the start of their group;
  // then the bytes of the group. Values that are moved are a group of their own.
  struct BlockOffsets {
    std::vector<int64_t> in, out, gradientOfIn, gradientOfOut, saved, split;
    bool entersMoved = false;
    std::vector<bool> isMoved;                      // by index of saved
    std::vector<std::pair<int64_t, int64_t>> moved; // offset and bytes, what enters first
    int64_t movedBytes = 0;
  };
  static BlockOffsets offsetsFor(const ModelBlock &block, bool isOffloaded, bool isFirst);
  Offset activation(plan::Task task, size_t instance, int64_t index) const; // a value that enters an instance
  Offset out(const Call &call, int64_t index) const;                        // a value that leaves an instance
  // The gradient of a value that enters an instance; a value without gradient has no bytes.
  Offset gradient(size_t instance, int64_t index) const;
  Offset saved(const Call &call, int64_t index) const;
  const ModelBlock &blockOf(const Call &call) const;
  int64_t stagedBuffers() const { return std::min<int64_t>(offloaded_, entersMoved_ ? 3 : 2); }
  const BlockOffsets &addBlock(const ModelBlock &block, size_t instance); // computes them once
  const BlockOffsets &offsetsAt(size_t instance) const { return offsetsAt(*instances_[instance].block, instance); }
  const BlockOffsets &offsetsAt(const ModelBlock &block, size_t instance) const {
    return offsets_.at(keyOf(block, instance));
  }
  using Key = std::tuple<const ModelBlock *, bool, bool>; // offloaded, the first of the chunk
  Key keyOf(const ModelBlock &block, size_t instance) const {
    return {&block, instances_[instance].isOffloaded, instances_[instance].isOffloaded && instance == 0};
  }

  std::vector<Instance> instances_;
  std::vector<const ModelBlock *> blocks_;
  schedule::Sizes bytes_ = {};
  int64_t flowHalf_ = 0, forwardFlowHalf_ = 0, recomputedBytes_ = 0, stagedHalf_ = 0;
  bool entersMoved_ = false; // some instance has its entering values on the host
  int64_t offloaded_ = 0;    // instances
  std::map<Key, BlockOffsets> offsets_;
  std::vector<int64_t> entering_, savedStart_, splitStart_;   // per instance: start of its groups
  std::vector<int64_t> enteringRecomputed_, savedRecomputed_; // starts of what a unit recomputes
  std::vector<int64_t> hostStart_, ordinal_;                  // offloaded ones: start on the host, number among them
  std::vector<bool> isKept_;                                  // per instance: what enters it is saved for backward
};

} // namespace mgc
