// See StoreServer.h. One thread serves all connections with poll(2); StoreDesk says what is answered. A request that must wait is
// parked with its connection; a connection has one at a time, and is not read while something for it has not been sent.
#include "runtime/comm/bootstrap/StoreServer.h"

#include "runtime/comm/bootstrap/StoreDesk.h"

#include <atomic>
#include <poll.h>
#include <thread>

namespace mgc {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLastWords = 2s;
constexpr auto kStragglers = 10s; // for processes that start late to call, and hear that there is no run

class Server final : public StoreServer {
public:
  Server(Descriptor listening, const Joining &own)
      : listening_(std::move(listening)), desk_(own, connections_) {}
  ~Server() override;
  int64_t port() const override { return portOf(listening_); }
  void startThread() {
    thread_ = std::thread([this] { serve(); });
  }

private:
  void serve();
  void wait();
  void admit();
  void exchange(StoreConnection &connection, short events);

  const Descriptor listening_;
  std::list<StoreConnection> connections_;
  StoreDesk desk_;
  std::atomic<bool> ending_{false};
  Waker waker_;
  std::thread thread_;
};

Server::~Server() {
  ending_ = true;
  waker_.wake();
  if (thread_.joinable())
    thread_.join();
}

void Server::serve() {
  std::optional<Deadline> endBy;
  while (true) {
    if (ending_ && !endBy)
      endBy = Clock::now() + (desk_.awaitsStragglers() ? kStragglers : kLastWords);
    const bool hasHeardAll = connections_.empty() && (!desk_.awaitsStragglers() || desk_.haveAllCalled());
    if (endBy && (hasHeardAll || Clock::now() >= *endBy))
      return;
    wait();
    desk_.expire();
    std::erase_if(connections_, [](const StoreConnection &c) { return !c.socket.isOpen(); });
  }
}

void Server::wait() {
  const bool hasRoom = desk_.hasRoom();
  Deadline next = Clock::now() + (ending_ || !hasRoom ? 50ms : 1000ms);
  std::vector<pollfd> polled = {{waker_.number(), POLLIN, 0},
                                {listening_.number(), short(hasRoom ? POLLIN : 0), 0}};
  for (const StoreConnection &connection : connections_) {
    const short events = connection.out.empty() ? POLLIN : POLLOUT;
    polled.push_back({connection.socket.number(), events, 0});
    if (connection.parked)
      next = std::min(next, connection.parked->deadline);
  }
  if (poll(polled.data(), polled.size(), untilDeadline(next)) <= 0)
    return;
  if (polled[0].revents)
    waker_.clear();
  size_t index = 2;
  for (StoreConnection &connection : connections_)
    exchange(connection, polled[index++].revents);
  if (polled[1].revents)
    admit();
}

// Connections for which there is no room wait in the system's list: a process of the run may be among them.
void Server::admit() {
  while (desk_.hasRoom()) {
    Descriptor socket = acceptOn(listening_);
    if (!socket.isOpen())
      return;
    connections_.push_back({std::move(socket), Clock::now(), {}, {}, -1, false, false, {}});
  }
}

void Server::exchange(StoreConnection &connection, short events) {
  if (!connection.socket.isOpen())
    return; // another one's message has ended it
  if (events & ~POLLOUT) {
    const int64_t most = connection.rank < 0 ? kMaxHelloBytes : kMaxMessageBytes;
    if (const Status received = connection.in.receive(connection.socket, most); !received.isOk())
      return desk_.drop(connection, received.message());
    while (!connection.isEnding && connection.socket.isOpen()) {
      const std::optional<Message> message = connection.in.next();
      if (!message)
        break;
      desk_.handle(connection, *message);
    }
  }
  if (!connection.out.empty()) {
    const Result<int64_t> sent = sendSome(connection.socket, std::as_bytes(std::span(connection.out)));
    if (!sent.isOk())
      return desk_.drop(connection, sent.status().message());
    connection.out.erase(0, *sent);
  }
  if (connection.isEnding && connection.out.empty())
    connection.socket.close();
}

std::string describeOwner(const Endpoint &at) {
  const std::optional<std::string> owner = whoListensOn(at);
  return owner ? fmt::format("the port belongs to another run: {}", *owner)
               : "if another program has the port, it is not mgrun";
}

} // namespace

Result<Descriptor> listenForStore(const Endpoint &at) {
  Result<Descriptor> listening = listenOn(at);
  if (listening.isOk())
    return listening;
  return errorf("rank 0: {}: {}; another MASTER_PORT, or --master-port, would work",
                listening.status().message(), describeOwner(at));
}

Result<std::unique_ptr<StoreServer>> StoreServer::start(const Endpoint &at, const Joining &own,
                                                        Descriptor listening) {
  if (!listening.isOpen()) {
    MGC_ASSIGN(opened, listenForStore(at));
    listening = std::move(opened);
  }
  auto server = std::make_unique<Server>(std::move(listening), own);
  server->startThread();
  return std::unique_ptr<StoreServer>(std::move(server));
}

} // namespace mgc
