#include "test/emulate/cuda/ptx/Ptx.h"

#include <cstring>
#include <mutex>

namespace mgc::ptx {

uint64_t AddressSpace::add(void *host, size_t bytes) {
  uint64_t begin = reinterpret_cast<uint64_t>(host) + shift_;
  addAt(begin, host, bytes);
  return begin;
}

void AddressSpace::addAt(uint64_t address, void *host, size_t bytes) {
  std::unique_lock lock(mutex_);
  regions_[address] = {address, bytes, static_cast<std::byte *>(host)};
}

bool AddressSpace::remove(uint64_t address) {
  std::unique_lock lock(mutex_);
  return regions_.erase(address) == 1;
}

std::optional<Region> AddressSpace::find(uint64_t address) const {
  std::shared_lock lock(mutex_);
  auto next = regions_.upper_bound(address);
  if (next == regions_.begin())
    return std::nullopt;
  const Region &region = std::prev(next)->second;
  if (address - region.begin >= region.size)
    return std::nullopt;
  return region;
}

std::string AddressSpace::describe(uint64_t address) const {
  std::shared_lock lock(mutex_);
  auto next = regions_.upper_bound(address);
  if (next == regions_.begin())
    return fmt::format("in none of the {} allocations", regions_.size());
  const Region &below = std::prev(next)->second;
  if (address - below.begin < below.size)
    return fmt::format("at byte {} of the {} bytes at {:#x}", address - below.begin, below.size, below.begin);
  return fmt::format("{} bytes behind the end of the {} bytes at {:#x}", address - below.begin - below.size, below.size,
                     below.begin);
}

std::vector<std::byte> packParameters(const KernelInfo &kernel, void *const *values) {
  std::vector<std::byte> packed(kernel.parameterBytes);
  for (size_t i = 0; i < kernel.parameters.size(); ++i)
    std::memcpy(packed.data() + kernel.parameters[i].offset, values[i], kernel.parameters[i].bytes);
  return packed;
}

} // namespace mgc::ptx
