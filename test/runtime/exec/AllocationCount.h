// Counts calls of operator new in this process while an AllocationCount lives.
#pragma once

#include <cstdint>

namespace mgc::test {

class AllocationCount {
public:
  AllocationCount();
  ~AllocationCount();
  int64_t count() const;
};

} // namespace mgc::test
