// Replaces operator new for the whole test binary.
#include "test/runtime/exec/AllocationCount.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

static std::atomic<bool> counting{false};
static std::atomic<int64_t> allocations{0};

static void *allocate(std::size_t bytes, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed))
    allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (void *data = std::aligned_alloc(alignment, rounded > 0 ? rounded : alignment))
    return data;
  throw std::bad_alloc();
}

void *operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void *operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void *data) noexcept { std::free(data); }
void operator delete(void *data, std::size_t) noexcept { std::free(data); }
void operator delete(void *data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void *data, std::size_t, std::align_val_t) noexcept { std::free(data); }

namespace mgc::test {

AllocationCount::AllocationCount() {
  allocations = 0;
  counting = true;
}
AllocationCount::~AllocationCount() { counting = false; }
int64_t AllocationCount::count() const { return allocations; }

} // namespace mgc::test
