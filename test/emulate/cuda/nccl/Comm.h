// One rank's end of a communicator. Its operations run one after another in the order in which they were enqueued, on whatever
// streams, as NCCL's do. When the others fail, an operation waits until the communicator is aborted, as a kernel of NCCL does.
#pragma once

#include "test/emulate/cuda/driver/Hooks.h"
#include "test/emulate/cuda/nccl/Wire.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>

namespace mgc::emulate {

struct Operation {
  Header header;
  CUdeviceptr from = 0, to = 0;
  CUstream stream = nullptr;
};

class Comm : public std::enable_shared_from_this<Comm> {
public:
  Comm(std::string name, int size, int rank) : size(size), rank(rank), name_(std::move(name)) {}
  ~Comm();

  void join();     // returns when all have
  void finalize(); // returns when what was enqueued is done, and, where the hub lives, all have left
  void abort();
  ncclResult_t state();
  void setState(ncclResult_t state, const std::string &message);
  std::string message();

  // As NCCL connects: the first transfer with a peer in a direction waits until the peer's host has come to it too.
  bool haveMet(const std::vector<Operation> &operations);
  bool meet(const std::vector<Operation> &operations); // false: the others have failed, and this has been aborted
  // Operations of a group belong together: none waits for another.
  CUresult enqueue(std::vector<Operation> operations);

  const int size, rank;

private:
  CUresult run(const std::vector<Operation> &operations);
  bool exchange(const std::vector<Operation> &operations);
  bool accept(const Message &answer, std::vector<Operation> &open);
  void noteFailure(const std::string &why);
  std::set<std::pair<uint32_t, Kind>> unmetOf(const std::vector<Operation> &operations);

  std::string name_;
  std::mutex running_; // one group of operations at a time
  std::mutex mutex_;
  std::condition_variable changed_;
  ncclResult_t state_ = ncclSuccess;
  std::string message_;
  std::set<std::pair<uint32_t, Kind>> met_; // peers, for sending and for receiving
  std::atomic<int> socket_ = -1;
  bool isAborted_ = false;
  bool hasLeft_ = false;
  bool isBusy_ = false;
  CUevent last_ = nullptr; // behind what was enqueued last
};

} // namespace mgc::emulate
