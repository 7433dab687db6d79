#include "runtime/device/cpu/CpuMemory.h"

#include "runtime/base/MachineMemory.h"
#include "runtime/base/Rounding.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace mgc {

namespace {

constexpr int64_t kHugePage = 2 << 20;

bool isLarge(int64_t bytes) { return bytes >= kHugePage; }

// Whole huge pages. A size that this would take beyond 64 bits is refused before.
int64_t mappedBytes(int64_t bytes) { return roundUp(bytes, kHugePage); }
bool isPlausible(int64_t bytes) { return bytes < int64_t(1) << 62; }

// Null: no memory.
std::byte *mapAligned(int64_t bytes) {
  const int64_t mapped = bytes + kHugePage;
  void *data = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return nullptr;
  auto *begin = static_cast<std::byte *>(data);
  const auto before = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(begin) % kHugePage);
  if (before > 0)
    munmap(begin, before);
  munmap(begin + before + bytes, mapped - before - bytes); // at least a page is left of it
  madvise(begin + before, bytes, MADV_HUGEPAGE);           // advice: what it answers does not matter
  return begin + before;
}

// Null: no memory.
std::byte *allocateSmall(int64_t bytes) {
  void *data = nullptr;
  if (posix_memalign(&data, plan::kAlignment, std::max<int64_t>(bytes, 1)) != 0)
    return nullptr;
  return static_cast<std::byte *>(std::memset(data, 0, bytes));
}

} // namespace

Result<std::byte *> allocateCpuMemory(int64_t bytes) {
  if (bytes < 0)
    return errorf("an allocation of {} bytes", bytes);
  std::byte *data = nullptr;
  if (isPlausible(bytes))
    data = isLarge(bytes) ? mapAligned(mappedBytes(bytes)) : allocateSmall(bytes);
  if (!data)
    return errorf("the system gives no memory for an allocation of {}; a plan whose ranks need less would fit, "
                  "or more machines",
                  inGib(bytes));
  return data;
}

void freeCpuMemory(std::byte *data, int64_t bytes) {
  if (isLarge(bytes))
    munmap(data, mappedBytes(bytes));
  else
    std::free(data);
}

} // namespace mgc
