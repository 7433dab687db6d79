// Memory, copies and fills.
#include "runtime/device/cuda/Internal.h"

#include <algorithm>
#include <cstring>

namespace mgc::cuda {

namespace {

constexpr int64_t kMostPitch = (int64_t(1) << 31) - 1; // CU_DEVICE_ATTRIBUTE_MAX_PITCH of all GPUs

double gibibytes(size_t bytes) { return double(bytes) / 1073741824.0; }

// Refuses more bytes than are free before the driver is asked, so that the error has the numbers that help.
Status refuseTooMuch(mgc_device &device, int64_t bytes) {
  size_t freeBytes = 0, totalBytes = 0;
  MGC_TRY(check(device, device.driver->cuMemGetInfo(&freeBytes, &totalBytes), "asking for its memory"));
  if (uint64_t(bytes) <= freeBytes)
    return Status::ok();
  return errorf("{}: not enough memory: {} bytes ({:.2f} GiB) are needed, {} ({:.2f} GiB) are free of {:.2f} "
                "GiB\n  what would fit: "
                "{}, a GPU for each of more ranks (tp, pp, --zero 1 along dp), or a smaller micro batch",
                device.name, bytes, gibibytes(bytes), freeBytes, gibibytes(freeBytes), gibibytes(totalBytes),
                uint64_t(bytes) <= totalBytes ? "an empty GPU like this one (nvidia-smi lists who uses it)"
                                              : "a larger GPU");
}

Status copyWith(mgc_stream &stream, CUresult result, int64_t bytes, const char *direction) {
  return check(*stream.device, result, "copy of {} bytes {}", bytes, direction);
}

} // namespace

Status allocate(mgc_device *device, int64_t bytes, mgc_address *address) {
  MGC_TRY(device->enter());
  if (bytes <= 0)
    return errorf("{}: an allocation of {} bytes", device->name, bytes);
  MGC_TRY(refuseTooMuch(*device, bytes));
  CUdeviceptr pointer = 0;
  MGC_TRY(check(*device, device->driver->cuMemAlloc(&pointer, size_t(bytes)), "allocation of {} bytes ({:.2f} GiB)",
                bytes, gibibytes(bytes)));
  *address = pointer;
  return Status::ok();
}

void release(mgc_device *device, mgc_address address) {
  device->driver->cuCtxSetCurrent(device->context);
  device->driver->cuMemFree(address);
}

Status allocateHost(mgc_device *device, int64_t bytes, void **data) {
  MGC_TRY(device->enter());
  if (bytes <= 0)
    return errorf("{}: an allocation of {} bytes of pinned memory", device->name, bytes);
  MGC_TRY(check(
      *device,
      device->driver->cuMemHostAlloc(data, size_t(bytes), CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
      "allocation of {} bytes of pinned host memory (limited by the machine's memory, and by its container)", bytes));
  std::memset(*data, 0, size_t(bytes));
  return Status::ok();
}

void releaseHost(mgc_device *device, void *data) {
  device->driver->cuCtxSetCurrent(device->context);
  device->driver->cuMemFreeHost(data);
}

Status pin(mgc_device *device, void *data, int64_t bytes) {
  MGC_TRY(device->enter());
  return check(*device,
               device->driver->cuMemHostRegister(data, size_t(bytes),
                                                 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
               "pinning {} bytes of host memory ({:.2f} GiB; limited by the machine's memory, by its container, and by "
               "ulimit -l)",
               bytes, gibibytes(size_t(bytes)));
}

void unpin(mgc_device *device, void *data) {
  device->driver->cuCtxSetCurrent(device->context);
  device->driver->cuMemHostUnregister(data);
}

Status copyIn(mgc_stream *stream, mgc_address to, const void *from, int64_t bytes) {
  MGC_TRY(stream->device->enter());
  const auto result = stream->device->driver->cuMemcpyHtoDAsync(to, from, size_t(bytes), stream->handle);
  return copyWith(*stream, result, bytes, "from host to device");
}

Status copyInNow(mgc_device &device, mgc_address to, const void *from, int64_t bytes) {
  MGC_TRY(device.enter());
  return check(device, device.driver->cuMemcpyHtoD(to, from, size_t(bytes)), "copy of {} bytes from host to device",
               bytes);
}

Status copyOut(mgc_stream *stream, void *to, mgc_address from, int64_t bytes) {
  MGC_TRY(stream->device->enter());
  const auto result = stream->device->driver->cuMemcpyDtoHAsync(to, from, size_t(bytes), stream->handle);
  return copyWith(*stream, result, bytes, "from device to host");
}

Status copy(mgc_stream *stream, mgc_address to, mgc_address from, int64_t bytes) {
  MGC_TRY(stream->device->enter());
  const auto result = stream->device->driver->cuMemcpyDtoDAsync(to, from, size_t(bytes), stream->handle);
  return copyWith(*stream, result, bytes, "on the device");
}

Status copyRows(mgc_stream *stream, mgc_address to, int64_t toPitch, mgc_address from, int64_t fromPitch, int64_t bytes,
                int64_t rows) {
  MGC_TRY(stream->device->enter());
  if (bytes == 0 || rows == 0)
    return Status::ok();
  if (rows == 1 || (toPitch == bytes && fromPitch == bytes))
    return copy(stream, to, from, rows * bytes);
  if (std::max(toPitch, fromPitch) > kMostPitch) {
    for (int64_t row = 0; row < rows; ++row)
      MGC_TRY(copy(stream, to + uint64_t(row * toPitch), from + uint64_t(row * fromPitch), bytes));
    return Status::ok();
  }
  CUDA_MEMCPY2D what = {};
  what.srcMemoryType = what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  what.srcDevice = from;
  what.srcPitch = size_t(fromPitch);
  what.dstDevice = to;
  what.dstPitch = size_t(toPitch);
  what.WidthInBytes = size_t(bytes);
  what.Height = size_t(rows);
  return check(*stream->device, stream->device->driver->cuMemcpy2DAsync(&what, stream->handle),
               "copy of {} rows of {} bytes, {} and {} apart", rows, bytes, fromPitch, toPitch);
}

Status fill(mgc_stream *stream, mgc_address to, uint8_t byte, int64_t bytes) {
  MGC_TRY(stream->device->enter());
  return check(*stream->device, stream->device->driver->cuMemsetD8Async(to, byte, size_t(bytes), stream->handle),
               "fill of {} bytes", bytes);
}

} // namespace mgc::cuda
