// Sleeping, aborting and transfers of thread ranks. ThreadCollectives.cpp has the collectives.
//
// A transfer has two ends. The end that is posted first waits in the mailbox of the destination; the second finds it
// there, copies the bytes, and rings the first one's rank. So a byte is copied once, and no rank waits for a helper.
#include "runtime/comm/thread/ThreadRank.h"

#include <cassert>
#include <cstring>
#include <set>

namespace mgc {

void Bell::ring() {
  {
    std::lock_guard lock(mutex_);
    count_.fetch_add(1, std::memory_order_release);
  }
  condition_.notify_all();
}

bool Bell::sleep(uint64_t seen, std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return condition_.wait_until(lock, deadline, [&] { return count() != seen; });
}

PendingTransfer *Mailbox::takeMatch(const PendingTransfer &arriving) {
  PendingTransfer *previous = nullptr;
  for (PendingTransfer *pending = first; pending; previous = pending, pending = pending->next) {
    if (pending->source != arriving.source || pending->isSend == arriving.isSend)
      continue;
    (previous ? previous->next : first) = pending->next;
    if (last == pending)
      last = previous;
    return pending;
  }
  return nullptr;
}

void Mailbox::append(PendingTransfer *pending) {
  pending->next = nullptr;
  (last ? last->next : first) = pending;
  last = pending;
}

ThreadShared::ThreadShared(int64_t ranks, std::chrono::milliseconds timeout, Move move)
    : timeout(timeout), move(move), mailboxes(ranks), bells(ranks) {}

static void copyBytes(const Transfer &send, const Transfer &receive) {
  if (send.bytes > 0)
    std::memcpy(reinterpret_cast<void *>(receive.data), reinterpret_cast<const void *>(send.data),
                static_cast<size_t>(send.bytes));
}

struct ThreadWorld::Ranks {
  ThreadShared shared;
  std::deque<ThreadRank> ranks;
};

ThreadWorld::ThreadWorld(int64_t ranks, const ThreadWorldOptions &options)
    : ranks_(new Ranks{{ranks, options.timeout, copyBytes}, {}}) {
  for (int64_t rank = 0; rank < ranks; ++rank)
    ranks_->ranks.emplace_back(ranks_->shared, rank);
}

ThreadWorld::~ThreadWorld() = default;

int64_t ThreadWorld::size() const { return static_cast<int64_t>(ranks_->ranks.size()); }

Communicator &ThreadWorld::communicator(int64_t rank) { return ranks_->ranks.at(rank); }

void ThreadSeat::abort(const Status &cause) {
  {
    std::lock_guard lock(shared_.causeMutex);
    if (shared_.cause.isOk())
      shared_.cause = cause;
  }
  shared_.aborted.store(true, std::memory_order_release);
  for (Bell &bell : shared_.bells)
    bell.ring();
}

Status ThreadSeat::cause() const {
  std::lock_guard lock(shared_.causeMutex);
  return shared_.cause;
}

Result<int64_t> indexInGroup(const std::vector<int64_t> &ranks, int64_t rank, int64_t worldSize) {
  if (std::set<int64_t>(ranks.begin(), ranks.end()).size() != ranks.size())
    return errorf("group of ranks [{}]: a rank stands in it twice", fmt::join(ranks, ", "));
  int64_t index = -1;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= worldSize)
      return errorf("group of ranks [{}]: the world has ranks 0 to {}", fmt::join(ranks, ", "), worldSize - 1);
    if (ranks[i] == rank)
      index = static_cast<int64_t>(i);
  }
  if (index < 0)
    return errorf("group of ranks [{}]: rank {} is no member", fmt::join(ranks, ", "), rank);
  return index;
}

Result<GroupId> ThreadSeat::openGroup(const std::vector<int64_t> &ranks, int64_t color) {
  MGC_ASSIGN(index, indexInGroup(ranks, rank_, worldSize()));
  std::lock_guard lock(shared_.groupsMutex);
  std::unique_ptr<ThreadGroup> &group = shared_.groups[{ranks, color}];
  if (!group)
    group = std::make_unique<ThreadGroup>(ranks);
  memberships_.push_back({group.get(), index});
  return static_cast<GroupId>(memberships_.size()) - 1;
}

void ThreadSeat::reserveTransfers(int64_t count) {
  freeTickets_.reserve(std::max<size_t>(count, pool_.size()));
  while (static_cast<int64_t>(pool_.size()) < count) {
    freeTickets_.push_back(static_cast<Ticket>(pool_.size()));
    pool_.emplace_back();
  }
}

Ticket ThreadSeat::takeFreeTicket() {
  if (freeTickets_.empty())
    reserveTransfers(static_cast<int64_t>(pool_.size()) * 2 + 4);
  const Ticket ticket = freeTickets_.back();
  freeTickets_.pop_back();
  return ticket;
}

// Why the two ends are no pair, if so.
static Status checkPair(const PendingTransfer &send, const PendingTransfer &receive) {
  const Transfer &from = send.what, &to = receive.what;
  if (from.value != to.value || from.microbatch != to.microbatch || from.bytes != to.bytes)
    return errorf("rank {} sends value {} of microbatch {} ({} bytes) where rank {} receives value {} of microbatch "
                  "{} ({} bytes)",
                  send.source, from.value, from.microbatch, from.bytes, send.destination, to.value, to.microbatch,
                  to.bytes);
  return Status::ok();
}

Result<Ticket> ThreadSeat::post(const Transfer &transfer, bool isSend) {
  if (isAborted())
    return cause();
  if (transfer.peer < 0 || transfer.peer >= worldSize())
    return errorf("transfer with rank {}: the world has ranks 0 to {}", transfer.peer, worldSize() - 1);
  const Ticket ticket = takeFreeTicket();
  PendingTransfer &mine = pool_[ticket];
  mine.source = isSend ? rank_ : transfer.peer;
  mine.destination = isSend ? transfer.peer : rank_;
  mine.isSend = isSend;
  mine.what = transfer;
  mine.done.store(false, std::memory_order_relaxed);

  Mailbox &mailbox = shared_.mailboxes[mine.destination];
  PendingTransfer *other = nullptr;
  {
    std::lock_guard lock(mailbox.mutex);
    other = mailbox.takeMatch(mine);
    if (!other)
      mailbox.append(&mine);
  }
  if (!other)
    return ticket;
  const PendingTransfer &sent = isSend ? mine : *other, &received = isSend ? *other : mine;
  const Status status = checkPair(sent, received);
  if (status.isOk())
    shared_.move(sent.what, received.what);
  mine.error = other->error = status;
  mine.done.store(true, std::memory_order_release);
  other->done.store(true, std::memory_order_release); // from here on `other` is its rank's again
  shared_.bells[transfer.peer].ring();
  if (!status.isOk())
    return status;
  return ticket;
}

Result<bool> ThreadSeat::isDone(Ticket ticket) {
  const PendingTransfer &pending = pool_.at(ticket);
  if (!pending.done.load(std::memory_order_acquire))
    return false;
  if (!pending.error.isOk())
    return pending.error;
  return true;
}

Status ThreadSeat::wait(Ticket ticket) {
  const PendingTransfer &pending = pool_.at(ticket);
  MGC_TRY(waitUntil([&] { return pending.done.load(std::memory_order_acquire); }, [&] { return describeWait(ticket); },
                    listeners_));
  return pending.error;
}

Status ThreadSeat::await(const std::function<bool()> &isDone) {
  Bell &bell = shared_.bells[rank_];
  while (true) {
    const uint64_t seen = bell.count();
    if (isDone())
      return Status::ok();
    if (isAborted())
      return cause();
    if (listeners_.progress)
      MGC_TRY(listeners_.progress->progress());
    (void)bell.sleep(seen, std::chrono::steady_clock::now() + shared_.timeout);
  }
}

void ThreadRank::reserveTransfers(int64_t count) {
  seat_.reserveTransfers(count);
  events_.resize(std::max<size_t>(events_.size(), count));
}

Result<Ticket> ThreadRank::post(const Transfer &transfer, const plugin::Event &mine, bool isSend) {
  MGC_ASSIGN(ticket, seat_.post(transfer, isSend));
  events_.resize(std::max<size_t>(events_.size(), ticket + 1));
  events_[ticket] = &mine;
  return ticket;
}

Result<const plugin::Event *> ThreadRank::poll(Ticket ticket) {
  MGC_ASSIGN(isDone, seat_.isDone(ticket));
  return isDone ? events_[ticket] : nullptr;
}

Result<const plugin::Event *> ThreadRank::finish(Ticket ticket) {
  MGC_TRY(seat_.wait(ticket));
  seat_.release(ticket);
  return events_[ticket];
}

std::string ThreadSeat::describeWait(Ticket ticket) const {
  const PendingTransfer &pending = pool_.at(ticket);
  return fmt::format("rank {} to {} value {} of microbatch {} ({} bytes)", pending.what.peer,
                     pending.isSend ? "receive" : "send", pending.what.value, pending.what.microbatch,
                     pending.what.bytes);
}

} // namespace mgc
