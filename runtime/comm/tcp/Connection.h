// Connection: a TCP connection that carries messages, a kind and a body of numbers and texts behind their length. Received bytes
// are taken for hostile: sizes are bounded before anything is kept.
//
//   | bytes of the rest: 4 | kind: 1 | body ... |        numbers: 8 bytes; texts: 4 bytes of length, then the text
#pragma once

#include "runtime/comm/tcp/Socket.h"

#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace mgc {

inline constexpr int64_t kMaxMessageBytes = 1 << 20;

struct Message {
  uint8_t kind = 0;
  std::string body;

  template <typename Kind> static Message of(Kind kind) { return {static_cast<uint8_t>(kind), {}}; }
  template <typename Kind> bool is(Kind other) const { return kind == static_cast<uint8_t>(other); }
  Message &&with(int64_t number) &&;
  Message &&with(std::string_view text) &&;
  std::string bytes() const; // as they travel
};

// Reads the fields of a body in their order. After the first that is not there, all are empty.
class MessageReader {
public:
  explicit MessageReader(const Message &message) : rest_(message.body) {}
  int64_t number();
  std::string text();
  std::vector<std::string> texts();                         // the rest
  bool isWhole() const { return isGood_ && rest_.empty(); } // all fields were there, and nothing is left

private:
  std::string_view take(size_t bytes);
  std::string_view rest_;
  bool isGood_ = true;
};

// Errors are to be read behind the name of the other end. One thread may send while another receives.
class Connection {
public:
  using Bytes = std::shared_ptr<const std::string>; // one message; one copy for all its receivers

  explicit Connection(Descriptor socket) : socket_(std::move(socket)) {}
  const Descriptor &socket() const { return socket_; }

  // For clients: both wait until the deadline.
  Status send(const Message &message, Deadline deadline);
  Result<Message> receive(Deadline deadline, int64_t mostBytes = kMaxMessageBytes);

  // For a server: nothing waits. An error: the connection is closed or broken.
  void queue(Bytes bytes) { queued_.push_back(std::move(bytes)); }
  bool hasQueued() const { return !queued_.empty(); }
  Status sendQueued();
  Status receiveArrived();
  // The first message that has arrived whole; an error if one begins that is empty or longer than allowed.
  Result<std::optional<Message>> next(int64_t mostBytes);

private:
  Descriptor socket_;
  std::string received_;
  std::deque<Bytes> queued_;
  size_t sent_ = 0; // bytes of the first that is queued
};

} // namespace mgc
