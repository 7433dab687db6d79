// The parts of ThreadWorld: what the ranks share, one rank's seat among them, which meets the others and matches
// transfers, and its Communicator over it. For runtime/comm only.
#pragma once

#include "runtime/comm/RowExchange.h"
#include "runtime/comm/thread/ThreadWorld.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

namespace mgc {

// Where a rank's threads sleep. A waiter reads count() first, then looks whether what it waits for has come, then
// sleeps until the count differs: a ring in between is not lost.
class Bell {
public:
  uint64_t count() const { return count_.load(std::memory_order_acquire); }
  void ring();
  bool sleep(uint64_t seen, std::chrono::steady_clock::time_point deadline); // false: the deadline has passed

private:
  std::mutex mutex_;
  std::condition_variable condition_;
  std::atomic<uint64_t> count_{0};
};

// One end of a transfer, in its rank's pool; its address stays.
struct PendingTransfer {
  int64_t source = -1, destination = -1;
  bool isSend = false;
  Transfer what;
  PendingTransfer *next = nullptr; // in a mailbox
  Status error;                    // set before done
  std::atomic<bool> done{false};   // set by the side that comes second
};

// Ends of transfers towards one rank that have not met their other end yet, oldest first.
struct Mailbox {
  std::mutex mutex;
  PendingTransfer *first = nullptr, *last = nullptr;
  PendingTransfer *takeMatch(const PendingTransfer &arriving); // null: none
  void append(PendingTransfer *pending);
};

// The meeting that all members must agree on. A copy: a member that finds a disagreement leaves, and its
// plan::Collective with it.
struct Agreement {
  enum class Meeting : int64_t { barrier, collective, rows, rowsBack } meeting = Meeting::barrier;
  plan::Collective::Kind kind{};
  plan::ReduceKind reduce{};
  plan::DType type{};
  int64_t outer = 0, chunk = 0, middle = 0;
  bool splitsInner = false;
  int64_t counts = 0; // a hash of the counts of rows
  bool operator==(const Agreement &) const = default;
  static Agreement of(const plan::Collective &what);
  // groups, width and rows are outer, chunk and middle.
  static Agreement of(const plan::ExchangeRows &what, int64_t countsHash);
};
std::string toString(const Agreement &agreement);

// A member's entry, which the other members read between two meetings.
struct alignas(64) GroupMember {
  const std::byte *source = nullptr;
  std::byte *destination = nullptr;
  Agreement agreement;
  std::atomic<uint64_t> arrivals{0};
};

struct ThreadGroup {
  explicit ThreadGroup(const std::vector<int64_t> &ranks) : ranks(ranks), members(ranks.size()) {}
  const std::vector<int64_t> ranks;
  std::deque<GroupMember> members; // as in ranks
  std::atomic<int64_t> arrived{0};
  std::atomic<uint64_t> generation{0}; // meetings completed
  int64_t size() const { return static_cast<int64_t>(ranks.size()); }
};

// sum = the reduction, in the order of the group, of `elements` of what each member's source points to.
void reduceSources(const ThreadGroup &group, const plan::Collective &what, int64_t elements, std::byte *sum);

struct ThreadShared {
  // Moves what a matched pair of transfers is about, or has it moved: called by the end that comes second.
  using Move = void (*)(const Transfer &send, const Transfer &receive);
  ThreadShared(int64_t ranks, std::chrono::milliseconds timeout, Move move);
  const std::chrono::milliseconds timeout;
  const Move move;
  std::deque<Mailbox> mailboxes; // by destination
  std::deque<Bell> bells;
  std::mutex groupsMutex;
  using GroupKey = std::pair<std::vector<int64_t>, int64_t>; // ranks, color
  std::map<GroupKey, std::unique_ptr<ThreadGroup>> groups;
  std::atomic<bool> aborted{false};
  std::mutex causeMutex;
  Status cause;
};

// The listeners that are told while a thread waits; a thread other than the rank's has none.
struct WaitListeners {
  Progress *progress = nullptr;
  WaitObserver *observer = nullptr;
};

class ThreadSeat {
public:
  ThreadSeat(ThreadShared &shared, int64_t rank) : shared_(shared), rank_(rank) {}
  int64_t rank() const { return rank_; }
  int64_t worldSize() const { return static_cast<int64_t>(shared_.bells.size()); }
  Result<GroupId> openGroup(const std::vector<int64_t> &ranks, int64_t color);
  void reserveTransfers(int64_t count);
  void setProgress(Progress *progress) { listeners_.progress = progress; }
  void setWaitObserver(WaitObserver *observer) { listeners_.observer = observer; }
  const WaitListeners &listeners() const { return listeners_; } // for the rank's thread
  Status barrier(GroupId group);
  Result<Ticket> post(const Transfer &transfer, bool isSend);
  Result<bool> isDone(Ticket ticket);
  Status wait(Ticket ticket);
  void release(Ticket ticket) { freeTickets_.push_back(ticket); } // done, and of no more use
  void abort(const Status &cause);
  bool isAborted() const { return shared_.aborted.load(std::memory_order_acquire); }
  Status cause() const;

  struct Membership {
    ThreadGroup *group = nullptr;
    int64_t index = 0; // index of this rank in the group
  };
  const Membership &membership(GroupId group) const { return memberships_.at(group); }
  // Stores the arguments, which the others may read until the next meeting, and meets them: all must agree.
  Status publish(const Membership &my, const Agreement &agreement, mgc_address source, mgc_address destination,
                 const WaitListeners &listeners);
  Status meet(const Membership &my, const WaitListeners &listeners); // returns once all members have come
  // Sleeps until ready() holds, which another rank says by ring(). At the deadline the error says what describe() says
  // was waited for.
  template <typename Ready, typename Describe>
  Status waitUntil(Ready ready, Describe describe, const WaitListeners &listeners);
  Status await(const std::function<bool()> &isDone); // without a deadline
  void ring(int64_t rank) { shared_.bells[rank].ring(); }
  std::string describeWait(Ticket ticket) const;

private:
  Ticket takeFreeTicket();
  Status checkAgreement(const ThreadGroup &group) const;
  std::string describeWait(const ThreadGroup &group, uint64_t generation) const;

  ThreadShared &shared_;
  const int64_t rank_;
  WaitListeners listeners_;
  std::vector<Membership> memberships_; // by GroupId
  std::deque<PendingTransfer> pool_;    // by Ticket
  std::vector<Ticket> freeTickets_;
};

class ThreadRank final : public Communicator {
public:
  ThreadRank(ThreadShared &shared, int64_t rank) : seat_(shared, rank) {}
  int64_t rank() const override { return seat_.rank(); }
  int64_t worldSize() const override { return seat_.worldSize(); }
  Result<GroupId> openGroup(const std::vector<int64_t> &ranks, int64_t color) override {
    exchanges_.emplace_back();
    return seat_.openGroup(ranks, color);
  }
  void reserveTransfers(int64_t count) override;
  void setProgress(Progress *progress) override { seat_.setProgress(progress); }
  void setWaitObserver(WaitObserver *observer) override { seat_.setWaitObserver(observer); }
  using Communicator::collective;
  Status collective(const plugin::Stream &stream, GroupId group, const plan::Collective &what, mgc_address source,
                    mgc_address destination, mgc_address workspace) override;
  Status exchangeRows(const plugin::Stream &, GroupId group, const plan::ExchangeRows &what,
                      const RowBuffers &rows) override {
    return exchangeRows(group, what, rows, seat_.listeners());
  }
  bool hasConcurrentCollectives() const override { return true; }
  Status concurrentCollective(GroupId group, const plan::Collective &what, mgc_address source,
                              mgc_address destination) override {
    return collective(group, what, source, destination, {});
  }
  Status concurrentExchangeRows(GroupId group, const plan::ExchangeRows &what, const RowBuffers &rows) override {
    return exchangeRows(group, what, rows, {});
  }
  Status await(const std::function<bool()> &isDone) override { return seat_.await(isDone); }
  void wake() override { seat_.ring(rank()); }
  Status barrier(GroupId group) override { return seat_.barrier(group); }
  Result<Ticket> send(const plugin::Stream &, const Transfer &transfer, const plugin::Event &mine) override {
    return post(transfer, mine, true);
  }
  Result<Ticket> receive(const plugin::Stream &, const Transfer &transfer, const plugin::Event &mine) override {
    return post(transfer, mine, false);
  }
  Result<const plugin::Event *> poll(Ticket ticket) override;
  Result<const plugin::Event *> finish(Ticket ticket) override;
  void abort(const Status &cause) override { seat_.abort(cause); }
  bool isAborted() const override { return seat_.isAborted(); }
  Status cause() const override { return seat_.cause(); }

private:
  Status collective(GroupId group, const plan::Collective &what, mgc_address source, mgc_address destination,
                    const WaitListeners &listeners);
  Status exchangeRows(GroupId group, const plan::ExchangeRows &what, const RowBuffers &rows,
                      const WaitListeners &listeners);
  Result<Ticket> post(const Transfer &transfer, const plugin::Event &mine, bool isSend);
  ThreadSeat seat_;
  std::vector<const plugin::Event *> events_; // by Ticket
  std::deque<RowExchange> exchanges_;         // by GroupId: one may be in progress in each
};

// Tells the observer, if there is one, of a wait as long as this lives.
class ObservedWait {
public:
  explicit ObservedWait(WaitObserver *observer) : observer_(observer) {
    if (observer_)
      observer_->waitBegins();
  }
  ~ObservedWait() {
    if (observer_)
      observer_->waitEnds();
  }
  ObservedWait(const ObservedWait &) = delete;
  ObservedWait &operator=(const ObservedWait &) = delete;

private:
  WaitObserver *observer_;
};

template <typename Ready, typename Describe>
Status ThreadSeat::waitUntil(Ready ready, Describe describe, const WaitListeners &listeners) {
  if (isAborted())
    return cause();
  if (ready())
    return Status::ok();
  const ObservedWait wait(listeners.observer);
  Bell &bell = shared_.bells[rank_];
  const auto deadline = std::chrono::steady_clock::now() + shared_.timeout;
  while (true) {
    const uint64_t seen = bell.count();
    if (isAborted())
      return cause();
    if (ready())
      return Status::ok();
    if (listeners.progress)
      MGC_TRY(listeners.progress->progress());
    if (!bell.sleep(seen, deadline) && !ready() && !isAborted())
      return errorf("waited {} s for {}", std::chrono::duration<double>(shared_.timeout).count(), describe());
  }
}

} // namespace mgc
