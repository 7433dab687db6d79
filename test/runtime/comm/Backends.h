// The communicator backends under test. A new backend adds one row to backends() of each program that can run it.
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/device/Plugin.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mgc::test {

// A world of ranks that can run one function on all of them at once.
class World {
public:
  virtual ~World() = default;
  virtual int64_t size() const = 0;
  virtual void run(const std::function<void(Communicator &)> &body) = 0;
};

// Ranks are threads.
std::unique_ptr<World> makeThreadedWorld(int64_t ranks, std::chrono::milliseconds timeout);

// Ranks on devices: all on one, or each on its own.
std::unique_ptr<World> makeSharedDevice(int64_t ranks, std::chrono::milliseconds timeout);
std::unique_ptr<World> makeDevicePerRank(int64_t ranks, std::chrono::milliseconds timeout);

struct Backend {
  const char *name;
  std::unique_ptr<World> (*make)(int64_t ranks, std::chrono::milliseconds timeout);
  // The hosts meet where ranks do: what they do is compared, who is missing is known, and a rank sends to itself. Not over
  // NCCL; its transfers are tested by test/runtime/exec/device.
  bool hostsMeet = true;
  // Why it cannot run; mostly empty.
  std::string (*lacks)(int64_t ranks) = [](int64_t) { return std::string(); };
  // Wrong counts of rows are found by the device, which takes no more work then, in the whole process.
  bool countsEndDevice = false;
  bool maxKeepsNan = true; // NCCL's maximum may pass over a NaN
  // Ranks are processes, and this one is of the rank.
  std::optional<int64_t> (*onlyRank)() = [] { return std::optional<int64_t>(); };
  // Why sums are not those of the terms in the order of the group, to the bit; mostly empty.
  std::string (*addsOtherwise)(int64_t ranks) = [](int64_t) { return std::string(); };
};

// Each program's own: HostDevices.cpp, CudaDevices.cpp.
std::vector<Backend> backends();
plugin::PluginDevice openTestDevice(int64_t index);

} // namespace mgc::test
