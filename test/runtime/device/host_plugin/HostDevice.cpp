#include "test/runtime/device/host_plugin/HostDevice.h"

#include <cstdlib>
#include <cstring>

namespace mgc::test {

namespace {

constexpr int64_t kAlignment = 256;
constexpr int kGarbage = 0xA5; // new memory: a number, so that what is read too early is wrong, not NaN

void *allocateAligned(int64_t bytes) {
  void *data = nullptr;
  return posix_memalign(&data, kAlignment, static_cast<size_t>(std::max<int64_t>(bytes, 1))) == 0 ? data : nullptr;
}

bool contains(const std::map<uintptr_t, int64_t> &ranges, uintptr_t begin, int64_t bytes) {
  auto range = ranges.upper_bound(begin);
  if (range == ranges.begin())
    return false;
  --range;
  return begin + static_cast<uintptr_t>(bytes) <= range->first + static_cast<uintptr_t>(range->second);
}

} // namespace

HostPluginControls &controls() {
  static HostPluginControls all;
  return all;
}

HostDevice::~HostDevice() {
  for (const auto &[begin, bytes] : memory_) {
    controls().liveBytes -= bytes;
    std::free(reinterpret_cast<void *>(begin));
  }
  for (const auto &[begin, bytes] : pinned_)
    std::free(reinterpret_cast<void *>(begin));
}

Result<mgc_address> HostDevice::allocate(int64_t bytes) {
  if (bytes > freeBytes())
    return errorf("an allocation of {} bytes: {} are free", bytes, freeBytes());
  void *data = allocateAligned(bytes);
  if (!data)
    return errorf("an allocation of {} bytes: the host has no memory", bytes);
  std::memset(data, kGarbage, static_cast<size_t>(bytes));
  ++controls().allocations;
  controls().liveBytes += bytes;
  std::lock_guard lock(mutex_);
  memory_[reinterpret_cast<uintptr_t>(data)] = bytes;
  return reinterpret_cast<uintptr_t>(data) + kShift;
}

void HostDevice::release(mgc_address address) {
  std::lock_guard lock(mutex_);
  const auto found = memory_.find(address - kShift);
  if (found == memory_.end())
    return;
  controls().liveBytes -= found->second;
  std::free(reinterpret_cast<void *>(found->first));
  memory_.erase(found);
}

Result<void *> HostDevice::allocateHost(int64_t bytes) {
  void *data = allocateAligned(bytes);
  if (!data)
    return errorf("an allocation of {} bytes of pinned memory: the host has none", bytes);
  std::memset(data, 0, static_cast<size_t>(bytes));
  std::lock_guard lock(mutex_);
  pinned_[reinterpret_cast<uintptr_t>(data)] = bytes;
  return data;
}

void HostDevice::releaseHost(void *data) {
  std::lock_guard lock(mutex_);
  if (pinned_.erase(reinterpret_cast<uintptr_t>(data)) == 1)
    std::free(data);
}

void HostDevice::pin(void *data, int64_t bytes) {
  std::lock_guard lock(mutex_);
  pinned_[reinterpret_cast<uintptr_t>(data)] = bytes;
}

void HostDevice::unpin(void *data) {
  std::lock_guard lock(mutex_);
  pinned_.erase(reinterpret_cast<uintptr_t>(data));
}

Result<std::byte *> HostDevice::at(mgc_address address, int64_t bytes) const {
  if (bytes == 0)
    return static_cast<std::byte *>(nullptr);
  std::lock_guard lock(mutex_);
  if (address < kShift || !contains(memory_, address - kShift, bytes))
    return errorf("an illegal memory access: {} bytes at {:#x}", bytes, address);
  return reinterpret_cast<std::byte *>(address - kShift);
}

Status HostDevice::checkPinned(const void *data, int64_t bytes) const {
  std::lock_guard lock(mutex_);
  if (bytes > 0 && !contains(pinned_, reinterpret_cast<uintptr_t>(data), bytes))
    return errorf("{} bytes of host memory are not pinned", bytes);
  return Status::ok();
}

void HostDevice::fail(const Status &cause) {
  std::lock_guard lock(mutex_);
  if (failure_.isOk())
    failure_ = cause;
}

Status HostDevice::check() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

int64_t HostDevice::freeBytes() const {
  std::lock_guard lock(mutex_);
  int64_t used = 0;
  for (const auto &[begin, bytes] : memory_)
    used += bytes;
  return controls().totalBytes - used;
}

} // namespace mgc::test
