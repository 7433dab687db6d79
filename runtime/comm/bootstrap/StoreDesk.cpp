// See StoreDesk.h.
#include "runtime/comm/bootstrap/StoreDesk.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <random>
#include <utility>

namespace mgc {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kStrangers = 64; // connections beyond two of each process
// For a new connection to say what it is; where there is no room for more, others wait for it to go.
constexpr std::chrono::seconds kHelloTime(10), kHelloTimeWhenFull(1);

constexpr std::string_view kUnknown = "sent the store a message that it does not know";

std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(printable(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

} // namespace

void StoreConnection::park(ParkedRequest request) {
  constexpr int64_t kLongest = 1'000'000'000;
  request.milliseconds = std::clamp<int64_t>(request.milliseconds, 0, kLongest);
  request.deadline = Clock::now() + std::chrono::milliseconds(request.milliseconds);
  parked = std::move(request);
}

StoreDesk::StoreDesk(const Joining &own, std::list<StoreConnection> &connections)
    : connections_(connections), roll_(own),
      token_(std::random_device()() * 0x9E3779B97F4A7C15u ^ std::random_device()()) {}

bool StoreDesk::hasRoom() const {
  return static_cast<int64_t>(connections_.size()) < 2 * roll_.processes() + kStrangers;
}

void StoreDesk::drop(StoreConnection &connection, std::string_view why) {
  connection.socket.close();
  if (connection.rank >= 0 && !roll_.isFinished(connection.rank))
    abortAll(-1, fmt::format("{} {}", roll_.nameOf(connection.rank), why));
}

void StoreDesk::expire() {
  const auto now = Clock::now(), latest = now - (hasRoom() ? kHelloTime : kHelloTimeWhenFull);
  for (StoreConnection &connection : connections_) {
    if (connection.rank < 0 && connection.since <= latest)
      connection.socket.close();
    if (!connection.parked || now < connection.parked->deadline)
      continue;
    const double seconds = static_cast<double>(connection.parked->milliseconds) / 1000;
    if (!connection.parked->key)
      return abortAll(-1, roll_.describeMissing(seconds));
    const std::string key = printable(*connection.parked->key);
    connection.refuse(
        connection.parked->isGather
            ? fmt::format("waited {} s for {}", seconds, gathers_.describeMissing(*connection.parked->key))
            : fmt::format("waited {} s for '{}', which nobody has set", seconds, key));
    connection.parked.reset();
  }
}

void StoreDesk::handle(StoreConnection &connection, const Message &message) {
  const auto kind = static_cast<StoreKind>(message.kind);
  if (connection.isWatch)
    return handleWord(connection, message);
  if (connection.rank >= 0)
    return handleRequest(connection, message);
  if (kind == StoreKind::hello)
    return handleHello(connection, message);
  if (kind == StoreKind::watch)
    return handleWatch(connection, message);
  if (kind == StoreKind::who)
    return handleWho(connection, message);
  connection.socket.close();
}

void StoreDesk::handleWho(StoreConnection &connection, const Message &message) {
  MessageReader reader(message);
  if (reader.text() != kStoreMagic)
    return connection.socket.close();
  connection.say(
      Message::of(StoreKind::value)
          .with(fmt::format("mgrun, {}, with a plan of {} ranks", roll_.own().who, roll_.processes())));
  connection.isEnding = true;
}

void StoreDesk::handleHello(StoreConnection &connection, const Message &message) {
  MessageReader reader(message);
  if (reader.text() != kStoreMagic)
    return connection.socket.close();
  if (const int64_t protocol = reader.number(); protocol != kStoreProtocol)
    return connection.sendAway(
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
  enter(connection, found, milliseconds);
}

// Until all have come, one that does not belong ends the start of all; later it is only sent away.
void StoreDesk::enter(StoreConnection &connection, const Joining &found, int64_t milliseconds) {
  roll_.call(found.rank);
  if (notice_)
    return connection.sendAway(cause_);
  if (const Status entered = roll_.enter(found); !entered.isOk()) {
    connection.sendAway(entered.message());
    awaitsStragglers_ = !roll_.isComplete();
    return awaitsStragglers_ ? abortAll(-1, entered.message()) : void();
  }
  connection.rank = found.rank;
  connection.say(Message::of(StoreKind::heard));
  connection.park({.key = {}, .milliseconds = milliseconds});
  if (roll_.isComplete())
    welcomeAll();
}

void StoreDesk::welcomeAll() {
  for (StoreConnection &connection : connections_)
    if (connection.parked) {
      connection.parked.reset();
      connection.say(Message::of(StoreKind::welcome).with(static_cast<int64_t>(token_)));
    }
}

void StoreDesk::handleWatch(StoreConnection &connection, const Message &message) {
  MessageReader reader(message);
  const auto token = static_cast<uint64_t>(reader.number());
  const int64_t rank = reader.number();
  if (!reader.isWhole() || token != token_ || !roll_.hasCome(rank))
    return connection.socket.close();
  connection.rank = rank;
  connection.isWatch = true;
  if (notice_)
    connection.say(*notice_);
}

void StoreDesk::handleWord(StoreConnection &connection, const Message &message) {
  const auto kind = static_cast<StoreKind>(message.kind);
  if (kind == StoreKind::abort)
    return abortAll(connection.rank, MessageReader(message).text());
  if (kind != StoreKind::finished)
    return drop(connection, kUnknown);
  roll_.finish(connection.rank);
  if (roll_.haveAllFinished())
    forEachWatch([](StoreConnection &watch) { watch.say(Message::of(StoreKind::over)); });
}

void StoreDesk::handleRequest(StoreConnection &connection, const Message &message) {
  const auto kind = static_cast<StoreKind>(message.kind);
  MessageReader reader(message);
  const std::string key = reader.text();
  const bool isSet = kind == StoreKind::set, isGather = kind == StoreKind::gather;
  const std::string value = isSet || isGather ? reader.text() : "";
  const int64_t number = isSet || kind == StoreKind::forget ? 0 : reader.number();
  const int64_t place = isGather ? reader.number() : 0, places = isGather ? reader.number() : 0;
  if (connection.parked || !reader.isWhole())
    return drop(connection, kUnknown);
  if (notice_)
    return connection.refuse(cause_);
  if (key.size() > kMaxKeyBytes)
    return connection.refuse(fmt::format("a key of {} bytes, expected at most {}", key.size(), kMaxKeyBytes));
  if (isGather)
    return gather(connection, key, {place, places, value}, number);
  answer(connection, kind, key, value, number);
}

void StoreDesk::gather(StoreConnection &by, const std::string &key, const GatheredValue &value,
                       int64_t milliseconds) {
  if (value.places > roll_.processes())
    return by.refuse(fmt::format("'{}': {} places; expected at most {}, the number of processes",
                                 printable(key), value.places, roll_.processes()));
  const Result<const std::vector<std::string> *> values = gathers_.add(key, value);
  if (!values.isOk())
    return by.refuse(values.status().message());
  by.park({.key = key, .isGather = true, .milliseconds = milliseconds});
  if (!*values)
    return;
  Message all = Message::of(StoreKind::value);
  for (const std::string &one : **values)
    (void)std::move(all).with(one); // in place
  for (StoreConnection &connection : connections_)
    if (connection.parked && connection.parked->isGather && connection.parked->key == key) {
      connection.say(all);
      connection.parked.reset();
    }
  gathers_.forget(key);
}

void StoreDesk::answer(StoreConnection &by, StoreKind kind, const std::string &key, const std::string &value,
                       int64_t number) {
  if (kind == StoreKind::get || kind == StoreKind::wait) {
    by.park({.key = key, .wantsValue = kind == StoreKind::get, .milliseconds = number});
    return answerParked(key);
  }
  if (kind == StoreKind::forget) {
    values_.forget(key);
    return by.say(Message::of(StoreKind::value).with(std::string_view()));
  }
  if (kind != StoreKind::set && kind != StoreKind::add)
    return drop(by, kUnknown);
  const Result<std::string> done = kind == StoreKind::add ? values_.add(key, number) : set(key, value);
  if (!done.isOk())
    return by.refuse(done.status().message());
  by.say(Message::of(StoreKind::value).with(*done));
  answerParked(key);
}

Result<std::string> StoreDesk::set(const std::string &key, const std::string &value) {
  MGC_TRY(values_.set(key, value));
  return std::string();
}

void StoreDesk::answerParked(const std::string &key) {
  const std::string *value = values_.find(key);
  if (!value)
    return;
  for (StoreConnection &connection : connections_)
    if (connection.parked && !connection.parked->isGather && connection.parked->key == key) {
      connection.say(Message::of(StoreKind::value).with(connection.parked->wantsValue ? *value : ""));
      connection.parked.reset();
    }
}

template <typename Visit> void StoreDesk::forEachWatch(Visit visit) {
  for (StoreConnection &connection : connections_)
    if (connection.isWatch && connection.socket.isOpen())
      visit(connection);
}

// The first cause is the one that all are told.
void StoreDesk::abortAll(int64_t origin, const std::string &cause) {
  if (notice_)
    return;
  cause_ = cause.substr(0, kMaxCauseBytes);
  notice_ = Message::of(StoreKind::notice).with(origin).with(cause_);
  forEachWatch([&](StoreConnection &watch) { watch.say(*notice_); });
  for (StoreConnection &connection : connections_)
    if (std::exchange(connection.parked, std::nullopt))
      connection.refuse(cause_);
}

} // namespace mgc
