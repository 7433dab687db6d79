// Modules of PTX: the plan's row kernels and the plugin's own; kernels, arrays, launches.
#include "runtime/device/cuda/Internal.h"

#include <algorithm>
#include <limits>

namespace mgc::cuda {

namespace {

constexpr int64_t kMostArguments = 512;         // a kernel's limit, in arguments of 8 bytes
constexpr int64_t kPlainSharedBytes = 48 << 10; // a launch may have so much by default

// Compiles and loads; `what` is for the error, which has the compiler's log.
Result<CUmodule> load(mgc_device &device, const std::string &text, std::string_view what) {
  std::array<char, 8192> log = {};
  std::array options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void *, 2> values = {log.data(), reinterpret_cast<void *>(log.size())};
  CUmodule module = nullptr;
  const CUresult result =
      device.driver->cuModuleLoadDataEx(&module, text.c_str(), unsigned(options.size()), options.data(), values.data());
  if (result == CUDA_SUCCESS)
    return module;
  log.back() = 0;
  return driverError(device, result,
                     fmt::format("loading {}{}{}", what, log[0] ? ", of which its compiler says: " : "", log.data()));
}

// The array's address and bytes; address 0 where there is none.
Status findArray(mgc_module &module, const char *symbol, CUdeviceptr &address, size_t &bytes) {
  const CUresult result = module.device->driver->cuModuleGetGlobal(&address, &bytes, module.handle, symbol);
  if (result == CUDA_ERROR_NOT_FOUND)
    address = 0;
  return check(*module.device, result == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : result, "looking for the array '{}'",
               symbol);
}

bool isInRange(int64_t value, int64_t most) { return value >= 0 && value <= most; }

Status checkLaunch(const mgc_kernel &kernel, int64_t blocks, int64_t threads, int64_t sharedBytes, int64_t arguments) {
  const mgc_device &device = *kernel.module->device;
  if (isInRange(blocks, std::numeric_limits<int32_t>::max()) && isInRange(threads - 1, 1023) &&
      isInRange(sharedBytes, device.sharedBytes) && isInRange(arguments, kMostArguments))
    return Status::ok();
  return errorf("{}: kernel '{}': a launch of {} blocks of {} threads with {} bytes of shared memory and {} arguments; "
                "possible are {} blocks, 1 to 1024 threads, {} bytes, {} arguments; compile the plan again",
                device.name, kernel.name, blocks, threads, sharedBytes, arguments, std::numeric_limits<int32_t>::max(),
                device.sharedBytes, kMostArguments);
}

} // namespace

Status loadModule(mgc_device *device, const char *, const char *text, int64_t bytes, mgc_module **module) {
  MGC_TRY(device->enter());
  MGC_ASSIGN(handle, load(*device, std::string(text, size_t(bytes)), "the plan's kernels"));
  *module = new mgc_module;
  (*module)->device = device;
  (*module)->handle = handle;
  return Status::ok();
}

void dropModule(mgc_module *module) {
  module->device->driver->cuCtxSetCurrent(module->device->context);
  module->device->driver->cuModuleUnload(module->handle);
  delete module;
}

Status findKernel(mgc_module *module, const char *symbol, mgc_kernel **kernel) {
  MGC_TRY(module->device->enter());
  std::lock_guard lock(module->mutex);
  std::unique_ptr<mgc_kernel> &known = module->kernels[symbol];
  if (!known) {
    CUfunction function = nullptr;
    const CUresult result = module->device->driver->cuModuleGetFunction(&function, module->handle, symbol);
    if (result == CUDA_ERROR_NOT_FOUND)
      return errorf("no kernel '{}' in the plan's kernels; they do not belong to this plan: compile the plan again",
                    symbol);
    MGC_TRY(check(*module->device, result, "looking for the kernel '{}'", symbol));
    known = std::make_unique<mgc_kernel>(mgc_kernel{module, function, symbol});
  }
  *kernel = known.get();
  return Status::ok();
}

Status readArray(mgc_module *module, const char *symbol, int64_t *values, int64_t capacity, int64_t *count) {
  MGC_TRY(module->device->enter());
  CUdeviceptr address = 0;
  size_t bytes = 0;
  MGC_TRY(findArray(*module, symbol, address, bytes));
  *count = address ? int64_t(bytes / sizeof(int64_t)) : -1;
  const int64_t taken = std::min(*count, capacity);
  if (taken <= 0)
    return Status::ok();
  return check(*module->device, module->device->driver->cuMemcpyDtoH(values, address, size_t(taken) * sizeof(int64_t)),
               "reading the array '{}'", symbol);
}

Status launch(mgc_stream *stream, mgc_kernel *kernel, int64_t blocks, int64_t threads, int64_t sharedBytes,
              const mgc_address *operands, int64_t operandCount, const int64_t *scalars, int64_t scalarCount) {
  MGC_TRY(stream->device->enter());
  MGC_TRY(checkLaunch(*kernel, blocks, threads, sharedBytes, operandCount + scalarCount));
  if (blocks == 0)
    return Status::ok();
  std::array<void *, kMostArguments> arguments;
  for (int64_t i = 0; i < operandCount; ++i)
    arguments[i] = const_cast<mgc_address *>(operands + i);
  for (int64_t i = 0; i < scalarCount; ++i)
    arguments[operandCount + i] = const_cast<int64_t *>(scalars + i);
  if (sharedBytes > kPlainSharedBytes)
    MGC_TRY(allowSharedBytes(*stream->device, kernel->function, sharedBytes));
  const KernelLaunch shape{{uint32_t(blocks), 1, 1}, {uint32_t(threads), 1, 1}, uint32_t(sharedBytes)};
  return launchWith(*stream, kernel->function, shape, arguments.data(), kernel->name);
}

Result<CUfunction> ownKernel(mgc_device &device, const OwnModule &module, const char *symbol) {
  MGC_TRY(device.enter());
  std::lock_guard lock(device.mutex);
  CUmodule &handle = device.ownModules[&module];
  if (!handle) {
    MGC_SET(handle, load(device, module.text, fmt::format("the plugin's kernels '{}'", module.name)));
  }
  CUfunction &function = device.ownKernels[{&module, symbol}];
  if (!function)
    MGC_TRY(check(device, device.driver->cuModuleGetFunction(&function, handle, symbol),
                  "looking for the plugin's kernel '{}'", symbol));
  return function;
}

Status allowSharedBytes(mgc_device &device, CUfunction function, int64_t bytes) {
  return check(device,
               device.driver->cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, int(bytes)),
               "asking for {} bytes of shared memory of a block", bytes);
}

Status launchWith(mgc_stream &stream, CUfunction function, const KernelLaunch &launch, void **arguments,
                  std::string_view name) {
  const CUresult result = stream.device->driver->cuLaunchKernel(
      function, launch.blocks[0], launch.blocks[1], launch.blocks[2], launch.threads[0], launch.threads[1],
      launch.threads[2], launch.sharedBytes, stream.handle, arguments, nullptr);
  return check(*stream.device, result, "launch of kernel '{}'", name);
}

} // namespace mgc::cuda
