// One rank's Communicator over its connections. For runtime/comm only.
#pragma once

#include "plan/json/Fields.h"
#include "runtime/comm/process/SocketPeer.h"
#include "runtime/comm/process/SocketWorld.h"
#include "runtime/comm/thread/ThreadRank.h"

#include <poll.h>
#include <span>

namespace mgc {

// A reduction is done in rounds, in each of which a rank adds up so many bytes of every member.
inline constexpr int64_t kRoundBytes = 256 << 10;
inline constexpr int64_t kPartNumber =
    -2; // of what is sent in a collective; that of a transfer is its ticket

class SocketRank final : public SocketWorld, public Communicator, private SocketPeer::Owner {
public:
  SocketRank(Processes &processes, const SocketWorldOptions &options);
  ~SocketRank() override { processes_.setAbortListener(nullptr); }
  Status connectToAll();
  Communicator &communicator() override { return *this; }

  int64_t rank() const override { return processes_.rank(); }
  int64_t worldSize() const override { return processes_.size(); }
  Result<GroupId> openGroup(const std::vector<int64_t> &ranks, int64_t color) override;
  void reserveTransfers(int64_t count) override;
  void setProgress(Progress *progress) override { progress_ = progress; }
  void setWaitObserver(WaitObserver *observer) override { observer_ = observer; }
  using Communicator::collective;
  Status collective(const plugin::Stream &stream, GroupId group, const plan::Collective &what,
                    mgc_address source, mgc_address destination, mgc_address workspace) override;
  Status exchangeRows(const plugin::Stream &stream, GroupId group, const plan::ExchangeRows &what,
                      const RowBuffers &rows) override;
  Status barrier(GroupId group) override;
  Result<Ticket> send(const plugin::Stream &, const Transfer &transfer, const plugin::Event &mine) override {
    return post(transfer, mine, true);
  }
  Result<Ticket> receive(const plugin::Stream &, const Transfer &transfer,
                         const plugin::Event &mine) override {
    return post(transfer, mine, false);
  }
  Result<const plugin::Event *> poll(Ticket ticket) override;
  Result<const plugin::Event *> finish(Ticket ticket) override;
  void abort(const Status &cause) override;
  bool isAborted() const override { return aborted_.load(std::memory_order_acquire); }
  Status cause() const override;

private:
  struct Posted {
    Transfer what;
    const plugin::Event *mine = nullptr;
    bool isSend = false, isDone = false;
    Status error;
  };
  // That a member has entered the collective of this number in its group.
  struct Arrival {
    uint64_t meeting = 0;
    Agreement agreement;
  };
  // A member enters the next collective before this rank has looked at the last one, but never the one after it.
  using Arrivals = std::array<Arrival, 2>;
  struct SocketGroup {
    SocketGroup(const std::vector<int64_t> &ranks, int64_t index, uint64_t key);
    ThreadGroup terms; // of a reduction: where the members' sources lie here
    const int64_t index;
    const uint64_t key;
    uint64_t meetings = 0;
    std::vector<std::byte> scratch; // kRoundBytes for each member
    std::byte *scratchOf(int64_t member) { return scratch.data() + member * kRoundBytes; }
    int64_t size() const { return terms.size(); }
    int64_t rankOf(int64_t member) const { return terms.ranks[member]; }
  };
  // The data for one member of the collective, and the place for the data from that member.
  struct Exchange {
    int64_t member = 0;
    SocketRegion send, receive;
  };

  Status listenAndSay(Descriptor &listening);
  Status connectToLower(Deadline deadline);
  Status acceptHigher(const Descriptor &listening, Deadline deadline);

  // Sleeps until ready() holds. At the deadline the error says what describe() says was waited for.
  template <typename Ready, typename Describe> Status waitUntil(Ready ready, Describe describe);
  Status pump(Deadline deadline); // moves what can be moved; until the deadline it waits for something
  Status move(SocketPeer &peer);
  Status explainLoss(const SocketPeer &peer, const Status &status);
  void endBecause(const Status &cause);

  Result<std::optional<SocketRegion>> place(SocketPeer &from, const SocketFrame &frame) override;
  Status arrived(SocketPeer &from, const SocketFrame &frame) override;
  void sent(int64_t number) override;
  Status enter(const SocketPeer &from, const SocketFrame &frame);

  Result<Ticket> post(const Transfer &transfer, const plugin::Event &mine, bool isSend);
  Ticket takeFreeTicket();
  void match(SocketPeer &peer);
  void matchOwn();
  std::string describeWait(const Posted &posted) const;

  Status meet(SocketGroup &group, const Agreement &agreement);
  bool hasEntered(const SocketGroup &group, int64_t member);
  Status verifyAgreement(const SocketGroup &group);
  Status exchange(const SocketGroup &group, std::span<const Exchange> parts);
  std::string describeExchange(const SocketGroup &group) const;
  struct Call {
    const plan::Collective &what;
    const std::byte *source;
    std::byte *destination;
    int64_t elementBytes;
  };
  Status allReduce(SocketGroup &group, const Call &call);
  Status permute(SocketGroup &group, const Call &call);
  Status reduceScatter(SocketGroup &group, const Call &call);
  Status reduceBlock(SocketGroup &group, const Call &call, int64_t row, int64_t rows, int64_t begin,
                     int64_t count);
  Status rearrange(SocketGroup &group, const std::function<Exchange(int64_t member)> &exchangeWith);
  Status allGather(SocketGroup &group, const Call &call);
  Status allToAll(SocketGroup &group, const Call &call);

  Processes &processes_;
  const std::chrono::milliseconds timeout_;
  std::vector<std::unique_ptr<SocketPeer>> peers_; // by rank; null: this one
  Progress *progress_ = nullptr;
  WaitObserver *observer_ = nullptr;

  RowExchange rows_;                                   // of the exchange at hand
  std::deque<SocketGroup> groups_;                     // by GroupId
  std::map<uint64_t, std::vector<Arrivals>> arrivals_; // by the groups' keys, then rank
  std::deque<Posted> pool_;                            // by Ticket
  std::vector<Ticket> freeTickets_;
  std::deque<Ticket> ownSends_, ownReceives_; // with this rank itself
  int64_t partsToSend_ = 0, partsToCome_ = 0; // of the collective
  uint64_t moved_ = 0;                        // frames sent and arrived
  std::vector<pollfd> polled_;

  std::atomic<bool> aborted_{false};
  mutable std::mutex causeMutex_;
  Status cause_;
  Waker waker_; // when aborted
};

template <typename Ready, typename Describe> Status SocketRank::waitUntil(Ready ready, Describe describe) {
  if (isAborted())
    return cause();
  MGC_TRY(pump({}));
  if (ready())
    return Status::ok();
  const ObservedWait wait(observer_);
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  while (true) {
    if (isAborted())
      return cause();
    if (ready())
      return Status::ok();
    const uint64_t seen = moved_;
    if (progress_)
      MGC_TRY(progress_->progress());
    if (std::chrono::steady_clock::now() >= deadline)
      return errorf("waited {} s for {}", std::chrono::duration<double>(timeout_).count(), describe());
    if (moved_ == seen) // else progress() has moved something that it waits for itself
      MGC_TRY(pump(deadline));
  }
}

} // namespace mgc
