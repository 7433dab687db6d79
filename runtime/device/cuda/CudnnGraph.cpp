// Graphs of cuDNN: see Cudnn.h.
#include "runtime/device/cuda/Cudnn.h"

#include <algorithm>
#include <bit>

namespace mgc::cuda {

namespace {

constexpr int64_t kAlignment = 16; // alignment of addresses, in bytes
constexpr int64_t kMostCandidates = 16;

} // namespace

CudnnShape denseStrides(const CudnnShape &shape) {
  return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
}

// --- Tensors.

cudnnBackendDescriptor_t CudnnGraph::keep(CudnnDescriptor descriptor) {
  if (status_.isOk() && !descriptor.status().isOk())
    status_ = descriptor.status();
  kept_.push_back(std::move(descriptor));
  return kept_.back().handle();
}

CudnnGraph::Tensor CudnnGraph::keepTensor(int64_t id, const CudnnLayout &layout, bool isVirtual, bool isByValue) {
  CudnnDescriptor tensor = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, layout.type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(layout.shape));
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(layout.strides));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, isVirtual);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, isByValue);
  tensor.finalize();
  return {keep(std::move(tensor)), layout};
}

CudnnGraph::Tensor CudnnGraph::memory(int64_t id, const CudnnLayout &layout) {
  return keepTensor(id, layout, false, false);
}

CudnnGraph::Tensor CudnnGraph::keepConstant(uint32_t bits, cudnnDataType_t type) {
  constants_.push_back(bits);
  constantIds_.push_back(nextId_);
  return keepTensor(nextId_++, {.type = type}, false, true);
}

CudnnGraph::Tensor CudnnGraph::constant(float value) {
  return keepConstant(std::bit_cast<uint32_t>(value), CUDNN_DATA_FLOAT);
}

CudnnGraph::Tensor CudnnGraph::wholeConstant(int32_t value) {
  return keepConstant(std::bit_cast<uint32_t>(value), CUDNN_DATA_INT32);
}

CudnnGraph::Tensor CudnnGraph::between(const CudnnLayout &layout) { return keepTensor(nextId_++, layout, true, false); }

// --- Operations.

void CudnnGraph::keepOperation(CudnnDescriptor operation) {
  operation.finalize();
  operations_.push_back(keep(std::move(operation)));
}

void CudnnGraph::multiply(const Tensor &a, const Tensor &b, const Tensor &to) {
  CudnnDescriptor kind = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  kind.finalize();
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.handle);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.handle);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, to.handle);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(kind)));
  keepOperation(std::move(operation));
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t reduction, const Tensor &x, const Tensor &to) {
  CudnnDescriptor kind = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, reduction);
  kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  kind.finalize();
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.handle);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, to.handle);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(kind)));
  keepOperation(std::move(operation));
}

void CudnnGraph::reshape(const Tensor &x, const Tensor &to) {
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.handle);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, to.handle);
  keepOperation(std::move(operation));
}

void CudnnGraph::apply(cudnnPointwiseMode_t mode, const Tensor &x, const Tensor *b, const Tensor &to,
                       const Tensor *predicate, cudnnDataType_t arithmetic) {
  CudnnDescriptor kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, arithmetic);
  kind.finalize();
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(kind)));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.handle);
  if (b)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->handle);
  if (predicate)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, predicate->handle);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to.handle);
  keepOperation(std::move(operation));
}

CudnnGraph::Tensor CudnnGraph::apply(cudnnPointwiseMode_t mode, const Tensor &x, const Tensor &b) {
  const Tensor to = between(x.layout.shape);
  apply(mode, x, &b, to);
  return to;
}

CudnnGraph::Tensor CudnnGraph::apply(cudnnPointwiseMode_t mode, const Tensor &x) {
  const Tensor to = between(x.layout.shape);
  apply(mode, x, nullptr, to);
  return to;
}

CudnnGraph::Tensor CudnnGraph::applyBackward(cudnnPointwiseMode_t mode, const Tensor &gradient, const Tensor &x) {
  CudnnDescriptor kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  kind.finalize();
  const Tensor to = between(x.layout.shape);
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(kind)));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, gradient.handle);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.handle);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, to.handle);
  keepOperation(std::move(operation));
  return to;
}

CudnnGraph::Tensor CudnnGraph::indexAlong(int64_t axis, const Tensor &x) {
  const Tensor to = between(x.layout.shape, CUDNN_DATA_INT32);
  CudnnDescriptor kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  kind.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  kind.finalize();
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(kind)));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.handle);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to.handle);
  keepOperation(std::move(operation));
  return to;
}

// --- The plan.

Result<CudnnDescriptor> CudnnGraph::finishGraph() {
  MGC_TRY(Status(status_));
  CudnnDescriptor graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<const cudnnBackendDescriptor_t>(operations_));
  if (cudnn_->handle)
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, cudnn_->handle);
  graph.finalize();
  MGC_TRY(Status(graph.status()));
  return graph;
}

// The engine configurations that the library proposes, best first.
std::vector<CudnnDescriptor> CudnnGraph::candidates(const CudnnDescriptor &graph, cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.handle());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (cudnn_->properties)
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, cudnn_->properties->handle());
  heuristics.finalize();
  if (!heuristics.status().isOk())
    return {};
  std::vector<CudnnDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < kMostCandidates; ++i) {
    found.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    handles.push_back(found.back().handle());
  }
  const int64_t count = heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, kMostCandidates, handles.data());
  found.erase(found.begin() + std::clamp<int64_t>(count, 0, kMostCandidates), found.end());
  return found;
}

// Whether the plan of a configuration can be had and run; if not, `reasons` grows.
bool CudnnGraph::take(const CudnnDescriptor &configuration, int64_t workspaceBytes, std::string &reasons) {
  CudnnDescriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.handle());
  if (cudnn_->properties)
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, cudnn_->properties->handle());
  else
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, cudnn_->handle);
  plan.finalize();
  if (!plan.status().isOk()) {
    reasons += fmt::format("\n  {}", plan.status().message());
    return false;
  }
  int64_t bytes = 0;
  plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1, &bytes);
  if (bytes > workspaceBytes) {
    reasons += fmt::format("\n  a kernel needs {} bytes of workspace, there are {}", bytes, workspaceBytes);
    return false;
  }
  plan_ = std::move(plan);
  workspaceBytes_ = bytes;
  return true;
}

// The descriptors that a plan was made of stay as long as the plan.
Status CudnnGraph::choose(int64_t workspaceBytes) {
  MGC_ASSIGN(graph, finishGraph());
  kept_.push_back(std::move(graph));
  const CudnnDescriptor &whole = kept_.back();
  std::string reasons;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (CudnnDescriptor &candidate : candidates(whole, mode))
      if (take(candidate, workspaceBytes, reasons)) {
        kept_.push_back(std::move(candidate));
        return Status::ok();
      }
  return errorf("cuDNN {} has no kernel for it:{}", cudnn_->api.cudnnGetVersion(),
                reasons.empty() ? " it proposes none" : reasons);
}

Status CudnnGraph::run(mgc_stream &stream, std::span<const Address> addresses, mgc_address workspace) {
  std::vector<int64_t> ids = constantIds_;
  std::vector<void *> pointers;
  for (uint32_t &bits : constants_)
    pointers.push_back(&bits);
  for (const Address &operand : addresses) {
    ids.push_back(operand.id);
    pointers.push_back(reinterpret_cast<void *>(operand.address));
  }
  CudnnDescriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(ids));
  pack.setPointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers);
  pack.setPointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::array{reinterpret_cast<void *>(workspace)});
  pack.finalize();
  MGC_TRY(Status(pack.status()));
  std::lock_guard lock(cudnn_->mutex);
  cudnnStatus_t result = cudnn_->api.cudnnSetStream(cudnn_->handle, reinterpret_cast<cudaStream_t>(stream.handle));
  if (result == CUDNN_STATUS_SUCCESS)
    result = cudnn_->api.cudnnBackendExecute(cudnn_->handle, plan_->handle(), pack.handle());
  if (result != CUDNN_STATUS_SUCCESS)
    return errorf("{}: cuDNN {}: {}", stream.device->name, cudnn_->api.cudnnGetVersion(),
                  cudnn_->api.cudnnGetErrorString(result));
  return Status::ok();
}

} // namespace mgc::cuda
