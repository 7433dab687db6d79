// See Connection.h.
#include "runtime/comm/tcp/Connection.h"

#include <array>
#include <cstring>
#include <poll.h>

namespace mgc {

namespace {

using Length = uint32_t;

template <typename T> std::string_view bytesOf(const T &value) {
  return {reinterpret_cast<const char *>(&value), sizeof value};
}

Length lengthAt(std::string_view bytes) {
  Length length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return length;
}

} // namespace

Message &&Message::with(int64_t number) && {
  body += bytesOf(number);
  return std::move(*this);
}

Message &&Message::with(std::string_view text) && {
  body += bytesOf(static_cast<Length>(text.size()));
  body += text;
  return std::move(*this);
}

std::string Message::bytes() const {
  std::string text;
  text.reserve(sizeof(Length) + 1 + body.size());
  text += bytesOf(static_cast<Length>(1 + body.size()));
  text += static_cast<char>(kind);
  text += body;
  return text;
}

std::string_view MessageReader::take(size_t bytes) {
  isGood_ = isGood_ && bytes <= rest_.size();
  const std::string_view taken = rest_.substr(0, isGood_ ? bytes : 0);
  rest_.remove_prefix(taken.size());
  return taken;
}

int64_t MessageReader::number() {
  int64_t value = 0;
  const std::string_view bytes = take(sizeof value);
  if (!bytes.empty())
    std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string MessageReader::text() {
  const std::string_view length = take(sizeof(Length));
  return std::string(take(length.empty() ? 0 : lengthAt(length)));
}

std::vector<std::string> MessageReader::texts() {
  std::vector<std::string> texts;
  while (isGood_ && !rest_.empty())
    texts.push_back(text());
  return texts;
}

Status Connection::send(const Message &message, Deadline deadline) {
  const std::string bytes = message.bytes();
  return sendAll(socket_, std::as_bytes(std::span(bytes)), deadline);
}

Result<Message> Connection::receive(Deadline deadline, int64_t mostBytes) {
  while (true) {
    MGC_ASSIGN(message, next(mostBytes));
    if (message)
      return std::move(*message);
    MGC_TRY(waitFor(socket_, POLLIN, deadline));
    MGC_TRY(receiveArrived());
  }
}

Status Connection::sendQueued() {
  while (!queued_.empty()) {
    const std::string &first = *queued_.front();
    MGC_ASSIGN(sent, sendSome(socket_, std::as_bytes(std::span(first).subspan(sent_))));
    if (sent == 0)
      return Status::ok();
    sent_ += sent;
    if (sent_ == first.size()) {
      queued_.pop_front();
      sent_ = 0;
    }
  }
  return Status::ok();
}

Status Connection::receiveArrived() {
  std::array<std::byte, 65536> piece;
  MGC_ASSIGN(received, receiveSome(socket_, piece));
  received_.append(reinterpret_cast<const char *>(piece.data()), received);
  return Status::ok();
}

Result<std::optional<Message>> Connection::next(int64_t mostBytes) {
  if (received_.size() < sizeof(Length))
    return std::optional<Message>();
  const size_t length = lengthAt(received_), end = sizeof(Length) + length;
  if (length < 1 || std::cmp_greater(length, mostBytes))
    return errorf("sends a message of {} bytes, expected 1 to {}", length, mostBytes);
  received_.reserve(end);
  if (received_.size() < end)
    return std::optional<Message>();
  Message message{static_cast<uint8_t>(received_[sizeof(Length)]), received_.substr(sizeof(Length) + 1, length - 1)};
  received_.erase(0, end);
  return std::optional(std::move(message));
}

} // namespace mgc
