// One rank's Communicator over MPI. For runtime/comm only.
#pragma once

#include "plan/json/Fields.h"
#include "runtime/comm/bootstrap/AbortCause.h"
#include "runtime/comm/mpi/MpiFrame.h"
#include "runtime/comm/mpi/MpiWorld.h"
#include "runtime/comm/mpi/WaitPace.h"
#include "runtime/comm/thread/ThreadRank.h"

#include <span>

namespace mgc {

using MpiRegion = mgc_mpi_region;
MpiRegion regionOf(const void *base, int64_t bytes);

class MpiRank final : public MpiWorld, public Communicator {
public:
  MpiRank(MpiProcess &mpi, mgc_mpi_world *world, Processes &processes, std::chrono::milliseconds timeout);
  ~MpiRank() override;
  Status listen(); // for the next frame
  Communicator &communicator() override { return *this; }
  Status close() override;

  int64_t rank() const override { return processes_.rank(); }
  int64_t worldSize() const override { return processes_.size(); }
  Result<GroupId> openGroup(const std::vector<int64_t> &ranks, int64_t color) override;
  void reserveTransfers(int64_t count) override;
  void setProgress(Progress *progress) override { progress_ = progress; }
  void setWaitObserver(WaitObserver *observer) override { observer_ = observer; }
  using Communicator::collective;
  Status collective(const plugin::Stream &stream, GroupId group, const plan::Collective &what, mgc_address source,
                    mgc_address destination, mgc_address workspace) override;
  Status exchangeRows(const plugin::Stream &stream, GroupId group, const plan::ExchangeRows &what,
                      const RowBuffers &rows) override;
  Status barrier(GroupId group) override;
  Result<Ticket> send(const plugin::Stream &, const Transfer &transfer, const plugin::Event &mine) override {
    return post(transfer, mine, true);
  }
  Result<Ticket> receive(const plugin::Stream &, const Transfer &transfer, const plugin::Event &mine) override {
    return post(transfer, mine, false);
  }
  Result<const plugin::Event *> poll(Ticket ticket) override;
  Result<const plugin::Event *> finish(Ticket ticket) override;
  void abort(const Status &cause) override;
  bool isAborted() const override { return cause_.isSet(); }
  Status cause() const override { return cause_.get(); }

private:
  struct Posted {
    Transfer what;
    const plugin::Event *mine = nullptr;
    bool isSend = false, isDone = false;
    Status error;
  };
  // The sends to one rank, oldest first.
  struct Peer {
    std::deque<Ticket> sends;    // sends that the other rank does not want yet
    std::deque<MpiFields> wants; // without a send
  };
  // A member's entry into the collective of this number in its group, with the data it sent along.
  struct Arrival {
    uint64_t meeting = 0;
    Agreement agreement;
    std::vector<std::byte> data;
  };
  // A member enters the next collective before this rank has looked at the last one, but never the one after it.
  struct Arrivals {
    std::map<int64_t, std::array<Arrival, 2>> ofRank;
    std::array<int64_t, 2> come{}; // since this rank last looked
  };
  struct MpiGroup {
    MpiGroup(const std::vector<int64_t> &ranks, int64_t index, uint64_t key, Arrivals &arrivals);
    ThreadGroup terms; // for reductions: the members' sources on this rank
    const int64_t index;
    const uint64_t key;
    Arrivals &arrivals;
    std::vector<std::array<Arrival, 2> *> ofMember;
    uint64_t meetings = 0;
    const int64_t roundBytes;       // bytes of every member that a rank adds up at once
    std::vector<std::byte> scratch; // roundBytes for each member, of two rounds
    std::byte *scratchOf(int64_t round, int64_t member) {
      return scratch.data() + (round % 2 * size() + member) * roundBytes;
    }
    const Arrival &arrivalOf(int64_t member) const { return (*ofMember[size_t(member)])[meetings % 2]; }
    int64_t size() const { return terms.size(); }
    int64_t rankOf(int64_t member) const { return terms.ranks[size_t(member)]; }
  };
  // The data for one member of the collective, and the place for the data from that member.
  struct Exchange {
    int64_t member = 0;
    MpiRegion send, receive;
  };
  struct Call {
    const plan::Collective &what;
    const std::byte *source;
    std::byte *destination;
    int64_t elementBytes;
  };
  // One round of a reduction: what travels before the addition, its own term, its result, and what travels after it.
  struct Round {
    std::vector<Exchange> terms, sums;
    const std::byte *own = nullptr;
    std::byte *sum = nullptr;
    int64_t elements = 0;
  };
  using MakeRound = std::function<void(int64_t number, Round &round)>;
  using ExchangeWith = std::function<Exchange(int64_t member)>;
  // Messages of a collective that are waited for together: terms and sums, of two rounds each.
  static constexpr int kSlots = 4;

  // Sleeps until ready() holds. At the deadline the error says what describe() says was waited for.
  template <typename Ready, typename Describe> Status waitUntil(Ready ready, Describe describe);
  Status pump(); // handles what has completed
  Status complete(const mgc_mpi_completion &completion);
  Status arrived(int64_t from, int64_t bytes);
  Status enter(int64_t from, const MpiFrame &frame);
  Status explain(const Status &status); // an error of MPI

  MpiFrame *takeFrame();
  Status sendFrame(MpiFrame *frame, int64_t to);
  Status sendData(const MpiRegion &region, int64_t to, MpiTag tag, uint64_t token);
  Status receiveData(const MpiRegion &region, int64_t from, MpiTag tag, uint64_t token);

  Result<Ticket> post(const Transfer &transfer, const plugin::Event &mine, bool isSend);
  Ticket takeFreeTicket();
  Status match(int64_t to);
  Status refused(int64_t from, const MpiFields &sent);
  void matchOwn();
  std::string describeWait(const Posted &posted) const;

  // `inlineOf(member)`: what the member gets along, of at most kInlineBytes.
  template <typename InlineOf> Status meet(MpiGroup &group, const Agreement &agreement, const InlineOf &inlineOf);
  Status meet(MpiGroup &group, const Agreement &agreement);
  Status verifyAgreement(const MpiGroup &group) const;
  std::string describeMissing(const MpiGroup &group) const;
  Status begin(const MpiGroup &group, std::span<const Exchange> parts, MpiTag tag, int slot);
  Status awaitSlot(const MpiGroup &group, int slot);
  Status reduceInRounds(MpiGroup &group, const Call &call, int64_t rounds, const MakeRound &make);
  Status allReduceSmall(MpiGroup &group, const Call &call, const Agreement &agreement);
  Status allReduce(MpiGroup &group, const Call &call);
  Status reduceScatter(MpiGroup &group, const Call &call);
  // A collective that only moves data, `bytes` at most from a member to another.
  Status rearrange(MpiGroup &group, const Agreement &agreement, int64_t bytes, const ExchangeWith &exchangeWith);
  Status exchangeParts(MpiGroup &group, const ExchangeWith &exchangeWith);
  Status allGather(MpiGroup &group, const Call &call, const Agreement &agreement);
  Status allToAll(MpiGroup &group, const Call &call, const Agreement &agreement);
  Status permute(MpiGroup &group, const Call &call, const Agreement &agreement);

  const MpiTable &table_;
  mgc_mpi_world *world_; // null: closed
  Processes &processes_;
  const std::chrono::milliseconds timeout_;
  const bool haveOwnCores_;
  Progress *progress_ = nullptr;
  WaitObserver *observer_ = nullptr;

  std::vector<mgc_mpi_completion> completed_;
  MpiFrame incoming_;
  std::deque<MpiFrame> frames_; // frames being sent
  std::vector<MpiFrame *> freeFrames_;
  std::vector<Peer> peers_;               // by rank
  RowExchange rows_;                      // the exchange in progress
  std::deque<MpiGroup> groups_;           // by GroupId
  std::map<uint64_t, Arrivals> arrivals_; // by the groups' keys
  std::deque<Posted> pool_;               // by Ticket
  std::vector<Ticket> freeTickets_;
  std::deque<Ticket> ownSends_, ownReceives_; // with this rank itself
  std::array<int64_t, kSlots> pending_{};     // messages of the collective
  std::vector<int64_t> pendingOf_;            // the same by rank
  std::array<Round, 2> rounds_;
  uint64_t moved_ = 0; // completions

  AbortCause cause_;
};

template <typename Ready, typename Describe> Status MpiRank::waitUntil(Ready ready, Describe describe) {
  if (isAborted())
    return cause();
  MGC_TRY(pump());
  if (ready())
    return Status::ok();
  const ObservedWait wait(observer_);
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  WaitPace pace(haveOwnCores_);
  while (true) {
    if (isAborted())
      return cause();
    const uint64_t seen = moved_;
    MGC_TRY(pump());
    if (ready())
      return Status::ok();
    if (moved_ != seen)
      pace.restart();
    if (progress_ && (moved_ != seen || !pace.isSpinning()))
      MGC_TRY(progress_->progress());
    if (!pace.isSpinning() && std::chrono::steady_clock::now() >= deadline)
      return errorf("waited {} s for {}", std::chrono::duration<double>(timeout_).count(), describe());
    pace.pause();
  }
}

} // namespace mgc
