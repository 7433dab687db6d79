// See StoreServer.h. One thread serves all connections with poll(2). A request that must wait is parked with its
// connection; a connection has one at a time, and is not read while something for it has not been sent.
#include "runtime/comm/StoreServer.h"

#include "runtime/base/Json.h"
#include "runtime/comm/Roll.h"
#include "runtime/comm/StoreMessages.h"

#include <atomic>
#include <cerrno>
#include <list>
#include <map>
#include <poll.h>
#include <random>
#include <thread>

namespace mgc {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kHelloTime = 10s; // for a new connection to say what it is
constexpr auto kLastWords = 2s;
constexpr auto kStragglers = 10s;  // for processes that start late to call, and hear that there is no run
constexpr int64_t kStrangers = 64; // connections beyond two of each process

// A request that is answered later; without a key it is a hello.
struct Parked {
  std::optional<std::string> key;
  bool wantsValue = false;
  int64_t milliseconds = 0;
  Deadline deadline;
};

struct Connection {
  Descriptor socket;
  Deadline helloBy;
  MessageBuffer in;
  std::string out;
  int64_t rank = -1;                      // -1: a stranger
  bool isWatch = false, isEnding = false; // ends once `out` is sent
  std::optional<Parked> parked;
};

class Server final : public StoreServer {
public:
  Server(Descriptor listening, const Joining &own)
      : listening_(std::move(listening)), roll_(own),
        token_(std::random_device()() * 0x9E3779B97F4A7C15u ^ std::random_device()()) {}
  ~Server() override;
  int64_t port() const override { return portOf(listening_); }
  void startThread() {
    thread_ = std::thread([this] { serve(); });
  }

private:
  void serve();
  void wait();
  void admit();
  void exchange(Connection &connection, short events);
  void drop(Connection &connection);
  void expire();

  void handle(Connection &connection, const Message &message);
  void handleHello(Connection &connection, const Message &message);
  void handleWatch(Connection &connection, const Message &message);
  void handleWord(Connection &connection, const Message &message); // of a watching connection
  void handleRequest(Connection &connection, const Message &message);
  int64_t sumOf(const std::string &key, int64_t delta) const;
  void answerSet(Connection &by, const std::string &key, const std::string &value, std::string_view answer);
  void park(Connection &connection, Parked parked);
  void answerParked(const std::string &key);
  void welcomeAll();
  void abortAll(int64_t origin, const std::string &cause);
  template <typename Visit> void forEachWatch(Visit visit);

  const Descriptor listening_;
  Roll roll_;
  const uint64_t token_;
  std::map<std::string, std::string> values_;
  int64_t storedBytes_ = 0;
  std::optional<Message> notice_; // why all end
  std::string cause_;
  bool awaitsStragglers_ = false; // to tell them that the start has failed
  std::list<Connection> connections_;
  std::atomic<bool> ending_{false};
  Waker waker_;
  std::thread thread_;
};

void say(Connection &to, const Message &message) { to.out += message.bytes(); }
void refuse(Connection &to, std::string_view why) { say(to, Message::of(StoreKind::refused).with(why)); }
void sendAway(Connection &to, std::string_view why) {
  refuse(to, why);
  to.isEnding = true;
}

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
      endBy = Clock::now() + (awaitsStragglers_ ? kStragglers : kLastWords);
    const bool hasHeardAll = connections_.empty() && (!awaitsStragglers_ || roll_.haveAllCalled());
    if (endBy && (hasHeardAll || Clock::now() >= *endBy))
      return;
    wait();
    expire();
    std::erase_if(connections_, [](const Connection &c) { return !c.socket.isOpen(); });
  }
}

void Server::wait() {
  Deadline next = Clock::now() + (ending_ ? 50ms : 1000ms);
  std::vector<pollfd> polled = {{waker_.number(), POLLIN, 0}, {listening_.number(), POLLIN, 0}};
  for (const Connection &connection : connections_) {
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
  for (Connection &connection : connections_)
    exchange(connection, polled[index++].revents);
  if (polled[1].revents)
    admit();
}

void Server::admit() {
  for (Descriptor socket = acceptOn(listening_); socket.isOpen(); socket = acceptOn(listening_))
    if (static_cast<int64_t>(connections_.size()) < 2 * roll_.processes() + kStrangers)
      connections_.push_back({std::move(socket), Clock::now() + kHelloTime, {}, {}, -1, false, false, {}});
}

void Server::exchange(Connection &connection, short events) {
  if (!connection.socket.isOpen())
    return; // another one's message has ended it
  if (events & ~POLLOUT) {
    if (!connection.in.receive(connection.socket, connection.rank < 0 ? kMaxHelloBytes : kMaxMessageBytes)
             .isOk())
      return drop(connection);
    while (!connection.isEnding && connection.socket.isOpen()) {
      const std::optional<Message> message = connection.in.next();
      if (!message)
        break;
      handle(connection, *message);
    }
  }
  if (!connection.out.empty()) {
    const Result<int64_t> sent = sendSome(connection.socket, std::as_bytes(std::span(connection.out)));
    if (!sent.isOk())
      return drop(connection);
    connection.out.erase(0, *sent);
  }
  if (connection.isEnding && connection.out.empty())
    connection.socket.close();
}

// A process that goes without having finished, or having said why not, takes the run with it.
void Server::drop(Connection &connection) {
  connection.socket.close();
  if (connection.rank >= 0 && !roll_.isFinished(connection.rank))
    abortAll(-1, fmt::format("{} ended without a word: was it killed, or out of memory?",
                             roll_.nameOf(connection.rank)));
}

void Server::expire() {
  const auto now = Clock::now();
  for (Connection &connection : connections_) {
    if (connection.rank < 0 && now >= connection.helloBy)
      connection.socket.close();
    if (!connection.parked || now < connection.parked->deadline)
      continue;
    const double seconds = static_cast<double>(connection.parked->milliseconds) / 1000;
    if (!connection.parked->key)
      return abortAll(-1, roll_.describeMissing(seconds));
    refuse(connection, fmt::format("waited {} s for '{}', which nobody has set", seconds,
                                   printable(*connection.parked->key)));
    connection.parked.reset();
  }
}

void Server::handle(Connection &connection, const Message &message) {
  const auto kind = static_cast<StoreKind>(message.kind);
  if (connection.isWatch)
    return handleWord(connection, message);
  if (connection.rank >= 0)
    return handleRequest(connection, message);
  if (kind == StoreKind::hello)
    return handleHello(connection, message);
  if (kind == StoreKind::watch)
    return handleWatch(connection, message);
  MessageReader reader(message);
  if (kind != StoreKind::who || reader.text() != kStoreMagic)
    return connection.socket.close();
  say(connection,
      Message::of(StoreKind::value)
          .with(fmt::format("mgrun, {}, with a plan of {} ranks", roll_.own().who, roll_.processes())));
  connection.isEnding = true;
}

std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(printable(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Until all have come, one that does not belong ends the start of all; later it is only sent away.
void Server::handleHello(Connection &connection, const Message &message) {
  MessageReader reader(message);
  if (reader.text() != kStoreMagic)
    return connection.socket.close();
  if (const int64_t protocol = reader.number(); protocol != kStoreProtocol)
    return sendAway(
        connection,
        fmt::format("it speaks version {} of the store's language, rank 0 ({}) version {}: another "
                    "version of mgrun; expected one version for all",
                    protocol, roll_.own().who, kStoreProtocol));
  Joining found;
  found.rank = reader.number();
  found.run.processes = reader.number();
  found.run.planVersion = reader.number();
  found.run.planHash = static_cast<uint64_t>(reader.number());
  found.run.settings = linesOf(reader.text());
  found.who = printable(reader.text());
  found.failure = reader.text().substr(0, kMaxCauseBytes);
  const int64_t milliseconds = reader.number();
  if (!reader.isWhole())
    return connection.socket.close();
  roll_.call(found.rank);
  if (notice_)
    return sendAway(connection, cause_);
  if (const Status entered = roll_.enter(found); !entered.isOk()) {
    sendAway(connection, entered.message());
    awaitsStragglers_ = !roll_.isComplete();
    return awaitsStragglers_ ? abortAll(-1, entered.message()) : void();
  }
  connection.rank = found.rank;
  park(connection, {{}, false, milliseconds, {}});
  if (roll_.isComplete())
    welcomeAll();
}

void Server::welcomeAll() {
  for (Connection &connection : connections_)
    if (connection.parked) {
      connection.parked.reset();
      say(connection, Message::of(StoreKind::welcome).with(static_cast<int64_t>(token_)));
    }
}

void Server::handleWatch(Connection &connection, const Message &message) {
  MessageReader reader(message);
  const auto token = static_cast<uint64_t>(reader.number());
  const int64_t rank = reader.number();
  if (!reader.isWhole() || token != token_ || !roll_.hasCome(rank))
    return connection.socket.close();
  connection.rank = rank;
  connection.isWatch = true;
  if (notice_)
    say(connection, *notice_);
}

void Server::handleWord(Connection &connection, const Message &message) {
  const auto kind = static_cast<StoreKind>(message.kind);
  if (kind == StoreKind::abort)
    return abortAll(connection.rank, MessageReader(message).text());
  if (kind != StoreKind::finished)
    return drop(connection);
  roll_.finish(connection.rank);
  if (roll_.haveAllFinished())
    forEachWatch([](Connection &watch) { say(watch, Message::of(StoreKind::over)); });
}

void Server::handleRequest(Connection &connection, const Message &message) {
  const auto kind = static_cast<StoreKind>(message.kind);
  MessageReader reader(message);
  const std::string key = reader.text();
  const bool isSet = kind == StoreKind::set;
  const std::string value = isSet ? reader.text() : "";
  const int64_t number = isSet ? 0 : reader.number();
  if (connection.parked || !reader.isWhole())
    return drop(connection);
  if (notice_)
    return refuse(connection, cause_);
  if (key.size() > kMaxKeyBytes)
    return refuse(connection,
                  fmt::format("a key of {} bytes, expected at most {}", key.size(), kMaxKeyBytes));
  if (isSet)
    return answerSet(connection, key, value, "");
  if (kind == StoreKind::add) {
    const std::string sum = std::to_string(sumOf(key, number));
    return answerSet(connection, key, sum, sum);
  }
  if (kind != StoreKind::get && kind != StoreKind::wait)
    return drop(connection);
  park(connection, {key, kind == StoreKind::get, number, {}});
  answerParked(key);
}

// Wraps around beyond 64 bits.
int64_t Server::sumOf(const std::string &key, int64_t delta) const {
  const auto found = values_.find(key);
  const uint64_t before =
      found == values_.end() ? 0 : static_cast<uint64_t>(std::atoll(found->second.c_str()));
  return static_cast<int64_t>(before + static_cast<uint64_t>(delta));
}

void Server::answerSet(Connection &by, const std::string &key, const std::string &value,
                       std::string_view answer) {
  const auto found = values_.find(key);
  const size_t before = found == values_.end() ? 0 : key.size() + found->second.size();
  const int64_t bytes =
      storedBytes_ - static_cast<int64_t>(before) + static_cast<int64_t>(key.size() + value.size());
  if (bytes > kMaxStoreBytes)
    return refuse(by, fmt::format("the store is full: '{}' would make it {} bytes, expected at most {}",
                                  printable(key), bytes, kMaxStoreBytes));
  storedBytes_ = bytes;
  values_[key] = value;
  say(by, Message::of(StoreKind::value).with(answer));
  answerParked(key);
}

void Server::park(Connection &connection, Parked parked) {
  constexpr int64_t kLongest = 1'000'000'000;
  parked.milliseconds = std::clamp<int64_t>(parked.milliseconds, 0, kLongest);
  parked.deadline = Clock::now() + std::chrono::milliseconds(parked.milliseconds);
  connection.parked = std::move(parked);
}

void Server::answerParked(const std::string &key) {
  const auto found = values_.find(key);
  if (found == values_.end())
    return;
  for (Connection &connection : connections_)
    if (connection.parked && connection.parked->key == key) {
      say(connection, Message::of(StoreKind::value).with(connection.parked->wantsValue ? found->second : ""));
      connection.parked.reset();
    }
}

template <typename Visit> void Server::forEachWatch(Visit visit) {
  for (Connection &connection : connections_)
    if (connection.isWatch && connection.socket.isOpen())
      visit(connection);
}

// The first cause is the one that all are told.
void Server::abortAll(int64_t origin, const std::string &cause) {
  if (notice_)
    return;
  cause_ = cause.substr(0, kMaxCauseBytes);
  notice_ = Message::of(StoreKind::notice).with(origin).with(cause_);
  forEachWatch([&](Connection &watch) { say(watch, *notice_); });
  for (Connection &connection : connections_)
    if (std::exchange(connection.parked, std::nullopt))
      refuse(connection, cause_);
}

std::string describeOwner(const Endpoint &at) {
  const std::optional<std::string> owner = whoListensOn(at);
  return owner ? fmt::format("the port belongs to another run: {}", *owner)
               : "if another program has the port, it is not mgrun";
}

} // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::start(const Endpoint &at, const Joining &own) {
  Result<Descriptor> listening = listenOn(at);
  if (!listening.isOk())
    return errorf("rank 0: {}: {}; another MASTER_PORT, or --master-port, would work",
                  listening.status().message(), describeOwner(at));
  auto server = std::make_unique<Server>(listening.take(), own);
  server->startThread();
  return std::unique_ptr<StoreServer>(std::move(server));
}

} // namespace mgc
