// A connection to one other rank. For runtime/comm only.
//
// All that travels is frames: a header, and for some a payload. No payload is sent before its receiver has said that it
// has room: a receive announces itself to the sender ("want"), and the members of a collective begin to send once all
// have entered it ("enter"). So nothing that arrives needs memory of its own, and a rank that is late holds up nobody
// but those who wait for it.
//
//     rank 0: send     rank 1: receive          rank 0: collective     rank 1: collective
//                <- want                                     enter ->
//                data ->                                  <- enter
//                                                             part ->
//                                                          <- part
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/comm/tcp/Socket.h"

#include <array>
#include <deque>
#include <optional>

namespace mgc {

// `rows` pieces of `rowBytes`, `stride` bytes from one to the next.
struct SocketRegion {
  std::byte *base = nullptr; // only read of what is sent
  int64_t rows = 0, rowBytes = 0, stride = 0;
  int64_t bytes() const { return rows * rowBytes; }
  static SocketRegion of(const void *base, int64_t bytes) {
    return {const_cast<std::byte *>(static_cast<const std::byte *>(base)), bytes > 0 ? 1 : 0, bytes, bytes};
  }
};

struct SocketFrame {
  enum class Kind : int64_t {
    enter,    // a collective or barrier: group, meeting, Agreement
    want,     // a transfer: value, microbatch, bytes
    mismatch, // in the place of `data`: the same of what is sent
    data,     // of the oldest transfer that is wanted
    part      // of the collective that both are in
  } kind = Kind::enter;
  int64_t bytes = 0; // of the payload
  static constexpr size_t kFields = 11;
  std::array<int64_t, kFields> fields{};
};

// Moves the bytes of a region through a socket.
class Moving {
public:
  Moving() = default;
  explicit Moving(const SocketRegion &region) : region_(region) {}
  bool isDone() const { return done_ == region_.bytes(); }
  // As far as it goes now.
  Status send(const Descriptor &socket);
  Status receive(const Descriptor &socket);

private:
  template <typename Call> Status move(const Call &call);
  SocketRegion region_;
  int64_t done_ = 0;
};

class SocketPeer {
public:
  // The handler of a peer's frames.
  class Owner {
  public:
    virtual ~Owner() = default;
    // Where the payload of a frame goes; nothing: it stays where it is until asked again.
    virtual Result<std::optional<SocketRegion>> place(SocketPeer &from, const SocketFrame &frame) = 0;
    virtual Status arrived(SocketPeer &from, const SocketFrame &frame) = 0;
    virtual void sent(int64_t number) = 0;
  };

  SocketPeer(int64_t rank, Descriptor socket) : rank(rank), socket_(std::move(socket)) {}
  const int64_t rank;

  // The payload is read until sent(number).
  void queue(const SocketFrame &frame, const SocketRegion &payload = {}, int64_t number = -1);
  bool hasToSend() const { return !out_.empty(); }
  short wishes() const; // for poll(2)
  const Descriptor &descriptor() const { return socket_; }
  // As far as it goes now; an error when the connection is closed or broken.
  Status send(Owner &owner);
  Status receive(Owner &owner);

  // The open transfers with this rank, oldest first.
  std::deque<Ticket> sends, receives; // that the other does not want yet; that have not arrived
  std::deque<SocketFrame> wants;      // without a send
  std::optional<SocketRegion> part;   // where its part of the collective goes

private:
  struct Outgoing {
    SocketFrame frame;
    SocketRegion payload;
    int64_t number = -1;
  };
  Descriptor socket_;
  std::deque<Outgoing> out_;
  enum class State { idle, header, placing, payload };
  State sending_ = State::idle, receiving_ = State::idle;
  SocketFrame incoming_;
  Moving sendMoving_, receiveMoving_;
};

} // namespace mgc
