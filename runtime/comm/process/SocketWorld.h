// SocketWorld: a world whose ranks are processes, one each, that talk over TCP: every two have a connection. For
// machines without a faster network, and for tests of all that is made of processes.
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/comm/bootstrap/Processes.h"

namespace mgc {

struct SocketWorldOptions {
  std::chrono::milliseconds timeout{600'000}; // of each wait
};

class SocketWorld {
public:
  // Connects to all others; called by all. The processes outlive the world. Errors say who did not come.
  static Result<std::unique_ptr<SocketWorld>> connect(Processes &processes,
                                                      const SocketWorldOptions &options = {});
  virtual ~SocketWorld() = default;
  virtual Communicator &communicator() = 0; // of the own rank
};

} // namespace mgc
