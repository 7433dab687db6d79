// See SocketPeer.h.
#include "runtime/comm/process/SocketPeer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace mgc {

// Many short rows go in one call.
template <typename Call> Status Moving::move(const Call &call) {
  constexpr int64_t kPieces = 64;
  while (!isDone()) {
    std::array<iovec, kPieces> pieces;
    const int64_t first = done_ / region_.rowBytes;
    const int64_t count = std::min(kPieces, region_.rows - first);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t inside = i == 0 ? done_ % region_.rowBytes : 0;
      pieces[i] = {region_.base + (first + i) * region_.stride + inside,
                   static_cast<size_t>(region_.rowBytes - inside)};
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t moved = call(&message);
    if (moved < 0 && errno == EINTR)
      continue;
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return Status::ok();
    if (moved <= 0)
      return errorf("the connection {}", moved == 0 ? "was closed" : std::strerror(errno));
    done_ += moved;
  }
  return Status::ok();
}

Status Moving::send(const Descriptor &socket) {
  return move([&](msghdr *message) { return sendmsg(socket.number(), message, MSG_NOSIGNAL); });
}

Status Moving::receive(const Descriptor &socket) {
  return move([&](msghdr *message) { return recvmsg(socket.number(), message, 0); });
}

void SocketPeer::queue(const SocketFrame &frame, const SocketRegion &payload, int64_t number) {
  out_.push_back({frame, payload, number});
  out_.back().frame.bytes = payload.bytes();
}

short SocketPeer::wishes() const {
  return static_cast<short>((receiving_ == State::placing ? 0 : POLLIN) | (out_.empty() ? 0 : POLLOUT));
}

Status SocketPeer::send(Owner &owner) {
  while (!out_.empty()) {
    Outgoing &next = out_.front();
    if (sending_ == State::idle) {
      sendMoving_ = Moving(SocketRegion::of(&next.frame, sizeof next.frame));
      sending_ = State::header;
    }
    MGC_TRY(sendMoving_.send(socket_));
    if (!sendMoving_.isDone())
      return Status::ok();
    if (sending_ == State::header) {
      sendMoving_ = Moving(next.payload);
      sending_ = State::payload;
      continue;
    }
    sending_ = State::idle;
    const int64_t number = next.number;
    out_.pop_front();
    owner.sent(number);
  }
  return Status::ok();
}

Status SocketPeer::receive(Owner &owner) {
  while (true) {
    if (receiving_ == State::idle) {
      receiveMoving_ = Moving(SocketRegion::of(&incoming_, sizeof incoming_));
      receiving_ = State::header;
    }
    if (receiving_ == State::placing) {
      MGC_ASSIGN(place, owner.place(*this, incoming_));
      if (!place)
        return Status::ok();
      receiveMoving_ = Moving(*place);
      receiving_ = State::payload;
    }
    MGC_TRY(receiveMoving_.receive(socket_));
    if (!receiveMoving_.isDone())
      return Status::ok();
    const State ended = std::exchange(receiving_, receiving_ == State::header ? State::placing : State::idle);
    if (ended == State::payload)
      MGC_TRY(owner.arrived(*this, incoming_));
  }
}

} // namespace mgc
