// Messages between processes: a kind and a body of numbers and texts, behind their length. Received messages are
// taken for hostile: sizes are bounded before anything is kept.
//
//   | bytes of the rest: 4 | kind: 1 | body ... |        numbers: 8 bytes; texts: 4 bytes of length, then the text
#pragma once

#include "runtime/comm/tcp/Socket.h"

#include <optional>
#include <string_view>
#include <vector>

namespace mgc {

inline constexpr int64_t kMaxMessageBytes = 1 << 20;

struct Message {
  uint8_t kind = 0;
  std::string body;

  template <typename Kind> static Message of(Kind kind) { return {static_cast<uint8_t>(kind), {}}; }
  Message &&with(int64_t number) &&;
  Message &&with(std::string_view text) &&;
  std::string bytes() const; // as they travel
};

// Takes the fields of a body apart, in their order. After the first that is not there, all are empty.
class MessageReader {
public:
  explicit MessageReader(const Message &message) : rest_(message.body) {}
  int64_t number();
  std::string text();
  bool isWhole() const { return isGood_ && rest_.empty(); } // all fields were there, and nothing is left

private:
  std::string_view take(size_t bytes);
  std::string_view rest_;
  bool isGood_ = true;
};

// Bytes that arrive in pieces -> messages.
class MessageBuffer {
public:
  // Takes what has arrived. An error, to be read behind the name of the other end: the connection is closed or broken, or a
  // message is longer than allowed.
  Status receive(const Descriptor &connection, int64_t mostBytes = kMaxMessageBytes);
  std::optional<Message> next();
  std::string_view unread() const { return bytes_; }

private:
  std::string bytes_;
};

// Errors are to be read behind the name of the other end.
Status sendMessage(const Descriptor &connection, const Message &message, Deadline deadline);
Result<Message> receiveMessage(const Descriptor &connection, Deadline deadline);

} // namespace mgc
