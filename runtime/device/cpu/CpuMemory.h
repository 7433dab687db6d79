// Memory of this process for ranks.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>

namespace mgc {

// At plan::kAlignment at least, and zero. A large allocation is a mapping of its own on a huge page boundary and asks for
// huge pages; the system gives each page to the thread that touches it first. An error when there is no memory.
Result<std::byte *> allocateCpuMemory(int64_t bytes);
void freeCpuMemory(std::byte *data, int64_t bytes);
struct FreeCpuMemory { // deleter of a std::unique_ptr
  int64_t bytes = 0;
  void operator()(std::byte *data) const { freeCpuMemory(data, bytes); }
};

} // namespace mgc
