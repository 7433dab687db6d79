// Computes the part of each tensor that a rank writes to a checkpoint: docs/checkpoints.md, Chunks. Together the ranks
// write each element once.
#pragma once

#include "runtime/checkpoint/Box.h"
#include "runtime/checkpoint/ParameterShard.h"

namespace mgc {

// `count` elements of a box, row-major, from element `file` of the tensor on: a bucket of the rank's stage has them from
// `element` on.
struct StateRun {
  int64_t file = 0, count = 0;
  int64_t bucket = 0, element = 0;
  bool operator==(const StateRun &) const = default;
};

// A box of a tensor; its runs, one after another, are all its elements.
struct StateChunk {
  Box box;
  std::vector<StateRun> runs;
};

struct TensorChunks {
  FileTensor tensor; // points into the plan
  std::vector<StateChunk> chunks;
};

// The tensors of fileTensors(plan) of which the rank writes something, in their order; chunks by where they begin.
std::vector<TensorChunks> chunksOf(const plan::Plan &plan, int64_t rank);

} // namespace mgc
