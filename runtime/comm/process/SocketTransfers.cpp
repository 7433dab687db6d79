// Transfers of socket ranks, and what arrives. See SocketRank.h.
#include "runtime/comm/process/SocketRank.h"

#include <cstring>

namespace mgc {

namespace {

constexpr size_t kMostGroups = 4096;

std::array<int64_t, SocketFrame::kFields> fieldsOf(const Transfer &transfer) {
  return {transfer.value, transfer.microbatch, transfer.bytes};
}

SocketRegion regionOf(const Transfer &transfer) {
  return SocketRegion::of(reinterpret_cast<const void *>(transfer.data), transfer.bytes);
}

std::string describeMismatch(int64_t source, std::span<const int64_t> sent, int64_t destination,
                             std::span<const int64_t> wanted) {
  return fmt::format(
      "rank {} sends value {} of microbatch {} ({} bytes) where rank {} receives value {} of microbatch "
      "{} ({} bytes)",
      source, sent[0], sent[1], sent[2], destination, wanted[0], wanted[1], wanted[2]);
}

} // namespace

void SocketRank::reserveTransfers(int64_t count) {
  freeTickets_.reserve(std::max<size_t>(count, pool_.size()));
  while (static_cast<int64_t>(pool_.size()) < count) {
    freeTickets_.push_back(static_cast<Ticket>(pool_.size()));
    pool_.emplace_back();
  }
}

Ticket SocketRank::takeFreeTicket() {
  if (freeTickets_.empty())
    reserveTransfers(static_cast<int64_t>(pool_.size()) * 2 + 4);
  const Ticket ticket = freeTickets_.back();
  freeTickets_.pop_back();
  return ticket;
}

Result<Ticket> SocketRank::post(const Transfer &transfer, const plugin::Event &mine, bool isSend) {
  if (isAborted())
    return cause();
  if (transfer.peer < 0 || transfer.peer >= worldSize())
    return errorf("transfer with rank {}: the world has ranks 0 to {}", transfer.peer, worldSize() - 1);
  const Ticket ticket = takeFreeTicket();
  pool_[ticket] = {transfer, &mine, isSend, false, Status::ok()};
  if (transfer.peer == rank()) {
    (isSend ? ownSends_ : ownReceives_).push_back(ticket);
    matchOwn();
  } else {
    SocketPeer &peer = *peers_[transfer.peer];
    (isSend ? peer.sends : peer.receives).push_back(ticket);
    if (!isSend)
      peer.queue({SocketFrame::Kind::want, 0, fieldsOf(transfer)});
    match(peer);
    MGC_TRY(pump({}));
  }
  if (!pool_[ticket].error.isOk())
    return pool_[ticket].error;
  return ticket;
}

void SocketRank::match(SocketPeer &peer) {
  while (!peer.sends.empty() && !peer.wants.empty()) {
    const Ticket ticket = peer.sends.front();
    Posted &send = pool_[ticket];
    const SocketFrame want = peer.wants.front();
    peer.sends.pop_front();
    peer.wants.pop_front();
    const std::array<int64_t, SocketFrame::kFields> sent = fieldsOf(send.what);
    if (sent == want.fields) {
      peer.queue({SocketFrame::Kind::data}, regionOf(send.what), ticket);
      continue;
    }
    send.error = Status::error(describeMismatch(rank(), sent, peer.rank, want.fields));
    send.isDone = true;
    peer.queue({SocketFrame::Kind::mismatch, 0, sent});
  }
}

void SocketRank::matchOwn() {
  while (!ownSends_.empty() && !ownReceives_.empty()) {
    Posted &send = pool_[ownSends_.front()], &receive = pool_[ownReceives_.front()];
    ownSends_.pop_front();
    ownReceives_.pop_front();
    const std::array<int64_t, SocketFrame::kFields> sent = fieldsOf(send.what),
                                                    wanted = fieldsOf(receive.what);
    if (sent != wanted)
      send.error = receive.error = Status::error(describeMismatch(rank(), sent, rank(), wanted));
    else if (send.what.bytes > 0)
      std::memcpy(reinterpret_cast<void *>(receive.what.data), reinterpret_cast<const void *>(send.what.data),
                  static_cast<size_t>(send.what.bytes));
    send.isDone = receive.isDone = true;
  }
}

Result<std::optional<SocketRegion>> SocketRank::place(SocketPeer &from, const SocketFrame &frame) {
  if (frame.kind == SocketFrame::Kind::part) {
    if (!from.part || from.part->bytes() == frame.bytes)
      return from.part;
    return errorf("a part of {} bytes, expected {}", frame.bytes, from.part->bytes());
  }
  int64_t expected = 0;
  SocketRegion region;
  if (frame.kind == SocketFrame::Kind::data) {
    if (from.receives.empty())
      return errorf("a transfer that was not asked for");
    const Transfer &what = pool_[from.receives.front()].what;
    region = regionOf(what);
    expected = what.bytes;
  }
  if (frame.bytes != expected)
    return errorf("a frame of {} bytes, expected {}", frame.bytes, expected);
  return std::optional(region);
}

Status SocketRank::arrived(SocketPeer &from, const SocketFrame &frame) {
  ++moved_;
  if (frame.kind == SocketFrame::Kind::enter)
    return enter(from, frame);
  if (frame.kind == SocketFrame::Kind::want) {
    from.wants.push_back(frame);
    match(from);
    return from.send(*this);
  }
  if (frame.kind == SocketFrame::Kind::part) {
    from.part.reset();
    --partsToCome_;
    return Status::ok();
  }
  if (from.receives.empty() ||
      (frame.kind != SocketFrame::Kind::data && frame.kind != SocketFrame::Kind::mismatch))
    return errorf("a frame of kind {} that was not asked for", static_cast<int64_t>(frame.kind));
  Posted &receive = pool_[from.receives.front()];
  from.receives.pop_front();
  if (frame.kind == SocketFrame::Kind::mismatch)
    receive.error = Status::error(describeMismatch(from.rank, frame.fields, rank(), fieldsOf(receive.what)));
  receive.isDone = true;
  return Status::ok();
}

void SocketRank::sent(int64_t number) {
  ++moved_;
  if (number >= 0)
    pool_[number].isDone = true;
  else if (number == kPartNumber)
    --partsToSend_;
}

// The group may be one that this rank opens later.
Status SocketRank::enter(const SocketPeer &from, const SocketFrame &frame) {
  const std::array<int64_t, SocketFrame::kFields> &fields = frame.fields;
  const auto key = static_cast<uint64_t>(fields[0]), meeting = static_cast<uint64_t>(fields[1]);
  std::vector<Arrivals> &arrivals = arrivals_[key];
  arrivals.resize(worldSize());
  Agreement &agreement = arrivals[from.rank][meeting % 2].agreement;
  arrivals[from.rank][meeting % 2].meeting = meeting;
  const bool isKnown = fields[2] >= 0 && fields[2] <= static_cast<int64_t>(Agreement::Meeting::rowsBack) &&
                       fields[3] >= 0 && fields[3] < std::ssize(plan::enumNames<plan::Collective::Kind>) &&
                       fields[4] >= 0 && fields[4] < std::ssize(plan::enumNames<plan::ReduceKind>) &&
                       fields[5] >= 0 && fields[5] < std::ssize(plan::enumNames<plan::DType>);
  if (!isKnown || arrivals_.size() > kMostGroups)
    return errorf("a collective that is none, or of more than {} groups", kMostGroups);
  agreement = {static_cast<Agreement::Meeting>(fields[2]),
               static_cast<plan::Collective::Kind>(fields[3]),
               static_cast<plan::ReduceKind>(fields[4]),
               static_cast<plan::DType>(fields[5]),
               fields[6],
               fields[7],
               fields[8],
               fields[9] != 0,
               fields[10]};
  return Status::ok();
}

Result<const plugin::Event *> SocketRank::poll(Ticket ticket) {
  const Posted &posted = pool_.at(ticket);
  if (!posted.isDone)
    MGC_TRY(pump({}));
  if (posted.isDone && !posted.error.isOk())
    return posted.error;
  return posted.isDone ? posted.mine : nullptr;
}

Result<const plugin::Event *> SocketRank::finish(Ticket ticket) {
  const Posted &posted = pool_.at(ticket);
  MGC_TRY(waitUntil([&] { return posted.isDone; }, [&] { return describeWait(posted); }));
  MGC_TRY(Status(posted.error));
  freeTickets_.push_back(ticket);
  return posted.mine;
}

std::string SocketRank::describeWait(const Posted &posted) const {
  return fmt::format("rank {} to {} value {} of microbatch {} ({} bytes)", posted.what.peer,
                     posted.isSend ? "receive" : "send", posted.what.value, posted.what.microbatch,
                     posted.what.bytes);
}

} // namespace mgc
