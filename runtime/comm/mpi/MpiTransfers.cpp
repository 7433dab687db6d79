// Transfers of MPI ranks: a receive makes room and says what it wants, and the send that is the next for it answers with the data,
// or with what it has in its place.
#include "runtime/comm/mpi/MpiRank.h"
#include "runtime/comm/mpi/MpiToken.h"

#include <algorithm>
#include <cstring>

namespace mgc {

namespace {

constexpr size_t kTicket = 3; // its place in the fields of a frame

MpiFields fieldsOf(const Transfer &transfer, Ticket receive) {
  return {transfer.value, transfer.microbatch, transfer.bytes, receive};
}

bool areEqual(const MpiFields &sent, const MpiFields &wanted) {
  return std::equal(sent.begin(), sent.begin() + kTicket, wanted.begin());
}

MpiRegion roomOf(const Transfer &transfer) {
  return regionOf(reinterpret_cast<const void *>(transfer.data), transfer.bytes);
}

std::string describeMismatch(int64_t from, const MpiFields &sent, int64_t to, const MpiFields &wanted) {
  return fmt::format("rank {} sends value {} of microbatch {} ({} bytes) where rank {} receives value {} of microbatch "
                     "{} ({} bytes)",
                     from, sent[0], sent[1], sent[2], to, wanted[0], wanted[1], wanted[2]);
}

} // namespace

void MpiRank::reserveTransfers(int64_t count) {
  freeTickets_.reserve(std::max<size_t>(static_cast<size_t>(count), pool_.size()));
  while (static_cast<int64_t>(pool_.size()) < count) {
    freeTickets_.push_back(static_cast<Ticket>(pool_.size()));
    pool_.emplace_back();
  }
}

Ticket MpiRank::takeFreeTicket() {
  if (freeTickets_.empty())
    reserveTransfers(static_cast<int64_t>(pool_.size()) * 2 + 4);
  const Ticket ticket = freeTickets_.back();
  freeTickets_.pop_back();
  return ticket;
}

Result<Ticket> MpiRank::post(const Transfer &transfer, const plugin::Event &mine, bool isSend) {
  if (isAborted())
    return cause();
  if (transfer.peer < 0 || transfer.peer >= worldSize())
    return errorf("transfer with rank {}: the world has ranks 0 to {}", transfer.peer, worldSize() - 1);
  const Ticket ticket = takeFreeTicket();
  pool_[static_cast<size_t>(ticket)] = {transfer, &mine, isSend, false, Status::ok()};
  if (transfer.peer == rank()) {
    (isSend ? ownSends_ : ownReceives_).push_back(ticket);
    matchOwn();
  } else if (isSend) {
    peers_[static_cast<size_t>(transfer.peer)].sends.push_back(ticket);
    MGC_TRY(match(transfer.peer));
    MGC_TRY(pump());
  } else {
    const MpiToken token{MpiToken::Kind::transfer, 0, static_cast<uint64_t>(ticket)};
    MGC_TRY(receiveData(roomOf(transfer), transfer.peer, transferTag, token.bits()));
    MpiFrame *want = takeFrame();
    want->kind = MpiFrame::Kind::want;
    want->fields = fieldsOf(transfer, ticket);
    want->bytes = 0;
    MGC_TRY(sendFrame(want, transfer.peer));
    MGC_TRY(pump());
  }
  const Status &error = pool_[static_cast<size_t>(ticket)].error;
  if (!error.isOk())
    return error;
  return ticket;
}

Status MpiRank::match(int64_t to) {
  Peer &peer = peers_[static_cast<size_t>(to)];
  while (!peer.sends.empty() && !peer.wants.empty()) {
    const Ticket ticket = peer.sends.front();
    Posted &send = pool_[static_cast<size_t>(ticket)];
    const MpiFields wanted = peer.wants.front(), sent = fieldsOf(send.what, wanted[kTicket]);
    peer.sends.pop_front();
    peer.wants.pop_front();
    if (areEqual(sent, wanted)) {
      const MpiToken token{MpiToken::Kind::transfer, 0, static_cast<uint64_t>(ticket)};
      MGC_TRY(sendData(roomOf(send.what), to, transferTag, token.bits()));
      continue;
    }
    send.error = Status::error(describeMismatch(rank(), sent, to, wanted));
    send.isDone = true;
    MpiFrame *mismatch = takeFrame();
    mismatch->kind = MpiFrame::Kind::mismatch;
    mismatch->fields = sent;
    mismatch->bytes = 0;
    MGC_TRY(sendFrame(mismatch, to));
  }
  return Status::ok();
}

Status MpiRank::refused(int64_t from, const MpiFields &sent) {
  const int64_t ticket = sent[kTicket];
  if (ticket < 0 || ticket >= static_cast<int64_t>(pool_.size()))
    return errorf("rank {} refused transfer {}, which nobody wants", from, ticket);
  Posted &receive = pool_[static_cast<size_t>(ticket)];
  receive.error = Status::error(describeMismatch(from, sent, rank(), fieldsOf(receive.what, ticket)));
  receive.isDone = true;
  return Status::ok();
}

void MpiRank::matchOwn() {
  while (!ownSends_.empty() && !ownReceives_.empty()) {
    Posted &send = pool_[static_cast<size_t>(ownSends_.front())],
           &receive = pool_[static_cast<size_t>(ownReceives_.front())];
    ownSends_.pop_front();
    ownReceives_.pop_front();
    const MpiFields sent = fieldsOf(send.what, 0), wanted = fieldsOf(receive.what, 0);
    if (!areEqual(sent, wanted))
      send.error = receive.error = Status::error(describeMismatch(rank(), sent, rank(), wanted));
    else if (send.what.bytes > 0)
      std::memcpy(reinterpret_cast<void *>(receive.what.data), reinterpret_cast<const void *>(send.what.data),
                  static_cast<size_t>(send.what.bytes));
    send.isDone = receive.isDone = true;
  }
}

Result<const plugin::Event *> MpiRank::poll(Ticket ticket) {
  const Posted &posted = pool_.at(static_cast<size_t>(ticket));
  if (!posted.isDone)
    MGC_TRY(pump());
  if (posted.isDone && !posted.error.isOk())
    return posted.error;
  return posted.isDone ? posted.mine : nullptr;
}

Result<const plugin::Event *> MpiRank::finish(Ticket ticket) {
  const Posted &posted = pool_.at(static_cast<size_t>(ticket));
  MGC_TRY(waitUntil([&] { return posted.isDone; }, [&] { return describeWait(posted); }));
  MGC_TRY(Status(posted.error));
  freeTickets_.push_back(ticket);
  return posted.mine;
}

std::string MpiRank::describeWait(const Posted &posted) const {
  return fmt::format("rank {} to {} value {} of microbatch {} ({} bytes)", posted.what.peer,
                     posted.isSend ? "receive" : "send", posted.what.value, posted.what.microbatch, posted.what.bytes);
}

} // namespace mgc
