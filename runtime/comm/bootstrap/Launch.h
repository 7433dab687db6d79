// Launch: which process of a run this is, as its launcher says: flags, or the variables of torchrun, mpirun and srun.
//
//   launcher    rank                  processes             on this machine             MPI
//   torchrun    RANK                  WORLD_SIZE            LOCAL_RANK                  none
//   Open MPI    OMPI_COMM_WORLD_RANK  OMPI_COMM_WORLD_SIZE  OMPI_COMM_WORLD_LOCAL_RANK  Open MPI
//   MPICH       PMI_RANK              PMI_SIZE              MPI_LOCALRANKID             MPICH
//   srun        SLURM_PROCID          SLURM_NTASKS          SLURM_LOCALID               Open MPI with PMIX_RANK, MPICH with
//                                                                                       PMI_RANK
//
// srun's count where SLURM_STEP_ID says that srun started the process: a job's script has the others without it.
//
// A launcher may run inside another: the first of this list that has said something counts. Each flag replaces what the
// variables say. Where nothing says anything, the process is alone: it holds all ranks.
//
// Rank 0 listens on MASTER_ADDR:MASTER_PORT. srun without them: on the first of SLURM_STEP_NODELIST or SLURM_NODELIST, else
// SLURM_LAUNCH_NODE_IPADDR, and a port from SLURM_JOB_ID. torchrun's agent may itself listen on MASTER_PORT
// (TORCHELASTIC_USE_AGENT_STORE): then the next port is taken. With an MPI, srun's too, neither need be said: MpiProcess.h
// finds them.
#pragma once

#include "runtime/comm/tcp/Socket.h"

#include <functional>
#include <memory>
#include <optional>

namespace mgc {

enum class MpiKind { none, openMpi, mpich };

struct Launch {
  std::string by = "nothing";  // the launcher or flag that said so
  MpiKind mpi = MpiKind::none; // MPI of the launcher
  int64_t rank = 0, size = 1;
  std::optional<int64_t> localRank; // nothing: it was not said
  // Where rank 0 listens, if there are several processes. With an MPI host and port may still be missing.
  Endpoint master;
  std::shared_ptr<Descriptor> listening; // rank 0 only: its socket, where it listens already
  bool isAlone() const { return size == 1; }
  bool isMasterKnown() const { return !master.host.empty() && master.port > 0; }
};

struct LaunchFlags {
  enum class Mode {
    automatic, // variables if there are any
    none,      // no variables
    env        // variables must be there
  } mode = Mode::automatic;
  std::optional<int64_t> rank = {}, size = {}, localRank = {}, masterPort = {};
  std::optional<std::string> masterHost = {};
};

// The value of a variable of the environment.
using Variables = std::function<std::optional<std::string>(const char *name)>;
std::optional<std::string> variableOfThisProcess(const char *name);

// An error says what is missing or contradicts itself, and what was found.
Result<Launch> launchOf(const LaunchFlags &flags, const Variables &variables = variableOfThisProcess);

// The first of Slurm's list of hosts: "node[003-005,9],other" is node003.
std::string firstHost(std::string_view list);

} // namespace mgc
