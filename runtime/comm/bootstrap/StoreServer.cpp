// See StoreServer.h. One thread serves all connections with epoll(7). A connection is not read while something for it has not been
// sent, so what the store keeps for a peer that does not read is bounded.
#include "runtime/comm/bootstrap/StoreServer.h"

#include "runtime/comm/bootstrap/Rendezvous.h"
#include "runtime/comm/bootstrap/Store.h"

#include <array>
#include <atomic>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <thread>

namespace mgc {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLastWords = 2s;
constexpr int64_t kStrangers = 64; // connections beyond one of each process
// For a new connection to say what it is; where there is no room for more, others wait for it to go.
constexpr auto kHelloTime = 10s, kHelloTimeWhenFull = 1s;
constexpr auto kTick = 1000ms, kShortTick = 50ms;
constexpr int64_t kLongestWait = 1'000'000'000; // milliseconds
constexpr std::string_view kUnknown = "sent the store a message that it does not know";

struct Peer {
  explicit Peer(Descriptor socket) : connection(std::move(socket)) {}
  Connection connection;
  Clock::time_point since = Clock::now();
  int64_t rank = -1; // -1: a stranger
  bool hasFinished = false, isWriting = false;
  bool isEnding = false; // ends once all is sent
  bool isGone = false;   // ends with this round of events
};

class Server final : public StoreServer {
public:
  Server(Descriptor listening, const Joining &own, Clock::duration stragglers);
  ~Server() override;
  int64_t port() const override { return portOf(listening_); }
  void startThread() {
    thread_ = std::thread([this] { serve(); });
  }

private:
  void serve();
  void control(int operation, int descriptor, uint32_t events) const;
  void handleEvents(int descriptor, uint32_t events);
  bool hasRoom() const { return std::ssize(peers_) < processes_ + kStrangers; }
  void admit();
  void expire();
  void receive(Peer &peer);
  void send(Peer &peer, const Connection::Bytes &bytes);
  void sendQueued(Peer &peer);
  void sendLast(Peer &peer, const Message &message);
  void forget(Peer &peer);
  void drop(Peer &peer, std::string_view why);
  void handle(Peer &peer, const Message &message);
  void handleHello(Peer &peer, const Hello &hello);
  void handleRequest(Peer &peer, const Message &message);
  void sendAll(const Message &message);
  void abortAll(int64_t origin, std::string_view cause);
  bool isComplete() const { return come_ == processes_; }

  const Descriptor listening_, epoll_;
  const Joining own_;
  const Clock::duration stragglers_;
  const int64_t processes_;
  std::map<int, Peer> peers_; // by descriptor
  std::vector<int> gone_;
  bool isPaused_ = false; // no new connections
  Deadline nextTick_ = Clock::now() + kTick;

  std::vector<std::string> who_; // by rank; empty: has not come
  std::vector<Peer *> peerOf_;   // by rank; null: is not here
  std::vector<bool> hasCalled_;  // by rank: whether it belongs here or not
  int64_t come_ = 0, called_ = 0, startMilliseconds_ = 0;
  Deadline startBy_ = Deadline::max();
  bool awaitsStragglers_ = false; // the start has failed: processes that come late are still to be told so
  std::optional<Message> notice_; // why all end
  Rendezvous rendezvous_;

  std::atomic<bool> isStopping_{false};
  std::thread thread_;
};

Message noticeOf(int64_t origin, std::string_view cause) {
  return Message::of(StoreKind::notice).with(origin).with(cause.substr(0, kMaxCauseBytes));
}

Server::Server(Descriptor listening, const Joining &own, Clock::duration stragglers)
    : listening_(std::move(listening)), epoll_(epoll_create1(EPOLL_CLOEXEC)), own_(own), stragglers_(stragglers),
      processes_(own.run.processes), who_(processes_), peerOf_(processes_), hasCalled_(processes_),
      rendezvous_(processes_, [this](int64_t rank, const Connection::Bytes &bytes) {
        if (peerOf_[rank])
          send(*peerOf_[rank], bytes);
      }) {
  control(EPOLL_CTL_ADD, listening_.number(), EPOLLIN);
}

Server::~Server() {
  isStopping_ = true;
  const Descriptor waker(eventfd(1, EFD_CLOEXEC));
  control(EPOLL_CTL_ADD, waker.number(), EPOLLIN | EPOLLONESHOT);
  if (thread_.joinable())
    thread_.join();
}

void Server::control(int operation, int descriptor, uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  epoll_ctl(epoll_.number(), operation, descriptor, &event);
}

void Server::serve() {
  std::array<epoll_event, 256> events;
  std::optional<Deadline> stopBy;
  while (true) {
    if (isStopping_ && !stopBy)
      stopBy = Clock::now() + (awaitsStragglers_ ? stragglers_ : kLastWords);
    const bool haveAllHeard = peers_.empty() && (!awaitsStragglers_ || called_ == processes_);
    if (stopBy && (haveAllHeard || Clock::now() >= *stopBy))
      return;
    const Deadline next = std::min(nextTick_, stopBy.value_or(Deadline::max()));
    const int count = epoll_wait(epoll_.number(), events.data(), int(events.size()), untilDeadline(next));
    for (int i = 0; i < count; ++i)
      handleEvents(events[i].data.fd, events[i].events);
    if (Clock::now() >= nextTick_)
      expire();
    for (const int descriptor : gone_)
      peers_.erase(descriptor);
    gone_.clear();
  }
}

void Server::handleEvents(int descriptor, uint32_t events) {
  if (descriptor == listening_.number())
    return admit();
  const auto found = peers_.find(descriptor);
  if (found == peers_.end() || found->second.isGone)
    return;
  if (events & ~EPOLLOUT)
    receive(found->second);
  if (!found->second.isGone && found->second.isWriting)
    sendQueued(found->second);
}

// Connections for which there is no room wait in the system's list: a process of the run may be among them.
void Server::admit() {
  while (hasRoom()) {
    Descriptor socket = acceptOn(listening_);
    const int number = socket.number();
    if (!socket.isOpen() && errno == EAGAIN)
      return;
    if (!socket.isOpen())
      break; // no descriptors are left
    peers_.emplace(number, std::move(socket));
    control(EPOLL_CTL_ADD, number, EPOLLIN);
  }
  isPaused_ = true;
  control(EPOLL_CTL_MOD, listening_.number(), 0);
  nextTick_ = std::min(nextTick_, Clock::now() + kShortTick);
}

// Ends strangers that say nothing, and waits whose time is over.
void Server::expire() {
  const auto now = Clock::now(), latest = now - (hasRoom() ? kHelloTime : kHelloTimeWhenFull);
  for (auto &[descriptor, peer] : peers_)
    if (peer.rank < 0 && peer.since <= latest)
      forget(peer);
  if (isPaused_ && hasRoom()) {
    isPaused_ = false;
    control(EPOLL_CTL_MOD, listening_.number(), EPOLLIN);
  }
  if (!notice_ && !isComplete() && now >= startBy_)
    abortAll(-1, describeMissing(who_, static_cast<double>(startMilliseconds_) / 1000));
  nextTick_ = std::min(now + (isPaused_ ? kShortTick : kTick), rendezvous_.expire(now));
  if (!isComplete() && !notice_)
    nextTick_ = std::min(nextTick_, startBy_);
}

void Server::receive(Peer &peer) {
  if (const Status received = peer.connection.receiveArrived(); !received.isOk())
    return drop(peer, received.message());
  while (!peer.isEnding && !peer.isGone) {
    const Result<std::optional<Message>> message =
        peer.connection.next(peer.rank < 0 ? kMaxHelloBytes : kMaxMessageBytes);
    if (!message.isOk())
      return drop(peer, message.status().message());
    if (!*message)
      return;
    handle(peer, **message);
  }
}

void Server::send(Peer &peer, const Connection::Bytes &bytes) {
  peer.connection.queue(bytes);
  if (!peer.isGone && !peer.isWriting)
    sendQueued(peer);
}

void Server::sendQueued(Peer &peer) {
  if (const Status sent = peer.connection.sendQueued(); !sent.isOk())
    return drop(peer, sent.message());
  if (peer.isWriting != peer.connection.hasQueued()) {
    peer.isWriting = peer.connection.hasQueued();
    control(EPOLL_CTL_MOD, peer.connection.socket().number(), peer.isWriting ? EPOLLOUT : EPOLLIN);
  }
  if (peer.isEnding && !peer.isWriting)
    forget(peer);
}

void Server::sendLast(Peer &peer, const Message &message) {
  peer.isEnding = true;
  send(peer, bytesOf(message));
}

void Server::forget(Peer &peer) {
  if (!std::exchange(peer.isGone, true))
    gone_.push_back(peer.connection.socket().number());
  if (peer.rank >= 0)
    peerOf_[peer.rank] = nullptr;
}

// A process that goes without having finished, or having said why not, takes the run with it. `why` is read behind its name.
void Server::drop(Peer &peer, std::string_view why) {
  forget(peer);
  if (peer.rank >= 0 && !peer.hasFinished)
    abortAll(-1, fmt::format("{} {}", nameOf(peer.rank, who_[peer.rank]), why));
}

void Server::handle(Peer &peer, const Message &message) {
  if (peer.rank >= 0)
    return handleRequest(peer, message);
  if (const std::optional<Hello> hello = readHello(message))
    return handleHello(peer, *hello);
  if (!message.is(StoreKind::who) || MessageReader(message).text() != kStoreMagic)
    return forget(peer);
  sendLast(
      peer,
      Message::of(StoreKind::values).with(fmt::format("mgrun, {}, with a plan of {} ranks", own_.who, processes_)));
}

// Until all have come, one that does not belong ends the start of all; later it is only sent away.
void Server::handleHello(Peer &peer, const Hello &hello) {
  const int64_t rank = hello.joining.rank;
  const bool isRank = rank >= 0 && rank < processes_ && hello.protocol == kStoreProtocol;
  if (isRank && !hasCalled_[rank]) {
    hasCalled_[rank] = true;
    ++called_;
  }
  if (notice_)
    return sendLast(peer, *notice_);
  if (const Status verified = verifyHello(own_, hello, isRank ? who_[rank] : ""); !verified.isOk()) {
    sendLast(peer, noticeOf(-1, verified.message()));
    if (!isComplete() && hello.protocol == kStoreProtocol) {
      awaitsStragglers_ = true;
      abortAll(-1, verified.message());
    }
    return;
  }
  peer.rank = rank;
  peerOf_[rank] = &peer;
  who_[rank] = hello.joining.who.empty() ? "unnamed" : hello.joining.who;
  send(peer, bytesOf(Message::of(StoreKind::heard)));
  const int64_t milliseconds = std::clamp<int64_t>(hello.milliseconds, 0, kLongestWait);
  if (const Deadline deadline = Clock::now() + std::chrono::milliseconds(milliseconds); deadline < startBy_) {
    startBy_ = deadline;
    startMilliseconds_ = milliseconds;
    nextTick_ = std::min(nextTick_, deadline);
  }
  if (++come_ == processes_)
    sendAll(Message::of(StoreKind::welcome));
}

void Server::handleRequest(Peer &peer, const Message &message) {
  if (notice_) { // this peer is told why all end
    if (message.is(StoreKind::told) && peer.rank == 0)
      sendAll(message);
    return;
  }
  if (message.is(StoreKind::told)) // the error is one that the store does not know
    return;
  MessageReader reader(message);
  if (message.is(StoreKind::abort))
    return abortAll(peer.rank, reader.text());
  StoreRequest request{static_cast<StoreKind>(message.kind),
                       peer.rank,
                       reader.text(),
                       reader.number(),
                       reader.number(),
                       reader.number(),
                       reader.text()};
  if (!isComplete() || !reader.isWhole() || message.kind < uint8_t(StoreKind::gather) ||
      message.kind > uint8_t(StoreKind::get))
    return drop(peer, kUnknown);
  request.milliseconds = std::clamp<int64_t>(request.milliseconds, 0, kLongestWait);
  request.deadline = Clock::now() + std::chrono::milliseconds(request.milliseconds);
  nextTick_ = std::min(nextTick_, request.deadline);
  if (rendezvous_.handle(request) && request.kind == StoreKind::gather && request.key == kEndOfRun)
    peer.hasFinished = true;
}

void Server::sendAll(const Message &message) {
  const Connection::Bytes bytes = bytesOf(message);
  for (Peer *peer : std::vector<Peer *>(peerOf_))
    if (peer)
      send(*peer, bytes);
}

// The first cause is the one that all are told.
void Server::abortAll(int64_t origin, std::string_view cause) {
  if (notice_)
    return;
  notice_ = noticeOf(origin, cause);
  sendAll(*notice_);
}

// The server needs a descriptor for each process, and the soft limit is often 1,024.
void raiseDescriptorLimit(int64_t processes) {
  constexpr rlim_t kOthers = 1024;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < rlim_t(processes) + kOthers) {
    limit.rlim_cur = std::min(limit.rlim_max, rlim_t(processes) + kOthers);
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
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
  return errorf("rank 0: {}: {}; another MASTER_PORT, or --master-port, would work", listening.status().message(),
                describeOwner(at));
}

Result<std::unique_ptr<StoreServer>> StoreServer::start(const Endpoint &at, const Joining &own, Descriptor listening,
                                                        std::chrono::milliseconds stragglers) {
  if (!listening.isOpen())
    MGC_SET(listening, listenForStore(at));
  raiseDescriptorLimit(own.run.processes);
  auto server = std::make_unique<Server>(std::move(listening), own, stragglers);
  server->startThread();
  return std::unique_ptr<StoreServer>(std::move(server));
}

} // namespace mgc
