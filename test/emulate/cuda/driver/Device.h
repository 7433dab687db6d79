// The emulated devices: their memory, and whether they have failed. A device address is a host address plus a constant, so
// that host code that follows one is stopped by the processor.
#pragma once

#include "test/emulate/cuda/driver/Hooks.h"
#include "test/emulate/cuda/driver/Settings.h"
#include "test/emulate/cuda/ptx/Ptx.h"

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

struct CUctx_st {
  int ordinal = 0;
  std::mutex mutex;
  uint64_t used = 0; // bytes of device memory
  std::map<CUdeviceptr, size_t> allocations;
  std::atomic<int> retained = 0;
  std::vector<CUstream> streams;
  CUstream plain = nullptr; // the stream 0, which is no more than a stream here: it waits for no other
};

namespace mgc::emulate {

constexpr uint64_t kShift = 1ull << 52;

ptx::AddressSpace &memory();
CUctx_st *deviceOf(int ordinal); // null: there is none
CUctx_st *current();             // this thread's; null: none
void setCurrent(CUctx_st *device);

void markInitialised();
// CUDA_SUCCESS, or why no call of the driver works now.
CUresult state();
// As state, and the thread has a device. Counts the call of the function that calls it.
CUresult enter(const char *function = __builtin_FUNCTION());
void fail(CUresult result, const std::string &what);

CUresult allocate(CUctx_st &device, size_t bytes, CUdeviceptr &address);
CUresult release(CUctx_st &device, CUdeviceptr address);
CUresult allocateHost(size_t bytes, void **data);
CUresult releaseHost(void *data);
CUresult pin(void *data, size_t bytes);
CUresult unpin(void *data);
bool isPinned(const void *data, size_t bytes);
// Whether all bytes lie in one allocation.
bool isDevice(CUdeviceptr address, size_t bytes);

} // namespace mgc::emulate
