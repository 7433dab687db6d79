// Declarations for all parts of the plugin: the structs behind the handles of DeviceApi.h, and helpers for driver calls
// and for the plugin's own kernels. Functions behind the table have the parameters of the table's, without the error,
// and return a Status: CudaPlugin.cpp makes the one of the other.
#pragma once

#include "runtime/device/DeviceApi.h"
#include "runtime/device/cuda/Driver.h"

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mgc::cuda {

// PTX of the plugin's own kernels, made from kernels/NAME.cu by the build: `extern const OwnModule combineModule;`.
struct OwnModule {
  const char *name;
  const char *text;
};

struct KernelReport; // RowArguments.h
class CublasLt;      // CublasLt.h: the library and its handle on a device
class Cudnn;         // AttentionCalls.h

} // namespace mgc::cuda

struct mgc_device {
  const mgc::cuda::Driver *driver = nullptr;
  int32_t ordinal = 0;
  CUdevice device = 0;
  CUcontext context = nullptr; // the primary one, which libraries use too
  std::string kind;            // "NVIDIA H200"
  std::string name;            // "GPU 0 (NVIDIA H200)", for messages
  int32_t capability = 0;      // 90: 9.0
  int32_t multiprocessors = 0;
  int64_t sharedBytes = 0; // the most shared memory of a block
  bool deterministic = true;
  CUstream stream = nullptr;                 // for the device's own questions; never captured
  mgc::cuda::KernelReport *report = nullptr; // pinned: what a kernel found wrong in its data

  std::mutex failureMutex; // guards `failure`
  std::string failure;
  std::atomic<bool> hasFailed = false;

  std::mutex mutex; // guards the objects below, which are loaded and opened when first needed
  std::map<const mgc::cuda::OwnModule *, CUmodule> ownModules;
  std::map<std::pair<const mgc::cuda::OwnModule *, std::string>, CUfunction> ownKernels;
  std::shared_ptr<mgc::cuda::CublasLt> cublasLt;
  std::shared_ptr<mgc::cuda::Cudnn> cudnn;
  std::vector<CUfunction> combineKernels;          // by Combine.cpp
  std::map<std::string, int64_t> attentionChoices; // how often each was made, by AttentionCalls.cpp

  // Before every use of the driver on this device: the error that made the device fail, if one has; makes the context the
  // thread's.
  mgc::Status enter();
};

struct mgc_stream {
  mgc_device *device;
  CUstream handle;
};

struct mgc_event {
  mgc_device *device;
  CUevent handle;
  bool isTimed;
};

struct mgc_kernel {
  mgc_module *module;
  CUfunction function;
  std::string name;
};

struct mgc_module {
  mgc_device *device;
  CUmodule handle;
  std::mutex mutex; // guards `kernels`
  std::map<std::string, std::unique_ptr<mgc_kernel>> kernels;
};

namespace mgc::cuda {

// The error of a driver call, "GPU 0 (..): WHAT: NAME (description); help". A failure that the device does not survive stays.
Status driverError(mgc_device &device, CUresult result, std::string_view what);

// The status of a driver call; the rest says what was being done: check(device, driver.cuMemFree(p), "release of {:#x}", p).
template <typename... Args>
Status check(mgc_device &device, CUresult result, fmt::format_string<Args...> what, Args &&...args) {
  if (result == CUDA_SUCCESS)
    return Status::ok();
  return driverError(device, result, fmt::format(what, std::forward<Args>(args)...));
}

// --- The plugin's own kernels.

// A kernel of `module`, which is loaded at first use and stays with the device. Not while a graph is captured.
Result<CUfunction> ownKernel(mgc_device &device, const OwnModule &module, const char *symbol);

struct KernelLaunch {
  std::array<uint32_t, 3> blocks = {1, 1, 1};
  std::array<uint32_t, 3> threads = {1, 1, 1};
  uint32_t sharedBytes = 0; // dynamic. More than 48 KiB: after allowSharedBytes
};
Status allowSharedBytes(mgc_device &device, CUfunction function, int64_t bytes);
Status launchWith(mgc_stream &stream, CUfunction function, const KernelLaunch &launch, void **arguments,
                  std::string_view name);

// Arguments must have exactly the types of the kernel's parameters.
template <typename... Args>
Status launchOwn(mgc_stream &stream, CUfunction function, const KernelLaunch &launch, std::string_view name,
                 const Args &...args) {
  void *arguments[] = {const_cast<void *>(static_cast<const void *>(&args))...};
  return launchWith(stream, function, launch, arguments, name);
}

// The CUDA type's bytes.
constexpr int64_t bytesOf(mgc_type type) { return type == MGC_BF16 ? 2 : 4; }

// --- Device.cpp
Status deviceCount(int32_t *devices);
Status openDevice(int32_t ordinal, int32_t deterministic, mgc_device **device);
void closeDevice(mgc_device *device);
Status describeDevice(mgc_device *device, mgc_device_facts *facts);
Status checkDevice(mgc_device *device);

// --- Memory.cpp
Status allocate(mgc_device *device, int64_t bytes, mgc_address *address);
void release(mgc_device *device, mgc_address address);
Status allocateHost(mgc_device *device, int64_t bytes, void **data);
void releaseHost(mgc_device *device, void *data);
Status pin(mgc_device *device, void *data, int64_t bytes);
void unpin(mgc_device *device, void *data);
Status copyIn(mgc_stream *stream, mgc_address to, const void *from, int64_t bytes);
Status copyInNow(mgc_device &device, mgc_address to, const void *from,
                 int64_t bytes); // returns when it is there
Status copyOut(mgc_stream *stream, void *to, mgc_address from, int64_t bytes);
Status copy(mgc_stream *stream, mgc_address to, mgc_address from, int64_t bytes);
Status copyRows(mgc_stream *stream, mgc_address to, int64_t toPitch, mgc_address from, int64_t fromPitch, int64_t bytes,
                int64_t rows);
Status fill(mgc_stream *stream, mgc_address to, uint8_t byte, int64_t bytes);

// --- Streams.cpp
Status makeStream(mgc_device *device, int32_t highPriority, mgc_stream **stream);
void dropStream(mgc_stream *stream);
Status makeEvent(mgc_device *device, int32_t timed, mgc_event **event);
void dropEvent(mgc_event *event);
Status record(mgc_stream *stream, mgc_event *event);
Status wait(mgc_stream *stream, mgc_event *event);
Status query(mgc_event *event, int32_t *done);
Status milliseconds(mgc_event *begin, mgc_event *end, double *value);
Status synchronize(mgc_stream *stream, int64_t timeoutMs);
Status mark(mgc_stream *stream, uint32_t *host, uint32_t value);

// --- Modules.cpp
Status loadModule(mgc_device *device, const char *path, const char *text, int64_t bytes, mgc_module **module);
void dropModule(mgc_module *module);
Status findKernel(mgc_module *module, const char *symbol, mgc_kernel **kernel);
Status readArray(mgc_module *module, const char *symbol, int64_t *values, int64_t capacity, int64_t *count);
Status launch(mgc_stream *stream, mgc_kernel *kernel, int64_t blocks, int64_t threads, int64_t sharedBytes,
              const mgc_address *operands, int64_t operandCount, const int64_t *scalars, int64_t scalarCount);

// --- GemmCalls.cpp
Status chooseGemm(mgc_stream *stream, const mgc_gemm_facts *facts, mgc_address room, int64_t *roomNeeded,
                  int64_t *algorithm);
Status makeGemm(mgc_device *device, const mgc_gemm_facts *facts, mgc_gemm **gemm);
void dropGemm(mgc_gemm *gemm);
Status runGemm(mgc_stream *stream, mgc_gemm *gemm, const mgc_gemm_operands *operands);

// --- RowCalls.cpp
Status runGroupedGemm(mgc_stream *stream, const mgc_grouped_gemm_facts *facts,
                      const mgc_grouped_gemm_operands *operands);
Status runGroupRows(mgc_stream *stream, const mgc_group_rows_facts *facts, const mgc_group_rows_operands *operands);
Status runDropChoices(mgc_stream *stream, const mgc_drop_choices_facts *facts,
                      const mgc_drop_choices_operands *operands);
Status runExchangeRows(mgc_stream *stream, const mgc_exchange_rows_facts *facts,
                       const mgc_exchange_rows_operands *operands);
// The error that a kernel has reported before it stopped itself; ok where none has.
Status reported(const KernelReport &report);

// --- AttentionCalls.cpp
Status makeAttention(mgc_device *device, const mgc_attention_facts *facts, mgc_attention **attention);
void dropAttention(mgc_attention *attention);
Status runAttention(mgc_stream *stream, mgc_attention *attention, const mgc_attention_operands *operands);

// --- Combine.cpp
Status prepareCombine(mgc_device &device);
Status combine(mgc_stream *stream, mgc_reduce reduce, mgc_type type, mgc_address to, const mgc_address *sources,
               int64_t count, int64_t elements);

// --- Graphs.cpp
Status beginCapture(mgc_stream *stream);
Status endCapture(mgc_stream *stream, mgc_graph **graph);
void dropGraph(mgc_graph *graph);
Status launchGraph(mgc_stream *stream, mgc_graph *graph);

// --- Nccl.cpp, or NcclMissing.cpp where the build had no nccl.h
Status makeCommId(mgc_device *device, mgc_comm_id *id);
Status makeComm(mgc_device *device, const mgc_comm_id *id, int64_t ranks, int64_t rank, const mgc_patience *patience,
                mgc_comm **comm);
void dropComm(mgc_comm *comm);
void abortComms(mgc_comm *const *comms, int64_t count);
Status checkComm(mgc_comm *comm);
Status allReduce(mgc_stream *stream, mgc_comm *comm, mgc_reduce reduce, mgc_type type, mgc_address to, mgc_address from,
                 int64_t elements);
Status allGather(mgc_stream *stream, mgc_comm *comm, mgc_type type, mgc_address to, mgc_address from, int64_t elements);
Status reduceScatter(mgc_stream *stream, mgc_comm *comm, mgc_reduce reduce, mgc_type type, mgc_address to,
                     mgc_address from, int64_t elements);
Status send(mgc_stream *stream, mgc_comm *comm, mgc_address from, int64_t bytes, int64_t peer);
Status receive(mgc_stream *stream, mgc_comm *comm, mgc_address to, int64_t bytes, int64_t peer);
Status beginGroup(mgc_device *device);
Status endGroup(mgc_device *device);

// --- Versions of the libraries, for people; what is missing is said too.
std::string cublasLtVersion();
std::string cudnnVersion();
std::string attentionChoices(mgc_device &device); // "; 32 attentions by cuDNN", empty before the first
std::string ncclVersion();

} // namespace mgc::cuda
