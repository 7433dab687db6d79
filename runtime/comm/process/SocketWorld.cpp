// Connections, sleeping, aborting and transfers of socket ranks. SocketCollectives.cpp has the collectives.
#include "runtime/comm/process/SocketRank.h"
#include "runtime/random/Philox.h"

#include <fmt/ranges.h>

namespace mgc {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kExplanation = 1500ms; // for the reason why a rank has gone to come here
constexpr auto kConnection = 20s;     // to a rank that listens already

enum class HandshakeKind : uint8_t { hello };

Message handshakeOf(Processes &processes, int64_t to) {
  return Message::of(HandshakeKind::hello)
      .with(static_cast<int64_t>(processes.store().token()))
      .with(processes.rank())
      .with(to);
}

// The rank that the handshake names; an error when it is none of this run.
Result<int64_t> readHandshake(Processes &processes, const Descriptor &socket, Deadline deadline) {
  MGC_ASSIGN(message, receiveMessage(socket, deadline));
  MessageReader reader(message);
  const bool isOurs = static_cast<uint64_t>(reader.number()) == processes.store().token();
  const int64_t rank = reader.number(), to = reader.number();
  if (isOurs && reader.isWhole() && to == processes.rank() && rank >= 0 && rank < processes.size())
    return rank;
  return errorf("it is no rank of this run");
}

// The host at which others reach this process; empty where it reaches the store by loopback: then as they reach the store.
std::string hostOf(Processes &processes) {
  const std::string host = localHostOf(processes.store().connection());
  return isLoopback(host) ? "" : host;
}

// Whether no process is reached from elsewhere. Names do not tell: that of a machine is a loopback address on the machine
// itself where Debian installed it, and processes in one network may have different machines, or the reverse.
Result<bool> areAllBesideTheStore(Processes &processes) {
  MGC_TRY(processes.store().set(fmt::format("host/{}", processes.rank()), hostOf(processes)));
  bool areBeside = true;
  for (int64_t rank = 0; rank < processes.size(); ++rank) {
    MGC_ASSIGN(host, processes.store().get(fmt::format("host/{}", rank), processes.deadline()));
    areBeside &= host.empty();
  }
  return areBeside;
}

Endpoint endpointFrom(Processes &processes, const std::string &address) {
  const size_t space = std::min(address.find(' '), address.size());
  const std::string host = address.substr(std::min(space + 1, address.size()));
  return {host.empty() ? peerHostOf(processes.store().connection()) : host, std::atoll(address.c_str())};
}

} // namespace

SocketRank::SocketRank(Processes &processes, const SocketWorldOptions &options)
    : processes_(processes), timeout_(options.timeout), peers_(processes.size()) {
  processes_.setAbortListener([this](const Status &cause) { endBecause(cause); });
}

Result<std::unique_ptr<SocketWorld>> SocketWorld::connect(Processes &processes,
                                                          const SocketWorldOptions &options) {
  auto rank = std::make_unique<SocketRank>(processes, options);
  MGC_TRY(rank->connectToAll());
  return std::unique_ptr<SocketWorld>(std::move(rank));
}

// Each listens, connects to all lower ranks and is connected to by the higher ones. Nobody waits for an answer before it
// has called all, so nobody waits in a circle.
Status SocketRank::connectToAll() {
  const Deadline deadline = processes_.deadline();
  Descriptor listening;
  MGC_TRY(listenAndSay(listening));
  MGC_TRY(connectToLower(deadline));
  return acceptHigher(listening, deadline);
}

Status SocketRank::listenAndSay(Descriptor &listening) {
  MGC_ASSIGN(areBeside, areAllBesideTheStore(processes_));
  const std::string loopback = localHostOf(processes_.store().connection());
  MGC_ASSIGN(opened, listenOn({areBeside ? loopback : "", 0}));
  listening = std::move(opened);
  return processes_.store().set(
      fmt::format("socket/{}", rank()),
      fmt::format("{} {}", portOf(listening), areBeside ? loopback : hostOf(processes_)));
}

Status SocketRank::connectToLower(Deadline deadline) {
  for (int64_t other = 0; other < rank(); ++other) {
    MGC_ASSIGN(address, processes_.store().get(fmt::format("socket/{}", other), deadline));
    const Endpoint endpoint = endpointFrom(processes_, address);
    // A rank that listened may have ended since, because of an error that is on its way here too.
    Result<Descriptor> socket =
        connectTo(endpoint, std::min(deadline, Clock::now() + kConnection), [this] { return isAborted(); });
    peers_[other] = std::make_unique<SocketPeer>(other, socket.isOk() ? socket.take() : Descriptor());
    Status status = socket.isOk()
                        ? sendMessage(peers_[other]->descriptor(), handshakeOf(processes_, other), deadline)
                        : socket.status();
    if (!status.isOk())
      return explainLoss(*peers_[other], status);
  }
  return Status::ok();
}

// Strangers are let go.
Status SocketRank::acceptHigher(const Descriptor &listening, Deadline deadline) {
  int64_t missing = worldSize() - rank() - 1;
  while (missing > 0) {
    if (isAborted())
      return cause();
    pollfd polled[] = {{listening.number(), POLLIN, 0}, {waker_.number(), POLLIN, 0}};
    if (::poll(polled, 2, untilDeadline(deadline)) == 0) {
      std::vector<int64_t> ranks;
      for (int64_t other = rank() + 1; other < worldSize(); ++other)
        if (!peers_[other])
          ranks.push_back(other);
      return errorf("rank {} waited for a connection from ranks [{}]", rank(), fmt::join(ranks, ", "));
    }
    Descriptor socket = acceptOn(listening);
    if (!socket.isOpen())
      continue;
    const Result<int64_t> other = readHandshake(processes_, socket, std::min(deadline, Clock::now() + 5s));
    if (!other.isOk() || *other <= rank() || peers_[*other])
      continue;
    peers_[*other] = std::make_unique<SocketPeer>(*other, std::move(socket));
    --missing;
  }
  return Status::ok();
}

void SocketRank::endBecause(const Status &cause) {
  {
    const std::lock_guard lock(causeMutex_);
    if (cause_.isOk())
      cause_ = cause;
  }
  aborted_.store(true, std::memory_order_release);
  waker_.wake();
}

void SocketRank::abort(const Status &cause) {
  if (isAborted())
    return;
  endBecause(cause);
  processes_.abort(cause);
}

Status SocketRank::cause() const {
  const std::lock_guard lock(causeMutex_);
  return cause_;
}

// Why it has gone comes by another way, and maybe later.
Status SocketRank::explainLoss(const SocketPeer &peer, const Status &status) {
  const Status cause = processes_.awaitCause(kExplanation);
  return cause.isOk() ? errorf("rank {} is gone: {}", peer.rank, status.message()) : cause;
}

Status SocketRank::move(SocketPeer &peer) {
  Status status = peer.send(*this);
  if (status.isOk())
    status = peer.receive(*this);
  return status;
}

Status SocketRank::pump(Deadline deadline) {
  polled_.resize(1 + peers_.size(), {-1, 0, 0}); // poll(2) passes over what is not open
  polled_[0] = {waker_.number(), POLLIN, 0};
  for (const auto &peer : peers_)
    if (peer)
      polled_[1 + peer->rank] = {peer->descriptor().number(), peer->wishes(), 0};
  (void)::poll(polled_.data(), polled_.size(), untilDeadline(deadline));
  for (const auto &peer : peers_)
    if (peer && (polled_[1 + peer->rank].revents || !(peer->wishes() & POLLIN)))
      if (const Status status = move(*peer); !status.isOk())
        return explainLoss(*peer, status);
  return Status::ok();
}

Result<GroupId> SocketRank::openGroup(const std::vector<int64_t> &ranks, int64_t) {
  MGC_ASSIGN(index, indexInGroup(ranks, rank(), worldSize()));
  for (size_t id = 0; id < groups_.size(); ++id)
    if (groups_[id].terms.ranks == ranks)
      return static_cast<GroupId>(id);
  const uint64_t key =
      hashName({reinterpret_cast<const char *>(ranks.data()), ranks.size() * sizeof(int64_t)});
  for (const SocketGroup &other : groups_)
    if (other.key == key)
      return errorf("groups of ranks [{}] and [{}] have one key; expected other groups",
                    fmt::join(ranks, ", "), fmt::join(other.terms.ranks, ", "));
  groups_.emplace_back(ranks, index, key);
  return static_cast<GroupId>(groups_.size()) - 1;
}

} // namespace mgc
