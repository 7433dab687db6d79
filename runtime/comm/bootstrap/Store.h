// Store: the keys and values by which the processes of a run find each other. Rank 0 listens (StoreServer.h), all
// connect.
//
// Who needs bytes of its own at the start, as NCCL its ncclUniqueId for each group of ranks, takes share():
//
//     MGC_ASSIGN(id, processes.store().share(keyOf("nccl", group), group[0] == rank, [&] { return makeId(); }));
//
// One rank makes them, the others wait until they are there; all get the same. A key is used once: it names the group
// and, where a group is opened twice, which time it is.
//
// Values are small: a message has at most kMaxMessageBytes, the store holds at most kMaxStoreBytes. There is no
// authentication: as with other launchers, the port is for a network that is trusted. The store sends away a connection
// that does not begin as a process of a run does; one that does cannot make the store keep more than that.
#pragma once

#include "runtime/comm/tcp/Messages.h"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace mgc {

inline constexpr int64_t kMaxStoreBytes = 64 << 20;
inline constexpr size_t kMaxKeyBytes = 1024;

// The facts that all processes of a run must agree on.
struct RunIdentity {
  int64_t processes = 1;
  int64_t planVersion = 0;
  uint64_t planHash = 0;
  std::vector<std::string>
      settings; // "--lr = 0.001": flags and what the machine decides, in one order everywhere
};

// Who joins. `who` is for messages: "process 4711 on node1".
struct Joining {
  int64_t rank = 0;
  std::string who;
  RunIdentity run;
  std::string failure = {}; // not empty: why it does not come; it tells the others
};

// "purpose/0,2,4"
std::string keyOf(std::string_view purpose, const std::vector<int64_t> &ranks);

// One process's connection. From any thread; a call that waits holds up the others.
class Store {
public:
  // Connects and waits until the processes of all ranks have come, and agree. Errors say who has not, or does not.
  // `patience`: for an answer, beyond what the store was asked to wait. When it ends the connection is of no use any more: the
  // answer that comes late would be taken for that of the next question.
  static Result<std::unique_ptr<Store>> join(const Endpoint &at, const Joining &joining, Deadline deadline,
                                             std::chrono::milliseconds patience = std::chrono::seconds(10));

  Status set(std::string_view key, std::string_view value);
  Result<std::string> get(std::string_view key, Deadline deadline); // waits until it is there
  Result<int64_t> add(std::string_view key, int64_t delta);         // the sum, which begins at 0
  Status wait(const std::vector<std::string> &keys, Deadline deadline);
  // The store forgets the keys that begin so; for who knows that nobody asks for them any more.
  Status forget(std::string_view beginning);
  // Returns once it was called `count` times under this name, which is used once.
  Status barrier(std::string_view name, int64_t count, Deadline deadline);
  // The values of all `places`, once each has one: this process has given that of `place`. Then the store forgets them, and the key
  // may be used again. At the deadline the error says which places are empty.
  Result<std::vector<std::string>> gather(std::string_view key, int64_t place, int64_t places,
                                          std::string_view value, Deadline deadline);
  Result<std::string> share(std::string_view key, bool isMaker,
                            const std::function<Result<std::string>()> &make, Deadline deadline);

  uint64_t token() const {
    return token_;
  } // of the run: shows that a connection comes from one of its processes
  const Endpoint &endpoint() const { return endpoint_; }
  const Descriptor &connection() const { return connection_; }

private:
  Store(Endpoint endpoint, Descriptor connection, std::chrono::milliseconds patience)
      : endpoint_(std::move(endpoint)), connection_(std::move(connection)), patience_(patience) {}
  Status hello(const Joining &joining, Deadline deadline);
  // `deadline`: that the store was told; none: it answers at once.
  Result<Message> ask(const Message &message, std::optional<Deadline> deadline = std::nullopt);
  Result<Message> receive(Deadline latest); // an error where it is a refusal

  const Endpoint endpoint_;
  const Descriptor connection_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  Status lost_; // why the connection is of no use any more
  uint64_t token_ = 0;
};

// The store that listens on a port: "mgrun, process 4711 on node1, ...", or nothing when it is no store.
std::optional<std::string> whoListensOn(const Endpoint &at);

} // namespace mgc
