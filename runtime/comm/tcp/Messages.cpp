// See Messages.h.
#include "runtime/comm/tcp/Messages.h"

#include <array>
#include <cstring>

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
  std::string text(bytesOf(static_cast<Length>(1 + body.size())));
  text += static_cast<char>(kind);
  return text + body;
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

Status MessageBuffer::receive(const Descriptor &connection, int64_t mostBytes) {
  std::array<std::byte, 16384> piece;
  MGC_ASSIGN(received, receiveSome(connection, piece));
  bytes_.append(reinterpret_cast<const char *>(piece.data()), received);
  if (bytes_.size() >= sizeof(Length) && (lengthAt(bytes_) < 1 || lengthAt(bytes_) > mostBytes))
    return errorf("sends a message of {} bytes, expected 1 to {}", lengthAt(bytes_), mostBytes);
  return Status::ok();
}

std::optional<Message> MessageBuffer::next() {
  if (bytes_.size() < sizeof(Length) || bytes_.size() - sizeof(Length) < lengthAt(bytes_) ||
      lengthAt(bytes_) == 0)
    return std::nullopt;
  const size_t length = lengthAt(bytes_);
  Message message{static_cast<uint8_t>(bytes_[sizeof(Length)]),
                  bytes_.substr(sizeof(Length) + 1, length - 1)};
  bytes_.erase(0, sizeof(Length) + length);
  return message;
}

Status sendMessage(const Descriptor &connection, const Message &message, Deadline deadline) {
  const std::string bytes = message.bytes();
  if (static_cast<int64_t>(message.body.size()) >= kMaxMessageBytes)
    return errorf("was to be sent a message of {} bytes, expected fewer than {}", message.body.size(),
                  kMaxMessageBytes);
  return sendAll(connection, std::as_bytes(std::span(bytes)), deadline);
}

Result<Message> receiveMessage(const Descriptor &connection, Deadline deadline) {
  std::array<std::byte, sizeof(Length)> head;
  MGC_TRY(receiveAll(connection, head, deadline));
  const Length length = lengthAt({reinterpret_cast<const char *>(head.data()), head.size()});
  if (length < 1 || length > kMaxMessageBytes)
    return errorf("answers with a message of {} bytes, expected 1 to {}", length, kMaxMessageBytes);
  std::string bytes(length, '\0');
  MGC_TRY(receiveAll(connection, std::as_writable_bytes(std::span(bytes)), deadline));
  return Message{static_cast<uint8_t>(bytes[0]), bytes.substr(1)};
}

} // namespace mgc
