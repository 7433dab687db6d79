// InDeviceWorld: a world whose ranks are threads of this process that share one device. Their hosts meet when they
// enqueue (runtime/comm/thread/ThreadRank.h); data moves by copies between their memory, ordered by events.
#pragma once

#include "runtime/comm/Communicator.h"

#include <chrono>
#include <memory>

namespace mgc {

class InDeviceWorld {
public:
  InDeviceWorld(const plugin::PluginDevice &device, int64_t ranks, std::chrono::milliseconds timeout);
  ~InDeviceWorld(); // after the last use of the communicators
  Communicator &communicator(int64_t rank);

private:
  struct Ranks;
  std::unique_ptr<Ranks> ranks_;
};

} // namespace mgc
