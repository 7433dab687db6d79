// See Store.h.
#include "runtime/comm/bootstrap/Store.h"

#include "runtime/base/Json.h"
#include "runtime/comm/bootstrap/StoreMessages.h"

#include <fmt/ranges.h>

namespace mgc {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

int64_t millisecondsTo(Deadline deadline) { return untilDeadline(deadline); }

Status isNoStore(const Endpoint &at, const std::string &found) {
  return errorf(
      "{} answers, but not as the store of mgrun does ({}): another program has the port, or another version "
      "of mgrun; expected rank 0 of this run there",
      toString(at), found);
}

} // namespace

std::string keyOf(std::string_view purpose, const std::vector<int64_t> &ranks) {
  return fmt::format("{}/{}", purpose, fmt::join(ranks, ","));
}

Result<std::unique_ptr<Store>> Store::join(const Endpoint &at, const Joining &joining, Deadline deadline,
                                           std::chrono::milliseconds patience) {
  Result<Descriptor> connection = connectTo(at, deadline);
  if (!connection.isOk())
    return errorf("{}; is rank 0 running, and is this the machine it runs on?",
                  connection.status().message());
  std::unique_ptr<Store> store(new Store(at, connection.take(), patience));
  MGC_TRY(store->hello(joining, deadline));
  return store;
}

Status Store::hello(const Joining &joining, Deadline deadline) {
  const RunIdentity &run = joining.run;
  const Message message = Message::of(StoreKind::hello)
                              .with(kStoreMagic)
                              .with(kStoreProtocol)
                              .with(joining.rank)
                              .with(run.processes)
                              .with(run.planVersion)
                              .with(static_cast<int64_t>(run.planHash))
                              .with(fmt::format("{}", fmt::join(run.settings, "\n")))
                              .with(joining.who)
                              .with(joining.failure)
                              .with(millisecondsTo(deadline));
  std::lock_guard lock(mutex_);
  if (const Status sent = sendMessage(connection_, message, deadline); !sent.isOk())
    return isNoStore(endpoint_, "it " + sent.message());
  MGC_ASSIGN(heard, receive(deadline)); // another program may have the port, and say nothing
  if (heard.kind != static_cast<uint8_t>(StoreKind::heard))
    return isNoStore(endpoint_, fmt::format("a message of kind {}", heard.kind));
  MGC_ASSIGN(answer, receive(deadline + patience_));
  MessageReader reader(answer);
  token_ = static_cast<uint64_t>(reader.number());
  return answer.kind == static_cast<uint8_t>(StoreKind::welcome) && reader.isWhole()
             ? Status::ok()
             : isNoStore(endpoint_, fmt::format("a message of kind {}", answer.kind));
}

// Patience begins when this thread's turn has come.
Result<Message> Store::ask(const Message &message, std::optional<Deadline> deadline) {
  std::lock_guard lock(mutex_);
  MGC_TRY(Status(lost_));
  const Deadline latest = deadline.value_or(Clock::now()) + patience_;
  if (const Status sent = sendMessage(connection_, message, latest); !sent.isOk())
    return lost_ = isNoStore(endpoint_, "it " + sent.message());
  return receive(latest);
}

Result<Message> Store::receive(Deadline latest) {
  Result<Message> answer = receiveMessage(connection_, latest);
  if (!answer.isOk())
    return lost_ = isNoStore(endpoint_, "it " + answer.status().message());
  if (answer->kind != static_cast<uint8_t>(StoreKind::refused))
    return answer;
  MessageReader reader(*answer);
  const std::string why = reader.text();
  return reader.isWhole() ? Status::error(why) : isNoStore(endpoint_, "a refusal without a reason");
}

Status Store::set(std::string_view key, std::string_view value) {
  return ask(Message::of(StoreKind::set).with(key).with(value)).status();
}

Result<std::string> Store::get(std::string_view key, Deadline deadline) {
  MGC_ASSIGN(answer, ask(Message::of(StoreKind::get).with(key).with(millisecondsTo(deadline)), deadline));
  return MessageReader(answer).text();
}

Result<int64_t> Store::add(std::string_view key, int64_t delta) {
  MGC_ASSIGN(answer, ask(Message::of(StoreKind::add).with(key).with(delta)));
  return static_cast<int64_t>(std::atoll(MessageReader(answer).text().c_str()));
}

Status Store::wait(const std::vector<std::string> &keys, Deadline deadline) {
  for (const std::string &key : keys)
    MGC_TRY(ask(Message::of(StoreKind::wait).with(key).with(millisecondsTo(deadline)), deadline).status());
  return Status::ok();
}

Status Store::forget(std::string_view beginning) {
  return ask(Message::of(StoreKind::forget).with(beginning)).status();
}

Status Store::barrier(std::string_view name, int64_t count, Deadline deadline) {
  const std::string open = fmt::format("barrier/{}/open", name);
  MGC_ASSIGN(come, add(fmt::format("barrier/{}/count", name), 1));
  if (come == count)
    MGC_TRY(set(open, ""));
  return wait({open}, deadline);
}

Result<std::vector<std::string>> Store::gather(std::string_view key, int64_t place, int64_t places,
                                               std::string_view value, Deadline deadline) {
  const Message message = Message::of(StoreKind::gather)
                              .with(key)
                              .with(value)
                              .with(millisecondsTo(deadline))
                              .with(place)
                              .with(places);
  MGC_ASSIGN(answer, ask(message, deadline));
  MessageReader reader(answer);
  std::vector<std::string> values;
  for (int64_t i = 0; i < places; ++i)
    values.push_back(reader.text());
  if (!reader.isWhole())
    return isNoStore(endpoint_, fmt::format("not {} values of '{}'", places, key));
  return values;
}

Result<std::string> Store::share(std::string_view key, bool isMaker,
                                 const std::function<Result<std::string>()> &make, Deadline deadline) {
  if (!isMaker)
    return get(key, deadline);
  MGC_ASSIGN(made, make());
  MGC_TRY(set(key, made));
  return made;
}

std::optional<std::string> whoListensOn(const Endpoint &at) {
  const Deadline deadline = Clock::now() + 1s;
  const Result<Descriptor> connection = connectTo(at, deadline);
  const Message question = Message::of(StoreKind::who).with(kStoreMagic).with(kStoreProtocol);
  if (!connection.isOk() || !sendMessage(*connection, question, deadline).isOk())
    return std::nullopt;
  const Result<Message> answer = receiveMessage(*connection, deadline);
  if (!answer.isOk() || answer->kind != static_cast<uint8_t>(StoreKind::value))
    return std::nullopt;
  return printable(MessageReader(*answer).text());
}

} // namespace mgc
