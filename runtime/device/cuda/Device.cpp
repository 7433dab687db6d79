// The device: opened on its primary context, which the libraries share; what it is; whether it has failed.
#include "runtime/device/cuda/Internal.h"
#include "runtime/device/cuda/RowArguments.h"

#include <cstring>

namespace mgc::cuda {

namespace {

constexpr int32_t kLeastCapability = 80;

// Into a char array of the C ABI, cut where it is too long.
template <size_t N> void copyText(char (&to)[N], std::string_view text) {
  const size_t length = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

Result<int64_t> attribute(mgc_device &device, CUdevice_attribute which) {
  int value = 0;
  MGC_TRY(check(device, device.driver->cuDeviceGetAttribute(&value, which, device.device), "asking for attribute {}",
                int(which)));
  return int64_t(value);
}

Status readFacts(mgc_device &device) {
  char name[256] = {};
  MGC_TRY(check(device, device.driver->cuDeviceGetName(name, sizeof name, device.device), "asking for its name"));
  device.kind = name;
  device.name = fmt::format("GPU {} ({})", device.ordinal, name);
  MGC_ASSIGN(major, attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  MGC_ASSIGN(minor, attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  MGC_ASSIGN(processors, attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  MGC_ASSIGN(shared, attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  device.capability = int32_t(major * 10 + minor);
  device.multiprocessors = int32_t(processors);
  device.sharedBytes = shared;
  if (device.capability < kLeastCapability)
    return errorf("{}: has compute capability {}.{}; expected 8.0 or higher (A100, and what came later)", device.name,
                  major, minor);
  return Status::ok();
}

Status openContext(mgc_device &device) {
  const Driver &driver = *device.driver;
  MGC_TRY(check(device, driver.cuDevicePrimaryCtxRetain(&device.context, device.device), "opening it"));
  MGC_TRY(check(device, driver.cuCtxSetCurrent(device.context), "opening it"));
  return check(device, driver.cuStreamCreateWithPriority(&device.stream, CU_STREAM_NON_BLOCKING, 0), "making a stream");
}

Status allocateReport(mgc_device &device) {
  void *report = nullptr;
  MGC_TRY(allocateHost(&device, sizeof(KernelReport), &report));
  device.report = static_cast<KernelReport *>(report);
  return Status::ok();
}

} // namespace

Status deviceCount(int32_t *devices) {
  MGC_ASSIGN(driver, Driver::get());
  int count = 0;
  if (const CUresult result = driver->cuDeviceGetCount(&count); result != CUDA_SUCCESS)
    return errorf("counting the GPUs: {}", describe(*driver, result));
  *devices = count;
  return Status::ok();
}

Status openDevice(int32_t ordinal, int32_t deterministic, mgc_device **device) {
  MGC_ASSIGN(driver, Driver::get());
  int32_t devices = 0;
  MGC_TRY(deviceCount(&devices));
  if (ordinal < 0 || ordinal >= devices)
    return errorf("there is no GPU {}: the driver sees {} (nvidia-smi lists them; CUDA_VISIBLE_DEVICES may hide some)",
                  ordinal, devices == 0 ? "none" : fmt::format("{}, numbered from 0", devices));
  auto opened = std::unique_ptr<mgc_device, void (*)(mgc_device *)>(new mgc_device, closeDevice);
  opened->driver = driver;
  opened->ordinal = ordinal;
  opened->deterministic = deterministic != 0;
  opened->name = fmt::format("GPU {}", ordinal);
  MGC_TRY(check(*opened, driver->cuDeviceGet(&opened->device, ordinal), "asking for it"));
  MGC_TRY(readFacts(*opened));
  MGC_TRY(openContext(*opened));
  MGC_TRY(allocateReport(*opened));
  MGC_TRY(prepareCombine(*opened));
  *device = opened.release();
  return Status::ok();
}

// After a failure all of this fails too, which does not matter: the process ends.
void closeDevice(mgc_device *device) {
  const Driver &driver = *device->driver;
  if (device->context)
    driver.cuCtxSetCurrent(device->context);
  device->cudnn.reset();
  device->cublasLt.reset();
  for (const auto &[module, handle] : device->ownModules)
    if (handle)
      driver.cuModuleUnload(handle);
  if (device->report)
    driver.cuMemFreeHost(device->report);
  if (device->stream)
    driver.cuStreamDestroy(device->stream);
  if (device->context)
    driver.cuDevicePrimaryCtxRelease(device->device);
  delete device;
}

Status describeDevice(mgc_device *device, mgc_device_facts *facts) {
  MGC_TRY(device->enter());
  size_t freeBytes = 0, totalBytes = 0;
  MGC_TRY(check(*device, device->driver->cuMemGetInfo(&freeBytes, &totalBytes), "asking for its memory"));
  std::memset(facts, 0, sizeof *facts);
  copyText(facts->name, std::string_view(device->name));
  facts->capability = device->capability;
  facts->multiprocessors = device->multiprocessors;
  facts->total_bytes = int64_t(totalBytes);
  facts->free_bytes = int64_t(freeBytes);
  copyText(facts->versions, fmt::format("driver {}, {}, {}, {}{}", versionText(device->driver->version),
                                        cublasLtVersion(), cudnnVersion(), ncclVersion(), attentionChoices(*device)));
  copyText(facts->products,
           fmt::format("{}, {} multiprocessors, {}", device->kind, device->multiprocessors, cublasLtVersion()));
  return Status::ok();
}

Status checkDevice(mgc_device *device) {
  MGC_TRY(device->enter());
  const CUresult result = device->driver->cuStreamQuery(device->stream);
  return check(*device, result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result, "asking whether it works");
}

// A kernel that has reported what is wrong has ended itself and the device: the driver's words would say no more.
Status driverError(mgc_device &device, CUresult result, std::string_view what) {
  Status status = errorf("{}: {}: {}", device.name, what, describe(*device.driver, result));
  if (!explain(result).isFinal)
    return status;
  if (Status found = device.report ? reported(*device.report) : Status::ok(); !found.isOk())
    status = std::move(found).at(device.name);
  std::lock_guard lock(device.failureMutex);
  if (device.hasFailed)
    return Status::error(device.failure);
  device.failure = status.message();
  device.hasFailed = true;
  return status;
}

} // namespace mgc::cuda

mgc::Status mgc_device::enter() {
  if (hasFailed) {
    std::lock_guard lock(failureMutex);
    return mgc::Status::error(failure);
  }
  return mgc::cuda::check(*this, driver->cuCtxSetCurrent(context), "found by the next call");
}
