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
#pragma once

#include "compiler/program/Blocks.h"
#include "compiler/schedule/Schedule.h"

namespace mgc {

class ChunkLayout {
public:
  static constexpr int64_t kFlow = schedule::kBufferKinds,
                           kForwardFlow = kFlow + 1; // further kinds of places
  struct Offset {
    // schedule::BufferKind, kFlow or kForwardFlow; -1: in no buffer of the chunk (parameters, data, results).
    int64_t buffer = -1;
    int64_t offset = 0;
  };

  explicit ChunkLayout(std::vector<Instance> instances);

  const std::vector<Instance> &instances() const { return instances_; }
  const std::vector<const ModelBlock *> &blocks() const { return blocks_; } // each once
  const schedule::Sizes &bytes() const { return bytes_; }
  // Whether an instance's function for the task does something.
  bool computes(plan::Task task) const;
  // Bytes that an instance of the block adds to activations, where it is not the first, and to split values.
  static int64_t keptBytes(const ModelBlock &block);
  static int64_t splitBytes(const ModelBlock &block);
  int64_t flowBytes() const { return 2 * flowHalf_; }
  int64_t forwardFlowBytes() const { return 2 * forwardFlowHalf_; }
  Offset argument(size_t instance, const BlockFunction &function, size_t argument) const;
  Offset result(size_t instance, const BlockFunction &function, size_t result) const;

private:
  Offset activation(size_t instance, int64_t index) const; // a value that enters an instance
  Offset out(size_t instance, int64_t index) const;        // a value that leaves an instance
  // The gradient of a value that enters an instance; a value without gradient has no bytes.
  Offset gradient(size_t instance, int64_t index) const;
  Offset saved(size_t instance, int64_t index) const;

  std::vector<Instance> instances_;
  std::vector<const ModelBlock *> blocks_;
  schedule::Sizes bytes_ = {};
  int64_t flowHalf_ = 0, forwardFlowHalf_ = 0;
  // Per block, by index: offsets of activations, outs, gradients of both, saved and split values from the start of their group;
  // then the bytes of the group.
  struct BlockOffsets {
    std::vector<int64_t> in, out, gradientOfIn, gradientOfOut, saved, split;
  };
  std::map<const ModelBlock *, BlockOffsets> offsets_;
  std::vector<int64_t> entering_, savedStart_, splitStart_; // per instance: start of its groups
  std::vector<bool> isKept_;                                // per instance: what enters it is saved for backward
};

} // namespace mgc
