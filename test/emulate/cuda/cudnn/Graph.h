// Graphs of cuDNN on host memory: operations on tensors of four dimensions, one after the other, in f32.
#pragma once

#include "test/emulate/cuda/driver/Hooks.h"

#include <array>
#include <cstdint>
#include <cudnn.h>
#include <map>
#include <vector>

namespace mgc::emulate {

struct Tensor {
  int64_t id = 0;
  std::array<int64_t, 4> shape = {}, strides = {};
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool isVirtual = false, isByValue = false;

  int64_t count() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  int64_t span() const; // elements from the first to the last
};

struct Operation {
  enum class Kind { multiply, reduce, reshape, apply } kind = Kind::apply;
  int mode = 0; // cudnnReduceTensorOp_t, cudnnPointwiseMode_t
  int64_t axis = 0;
  Tensor x, b, predicate, to; // multiply: x b
  bool hasB = false, hasPredicate = false;
};

struct Graph {
  std::vector<Operation> operations;
  std::map<int64_t, CUdeviceptr> addresses; // by the tensor's id
  std::map<int64_t, float> constants;
  CUresult run() const;
};

} // namespace mgc::emulate
