// Cudnn: the functions of libcudnn that the plugin uses, its handle on a device, and its graphs: operations on tensors, for which
// the library finds one kernel.
//
// The backend API is used as it is: its C++ layer (cudnn-frontend) is one more download for every machine that builds, and needs
// the CUDA runtime, for what are two graphs here.
#pragma once

#include "runtime/device/cuda/Internal.h"

#include <cudnn.h>

#include <deque>
#include <optional>
#include <span>

// clang-format off
#define MGC_CUDNN_FUNCTIONS(F) \
  F(cudnnCreate) F(cudnnDestroy) F(cudnnSetStream) F(cudnnGetVersion) F(cudnnGetErrorString) \
  F(cudnnGetLastErrorString) F(cudnnBackendCreateDescriptor) F(cudnnBackendDestroyDescriptor) \
  F(cudnnBackendSetAttribute) F(cudnnBackendGetAttribute) F(cudnnBackendFinalize) \
  F(cudnnBackendExecute)
// clang-format on

namespace mgc::cuda {

struct CudnnTable {
  MGC_CUDNN_FUNCTIONS(MGC_FUNCTION_FIELD)
  static Result<const CudnnTable *> get(); // opened once
};

// The type of an attribute's elements, by that of their C++ type.
template <typename T> inline constexpr cudnnBackendAttributeType_t kCudnnType = {};
template <> inline constexpr auto kCudnnType<cudnnBackendDescriptor_t> = CUDNN_TYPE_BACKEND_DESCRIPTOR;
template <> inline constexpr auto kCudnnType<int64_t> = CUDNN_TYPE_INT64;
template <> inline constexpr auto kCudnnType<bool> = CUDNN_TYPE_BOOLEAN;
template <> inline constexpr auto kCudnnType<char> = CUDNN_TYPE_CHAR;
template <> inline constexpr auto kCudnnType<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <> inline constexpr auto kCudnnType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <> inline constexpr auto kCudnnType<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <> inline constexpr auto kCudnnType<cudnnReduceTensorOp_t> = CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
template <> inline constexpr auto kCudnnType<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;

// An object of the backend API. After an error, which `status` keeps, calls do nothing.
class CudnnDescriptor {
public:
  CudnnDescriptor(const CudnnTable &api, cudnnBackendDescriptorType_t type);
  CudnnDescriptor(CudnnDescriptor &&other) noexcept
      : api_(other.api_), handle_(std::exchange(other.handle_, nullptr)), status_(std::move(other.status_)) {}
  CudnnDescriptor &operator=(CudnnDescriptor &&other) noexcept;
  ~CudnnDescriptor();

  template <typename T> void set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    setRaw(name, kCudnnType<T>, static_cast<int64_t>(values.size()), values.data());
  }
  template <typename T> void set(cudnnBackendAttributeName_t name, const T &value) {
    setRaw(name, kCudnnType<T>, 1, &value);
  }
  void setPointers(cudnnBackendAttributeName_t name, std::span<void *const> values) {
    setRaw(name, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(values.size()), values.data());
  }
  void finalize();

  // At most `count` elements; gives how many there are to get.
  template <typename T> int64_t get(cudnnBackendAttributeName_t name, int64_t count, T *values) const {
    int64_t got = 0;
    const auto result = api_->cudnnBackendGetAttribute(handle_, name, kCudnnType<T>, count, &got, values);
    return result == CUDNN_STATUS_SUCCESS ? got : 0;
  }

  cudnnBackendDescriptor_t handle() const { return handle_; }
  const Status &status() const { return status_; }

private:
  void setRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void *values);
  void check(cudnnStatus_t result, std::string_view what);

  const CudnnTable *api_;
  cudnnBackendDescriptor_t handle_ = nullptr;
  Status status_;
};

// The library on one device.
class Cudnn {
public:
  explicit Cudnn(const CudnnTable &api) : api(api) {}
  ~Cudnn();
  Cudnn(const Cudnn &) = delete;
  Cudnn &operator=(const Cudnn &) = delete;

  // The device's, opened when it is first asked for. It takes device memory in addition to the plan's.
  static Result<std::shared_ptr<Cudnn>> of(mgc_device &device);
  // Without a device: for finding plans, and their workspaces, for the device that `properties` (JSON) describes.
  static Result<std::shared_ptr<Cudnn>> without(std::string_view properties);

  const CudnnTable &api;
  cudnnHandle_t handle = nullptr;
  std::optional<CudnnDescriptor> properties; // in place of a handle
  std::mutex mutex;                          // guards the handle while its stream is set and used
};

using CudnnShape = std::array<int64_t, 4>;

// A dense tensor has `strides` of denseStrides(shape).
struct CudnnLayout {
  CudnnShape shape = {1, 1, 1, 1}, strides = {1, 1, 1, 1};
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
};
CudnnShape denseStrides(const CudnnShape &shape);

// Operations on tensors of four dimensions, then a plan for them. Arithmetic is f32. After an error calls do nothing; `choose`
// gives it.
class CudnnGraph {
public:
  struct Tensor {
    cudnnBackendDescriptor_t handle = nullptr;
    CudnnLayout layout;
  };

  explicit CudnnGraph(std::shared_ptr<Cudnn> cudnn) : cudnn_(std::move(cudnn)) {}

  Tensor memory(int64_t id, const CudnnLayout &layout); // its address is given to `run`
  Tensor constant(float value);
  Tensor wholeConstant(int32_t value);
  // A tensor between two operations.
  Tensor between(const CudnnLayout &layout);
  Tensor between(const CudnnShape &shape, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return between({shape, denseStrides(shape), type});
  }

  // to <- a [.., m, k] b [.., k, n].
  void multiply(const Tensor &a, const Tensor &b, const Tensor &to);
  // to <- the sum or maximum along the dimensions in which it is 1, or fewer than x.
  void reduce(cudnnReduceTensorOp_t operation, const Tensor &x, const Tensor &to);
  // to <- x with other strides.
  void reshape(const Tensor &x, const Tensor &to);
  void apply(cudnnPointwiseMode_t mode, const Tensor &x, const Tensor *b, const Tensor &to,
             const Tensor *predicate = nullptr, cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT);
  Tensor apply(cudnnPointwiseMode_t mode, const Tensor &x, const Tensor &b); // between, like x
  Tensor apply(cudnnPointwiseMode_t mode, const Tensor &x);
  // The gradient of x, of that of a function of it.
  Tensor applyBackward(cudnnPointwiseMode_t mode, const Tensor &gradient, const Tensor &x);
  // Where each element of x is along an axis, i32.
  Tensor indexAlong(int64_t axis, const Tensor &x);

  // The library's first choice whose workspace fits. Its notes do not say whose bits differ from run to run: the graph decides.
  Status choose(int64_t workspaceBytes);
  int64_t workspaceBytes() const { return workspaceBytes_; }

  struct Address {
    int64_t id;
    mgc_address address;
  };
  Status run(mgc_stream &stream, std::span<const Address> addresses, mgc_address workspace);

private:
  CudnnDescriptor make(cudnnBackendDescriptorType_t type) { return CudnnDescriptor(cudnn_->api, type); }
  Tensor keepTensor(int64_t id, const CudnnLayout &layout, bool isVirtual, bool isByValue);
  Tensor keepConstant(uint32_t bits, cudnnDataType_t type);
  void keepOperation(CudnnDescriptor operation);
  cudnnBackendDescriptor_t keep(CudnnDescriptor descriptor);
  Result<CudnnDescriptor> finishGraph();
  std::vector<CudnnDescriptor> candidates(const CudnnDescriptor &graph, cudnnBackendHeurMode_t mode);
  bool take(const CudnnDescriptor &configuration, int64_t workspaceBytes, std::string &reasons);

  std::shared_ptr<Cudnn> cudnn_;
  std::deque<CudnnDescriptor> kept_; // the descriptors that others refer to
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::deque<uint32_t> constants_; // their bits
  std::vector<int64_t> constantIds_;
  int64_t nextId_ = 1000; // tensors in memory have smaller ids
  Status status_;
  std::optional<CudnnDescriptor> plan_;
  int64_t workspaceBytes_ = 0;
};

} // namespace mgc::cuda
