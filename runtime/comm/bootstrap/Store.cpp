// See Store.h.
#include "runtime/comm/bootstrap/Store.h"

#include "runtime/base/Json.h"
#include "runtime/comm/bootstrap/StoreMessages.h"

#include <sys/socket.h>

namespace mgc {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kSending = 2s; // for a message to be sent

Status isNoStore(const Endpoint &at, const std::string &found) {
  return errorf("{} answers, but not as the store of mgrun does ({}): another program has the port, or another version "
                "of mgrun; expected rank 0 of this run there",
                toString(at), found);
}

Message requestOf(StoreKind kind, std::string_view key, Deadline deadline, int64_t place = 0, int64_t places = 1,
                  std::string_view value = {}) {
  return Message::of(kind).with(key).with(int64_t(untilDeadline(deadline))).with(place).with(places).with(value);
}

} // namespace

Result<std::unique_ptr<Store>> Store::join(const Endpoint &at, const Joining &joining, Deadline deadline,
                                           std::chrono::milliseconds patience) {
  Result<Descriptor> socket = connectTo(at, deadline);
  if (!socket.isOk())
    return errorf("{}; is rank 0 running, and is this the machine it runs on?", socket.status().message());
  std::unique_ptr<Store> store(new Store(at, socket.take(), patience));
  MGC_TRY(store->shakeHands(joining, deadline));
  store->receiver_ = std::thread([&own = *store] { own.receiveAll(); });
  return store;
}

Store::~Store() {
  {
    const std::lock_guard lock(mutex_);
    isOver_ = true;
  }
  (void)::shutdown(connection_.socket().number(), SHUT_RDWR);
  if (receiver_.joinable())
    receiver_.join();
}

// Another program may have the port, and say nothing.
Status Store::shakeHands(const Joining &joining, Deadline deadline) {
  if (const Status sent = send(helloOf(joining, deadline), deadline); !sent.isOk())
    return isNoStore(endpoint_, "it " + sent.message());
  for (const auto &[expected, latest] :
       {std::pair(StoreKind::heard, deadline), {StoreKind::welcome, deadline + patience_}}) {
    const Result<Message> answer = connection_.receive(latest);
    if (!answer.isOk())
      return isNoStore(endpoint_, "it " + answer.status().message());
    MessageReader reader(*answer);
    if (answer->is(StoreKind::notice)) {
      (void)reader.number();
      return Status::error(reader.text());
    }
    if (!answer->is(expected))
      return isNoStore(endpoint_, fmt::format("a message of kind {}", answer->kind));
  }
  return Status::ok();
}

Status Store::send(const Message &message, Deadline deadline) {
  const std::lock_guard lock(sendMutex_);
  return connection_.send(message, deadline);
}

Result<Store::Values> Store::ask(const Message &message, const std::string &key, int64_t values, Deadline deadline) {
  if (std::ssize(message.body) >= kMaxMessageBytes)
    return errorf("the store was to be sent a message of {} bytes, expected fewer than {}", message.body.size(),
                  kMaxMessageBytes);
  {
    const std::lock_guard lock(mutex_);
    if (!answers_.emplace(key, std::nullopt).second)
      return errorf("'{}': another thread waits for it; expected a key of its own for each", printable(key));
  }
  const Deadline latest = std::max(deadline, Clock::now()) + patience_;
  const Status sent = send(message, latest);
  if (!sent.isOk()) // perhaps a part of the message
    endBecause(-1, isNoStore(endpoint_, "it " + sent.message()).message());
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, latest, [&] { return cause_ || answers_[key]; });
  std::optional<Result<Values>> answer = std::move(answers_.extract(key).mapped());
  if (!answer)
    return cause_ ? Status::error(cause_->text) : isNoStore(endpoint_, "it does not answer in time");
  if (answer->isOk() && std::ssize(**answer) != values)
    return isNoStore(endpoint_, fmt::format("not {} values of '{}'", values, key));
  return std::move(*answer);
}

void Store::receiveAll() {
  while (true) {
    const Result<Message> message = connection_.receive(Deadline::max(), kMaxAnswerBytes);
    if (message.isOk()) {
      handle(*message);
      continue;
    }
    note(isLost_);
    return endBecause(
        -1, fmt::format("rank 0, which holds the store at {}, {}", toString(endpoint_), message.status().message()));
  }
}

// An answer that nobody awaits any more is dropped.
void Store::handle(const Message &message) {
  MessageReader reader(message);
  if (message.is(StoreKind::notice)) {
    const int64_t rank = reader.number();
    return endBecause(rank, reader.text());
  }
  if (message.is(StoreKind::told))
    return note(isTold_);
  const std::string key = reader.text();
  const std::lock_guard lock(mutex_);
  const auto awaited = answers_.find(key);
  if (awaited == answers_.end())
    return;
  const bool isRefused = message.is(StoreKind::refused);
  awaited->second = isRefused ? Result<Values>(Status::error(reader.text())) : Result<Values>(reader.texts());
  isOver_ |= key == kEndOfRun && !isRefused;
  changed_.notify_all();
}

void Store::note(bool &fact) {
  const std::lock_guard lock(mutex_);
  fact = true;
  changed_.notify_all();
}

void Store::endBecause(int64_t rank, const std::string &text) {
  {
    const std::lock_guard lock(mutex_);
    if (isOver_ || cause_)
      return;
    cause_ = {rank, text};
    changed_.notify_all();
  }
  const std::lock_guard lock(listenerMutex_);
  if (const AbortListener told = std::exchange(listener_, nullptr))
    told(Status::error(text));
}

void Store::setAbortListener(AbortListener listener) {
  const std::lock_guard lock(listenerMutex_);
  listener_ = std::move(listener);
  if (const auto why = awaitCause(0ms))
    if (const AbortListener told = std::exchange(listener_, nullptr))
      told(Status::error(why->text));
}

// Where it cannot be sent the store is gone, and all end anyway.
void Store::abort(const Status &cause) {
  if (!awaitCause(0ms))
    (void)send(Message::of(StoreKind::abort).with(std::string_view(cause.message()).substr(0, kMaxCauseBytes)),
               Clock::now() + kSending);
}

std::optional<Store::Cause> Store::awaitCause(std::chrono::milliseconds most) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [&] { return cause_ || isOver_; });
  return cause_;
}

void Store::tell() { (void)send(Message::of(StoreKind::told), Clock::now() + kSending); }

bool Store::awaitTold(std::chrono::milliseconds most) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [&] { return isTold_ || isLost_; });
  return isTold_;
}

Result<Store::Values> Store::gather(std::string_view key, int64_t place, int64_t places, std::string_view value,
                                    Deadline deadline) {
  return ask(requestOf(StoreKind::gather, key, deadline, place, places, value), std::string(key), places, deadline);
}

Result<Store::Values> Store::gatherToFirst(std::string_view key, int64_t place, int64_t places, std::string_view value,
                                           Deadline deadline) {
  return ask(requestOf(StoreKind::gatherToFirst, key, deadline, place, places, value), std::string(key),
             place == 0 ? places : 0, deadline);
}

Result<std::string> Store::share(std::string_view key, bool isMaker, const std::function<Result<std::string>()> &make,
                                 Deadline deadline) {
  std::string made;
  if (isMaker)
    MGC_SET(made, make());
  MGC_ASSIGN(values, ask(requestOf(isMaker ? StoreKind::share : StoreKind::get, key, deadline, 0, 1, made),
                         std::string(key), 1, deadline));
  return std::move(values[0]);
}

std::optional<std::string> whoListensOn(const Endpoint &at) {
  const Deadline deadline = Clock::now() + 1s;
  Result<Descriptor> socket = connectTo(at, deadline);
  if (!socket.isOk())
    return std::nullopt;
  Connection connection(socket.take());
  if (!connection.send(Message::of(StoreKind::who).with(kStoreMagic), deadline).isOk())
    return std::nullopt;
  const Result<Message> answer = connection.receive(deadline);
  if (!answer.isOk() || !answer->is(StoreKind::values))
    return std::nullopt;
  return printable(MessageReader(*answer).text());
}

} // namespace mgc
