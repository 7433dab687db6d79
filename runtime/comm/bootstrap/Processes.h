// Processes: the processes of a run, one rank each, as one of them sees them: how they find each other, and how the end
// of one reaches all. Communicators across processes (MpiWorld's, StoreHosts, NCCL's) are made of it.
#pragma once

#include "runtime/comm/bootstrap/Launch.h"
#include "runtime/comm/bootstrap/Store.h"

#include <condition_variable>
#include <thread>

namespace mgc {

class StoreServer;

class Processes {
public:
  // Told once, on some thread, why all must end.
  using AbortListener = std::function<void(const Status &cause)>;

  enum class StoreOwner { rank0, launcher };
  // Waits until all have come, and agree on `run`. `timeout` is also that of each later wait for another. Rank 0 keeps
  // the store, unless the launcher does.
  static Result<std::unique_ptr<Processes>> join(const Launch &launch, const RunIdentity &run,
                                                 std::chrono::milliseconds timeout,
                                                 StoreOwner owner = StoreOwner::rank0);
  // Instead of joining: tells the others why this process does not come. The others learn it at their deadline
  // where they cannot be told.
  static void excuse(const Launch &launch, const Status &failure);
  ~Processes();

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
  void abort(const Status &cause);
  // Why all must end; ok as long as they need not.
  Status cause() const;
  // The same, waiting a while for it: for who finds another process gone, which may have said why.
  Status awaitCause(std::chrono::milliseconds most) const;
  // Null: none. It is called at once when all must end already.
  void setAbortListener(AbortListener listener);

  // The last word of this process. ok: waits until all have finished. Otherwise tells the others. The result is
  // for the user of this process: the error in full where it arose, and for the others whose it was.
  Status end(const Status &status);

private:
  Processes(const Launch &launch, std::chrono::milliseconds timeout);
  Status openStore(const Joining &joining, const Launch &launch, StoreOwner owner);
  Status watch();
  Status findNeighbours(const Launch &launch);
  void watchMain();
  void hear(const Message &message);
  void endBecause(int64_t origin, const std::string &cause);
  void say(const Message &message);
  Status report(const Status &own) const;
  double seconds() const { return std::chrono::duration<double>(timeout_).count(); }

  const int64_t rank_, size_;
  const std::chrono::milliseconds timeout_;
  const std::string who_;
  int64_t localRank_ = 0, coreRank_ = 0, coreSize_ = 1;
  std::vector<Neighbour> neighbours_;
  std::unique_ptr<StoreServer> server_; // rank 0's
  std::unique_ptr<Store> store_;
  Descriptor watching_;
  Waker leaving_;
  std::thread watcher_;

  mutable std::mutex mutex_;
  mutable std::condition_variable heard_;
  std::optional<std::string> cause_;
  int64_t origin_ = -1; // whose cause it is; -1: of one that did not say
  bool isOver_ = false;
  std::mutex listenerMutex_; // held while it is told
  AbortListener listener_;
  std::mutex sendMutex_; // of watching_
};

} // namespace mgc
