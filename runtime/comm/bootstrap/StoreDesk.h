// StoreDesk: what the store's server does about messages. It knows who has come, what is set, and why all end, if they do; it
// writes into connections and marks them, and leaves their sockets to the server.
#pragma once

#include "runtime/comm/bootstrap/Roll.h"
#include "runtime/comm/bootstrap/StoreConnection.h"
#include "runtime/comm/bootstrap/StoreGathers.h"
#include "runtime/comm/bootstrap/StoreValues.h"

#include <list>

namespace mgc {

class StoreDesk {
public:
  StoreDesk(const Joining &own, std::list<StoreConnection> &connections);

  void handle(StoreConnection &connection, const Message &message);
  // Closes it. A process that goes without having finished, or having said why not, takes the run with it. `why` is read behind
  // its name.
  void drop(StoreConnection &connection, std::string_view why);
  // Ends strangers that say nothing, and waits whose time is over.
  void expire();
  bool hasRoom() const; // for one more connection

  // The start has failed: processes that come late are still to be told so.
  bool awaitsStragglers() const { return awaitsStragglers_; }
  bool haveAllCalled() const { return roll_.haveAllCalled(); }

private:
  void handleWho(StoreConnection &connection, const Message &message);
  void handleHello(StoreConnection &connection, const Message &message);
  void enter(StoreConnection &connection, const Joining &found, int64_t milliseconds);
  void handleWatch(StoreConnection &connection, const Message &message);
  void handleWord(StoreConnection &connection, const Message &message); // of a watching connection
  void handleRequest(StoreConnection &connection, const Message &message);
  void gather(StoreConnection &by, const std::string &key, const GatheredValue &value, int64_t milliseconds);
  void answer(StoreConnection &by, StoreKind kind, const std::string &key, const std::string &value,
              int64_t number);
  Result<std::string> set(const std::string &key,
                          const std::string &value); // gives what is answered: nothing
  void answerParked(const std::string &key);
  void welcomeAll();
  void abortAll(int64_t origin, const std::string &cause);
  template <typename Visit> void forEachWatch(Visit visit);

  std::list<StoreConnection> &connections_;
  Roll roll_;
  const uint64_t token_; // of watching connections
  StoreValues values_;
  StoreGathers gathers_;
  std::optional<Message> notice_; // why all end
  std::string cause_;
  bool awaitsStragglers_ = false;
};

} // namespace mgc
