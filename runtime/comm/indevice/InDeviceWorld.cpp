// A collective of ranks that share a device, on the stream of each:
//
//     host    record `ready`, store addresses and events, meet
//     stream  wait for `ready` of all: their sources are complete, their destinations may be written
//             own part: as on the CPU (runtime/comm/thread/ThreadCollectives.cpp), reductions in the order of the group
//     host    record `done`, meet
//     stream  wait for `done` of all: the result is complete, and sources may change
//
// An event is recorded again only after a meeting at which all have enqueued their waits for it.
//
// A transfer: the sender records `ready` and posts its end; the receiver, when both ends have met, waits for it, copies
// and records `done`, which is the event of both ends. Everything that a stream waits for was enqueued before, so no
// streams wait for each other in a circle.
#include "runtime/comm/indevice/InDeviceWorld.h"
#include "runtime/base/Rounding.h"

#include "runtime/comm/thread/ThreadRank.h"
#include "runtime/device/CallFacts.h"

#include <algorithm>

namespace mgc {

namespace {

using plugin::Event;
using plugin::Stream;
using Kind = plan::Collective::Kind;
constexpr int64_t kSliceAlignment = 16; // elements

// The addresses and events that a member of a group shows the others.
struct Member {
  mgc_address source = 0, destination = 0;
  mgc_address counts = 0; // exchanges of rows only
  const Event *ready = nullptr, *done = nullptr;
};

// One end of a transfer; the other reads it once they have met.
struct End {
  const Stream *stream = nullptr;
  Transfer what;
  const Event *mine = nullptr;
  Ticket ticket = -1;
  End *sender = nullptr;                        // receiving end only: set when the two meet
  std::atomic<const Event *> finished{nullptr}; // set by the receiver's thread when it has enqueued the copy
};

void introduce(const Transfer &send, const Transfer &receive) {
  reinterpret_cast<End *>(receive.data)->sender = reinterpret_cast<End *>(send.data);
}

class InDeviceRank final : public Communicator {
public:
  InDeviceRank(const plugin::PluginDevice &device, ThreadShared &shared, int64_t rank)
      : device_(device), seat_(shared, rank) {}
  int64_t rank() const override { return seat_.rank(); }
  int64_t worldSize() const override { return seat_.worldSize(); }
  Result<GroupId> openGroup(const std::vector<int64_t> &ranks, int64_t color) override;
  void setProgress(Progress *progress) override { seat_.setProgress(progress); }
  void setWaitObserver(WaitObserver *) override {} // streams wait, not hosts
  Status collective(const Stream &stream, GroupId group, const plan::Collective &what, mgc_address source,
                    mgc_address destination, mgc_address workspace) override;
  Status exchangeRows(const Stream &stream, GroupId group, const plan::ExchangeRows &what,
                      const RowBuffers &rows) override;
  Result<Ticket> send(const Stream &stream, const Transfer &transfer, const Event &mine) override;
  Result<Ticket> receive(const Stream &stream, const Transfer &transfer, const Event &mine) override;
  Result<const Event *> poll(Ticket ticket) override;
  Result<const Event *> finish(Ticket ticket) override;
  Status barrier(GroupId group) override { return seat_.barrier(group); }
  void abort(const Status &cause) override { seat_.abort(cause); }
  bool isAborted() const override { return seat_.isAborted(); }
  Status cause() const override { return seat_.cause(); }

private:
  // Ranks that meet, on their streams.
  struct Meeting {
    const Stream &stream;
    std::vector<Member> members;
    int64_t index; // index of this rank
    const Member &mine() const { return members[index]; }
  };
  // One collective in progress.
  struct Job {
    const plan::Collective &what;
    const Stream &stream;
    const std::vector<Member> &members;
    int64_t index, bytes; // index: of this rank; bytes: of an element
    int64_t size() const { return static_cast<int64_t>(members.size()); }
    const Member &mine() const { return members[index]; }
  };
  // Shows the others what this rank has, and calls work(meeting) once the sources of all are complete and their destinations may be
  // written; behind it the stream has the result, and sources may change.
  template <typename Work>
  Status meet(const Stream &stream, GroupId group, const Agreement &agreement, const Member &mine, const Work &work);
  static Status waitForAll(const Meeting &meeting, const Event *Member::*event);
  Status work(const Job &job) const;
  Status reduceOwnSliceForAll(const Job &job) const;
  Status reduceOwnChunk(const Job &job) const;
  Status gather(const Job &job) const;
  Status exchange(const Job &job) const;
  Status copyFromPrevious(const Job &job) const;
  Status combine(const Job &job, mgc_address to, int64_t element, int64_t count) const;
  Status copyRows(const Job &job, int64_t to, int64_t toPitch, mgc_address from, int64_t fromPitch, int64_t rows) const;

  Result<Ticket> post(const Stream &stream, const Transfer &transfer, const Event &mine, bool isSend);
  Status receiveInto(End &end);

  const plugin::PluginDevice &device_;
  ThreadSeat seat_;
  // Others read `mine` between two meetings, and after an abort when this rank has already left.
  struct Place {
    Event ready, done;
    Member mine;
  };
  std::deque<Place> places_; // by GroupId; their addresses stay
  std::deque<End> ends_;     // by Ticket
  std::vector<Ticket> free_;
};

Result<GroupId> InDeviceRank::openGroup(const std::vector<int64_t> &ranks, int64_t color) {
  MGC_ASSIGN(group, seat_.openGroup(ranks, color));
  MGC_ASSIGN(ready, device_.makeEvent());
  MGC_ASSIGN(done, device_.makeEvent());
  places_.push_back({std::move(ready), std::move(done), {}});
  return group;
}

Status InDeviceRank::waitForAll(const Meeting &meeting, const Event *Member::*event) {
  for (const Member &member : meeting.members)
    if (&member != &meeting.mine())
      MGC_TRY(meeting.stream.wait(*(member.*event)));
  return Status::ok();
}

template <typename Work>
Status InDeviceRank::meet(const Stream &stream, GroupId group, const Agreement &agreement, const Member &mine,
                          const Work &work) {
  const ThreadSeat::Membership my = seat_.membership(group);
  Place &place = places_[group];
  MGC_TRY(stream.record(place.ready));
  place.mine = mine;
  place.mine.ready = &place.ready, place.mine.done = &place.done;
  MGC_TRY(seat_.publish(my, agreement, addressOf(&place.mine), 0, seat_.listeners()));
  Meeting meeting{stream, {}, my.index};
  for (const GroupMember &member : my.group->members)
    meeting.members.push_back(*reinterpret_cast<const Member *>(member.source));
  MGC_TRY(waitForAll(meeting, &Member::ready));
  MGC_TRY(work(meeting));
  MGC_TRY(stream.record(place.done));
  MGC_TRY(seat_.meet(my, seat_.listeners()));
  return waitForAll(meeting, &Member::done);
}

Status InDeviceRank::collective(const Stream &stream, GroupId group, const plan::Collective &what, mgc_address source,
                                mgc_address destination, mgc_address) {
  return meet(stream, group, Agreement::of(what), {.source = source, .destination = destination},
              [&](const Meeting &meeting) {
                return work({what, stream, meeting.members, meeting.index, int64_t(plan::sizeInBytes(what.type))});
              });
}

// A kernel of each rank compares its counts with those of the rank before it, and copies what is for it.
Status InDeviceRank::exchangeRows(const Stream &stream, GroupId group, const plan::ExchangeRows &what,
                                  const RowBuffers &rows) {
  const auto copy = [&](const Meeting &meeting) {
    const int64_t size = std::ssize(meeting.members);
    std::vector<mgc_address> sources;
    for (const Member &member : meeting.members)
      sources.push_back(member.source);
    const std::vector<int64_t> &ranks = seat_.membership(group).group->ranks;
    const std::vector<int32_t> names(ranks.begin(), ranks.end());
    return stream.exchangeRows(factsOf(what, size, meeting.index),
                               {.counts = rows.counts,
                                .other_counts = meeting.members[(meeting.index + size - 1) % size].counts,
                                .sources = sources.data(),
                                .names = names.data(),
                                .destination = rows.destination});
  };
  return meet(stream, group, Agreement::of(what, 0), {.source = rows.source, .counts = rows.counts}, copy);
}

Status InDeviceRank::work(const Job &job) const {
  switch (job.what.kind) {
  case Kind::allReduce:
    return reduceOwnSliceForAll(job);
  case Kind::allGather:
    return gather(job);
  case Kind::reduceScatter:
    return reduceOwnChunk(job);
  case Kind::allToAll:
    return exchange(job);
  case Kind::permute:
    return copyFromPrevious(job);
  }
  return Status::ok();
}

// [element, element + count) of all sources -> to.
Status InDeviceRank::combine(const Job &job, mgc_address to, int64_t element, int64_t count) const {
  if (count == 0)
    return Status::ok();
  std::vector<mgc_address> sources;
  for (const Member &member : job.members)
    sources.push_back(member.source + static_cast<uint64_t>(element * job.bytes));
  return job.stream.combine(deviceReduce(job.what.reduce), deviceType(job.what.type), to, sources, count);
}

Status InDeviceRank::reduceOwnSliceForAll(const Job &job) const {
  const int64_t elements = job.what.outer * job.what.chunk;
  const int64_t lines = divideUp(elements, kSliceAlignment);
  const auto edge = [&](int64_t part) { return std::min(elements, lines * part / job.size() * kSliceAlignment); };
  const int64_t begin = edge(job.index), count = edge(job.index + 1) - begin;
  const auto offset = static_cast<uint64_t>(begin * job.bytes);
  MGC_TRY(combine(job, job.mine().destination + offset, begin, count));
  for (const Member &member : job.members)
    if (count > 0 && &member != &job.mine())
      MGC_TRY(job.stream.copy(member.destination + offset, job.mine().destination + offset, count * job.bytes));
  return Status::ok();
}

Status InDeviceRank::reduceOwnChunk(const Job &job) const {
  const plan::Collective &what = job.what;
  for (int64_t row = 0; row < what.outer; ++row)
    MGC_TRY(combine(job, job.mine().destination + static_cast<uint64_t>(row * what.chunk * job.bytes),
                    (row * job.size() + job.index) * what.chunk, what.chunk));
  return Status::ok();
}

// Rows of one chunk; `to` and pitches in chunks.
Status InDeviceRank::copyRows(const Job &job, int64_t to, int64_t toPitch, mgc_address from, int64_t fromPitch,
                              int64_t rows) const {
  const int64_t bytes = job.what.chunk * job.bytes;
  if (bytes == 0 || rows == 0)
    return Status::ok();
  return job.stream.copyRows(job.mine().destination + static_cast<uint64_t>(to * bytes), toPitch * bytes, from,
                             fromPitch * bytes, bytes, rows);
}

Status InDeviceRank::gather(const Job &job) const {
  for (int64_t peer = 0; peer < job.size(); ++peer)
    MGC_TRY(copyRows(job, peer, job.size(), job.members[peer].source, 1, job.what.outer));
  return Status::ok();
}

Status InDeviceRank::exchange(const Job &job) const {
  const int64_t n = job.size(), middle = job.what.middle, bytes = job.what.chunk * job.bytes;
  for (int64_t row = 0; row < job.what.outer; ++row)
    for (int64_t peer = 0; peer < n; ++peer) {
      const auto outer = [&](int64_t member) { return (row * n + member) * middle; };
      const auto inner = [&](int64_t member) { return row * middle * n + member; };
      const auto chunkOf = [&](int64_t number) {
        return job.members[peer].source + static_cast<uint64_t>(number * bytes);
      };
      MGC_TRY(job.what.splitsInner ? copyRows(job, outer(peer), 1, chunkOf(inner(job.index)), n, middle)
                                   : copyRows(job, inner(peer), n, chunkOf(outer(job.index)), 1, middle));
    }
  return Status::ok();
}

Status InDeviceRank::copyFromPrevious(const Job &job) const {
  return copyRows(job, 0, 1, job.members[(job.index + job.size() - 1) % job.size()].source, 1, 1);
}

Result<Ticket> InDeviceRank::post(const Stream &stream, const Transfer &transfer, const Event &mine, bool isSend) {
  if (free_.empty()) {
    free_.push_back(static_cast<Ticket>(ends_.size()));
    ends_.emplace_back();
  }
  const Ticket mineTicket = free_.back();
  free_.pop_back();
  End &end = ends_[mineTicket];
  end.stream = &stream, end.what = transfer, end.mine = &mine, end.sender = nullptr;
  end.finished.store(nullptr, std::memory_order_relaxed);
  MGC_SET(end.ticket,
          seat_.post({transfer.peer, transfer.value, transfer.microbatch, addressOf(&end), transfer.bytes}, isSend));
  return mineTicket;
}

Result<Ticket> InDeviceRank::send(const Stream &stream, const Transfer &transfer, const Event &mine) {
  MGC_TRY(stream.record(mine));
  return post(stream, transfer, mine, true);
}

Result<Ticket> InDeviceRank::receive(const Stream &stream, const Transfer &transfer, const Event &mine) {
  return post(stream, transfer, mine, false);
}

// The ends have met. The sender's end is the sender's again once `finished` is set.
Status InDeviceRank::receiveInto(End &end) {
  const End &from = *end.sender;
  const Stream &stream = *end.stream;
  MGC_TRY(stream.wait(*from.mine));
  if (end.what.bytes > 0)
    MGC_TRY(stream.copy(end.what.data, from.what.data, end.what.bytes));
  MGC_TRY(stream.record(*end.mine));
  end.finished.store(end.mine, std::memory_order_relaxed);
  end.sender->finished.store(end.mine, std::memory_order_release);
  seat_.ring(end.what.peer);
  return Status::ok();
}

Result<const Event *> InDeviceRank::poll(Ticket ticket) {
  End &end = ends_.at(ticket);
  MGC_ASSIGN(met, seat_.isDone(end.ticket));
  if (met && end.sender && !end.finished.load(std::memory_order_relaxed))
    MGC_TRY(receiveInto(end));
  return end.finished.load(std::memory_order_acquire);
}

Result<const Event *> InDeviceRank::finish(Ticket ticket) {
  End &end = ends_.at(ticket);
  MGC_TRY(seat_.wait(end.ticket));
  if (end.sender)
    MGC_TRY(poll(ticket).status());
  MGC_TRY(seat_.waitUntil([&] { return end.finished.load(std::memory_order_acquire) != nullptr; },
                          [&] { return seat_.describeWait(end.ticket); }, seat_.listeners()));
  seat_.release(end.ticket);
  free_.push_back(ticket);
  return end.finished.load(std::memory_order_relaxed);
}

} // namespace

struct InDeviceWorld::Ranks {
  ThreadShared shared;
  std::deque<InDeviceRank> ranks;
};

InDeviceWorld::InDeviceWorld(const plugin::PluginDevice &device, int64_t ranks, std::chrono::milliseconds timeout)
    : ranks_(new Ranks{{ranks, timeout, introduce}, {}}) {
  for (int64_t rank = 0; rank < ranks; ++rank)
    ranks_->ranks.emplace_back(device, ranks_->shared, rank);
}

InDeviceWorld::~InDeviceWorld() = default;

Communicator &InDeviceWorld::communicator(int64_t rank) { return ranks_->ranks.at(rank); }

} // namespace mgc
