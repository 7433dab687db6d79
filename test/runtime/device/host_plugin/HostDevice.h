// A device on the host: memory whose addresses the host cannot follow by mistake, and whether it has failed.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/DeviceApi.h"
#include "test/runtime/device/host_plugin/Controls.h"

#include <condition_variable>
#include <map>
#include <mutex>

namespace mgc::test {

HostPluginControls &controls();

// Added to the host's addresses: nothing lies there.
inline constexpr uint64_t kShift = uint64_t(1) << 60;

class HostDevice {
public:
  HostDevice() = default;
  ~HostDevice();
  Result<mgc_address> allocate(int64_t bytes);
  void release(mgc_address address);
  Result<void *> allocateHost(int64_t bytes);
  void releaseHost(void *data);
  void pin(void *data, int64_t bytes);
  void unpin(void *data);

  // The host's pointer to the device's memory; an error unless all bytes lie in one allocation.
  Result<std::byte *> at(mgc_address address, int64_t bytes) const;
  Status checkPinned(const void *data, int64_t bytes) const;

  void fail(const Status &cause); // the first cause stays
  Status check() const;
  int64_t freeBytes() const;

private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, int64_t> memory_, pinned_; // begin -> bytes
  Status failure_;
};

} // namespace mgc::test
