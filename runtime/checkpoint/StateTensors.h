// The tensors of training state that a checkpoint has of each tensor of the model: docs/checkpoints.md, Shards.
#pragma once

#include "runtime/checkpoint/BucketBuffer.h"
#include "runtime/checkpoint/ParameterShard.h"
#include "runtime/io/Tensor.h"

namespace mgc {

// Named and typed in the file; `buffer` is where the ranks have it.
struct StateTensor {
  std::string name;
  StateOf buffer = weightsOf;
  ElementType type = ElementType::F32;
  bool isWeight = true; // else something that the optimizer keeps
  int64_t bytes(int64_t elements) const { return elements * sizeInBytes(type); }
};

// The name in the file of what the optimizer keeps of the tensor under the name `state`.
std::string stateName(const std::string &tensor, const std::string &state);

// All of `tensor`, one of fileTensors(plan): its weights, and what the optimizer keeps of it.
std::vector<StateTensor> stateOf(const plan::Plan &plan, const FileTensor &tensor);

// Bytes of a checkpoint's tensors.
int64_t stateBytes(const plan::Plan &plan);

} // namespace mgc
