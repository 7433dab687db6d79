// StoreConnection: one connection to the store's server, and what it is owed.
#pragma once

#include "runtime/comm/bootstrap/StoreMessages.h"
#include "runtime/comm/tcp/Messages.h"
#include "runtime/comm/tcp/Socket.h"

#include <optional>
#include <string>

namespace mgc {

// A request that is answered later; without a key it is a hello.
struct ParkedRequest {
  std::optional<std::string> key;
  bool wantsValue = false, isGather = false;
  int64_t milliseconds = 0;
  Deadline deadline = {};
};

struct StoreConnection {
  Descriptor socket;
  std::chrono::steady_clock::time_point since; // when it was taken
  MessageBuffer in;
  std::string out;
  int64_t rank = -1;                      // -1: a stranger
  bool isWatch = false, isEnding = false; // ends once `out` is sent
  std::optional<ParkedRequest> parked;

  void say(const Message &message) { out += message.bytes(); }
  void refuse(std::string_view why) { say(Message::of(StoreKind::refused).with(why)); }
  void sendAway(std::string_view why) {
    refuse(why);
    isEnding = true;
  }
  // For as long as the request says, within bounds.
  void park(ParkedRequest request);
};

} // namespace mgc
