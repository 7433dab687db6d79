// Reports that the processes of a run exchange between and after steps, where each process has one rank. All processes
// make the same calls, each on its rank's thread.
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/data/Data.h"
#include "runtime/exec/Engine.h"

#include <span>

namespace mgc {

class ProcessReports {
public:
  // `everyone`: the group of all ranks.
  ProcessReports(Communicator &communicator, GroupId everyone)
      : communicator_(communicator), everyone_(everyone), reports_(communicator.worldSize()) {}
  Status barrier() { return communicator_.barrier(everyone_); }
  Result<int32_t> greatest(int32_t own);
  // Gathers all ranks' StepValues into `values`. An error when a rank was given other data: each reads the data itself.
  Status collect(const StepValues &own, const GlobalBatch &batch, std::span<StepValues> values);

private:
  struct Report { // words of 32 bits
    StepValues values{};
    std::array<uint32_t, 2> batch{}; // its hash
  };
  Communicator &communicator_;
  const GroupId everyone_;
  std::vector<Report> reports_; // by rank
};

} // namespace mgc
