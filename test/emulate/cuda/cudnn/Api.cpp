// The stand-in of libcudnn: the backend API's descriptors as they are set, one kernel for every graph of matrix
// products, reductions, reshapes and pointwise operations, and a workspace that must be given. It does not know for
// which graphs the library has kernels; test/runtime/device/cuda/CudnnAttentionTest.cpp asks the library itself.
#include "test/emulate/cuda/cudnn/Graph.h"

#include <algorithm>
#include <cstring>

using namespace mgc::emulate;

namespace {

constexpr int64_t kWorkspaceBytes = 256;

struct Descriptor {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  std::map<int, std::vector<char>> attributes;

  template <typename T> std::vector<T> all(int name) const {
    const auto found = attributes.find(name);
    std::vector<T> values(found == attributes.end() ? 0 : found->second.size() / sizeof(T));
    if (!values.empty())
      std::memcpy(values.data(), found->second.data(), values.size() * sizeof(T));
    return values;
  }
  template <typename T> T get(int name, T otherwise = {}) const {
    const auto found = attributes.find(name);
    if (found != attributes.end() && found->second.size() >= sizeof(T))
      std::memcpy(&otherwise, found->second.data(), sizeof(T));
    return otherwise;
  }
  bool has(int name) const { return attributes.count(name) != 0; }
  const Descriptor &at(int name) const { return *static_cast<const Descriptor *>(get<void *>(name)); }
};

struct Handle {
  cudaStream_t stream = nullptr;
};

size_t sizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
  case CUDNN_TYPE_CHAR:
    return 1;
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_DOUBLE:
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    return 8;
  default:
    return 4;
  }
}

Tensor tensorOf(const Descriptor &descriptor) {
  Tensor tensor;
  tensor.id = descriptor.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.type = descriptor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  const auto shape = descriptor.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
             strides = descriptor.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  std::copy_n(shape.begin(), 4, tensor.shape.begin());
  std::copy_n(strides.begin(), 4, tensor.strides.begin());
  tensor.isVirtual = descriptor.get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  tensor.isByValue = descriptor.get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  return tensor;
}

Operation operationOf(const Descriptor &d) {
  Operation o;
  switch (d.type) {
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    o.kind = Operation::Kind::multiply, o.hasB = true;
    o.x = tensorOf(d.at(CUDNN_ATTR_OPERATION_MATMUL_ADESC)), o.b = tensorOf(d.at(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    o.to = tensorOf(d.at(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    return o;
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    o.kind = Operation::Kind::reduce;
    o.mode = d.at(CUDNN_ATTR_OPERATION_REDUCTION_DESC).get<int>(CUDNN_ATTR_REDUCTION_OPERATOR);
    o.x = tensorOf(d.at(CUDNN_ATTR_OPERATION_REDUCTION_XDESC)),
    o.to = tensorOf(d.at(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    return o;
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    o.kind = Operation::Kind::reshape;
    o.x = tensorOf(d.at(CUDNN_ATTR_OPERATION_RESHAPE_XDESC)), o.to = tensorOf(d.at(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    return o;
  default:
    break;
  }
  const Descriptor &kind = d.at(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  o.mode = kind.get<int>(CUDNN_ATTR_POINTWISE_MODE), o.axis = kind.get<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
  const bool isBackward = d.has(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC); // b is then the gradient
  const auto second = isBackward ? CUDNN_ATTR_OPERATION_POINTWISE_DYDESC : CUDNN_ATTR_OPERATION_POINTWISE_BDESC;
  o.x = tensorOf(d.at(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
  o.to = tensorOf(d.at(isBackward ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC : CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  if ((o.hasB = d.has(second)))
    o.b = tensorOf(d.at(second));
  if ((o.hasPredicate = d.has(CUDNN_ATTR_OPERATION_POINTWISE_TDESC)))
    o.predicate = tensorOf(d.at(CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
  return o;
}

// As the library's kernels read it, whatever type its tensor has: what is added to a query's index is i32, all else f32.
float constantOf(const Graph &graph, const Operation &user, const void *value) {
  const bool isShiftOfQuery = std::ranges::any_of(graph.operations, [&](const Operation &o) {
    return o.kind == Operation::Kind::apply && o.mode == CUDNN_POINTWISE_GEN_INDEX && o.axis == 2 &&
           user.mode == CUDNN_POINTWISE_ADD && user.x.id == o.to.id;
  });
  return isShiftOfQuery ? static_cast<float>(*static_cast<const int32_t *>(value)) : *static_cast<const float *>(value);
}

// Constants are read now, memory when it runs.
cudnnStatus_t bind(const Descriptor &pack, Graph &graph) {
  const auto ids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<int64_t, void *> given;
  for (size_t i = 0; i < ids.size(); ++i)
    given[ids[i]] = pointers[i];
  for (const Operation &o : graph.operations)
    for (const Tensor &tensor : {o.x, o.b, o.predicate, o.to}) {
      if (tensor.isVirtual || tensor.count() == 0)
        continue;
      if (!given.count(tensor.id))
        return CUDNN_STATUS_BAD_PARAM;
      if (tensor.isByValue)
        graph.constants[tensor.id] = constantOf(graph, o, given[tensor.id]);
      else
        graph.addresses[tensor.id] = reinterpret_cast<CUdeviceptr>(given[tensor.id]);
    }
  return CUDNN_STATUS_SUCCESS;
}

Descriptor &of(cudnnBackendDescriptor_t descriptor) { return *static_cast<Descriptor *>(descriptor); }

} // namespace

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }

const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "success" : "failure of the stand-in";
}

void cudnnGetLastErrorString(char *message, size_t size) {
  if (size)
    message[0] = 0;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new Handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<Handle *>(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  reinterpret_cast<Handle *>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor) {
  *descriptor = new Descriptor{type, {}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values) {
  const char *begin = static_cast<const char *>(values);
  of(descriptor).attributes[name].assign(begin, begin + count * static_cast<int64_t>(sizeOf(type)));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }

// One configuration for a graph, of the first mode only.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t wanted, int64_t *count, void *values) {
  *count = 0;
  const Descriptor &self = of(descriptor);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *count = 1;
    std::memcpy(values, &kWorkspaceBytes, sizeof kWorkspaceBytes);
  } else if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && wanted > 0 &&
             self.get<int>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A) {
    *count = 1;
    of(*static_cast<cudnnBackendDescriptor_t *>(values)).attributes[CUDNN_ATTR_ENGINECFG_ENGINE] =
        self.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  } else if (name != CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const Descriptor &source = of(plan).at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).at(CUDNN_ATTR_ENGINECFG_ENGINE);
  Graph graph;
  for (void *operation : source.all<void *>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
    graph.operations.push_back(operationOf(of(operation)));
  if (const cudnnStatus_t status = bind(of(pack), graph); status != CUDNN_STATUS_SUCCESS)
    return status;
  const auto workspace = reinterpret_cast<CUdeviceptr>(of(pack).get<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
  const auto stream = reinterpret_cast<CUstream>(reinterpret_cast<Handle *>(handle)->stream);
  const CUresult result = mgcEmulateEnqueue(stream, [graph, workspace] {
    if (!mgcEmulateHost(workspace, kWorkspaceBytes, "workspace of a graph"))
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    return graph.run();
  });
  return result == CUDA_SUCCESS ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}
}
