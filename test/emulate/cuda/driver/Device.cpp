#include "test/emulate/cuda/driver/Device.h"

#include "test/emulate/cuda/driver/Calls.h"
#include "test/emulate/cuda/driver/Stream.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mgc::emulate {
namespace {

constexpr size_t kAlignment = 512;
constexpr int kPoison = 0xFF;

std::atomic<bool> isInitialised = false;
std::atomic<CUresult> failure = CUDA_SUCCESS;
std::atomic<uint64_t> allocationsMade = 0;
thread_local CUctx_st *currentDevice = nullptr;

std::mutex pinnedMutex;
std::map<uintptr_t, size_t> &pinned() {
  static auto &all = *new std::map<uintptr_t, size_t>;
  return all;
}

void *makePoisoned(size_t bytes) {
  const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void *data = std::aligned_alloc(kAlignment, whole);
  if (data)
    std::memset(data, kPoison, whole);
  return data;
}

} // namespace

ptx::AddressSpace &memory() {
  static auto &space = *new ptx::AddressSpace(kShift);
  return space;
}

CUctx_st *deviceOf(int ordinal) {
  static auto &all = *[] {
    auto *devices = new std::vector<CUctx_st *>;
    for (int i = 0; i < settings().devices; ++i) {
      devices->push_back(new CUctx_st);
      devices->back()->ordinal = i;
      devices->back()->plain = makeStream(*devices->back());
    }
    return devices;
  }();
  return ordinal >= 0 && ordinal < static_cast<int>(all.size()) ? all[ordinal] : nullptr;
}

CUctx_st *current() { return currentDevice; }
void setCurrent(CUctx_st *device) { currentDevice = device; }
void markInitialised() { isInitialised = true; }

CUresult state() { return isInitialised ? failure.load() : CUDA_ERROR_NOT_INITIALIZED; }

CUresult enter(const char *function) {
  countCall(function);
  if (CUresult result = state(); result != CUDA_SUCCESS)
    return result;
  return current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

void fail(CUresult result, const std::string &what) {
  CUresult none = CUDA_SUCCESS;
  if (failure.compare_exchange_strong(none, result))
    std::fprintf(stderr, "emulated device: %s\n", what.c_str());
}

CUresult allocate(CUctx_st &device, size_t bytes, CUdeviceptr &address) {
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(device.mutex);
  if (++allocationsMade == settings().failAllocation || bytes > settings().memory - device.used)
    return CUDA_ERROR_OUT_OF_MEMORY;
  void *data = makePoisoned(bytes);
  if (!data)
    return CUDA_ERROR_OUT_OF_MEMORY;
  device.used += bytes;
  address = memory().add(data, bytes);
  device.allocations[address] = bytes;
  return CUDA_SUCCESS;
}

CUresult release(CUctx_st &device, CUdeviceptr address) {
  std::lock_guard lock(device.mutex);
  auto found = device.allocations.find(address);
  if (found == device.allocations.end())
    return CUDA_ERROR_INVALID_VALUE;
  device.used -= found->second;
  device.allocations.erase(found);
  memory().remove(address);
  std::free(reinterpret_cast<void *>(address - kShift));
  return CUDA_SUCCESS;
}

// Pinned memory has the same address on host and device.
CUresult allocateHost(size_t bytes, void **data) {
  *data = bytes ? makePoisoned(bytes) : nullptr;
  if (!*data)
    return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
  auto address = reinterpret_cast<uintptr_t>(*data);
  memory().addAt(address, *data, bytes);
  std::lock_guard lock(pinnedMutex);
  pinned()[address] = bytes;
  return CUDA_SUCCESS;
}

CUresult releaseHost(void *data) {
  std::lock_guard lock(pinnedMutex);
  if (!pinned().erase(reinterpret_cast<uintptr_t>(data)))
    return CUDA_ERROR_INVALID_VALUE;
  memory().remove(reinterpret_cast<uintptr_t>(data));
  std::free(data);
  return CUDA_SUCCESS;
}

// Memory of the process, which has it back when it is no longer pinned.
CUresult pin(void *data, size_t bytes) {
  if (!data || bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (isPinned(data, 1))
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  memory().addAt(reinterpret_cast<uintptr_t>(data), data, bytes);
  std::lock_guard lock(pinnedMutex);
  pinned()[reinterpret_cast<uintptr_t>(data)] = bytes;
  return CUDA_SUCCESS;
}

CUresult unpin(void *data) {
  std::lock_guard lock(pinnedMutex);
  if (!pinned().erase(reinterpret_cast<uintptr_t>(data)))
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  memory().remove(reinterpret_cast<uintptr_t>(data));
  return CUDA_SUCCESS;
}

bool isPinned(const void *data, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  std::lock_guard lock(pinnedMutex);
  auto next = pinned().upper_bound(address);
  if (next == pinned().begin())
    return false;
  const auto &[begin, size] = *std::prev(next);
  return address - begin < size && bytes <= size - (address - begin);
}

bool isDevice(CUdeviceptr address, size_t bytes) {
  auto region = memory().find(address);
  return region && bytes <= region->size - (address - region->begin);
}

} // namespace mgc::emulate

extern "C" {

CUresult mgcEmulateState() { return mgc::emulate::state(); }

void mgcEmulateFail(CUresult result, const char *what) { mgc::emulate::fail(result, what); }

void *mgcEmulateHost(CUdeviceptr address, size_t bytes, const char *what) {
  auto region = mgc::emulate::memory().find(address);
  if (region && bytes <= region->size - (address - region->begin))
    return region->host + (address - region->begin);
  mgc::emulate::fail(CUDA_ERROR_ILLEGAL_ADDRESS, fmt::format("{}: {} bytes at {:#x}, {}", what, bytes, address,
                                                             mgc::emulate::memory().describe(address)));
  return nullptr;
}
}
