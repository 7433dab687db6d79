// Driver API: modules, functions and launches, by the PTX interpreter.
#include "test/emulate/cuda/driver/Calls.h"
#include "test/emulate/cuda/driver/Stream.h"

#include <cstring>
#include <mutex>

using namespace mgc::emulate;
namespace ptx = mgc::ptx;

struct CUfunc_st {
  std::shared_ptr<ptx::Module> module;
  std::string name;
  const ptx::KernelInfo *info;
  int mostShared = 48 << 10; // dynamic and static
};

struct CUmod_st {
  std::shared_ptr<ptx::Module> module; // launches in progress hold it too
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};

namespace {

std::atomic<uint64_t> launches = 0;

// Into the buffer of CU_JIT_ERROR_LOG_BUFFER, where the caller gave one.
void writeLog(const std::string &message, unsigned count, const CUjit_option *options, void **values) {
  char *buffer = nullptr;
  size_t capacity = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
      buffer = static_cast<char *>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      capacity = reinterpret_cast<size_t>(values[i]);
  }
  if (!buffer || capacity == 0)
    return;
  const size_t length = std::min(capacity - 1, message.size());
  std::memcpy(buffer, message.data(), length);
  buffer[length] = 0;
}

mgc::Result<std::unique_ptr<ptx::Module>> load(const char *text) {
  MGC_ASSIGN(module, ptx::Module::load(text, memory()));
  if (module->target() > settings().capability)
    return mgc::errorf("the module is for sm_{}; the device has compute capability {}.{}", module->target(),
                       settings().capability / 10, settings().capability % 10);
  return module;
}

struct Shape {
  ptx::Dim3 grid, block;
  unsigned shared;
};

bool isPossible(const CUfunc_st &function, const Shape &shape) {
  const uint64_t threads = uint64_t(shape.block.x) * shape.block.y * shape.block.z;
  const uint64_t blocks = uint64_t(shape.grid.x) * shape.grid.y * shape.grid.z;
  return threads > 0 && threads <= function.info->maxThreads && blocks > 0 && shape.grid.x <= 0x7FFFFFFF &&
         shape.grid.y <= 65535 && shape.grid.z <= 65535 &&
         shape.shared + function.info->sharedBytes <= uint64_t(function.mostShared);
}

CUresult launchNow(const ptx::Module &module, const std::string &name, const Shape &shape,
                   const std::vector<std::byte> &parameters) {
  countKernel();
  const uint64_t launch = ++launches;
  if (launch == settings().hangLaunch)
    for (;;)
      std::this_thread::sleep_for(std::chrono::hours(1));
  if (launch == settings().failLaunch) {
    fail(CUDA_ERROR_ILLEGAL_ADDRESS,
         fmt::format("kernel {}: launch {} fails because it was asked to", name, settings().failLaunch));
    return CUDA_SUCCESS;
  }
  auto done = module.launch(name, {shape.grid, shape.block, shape.shared, parameters});
  if (!done.isOk())
    fail(CUDA_ERROR_ILLEGAL_ADDRESS, done.status().message());
  return CUDA_SUCCESS;
}

// From the kernelParams of a launch, or the buffer among its extra options.
mgc::Result<std::vector<std::byte>> parametersOf(const CUfunc_st &function, void **values, void **extra) {
  if (!extra)
    return function.info->parameters.empty() || values ? mgc::Result(ptx::packParameters(*function.info, values))
                                                       : mgc::Status::error("no parameters");
  const std::byte *data = nullptr;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      data = static_cast<std::byte *>(extra[1]);
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *static_cast<size_t *>(extra[1]);
  }
  if (!data || bytes < function.info->parameterBytes)
    return mgc::Status::error("too few parameters");
  return std::vector<std::byte>(data, data + bytes);
}

} // namespace

extern "C" {

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  auto loaded = load(static_cast<const char *>(image));
  if (!loaded.isOk()) {
    writeLog(loaded.status().message(), count, options, values);
    return CUDA_ERROR_INVALID_PTX;
  }
  *module = new CUmod_st;
  (*module)->module = loaded.take();
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

CUresult cuModuleUnload(CUmodule module) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  finishAll(*current());
  delete module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  const ptx::KernelInfo *info = module->module->kernel(name);
  if (!info)
    return CUDA_ERROR_NOT_FOUND;
  std::lock_guard lock(module->mutex);
  std::unique_ptr<CUfunc_st> &known = module->functions[name];
  if (!known)
    known.reset(new CUfunc_st{module->module, name, info});
  *function = known.get();
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  auto region = module->module->global(name);
  if (!region)
    return CUDA_ERROR_NOT_FOUND;
  if (address)
    *address = region->begin;
  if (bytes)
    *bytes = region->size;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = static_cast<int>(function->info->maxThreads);
    break;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *value = static_cast<int>(function->info->sharedBytes);
    break;
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    *value = static_cast<int>(function->info->localBytes);
    break;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *value = function->mostShared;
    break;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    *value = 32;
    break;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    *value = function->module->target();
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    return CUDA_SUCCESS;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      value + static_cast<int>(function->info->sharedBytes) > mostSharedBytes())
    return CUDA_ERROR_INVALID_VALUE;
  function->mostShared = std::max(48 << 10, value + static_cast<int>(function->info->sharedBytes));
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                        unsigned blockY, unsigned blockZ, unsigned shared, CUstream stream, void **values,
                        void **extra) {
  if (CUresult result = enter(); result != CUDA_SUCCESS)
    return result;
  const Shape shape{{gridX, gridY, gridZ}, {blockX, blockY, blockZ}, shared};
  auto parameters = parametersOf(*function, values, extra);
  if (!isPossible(*function, shape) || !parameters.isOk())
    return CUDA_ERROR_INVALID_VALUE;
  return enqueue(resolve(stream), [module = function->module, name = function->name, shape,
                                   packed = parameters.take()] { return launchNow(*module, name, shape, packed); });
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **values, void **extra) {
  return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                        config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, values, extra);
}
}
