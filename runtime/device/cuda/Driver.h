// Driver: the functions of libcuda.so.1 that the plugin uses.
#pragma once

#include "runtime/device/cuda/Library.h"

#include <cuda.h>

// clang-format off
#define MGC_DRIVER_FUNCTIONS(F) \
  F(cuInit) F(cuDriverGetVersion) F(cuGetErrorName) F(cuGetErrorString) F(cuDeviceGetCount) \
  F(cuDeviceGet) F(cuDeviceGetName) F(cuDeviceTotalMem) F(cuDeviceGetAttribute) \
  F(cuDevicePrimaryCtxRetain) F(cuDevicePrimaryCtxRelease) F(cuCtxSetCurrent) \
  F(cuCtxGetStreamPriorityRange) F(cuMemGetInfo) F(cuMemAlloc) F(cuMemFree) F(cuMemHostAlloc) \
  F(cuMemFreeHost) F(cuMemHostRegister) F(cuMemHostUnregister) F(cuStreamCreateWithPriority) F(cuStreamDestroy) F(cuStreamQuery) \
  F(cuStreamWaitEvent) F(cuStreamWriteValue32) F(cuEventCreate) F(cuEventDestroy) F(cuEventRecord) \
  F(cuEventQuery) F(cuEventElapsedTime) F(cuMemcpyHtoDAsync) F(cuMemcpyDtoHAsync) \
  F(cuMemcpyDtoDAsync) F(cuMemcpy2DAsync) F(cuMemcpyDtoH) F(cuMemcpyHtoD) F(cuMemsetD8Async) F(cuModuleLoadDataEx) \
  F(cuModuleUnload) F(cuModuleGetFunction) F(cuModuleGetGlobal) F(cuFuncGetAttribute) \
  F(cuFuncSetAttribute) F(cuLaunchKernel) F(cuStreamBeginCapture) F(cuStreamEndCapture) \
  F(cuStreamIsCapturing) F(cuGraphInstantiate) F(cuGraphLaunch) F(cuGraphExecDestroy) \
  F(cuGraphDestroy)
// clang-format on

namespace mgc::cuda {

struct Driver {
  MGC_DRIVER_FUNCTIONS(MGC_FUNCTION_FIELD)
  int version = 0; // 13000: 13.0

  // Opened and initialised once; an error says why there is none.
  static Result<const Driver *> get();
};

// The meaning of a CUresult for the user.
struct DriverAnswer {
  CUresult result;
  bool isFinal;     // the device takes no more work in this process
  const char *help; // cause and remedy
};
const DriverAnswer &explain(CUresult result);

// "NAME (description); help" of a result that is not CUDA_SUCCESS.
std::string describe(const Driver &driver, CUresult result);

// "13.0" of 13000.
std::string versionText(int version);

} // namespace mgc::cuda
