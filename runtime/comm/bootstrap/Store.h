// Store: one process's connection to the store of a run, by which the processes find each other and learn why all end. Rank 0
// listens (StoreServer.h), all connect.
//
//     MGC_ASSIGN(names, store.gather("names", rank, size, own, deadline));   // each gives its own, all get all
//     MGC_ASSIGN(id, store.share("nccl/0,2", rank == 0, makeId, deadline));  // one rank makes it, others of a group get it
//
// The key of a gather may be used again after it; that of a share is used once. Values are small: a message has at most
// kMaxMessageBytes, the store holds at most kMaxStoreBytes.
#pragma once

#include "runtime/comm/bootstrap/Handshake.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace mgc {

class Store {
public:
  using Values = std::vector<std::string>;
  // Told once, on some thread, why all must end.
  using AbortListener = std::function<void(const Status &cause)>;

  // Connects and waits until the processes of all ranks have come, and agree. Errors say who has not, or does not.
  // `patience`: for an answer, beyond what the store was asked to wait.
  static Result<std::unique_ptr<Store>> join(const Endpoint &at, const Joining &joining, Deadline deadline,
                                             std::chrono::milliseconds patience = std::chrono::seconds(10));
  ~Store();

  // From any thread, each with keys of its own; a wait ends early where all must end. At the deadline the error says which places
  // are empty. The values of all `places`, once each has one: this process has given that of `place`.
  Result<Values> gather(std::string_view key, int64_t place, int64_t places, std::string_view value, Deadline deadline);
  // The same, but only place 0 waits, and gets them.
  Result<Values> gatherToFirst(std::string_view key, int64_t place, int64_t places, std::string_view value,
                               Deadline deadline);
  // The maker does not wait for the others.
  Result<std::string> share(std::string_view key, bool isMaker, const std::function<Result<std::string>()> &make,
                            Deadline deadline);

  // Ends the run for all.
  void abort(const Status &cause);
  struct Cause {
    int64_t rank = -1; // rank whose cause it is; -1: not known
    std::string text;
  };
  // Why all must end, if they must; waits a while for it.
  std::optional<Cause> awaitCause(std::chrono::milliseconds most) const;
  // Rank 0, after it has told the user the cause; the others may wait a while for that.
  void tell();
  bool awaitTold(std::chrono::milliseconds most) const;
  // Null: none. It is called at once when all must end already.
  void setAbortListener(AbortListener listener);

private:
  Store(Endpoint endpoint, Descriptor socket, std::chrono::milliseconds patience)
      : endpoint_(std::move(endpoint)), patience_(patience), connection_(std::move(socket)) {}
  Status shakeHands(const Joining &joining, Deadline deadline);
  Result<Values> ask(const Message &message, const std::string &key, int64_t values, Deadline deadline);
  Status send(const Message &message, Deadline deadline);
  void receiveAll();
  void handle(const Message &message);
  void endBecause(int64_t rank, const std::string &text);
  void note(bool &fact);

  const Endpoint endpoint_;
  const std::chrono::milliseconds patience_;
  Connection connection_;
  std::mutex sendMutex_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, std::optional<Result<Values>>> answers_; // by key: those that are awaited
  std::optional<Cause> cause_;
  bool isTold_ = false;      // by rank 0
  bool isLost_ = false;      // nothing comes any more
  bool isOver_ = false;      // all have finished, or this process leaves: nothing is a cause any more
  std::mutex listenerMutex_; // held while the listener is told
  AbortListener listener_;
  std::thread receiver_;
};

// The store that listens on a port: "mgrun, process 4711 on node1, ...", or nothing when it is no store.
std::optional<std::string> whoListensOn(const Endpoint &at);

} // namespace mgc
