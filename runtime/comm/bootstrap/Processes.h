// Processes: the processes of a run, one rank each, as one of them sees them: how they find each other, and how the end
// of one reaches all. Communicators across processes (MpiWorld's, StoreHosts, NCCL's) are made of it.
#pragma once

#include "runtime/comm/bootstrap/Launch.h"
#include "runtime/comm/bootstrap/Store.h"
#include "runtime/comm/bootstrap/StoreServer.h"

namespace mgc {

class Processes {
public:
  enum class StoreOwner { rank0, launcher };
  // Waits until all have come, and agree on `run`. `timeout` is also that of each later wait for another. Rank 0 keeps
  // the store, unless the launcher does.
  static Result<std::unique_ptr<Processes>> join(const Launch &launch, const RunIdentity &run,
                                                 std::chrono::milliseconds timeout,
                                                 StoreOwner owner = StoreOwner::rank0);
  // Instead of joining: tells the others why this process does not come. The others learn it at their deadline
  // where they cannot be told.
  static void excuse(const Launch &launch, const Status &failure);

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  // Among the processes on this machine; the device of a rank is the one of this number.
  int64_t localRank() const { return localRank_; }
  // The processes on this machine, this one too, in the order of their ranks.
  struct Neighbour {
    int64_t rank = 0;
    std::string memoryGroup; // see runtime/base/MachineMemory.h
  };
  const std::vector<Neighbour> &neighbours() const { return neighbours_; }
  // Among the processes that may use the same cores of this machine, and their number.
  int64_t coreRank() const { return coreRank_; }
  int64_t coreSize() const { return coreSize_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  Deadline deadline() const { return std::chrono::steady_clock::now() + timeout_; }
  Store &store() { return *store_; }

  // Ends the run for all. The first cause is the one that all are told. From any thread.
  void abort(const Status &cause) { store_->abort(cause); }
  // Why all must end; ok as long as they need not.
  Status cause() const { return awaitCause(std::chrono::milliseconds(0)); }
  // The same, waiting a while for it: for who finds another process gone, which may have said why.
  Status awaitCause(std::chrono::milliseconds most) const;
  void setAbortListener(Store::AbortListener listener) { store_->setAbortListener(std::move(listener)); }

  // The last word of this process. ok: waits until all have finished. Otherwise tells the others. The result is
  // for the user of this process: the error in full where it arose, and for the others whose it was. With `tell`, where the processes
  // share a screen, rank 0 tells the error alone, in full and with its rank, and the result has no text; where rank 0 does not come
  // to it soon, each has its own.
  using Tell = std::function<void(const Status &error)>;
  Status end(const Status &status, const Tell &tell = nullptr);

private:
  Processes(const Launch &launch, std::chrono::milliseconds timeout);
  Status openStore(const Joining &joining, const Launch &launch, StoreOwner owner);
  Status findNeighbours(const Launch &launch);
  Status report(const Status &own) const;
  Status endBecauseOf(const Status &own, const Tell &tell);
  Status tellOnce(const Status &own, const Tell &tell);

  const int64_t rank_, size_;
  const std::chrono::milliseconds timeout_;
  const std::string who_;
  int64_t localRank_ = 0, coreRank_ = 0, coreSize_ = 1;
  std::vector<Neighbour> neighbours_;
  std::unique_ptr<StoreServer> server_; // rank 0's
  std::unique_ptr<Store> store_;
};

} // namespace mgc
