// See Graph.h.
#include "test/emulate/cuda/cudnn/Graph.h"

#include <cmath>
#include <cstring>

namespace mgc::emulate {

namespace {

using Index = std::array<int64_t, 4>;
using Values = std::vector<float>; // dense, in the order of the shape

int64_t place(const Index &at, const std::array<int64_t, 4> &strides) {
  return at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3];
}

std::array<int64_t, 4> dense(const std::array<int64_t, 4> &shape) {
  return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
}

template <typename Body> void eachIndex(const std::array<int64_t, 4> &shape, const Body &body) {
  int64_t flat = 0;
  for (Index at = {}; at[0] < shape[0]; ++at[0])
    for (at[1] = 0; at[1] < shape[1]; ++at[1])
      for (at[2] = 0; at[2] < shape[2]; ++at[2])
        for (at[3] = 0; at[3] < shape[3]; ++at[3])
          body(at, flat++);
}

float rounded(float value, cudnnDataType_t type) {
  if (type != CUDNN_DATA_BFLOAT16 || value != value)
    return value;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

// Where an element of a larger shape lies in one with fewer heads, rows or columns: heads are shared by neighbours.
int64_t shared(const Index &at, const std::array<int64_t, 4> &of, const Tensor &tensor) {
  Index mine;
  for (int i = 0; i < 4; ++i)
    mine[i] = at[i] * tensor.shape[i] / of[i];
  return place(mine, dense(tensor.shape));
}

float pointwise(int mode, float x, float b, bool predicate) {
  switch (mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_EXP:
    return std::exp(x);
  case CUDNN_POINTWISE_LOG:
    return std::log(x);
  case CUDNN_POINTWISE_TANH_FWD:
    return std::tanh(x);
  case CUDNN_POINTWISE_TANH_BWD: // b: the gradient of tanh(x)
    return b * (1 - std::tanh(x) * std::tanh(x));
  case CUDNN_POINTWISE_IDENTITY:
    return x;
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  case CUDNN_POINTWISE_CMP_GT:
    return x > b;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return predicate ? x : b;
  default:
    return NAN;
  }
}

class Run {
public:
  explicit Run(const Graph &graph) : graph_(graph) {}
  CUresult all() {
    for (const Operation &operation : graph_.operations)
      if (!one(operation))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    return CUDA_SUCCESS;
  }

private:
  const Graph &graph_;
  std::map<int64_t, Values> between_;

  bool one(const Operation &operation) {
    Values x, b, predicate, to(operation.to.count());
    if (!read(operation.x, x) || (operation.hasB && !read(operation.b, b)) ||
        (operation.hasPredicate && !read(operation.predicate, predicate)))
      return false;
    switch (operation.kind) {
    case Operation::Kind::multiply:
      if (isSummedUp(operation.to) && !read(operation.to, to))
        return false;
      multiply(operation, x, b, to);
      break;
    case Operation::Kind::reduce:
      reduce(operation, x, to);
      break;
    case Operation::Kind::reshape:
      reshape(operation, x, to);
      break;
    case Operation::Kind::apply:
      apply(operation, x, b, predicate, to);
      break;
    }
    return write(operation.to, to);
  }

  static void multiply(const Operation &o, const Values &x, const Values &b, Values &to) {
    const int64_t depth = o.x.shape[3];
    eachIndex(o.to.shape, [&](const Index &at, int64_t flat) {
      const int64_t left = shared({at[0], at[1], 0, 0}, {o.to.shape[0], o.to.shape[1], 1, 1}, o.x) + at[2] * depth;
      const int64_t right = shared({at[0], at[1], 0, 0}, {o.to.shape[0], o.to.shape[1], 1, 1}, o.b) + at[3];
      float sum = 0;
      for (int64_t p = 0; p < depth; ++p)
        sum += x[left + p] * b[right + p * o.b.shape[3]];
      to[flat] = isSummedUp(o.to) ? to[flat] + sum : sum;
    });
  }

  // As the library's kernels, which share out the depth of a product in memory and add to what is there.
  static bool isSummedUp(const Tensor &tensor) { return !tensor.isVirtual && tensor.type == CUDNN_DATA_FLOAT; }

  static void reduce(const Operation &o, const Values &x, Values &to) {
    const bool isMaximum = o.mode == CUDNN_REDUCE_TENSOR_MAX;
    std::fill(to.begin(), to.end(), isMaximum ? -INFINITY : 0.0f);
    eachIndex(o.x.shape, [&](const Index &at, int64_t flat) {
      float &result = to[shared(at, o.x.shape, o.to)];
      result = isMaximum ? std::max(result, x[flat]) : result + x[flat];
    });
  }

  // Elements stay where they are in memory, as the strides of both have it.
  static void reshape(const Operation &o, const Values &x, Values &to) {
    Values memory(o.x.span());
    eachIndex(o.x.shape, [&](const Index &at, int64_t flat) { memory[place(at, o.x.strides)] = x[flat]; });
    eachIndex(o.to.shape, [&](const Index &at, int64_t flat) { to[flat] = memory.at(place(at, o.to.strides)); });
  }

  static void apply(const Operation &o, const Values &x, const Values &b, const Values &predicate, Values &to) {
    eachIndex(o.to.shape, [&](const Index &at, int64_t flat) {
      if (o.mode == CUDNN_POINTWISE_GEN_INDEX)
        to[flat] = static_cast<float>(at[o.axis]);
      else
        to[flat] = pointwise(o.mode, x[shared(at, o.to.shape, o.x)], o.hasB ? b[shared(at, o.to.shape, o.b)] : 0,
                             o.hasPredicate && predicate[shared(at, o.to.shape, o.predicate)] != 0);
    });
  }

  void *host(const Tensor &tensor) const {
    const auto address = graph_.addresses.find(tensor.id);
    const size_t bytes = tensor.type == CUDNN_DATA_BFLOAT16 ? 2 : 4;
    return address == graph_.addresses.end()
               ? nullptr
               : mgcEmulateHost(address->second, tensor.span() * bytes, "tensor of a graph");
  }

  bool read(const Tensor &tensor, Values &values) {
    if (tensor.isByValue) {
      values.assign(1, graph_.constants.at(tensor.id));
      return true;
    }
    if (tensor.isVirtual) {
      values = between_.at(tensor.id);
      return true;
    }
    const void *memory = host(tensor);
    values.resize(tensor.count());
    if (memory)
      eachIndex(tensor.shape, [&](const Index &at, int64_t flat) { values[flat] = element(memory, tensor, at); });
    return memory != nullptr;
  }

  static float element(const void *memory, const Tensor &tensor, const Index &at) {
    const int64_t offset = place(at, tensor.strides);
    if (tensor.type == CUDNN_DATA_FLOAT)
      return static_cast<const float *>(memory)[offset];
    const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t *>(memory)[offset]) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  bool write(const Tensor &tensor, Values &values) {
    for (float &value : values)
      value = rounded(value, tensor.type);
    if (tensor.isVirtual) {
      between_[tensor.id] = std::move(values);
      return true;
    }
    void *memory = host(tensor);
    if (!memory)
      return false;
    eachIndex(tensor.shape, [&](const Index &at, int64_t flat) {
      const int64_t offset = place(at, tensor.strides);
      if (tensor.type == CUDNN_DATA_FLOAT)
        static_cast<float *>(memory)[offset] = values[flat];
      else
        std::memcpy(static_cast<uint16_t *>(memory) + offset, reinterpret_cast<const char *>(&values[flat]) + 2, 2);
    });
    return true;
  }
};

} // namespace

int64_t Tensor::span() const {
  if (count() == 0)
    return 0;
  return place({shape[0] - 1, shape[1] - 1, shape[2] - 1, shape[3] - 1}, strides) + 1;
}

CUresult Graph::run() const { return Run(*this).all(); }

} // namespace mgc::emulate
