// Rendezvous: values that ranks give under a key, each at its place, and the ranks that wait until all are there.
//
//     key "loss", 3 places      rank 0 gives at 0, waits      rank 2 gives at 2, waits      rank 1 gives at 1
//     values                    a . .                         a . c                         a b c -> to all that wait
#pragma once

#include "runtime/comm/bootstrap/StoreMessages.h"

#include <functional>
#include <map>

namespace mgc {

inline Connection::Bytes bytesOf(const Message &message) {
  return std::make_shared<const std::string>(message.bytes());
}

struct StoreRequest {
  StoreKind kind = StoreKind::get;
  int64_t rank = 0;
  std::string key;
  int64_t milliseconds = 0, place = 0, places = 1;
  std::string value;
  Deadline deadline = {}; // in so many milliseconds
};

class Rendezvous {
public:
  using Send = std::function<void(int64_t rank, const Connection::Bytes &bytes)>;
  Rendezvous(int64_t processes, Send send) : processes_(processes), send_(std::move(send)), waits_(processes) {}

  // Answers at once, or once the last value has come. A request is refused if its place does not exist or has its value, or
  // if the store would hold more than kMaxStoreBytes. Whether it was accepted.
  bool handle(const StoreRequest &request);
  // Refuses what has waited long enough; the deadline of the next wait.
  Deadline expire(Deadline now);

private:
  struct Wait {
    int64_t rank = 0, milliseconds = 0;
    Deadline deadline;
  };
  struct Meeting {
    std::vector<std::optional<std::string>> values;
    int64_t come = 0, bytes = 0;
    std::vector<Wait> waits;
    bool isComplete() const { return come > 0 && come == std::ssize(values); }
  };
  Status verify(const StoreRequest &request) const;
  Status give(const StoreRequest &request);
  void answer(const std::string &key, bool isKept);
  static std::string describe(const Meeting &meeting, const std::string &key);
  void refuse(int64_t rank, const std::string &key, const std::string &why) const;

  const int64_t processes_;
  const Send send_;
  std::map<std::string, Meeting> meetings_;
  std::vector<int64_t> waits_; // number over all keys, by rank
  int64_t bytes_ = 0;          // total over all keys
};

} // namespace mgc
