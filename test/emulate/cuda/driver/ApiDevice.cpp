// Driver API: initialisation, errors, devices and contexts.
#include "test/emulate/cuda/driver/Device.h"
#include "test/emulate/cuda/driver/Stream.h"

#include <cstring>
#include <map>

using namespace mgc::emulate;

namespace {

struct Explanation {
  CUresult result;
  const char *name, *text;
};

constexpr Explanation kExplanations[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CUresult explain(CUresult result, const char **text, const char *Explanation::*part) {
  *text = nullptr;
  for (const Explanation &one : kExplanations)
    if (one.result == result)
      *text = one.*part;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int attributeOf(CUdevice_attribute attribute) {
  const int capability = settings().capability;
  const std::map<CUdevice_attribute, int> values = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, capability / 10},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, capability % 10},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7FFFFFFF},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, mostSharedBytes()},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, mostSharedBytes() + (1 << 10)},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 32 << 20},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
      {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 1},
  };
  const auto found = values.find(attribute);
  return found == values.end() ? 0 : found->second;
}

// The device of a call that needs a device but no context.
CUresult find(CUdevice ordinal, CUctx_st *&device) {
  if (CUresult result = state(); result != CUDA_SUCCESS)
    return result;
  device = deviceOf(ordinal);
  return device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

} // namespace

extern "C" {

CUresult cuInit(unsigned) {
  if (settings().devices == 0)
    return CUDA_ERROR_NO_DEVICE;
  markInitialised();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult result, const char **text) { return explain(result, text, &Explanation::name); }
CUresult cuGetErrorString(CUresult result, const char **text) { return explain(result, text, &Explanation::text); }

CUresult cuDeviceGetCount(int *count) {
  *count = settings().devices;
  return state();
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  CUctx_st *found = nullptr;
  *device = ordinal;
  return find(ordinal, found);
}

CUresult cuDeviceGetName(char *name, int length, CUdevice ordinal) {
  CUctx_st *device = nullptr;
  CUresult result = find(ordinal, device);
  std::snprintf(name, length, "Emulated sm_%d", settings().capability);
  return result;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice ordinal) {
  CUctx_st *device = nullptr;
  CUresult result = find(ordinal, device);
  std::memset(uuid, 0, sizeof(*uuid));
  std::memcpy(uuid->bytes, &ordinal, sizeof(ordinal));
  return result;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice ordinal) {
  CUctx_st *device = nullptr;
  *bytes = settings().memory;
  return find(ordinal, device);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice ordinal) {
  CUctx_st *device = nullptr;
  *value = attributeOf(attribute);
  return find(ordinal, device);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal) {
  CUctx_st *device = nullptr;
  CUresult result = find(ordinal, device);
  if (device)
    ++device->retained;
  *context = device;
  return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  CUctx_st *device = nullptr;
  CUresult result = find(ordinal, device);
  if (result == CUDA_SUCCESS && device->retained-- <= 0) {
    device->retained = 0;
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return result;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned) {
  CUctx_st *device = nullptr;
  return find(ordinal, device);
}

CUresult cuCtxSetCurrent(CUcontext context) {
  setCurrent(context);
  return state();
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = current();
  return state();
}

CUresult cuCtxPushCurrent(CUcontext context) { return cuCtxSetCurrent(context); }

CUresult cuCtxGetDevice(CUdevice *device) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS)
    *device = current()->ordinal;
  return result;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return enter();
}

CUresult cuCtxSynchronize() {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  if (forbidsWaiting())
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  finishAll(*current());
  return state();
}
}
