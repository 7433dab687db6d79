// The communicator backends under test. A new backend adds one row to kBackends in ConformanceTest.cpp.
#pragma once

#include "runtime/comm/Communicator.h"

#include <chrono>
#include <functional>
#include <memory>

namespace mgc::test {

// A world of ranks, and a way to run one function on all of them at once.
class World {
public:
  virtual ~World() = default;
  virtual int64_t size() const = 0;
  virtual void run(const std::function<void(Communicator &)> &body) = 0;
};

// Ranks are threads; those of sockets have a process's part each, and the connections that processes have.
std::unique_ptr<World> makeThreadedWorld(int64_t ranks, std::chrono::milliseconds timeout);
std::unique_ptr<World> makeSocketedWorld(int64_t ranks, std::chrono::milliseconds timeout);

// Ranks on the stand-in device: all on one, or each on its own.
std::unique_ptr<World> makeSharedDevice(int64_t ranks, std::chrono::milliseconds timeout);
std::unique_ptr<World> makeDevicePerRank(int64_t ranks, std::chrono::milliseconds timeout);

struct Backend {
  const char *name;
  std::unique_ptr<World> (*make)(int64_t ranks, std::chrono::milliseconds timeout);
  // The hosts meet where ranks do: what they do is compared, who is missing is known, and a rank sends to itself. Not over
  // NCCL; its transfers are tested by test/runtime/exec/device.
  bool hostsMeet = true;
};

} // namespace mgc::test
