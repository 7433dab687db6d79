// MpiWorld: a world whose ranks are processes, one each, that talk over MPI.
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/comm/bootstrap/Processes.h"
#include "runtime/comm/mpi/MpiProcess.h"

namespace mgc {

class MpiWorld {
public:
  // Opened by all processes. `mpi` and `processes` outlive it. `timeout` is that of each wait.
  static Result<std::unique_ptr<MpiWorld>> open(MpiProcess &mpi, Processes &processes,
                                                std::chrono::milliseconds timeout);
  virtual ~MpiWorld() = default;
  virtual Communicator &communicator() = 0; // of the own rank
};

} // namespace mgc
