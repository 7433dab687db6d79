// MpiProcess: MPI as one process of a run sees it, from its start to its end. It knows who is there, and tells all where rank 0's
// store listens; MpiWorld carries the data.
#pragma once

#include "runtime/comm/mpi/MpiLibrary.h"

#include <chrono>
#include <memory>
#include <string>

namespace mgc {

class MpiThread;

class MpiProcess {
public:
  // Starts the MPI of the launcher, in all processes, and completes `launch`: where rank 0 listens. The error says what
  // would work. `plugin`: its file, else the one next to the program. `timeout` is that of each wait.
  static Result<std::unique_ptr<MpiProcess>> start(Launch &launch, std::chrono::milliseconds timeout,
                                                   const std::string &plugin = {});
  ~MpiProcess();

  const MpiTable &table() const { return table_; }
  const mgc_mpi_facts &facts() const { return facts_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  // Rank 0 listens for the processes of a run, and tells all where; `launch` may say the host, or the port.
  Status agreeOnStore(Launch &launch);
  // All processes open it. Dropped by the table.
  Result<mgc_mpi_world *> openWorld();

  // The last call of a process that ends with `code`. `isWell`: all processes have finished, and end MPI together. Otherwise it
  // waits a second, for the others to say why they end, too: most launchers kill all processes when one has failed. No message is
  // sent or waited for then: some implementations crash where one of the processes is gone, and they may hold memory of the run
  // that is freed. The process ends 5 seconds later at the latest: MPICH's MPI_Abort waits for an answer of mpirun,
  // which a machine that is cut off does not get.
  Status leave(bool isWell, int code);

private:
  MpiProcess(const MpiTable &table, std::chrono::milliseconds timeout);
  Status verify(const Launch &launch) const;
  Status exchange(bool isSend, int64_t rank, int32_t tag, void *data, int64_t bytes);
  Status complete(int64_t count, std::chrono::milliseconds most); // completes the transfers begun in `all_`

  const MpiTable &table_;
  const std::chrono::milliseconds timeout_;
  mgc_mpi_facts facts_{};
  mgc_mpi_world *all_ = nullptr; // for what is said at start and end
  std::string store_;            // where rank 0's listens, as it travels
  std::unique_ptr<MpiThread> thread_;
};

} // namespace mgc
