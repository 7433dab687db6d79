// The tensors of training state that a checkpoint has of each tensor of the model: docs/checkpoints.md, Shards.
#pragma once

#include "runtime/checkpoint/BucketBuffer.h"
#include "runtime/checkpoint/ParameterShard.h"
#include "runtime/io/Tensor.h"

namespace mgc {

// Named and typed in the file; `buffer` is where the ranks have it.
struct StateTensor {
  std::string name;
  BucketBuffer::Kind buffer = BucketBuffer::Kind::masters;
  ElementType type = ElementType::F32;
  int64_t bytes(int64_t elements) const { return elements * sizeInBytes(type); }
};

// The name in the file of the tensor's state in such a buffer.
std::string stateName(const std::string &tensor, BucketBuffer::Kind buffer);

// All of `tensor`, one of fileTensors(plan): its weights, and the moments where AdamW updates it.
std::vector<StateTensor> stateOf(const plan::Plan &plan, const FileTensor &tensor);

// Bytes of a checkpoint's tensors.
int64_t stateBytes(const plan::Plan &plan);

} // namespace mgc
