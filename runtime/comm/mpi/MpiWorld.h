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
  virtual Communicator &communicator() = 0; // the own rank's
  // Waits until what it has sent has left, and drops the world. Called by all processes after their last transfer has ended and
  // before they say that they have finished: from then to MpiProcess::leave none calls MPI. In MPICH before 4.2, a process that
  // is in MPI_Finalize while another still makes progress elsewhere (MPI_Request_free does) goes ahead of it, and the other
  // waits forever.
  virtual Status close() = 0;
};

} // namespace mgc
