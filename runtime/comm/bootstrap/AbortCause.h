// AbortCause: why a rank's waits must end, once they must. From any thread.
#pragma once

#include "runtime/base/Status.h"

#include <atomic>
#include <mutex>

namespace mgc {

class AbortCause {
public:
  // The first one is kept.
  void set(const Status &cause) {
    const std::lock_guard lock(mutex_);
    if (cause_.isOk())
      cause_ = cause;
    isSet_.store(true, std::memory_order_release);
  }
  bool isSet() const { return isSet_.load(std::memory_order_acquire); }
  Status get() const { // ok unless set
    const std::lock_guard lock(mutex_);
    return cause_;
  }

private:
  std::atomic<bool> isSet_{false};
  mutable std::mutex mutex_;
  Status cause_;
};

} // namespace mgc
