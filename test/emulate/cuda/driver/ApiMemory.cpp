// Driver API: memory, copies and fills.
#include "test/emulate/cuda/driver/Device.h"
#include "test/emulate/cuda/driver/Stream.h"

#include <cstring>
#include <memory>

using namespace mgc::emulate;

namespace {

// Enters a call that the driver refuses while this thread captures.
CUresult enterFreely(const char *function = __builtin_FUNCTION()) {
  if (CUresult result = enter(function); result != CUDA_SUCCESS)
    return result;
  return forbidsWaiting() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

// Puts the operation on the plain stream and waits for it.
CUresult doNow(Work work, const char *function = __builtin_FUNCTION()) {
  if (CUresult result = enterFreely(function); result != CUDA_SUCCESS)
    return result;
  if (CUresult result = enqueue(current()->plain, std::move(work)); result != CUDA_SUCCESS)
    return result;
  finish(current()->plain)->wait();
  return state();
}

// Device addresses are looked up when the copy runs: a graph may come long after the memory has gone.
Work copyIn(CUdeviceptr to, const void *from, size_t bytes) {
  return [=] {
    if (void *place = mgcEmulateHost(to, bytes, "copy to the device"))
      std::memcpy(place, from, bytes);
    return CUDA_SUCCESS;
  };
}

Work copyOut(void *to, CUdeviceptr from, size_t bytes) {
  return [=] {
    if (void *place = mgcEmulateHost(from, bytes, "copy from the device"))
      std::memcpy(to, place, bytes);
    return CUDA_SUCCESS;
  };
}

Work copyWithin(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return [=] {
    void *target = mgcEmulateHost(to, bytes, "target of a copy"),
         *source = mgcEmulateHost(from, bytes, "source of a copy");
    if (target && source)
      std::memmove(target, source, bytes);
    return CUDA_SUCCESS;
  };
}

CUresult enqueueChecked(CUstream stream, bool isValid, Work work, const char *function = __builtin_FUNCTION()) {
  if (CUresult result = enter(function); result != CUDA_SUCCESS)
    return result;
  return isValid ? enqueue(resolve(stream), std::move(work)) : CUDA_ERROR_INVALID_VALUE;
}

template <typename T>
CUresult fill(CUdeviceptr to, T value, size_t count, CUstream stream, const char *function = __builtin_FUNCTION()) {
  const bool isValid = count == 0 || (to % sizeof(T) == 0 && isDevice(to, count * sizeof(T)));
  const Work work = [=] {
    if (void *place = count ? mgcEmulateHost(to, count * sizeof(T), "fill") : nullptr)
      std::fill_n(static_cast<T *>(place), count, value);
    return CUDA_SUCCESS;
  };
  return enqueueChecked(stream, isValid, work, function);
}

// One side of a copy of rows.
struct Rows {
  CUmemorytype type;
  const void *host;
  CUdeviceptr device;
  size_t x, y, pitch, bytes, count;

  size_t begin() const { return y * pitch + x; }
  size_t span() const { return count == 0 ? 0 : (count - 1) * pitch + bytes; }
  bool isHost() const { return type == CU_MEMORYTYPE_HOST; }
  bool isValid() const { return pitch >= bytes && (isHost() || span() == 0 || isDevice(device + begin(), span())); }
  char *data() const {
    return isHost() ? static_cast<char *>(const_cast<void *>(host)) + begin()
                    : static_cast<char *>(mgcEmulateHost(device + begin(), span(), "copy of rows"));
  }
};

} // namespace

extern "C" {

CUresult cuMemGetInfo(size_t *free, size_t *total) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  std::lock_guard lock(current()->mutex);
  *total = settings().memory;
  *free = settings().memory - current()->used;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
  CUresult result = enterFreely();
  return result == CUDA_SUCCESS ? allocate(*current(), bytes, *address) : result;
}

// Waits for the device, as the driver does.
CUresult cuMemFree(CUdeviceptr address) {
  if (CUresult result = enterFreely(); result != CUDA_SUCCESS || address == 0)
    return result;
  finishAll(*current());
  return release(*current(), address);
}

CUresult cuMemHostAlloc(void **data, size_t bytes, unsigned) {
  CUresult result = enterFreely();
  return result == CUDA_SUCCESS ? allocateHost(bytes, data) : result;
}

CUresult cuMemAllocHost(void **data, size_t bytes) { return cuMemHostAlloc(data, bytes, 0); }

CUresult cuMemFreeHost(void *data) {
  if (CUresult result = enterFreely(); result != CUDA_SUCCESS || !data)
    return result;
  finishAll(*current());
  return releaseHost(data);
}

CUresult cuMemHostRegister(void *data, size_t bytes, unsigned) {
  const CUresult result = enterFreely();
  return result == CUDA_SUCCESS ? pin(data, bytes) : result;
}

// Waits for the device, as the driver does.
CUresult cuMemHostUnregister(void *data) {
  if (CUresult result = enterFreely(); result != CUDA_SUCCESS)
    return result;
  finishAll(*current());
  return unpin(data);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *data, unsigned) {
  *address = reinterpret_cast<CUdeviceptr>(data);
  CUresult result = enter();
  return result == CUDA_SUCCESS && !isPinned(data, 1) ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuMemGetAddressRange(CUdeviceptr *begin, size_t *bytes, CUdeviceptr address) {
  auto region = memory().find(address);
  if (!region)
    return CUDA_ERROR_NOT_FOUND;
  if (begin)
    *begin = region->begin;
  if (bytes)
    *bytes = region->size;
  return enter();
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  return isDevice(to, bytes) ? doNow(copyIn(to, from, bytes)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  return isDevice(from, bytes) ? doNow(copyOut(to, from, bytes)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return isDevice(to, bytes) && isDevice(from, bytes) ? doNow(copyWithin(to, from, bytes)) : CUDA_ERROR_INVALID_VALUE;
}

// Memory that is not pinned is read before the call returns, as by the driver, which copies it aside.
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  if (isPinned(from, bytes))
    return enqueueChecked(stream, isDevice(to, bytes), copyIn(to, from, bytes));
  auto staged = std::make_shared<std::string>(static_cast<const char *>(from), bytes);
  return enqueueChecked(stream, isDevice(to, bytes),
                        [staged, copy = copyIn(to, staged->data(), bytes)] { return copy(); });
}

// To memory that is not pinned it is done when the call returns.
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  CUresult result = enqueueChecked(stream, isDevice(from, bytes), copyOut(to, from, bytes));
  if (result != CUDA_SUCCESS || isPinned(to, bytes) || resolve(stream)->capture)
    return result;
  finish(resolve(stream))->wait();
  return state();
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return enqueueChecked(stream, isDevice(to, bytes) && isDevice(from, bytes), copyWithin(to, from, bytes));
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream) {
  const size_t bytes = copy->WidthInBytes, count = copy->Height;
  auto pitchOf = [&](size_t pitch) { return pitch ? pitch : bytes; };
  const Rows from{copy->srcMemoryType, copy->srcHost,           copy->srcDevice, copy->srcXInBytes,
                  copy->srcY,          pitchOf(copy->srcPitch), bytes,           count};
  const Rows to{copy->dstMemoryType, copy->dstHost,           copy->dstDevice, copy->dstXInBytes,
                copy->dstY,          pitchOf(copy->dstPitch), bytes,           count};
  const bool arePitches = from.pitch <= INT32_MAX && to.pitch <= INT32_MAX; // CU_DEVICE_ATTRIBUTE_MAX_PITCH
  return enqueueChecked(stream, arePitches && from.isValid() && to.isValid(), [=] {
    if (bytes == 0 || count == 0)
      return CUDA_SUCCESS;
    char *target = to.data(), *source = from.data();
    for (size_t row = 0; target && source && row < count; ++row)
      std::memmove(target + row * to.pitch, source + row * from.pitch, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill<uint8_t>(to, value, count, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill<uint16_t>(to, value, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill<uint32_t>(to, value, count, stream);
}
}
