// See NcclRank.h. Work of one communicator stays in order, so each group, and each channel from a rank to another, has its
// own: one that waits for its peer holds up no other. To make one, all its ranks meet; each rank makes its own in the order
// of the ranks' lists, so that some can always be made.
#include "runtime/comm/nccl/NcclRank.h"

#include "runtime/comm/RowExchange.h"
#include "runtime/device/CallFacts.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <fmt/ranges.h>
#include <map>
#include <mutex>
#include <thread>

namespace mgc {

namespace {

using plugin::Event;
using plugin::Stream;
using Kind = plan::Collective::Kind;

constexpr std::chrono::seconds kHearsay{2};
constexpr int64_t kHandshakeBytes = 256;
constexpr std::string_view kGroup = "group", kChannel = "channel";

class NcclRank final : public Communicator {
public:
  NcclRank(const plugin::PluginDevice &device, NcclOptions options) : device_(device), options_(std::move(options)) {}
  int64_t rank() const override { return options_.rank; }
  int64_t worldSize() const override { return options_.ranks; }
  Result<GroupId> openGroup(const std::vector<int64_t> &ranks, int64_t color) override;
  Status openTransfers(int64_t peer, bool isSend) override;
  Status connect() override;
  void setProgress(Progress *) override {} // no host waits for another while it enqueues
  void setWaitObserver(WaitObserver *) override {}
  Status collective(const Stream &stream, GroupId group, const plan::Collective &what, mgc_address source,
                    mgc_address destination, mgc_address workspace) override;
  Status exchangeRows(const Stream &stream, GroupId group, const plan::ExchangeRows &what,
                      const RowBuffers &rows) override;
  Result<Ticket> send(const Stream &stream, const Transfer &transfer, const Event &mine) override;
  Result<Ticket> receive(const Stream &stream, const Transfer &transfer, const Event &mine) override;
  Result<const Event *> poll(Ticket ticket) override { return transfers_.at(ticket); }
  Result<const Event *> finish(Ticket ticket) override;
  // The hosts of all ranks meet, whatever the group.
  Status barrier(GroupId) override { return isAborted() ? cause() : options_.barrier(); }
  void abort(const Status &cause) override;
  bool isAborted() const override { return aborted_.load(std::memory_order_acquire); }
  Status cause() const override;
  Status check() override;

private:
  using Ranks = std::vector<int64_t>;
  struct Group {
    plugin::Comm comm;
    int64_t index = 0, size = 1;
    Ranks ranks = {};
  };
  struct Job {
    const Stream &stream;
    const Group &group;
    const plan::Collective &what;
    mgc_address source, destination, workspace;
    int64_t bytes; // size of a chunk
    mgc_address at(mgc_address base, int64_t chunks) const { return base + static_cast<uint64_t>(chunks * bytes); }
  };
  Status verifyVersions() const;
  Status rootOf(Status error) const;
  Status handshake(const Group &channel);
  Status awaitHandshake(const Stream &stream);
  std::vector<mgc_comm *> all() const;
  Status make(const std::string &name, const std::vector<int64_t> &ranks, Group &group);
  Status enqueue(const Job &job) const;
  Status exchange(const Job &job) const;
  Status permute(const Job &job) const;
  Status readCounts(const Stream &stream, const Group &group, const plan::ExchangeRows &what, mgc_address counts,
                    RowExchange &exchange);
  Result<bool> isDone(const Stream &stream, std::chrono::milliseconds patience);
  Status pack(const Job &job, mgc_address to, mgc_address from, bool isBack) const;
  Result<Ticket> finished(const Stream &stream, const Event &mine);

  const plugin::PluginDevice &device_;
  const NcclOptions options_;
  const plugin::Patience patience_{options_.timeout, [this] { return isAborted() || !options_.check().isOk(); }};
  mutable std::mutex mutex_; // guards cause_, and communicators against abort()
  std::deque<Group> groups_; // by GroupId; without communicators until connect()
  std::map<Ranks, GroupId> byRanks_;
  std::map<Ranks, Group> channels_;      // by {from, to}
  std::vector<const Event *> transfers_; // by Ticket
  plugin::PinnedBuffer counts_;          // the last exchange's counts, on the host
  // By group and by where the counts lie: of the last exchange by them.
  std::map<std::pair<GroupId, mgc_address>, RowExchange> exchanges_;
  std::vector<Ticket> free_;
  std::atomic<bool> aborted_{false};
  Status cause_;
};

Result<GroupId> NcclRank::openGroup(const Ranks &ranks, int64_t) {
  MGC_ASSIGN(index, indexInGroup(ranks, rank(), worldSize()));
  const auto [entry, isNew] = byRanks_.try_emplace(ranks, static_cast<GroupId>(groups_.size()));
  if (isNew)
    groups_.push_back({{}, index, static_cast<int64_t>(ranks.size()), ranks});
  return entry->second;
}

Status NcclRank::openTransfers(int64_t peer, bool isSend) {
  const Ranks channel = isSend ? Ranks{rank(), peer} : Ranks{peer, rank()};
  MGC_ASSIGN(index, indexInGroup(channel, rank(), worldSize()));
  channels_.try_emplace(channel, Group{{}, index, 2});
  return Status::ok();
}

// NCCL does not always work with another version of itself; matrix products of another cuBLASLt, and row kernels that
// another driver compiled, have other bits.
Status NcclRank::verifyVersions() const {
  MGC_ASSIGN(facts, device_.describe());
  const std::string text = facts.versions,
                    own = text.substr(0, text.find(';')); // behind it: what this rank uses them for
  MGC_ASSIGN(first, options_.share("versions", rank() == 0, [&]() -> Result<std::string> { return own; }));
  if (own == first)
    return Status::ok();
  return errorf("rank {} has {}; rank 0 has {}; expected the same for all ranks: the same driver on all "
                "machines, and the folder of the same libraries in LD_LIBRARY_PATH of each rank",
                rank(), own, first);
}

Status NcclRank::connect() {
  MGC_TRY(verifyVersions());
  MGC_TRY(options_.barrier()); // one that cannot come has said so before the others wait for it in NCCL
  std::map<Ranks, std::vector<std::pair<std::string_view, Group *>>> all;
  for (const auto &[ranks, group] : byRanks_)
    all[ranks].push_back({kGroup, &groups_[group]});
  for (auto &[ranks, channel] : channels_)
    all[ranks].push_back({kChannel, &channel});
  for (const auto &[ranks, sameRanks] : all)
    for (const auto &[kind, group] : sameRanks)
      if (!group->comm) {
        Status made = make(fmt::format("nccl {} of {}", kind, nameOf(ranks)), ranks, *group);
        if (made.isOk() && kind == kChannel)
          made = handshake(*group);
        MGC_TRY(std::move(made).at(fmt::format("ranks [{}]", fmt::join(ranks, ", "))));
      }
  return Status::ok();
}

// NCCL connects the ends of a channel when they first use it, and their hosts wait for each other. In a step they must not: what both use
// first may be to receive.
Status NcclRank::handshake(const Group &channel) {
  MGC_ASSIGN(buffer, device_.allocate(kHandshakeBytes));
  MGC_ASSIGN(stream, device_.makeStream());
  MGC_TRY(stream.fill(buffer.address(), 0, kHandshakeBytes));
  const Status sent = channel.index == 0 ? stream.send(channel.comm, buffer.address(), kHandshakeBytes, 1)
                                         : stream.receive(channel.comm, buffer.address(), kHandshakeBytes, 0);
  Status done = sent.isOk() ? awaitHandshake(stream) : rootOf(sent);
  if (!done.isOk()) { // work on the device that waits for the peer would hold the buffer for ever
    abort(done);
    (void)stream.synchronize(kHearsay);
  }
  return done;
}

// False at the deadline.
Result<bool> NcclRank::isDone(const Stream &stream, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!stream.synchronize(kLivenessInterval).isOk()) {
    MGC_TRY(device_.check());
    MGC_TRY(check());
    if (std::chrono::steady_clock::now() > deadline)
      return false;
  }
  return true;
}

// Before those deadlines at which the others, who wait for these two, would blame them.
Status NcclRank::awaitHandshake(const Stream &stream) {
  const auto patience = options_.timeout / 2;
  MGC_ASSIGN(done, isDone(stream, patience));
  if (done)
    return Status::ok();
  return errorf("the first bytes from the one to the other have not come within {} ms, though both hosts "
                "have met; see whether data pass between their GPUs (NCCL_DEBUG=INFO says what NCCL takes)",
                patience.count());
}

Status NcclRank::make(const std::string &name, const Ranks &ranks, Group &group) {
  MGC_ASSIGN(bytes, options_.share(name, group.index == 0, [&]() -> Result<std::string> {
    MGC_ASSIGN(id, device_.makeCommId());
    return std::string(id.bytes, sizeof id.bytes);
  }));
  mgc_comm_id id;
  if (bytes.size() != sizeof id.bytes)
    return errorf("{}: {} bytes came for an id of {}", name, bytes.size(), sizeof id.bytes);
  std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
  Result<plugin::Comm> comm = device_.makeComm(id, group.size, group.index, patience_);
  MGC_TRY(rootOf(comm.status()));
  std::lock_guard lock(mutex_);
  group.comm = comm.take();
  return Status::ok();
}

Status NcclRank::collective(const Stream &stream, GroupId group, const plan::Collective &what, mgc_address source,
                            mgc_address destination, mgc_address workspace) {
  Job job{stream, groups_[group], what, source, destination, workspace, what.chunk * plan::sizeInBytes(what.type)};
  if (job.bytes == 0)
    return Status::ok();
  const bool packs = what.kind == Kind::allToAll && what.outer * what.middle > 1;
  if (packs && what.splitsInner)
    MGC_TRY(pack(job, workspace, source, false));
  (what.splitsInner ? job.source : job.destination) = packs ? workspace : what.splitsInner ? source : destination;
  MGC_TRY(device_.beginGroup());
  const Status enqueued = enqueue(job);
  MGC_TRY(rootOf(device_.endGroup()));
  MGC_TRY(Status(enqueued));
  return packs && !what.splitsInner ? pack(job, destination, workspace, true) : Status::ok();
}

// A call per row of `outer`: NCCL knows no strides.
Status NcclRank::enqueue(const Job &job) const {
  const auto &[stream, group, what, source, destination, workspace, bytes] = job;
  const mgc_type type = deviceType(what.type);
  const mgc_reduce kind = deviceReduce(what.reduce);
  if (what.kind == Kind::allReduce)
    return stream.allReduce(group.comm, kind, type, destination, source, what.outer * what.chunk);
  if (what.kind == Kind::allToAll)
    return exchange(job);
  if (what.kind == Kind::permute)
    return permute(job);
  for (int64_t row = 0; row < what.outer; ++row)
    MGC_TRY(what.kind == Kind::allGather ? stream.allGather(group.comm, type, job.at(destination, row * group.size),
                                                            job.at(source, row), what.chunk)
                                         : stream.reduceScatter(group.comm, kind, type, job.at(destination, row),
                                                                job.at(source, row * group.size), what.chunk));
  return Status::ok();
}

// [rows, n, chunk] -> [n, rows, chunk], or back.
Status NcclRank::pack(const Job &job, mgc_address to, mgc_address from, bool isBack) const {
  const int64_t n = job.group.size, rows = job.what.outer * job.what.middle;
  for (int64_t peer = 0; peer < n; ++peer) {
    const mgc_address apart = job.at(isBack ? to : from, peer), packed = job.at(isBack ? from : to, peer * rows);
    MGC_TRY(isBack ? job.stream.copyRows(apart, n * job.bytes, packed, job.bytes, job.bytes, rows)
                   : job.stream.copyRows(packed, job.bytes, apart, n * job.bytes, job.bytes, rows));
  }
  return Status::ok();
}

// [outer, n, middle, chunk] on one side, [n, outer, middle, chunk], packed, on the other.
Status NcclRank::exchange(const Job &job) const {
  const int64_t n = job.group.size, outer = job.what.outer, middle = job.what.middle;
  for (int64_t row = 0; row < outer; ++row)
    for (int64_t peer = 0; peer < n; ++peer) {
      const int64_t apart = (row * n + peer) * middle, packed = (peer * outer + row) * middle;
      const bool splitsInner = job.what.splitsInner;
      MGC_TRY(
          job.stream.send(job.group.comm, job.at(job.source, splitsInner ? packed : apart), middle * job.bytes, peer));
      MGC_TRY(job.stream.receive(job.group.comm, job.at(job.destination, splitsInner ? apart : packed),
                                 middle * job.bytes, peer));
    }
  return Status::ok();
}

Status NcclRank::permute(const Job &job) const {
  const Group &group = job.group;
  MGC_TRY(job.stream.send(group.comm, job.source, job.bytes, (group.index + 1) % group.size));
  return job.stream.receive(group.comm, job.destination, job.bytes, (group.index + group.size - 1) % group.size);
}

// The host waits here for the device, as for nothing else of a step: NCCL takes sizes from the host, and only the device has counted.
// All ranks have the same counts, which an all_gather made, so all find the same mistake before one sends.
Status NcclRank::readCounts(const Stream &stream, const Group &group, const plan::ExchangeRows &what,
                            mgc_address counts, RowExchange &exchange) {
  const int64_t bytes = group.size * group.size * what.groups * static_cast<int64_t>(sizeof(int32_t));
  if (counts_.bytes() < bytes)
    MGC_SET(counts_, device_.allocateHost(bytes));
  MGC_TRY(stream.copyOut(counts_.data(), counts, bytes));
  MGC_ASSIGN(done, isDone(stream, options_.timeout));
  if (!done)
    return errorf("waited {} s for the device to come to the counts of an exchange of rows",
                  std::chrono::duration<double>(options_.timeout).count());
  return exchange.read(what, group.ranks, reinterpret_cast<const int32_t *>(counts_.data()));
}

// Rows of one owner and one expert follow each other at both ends, so each is one transfer; both ends have the same order of them.
Status NcclRank::exchangeRows(const Stream &stream, GroupId groupId, const plan::ExchangeRows &what,
                              const RowBuffers &rows) {
  const Group &group = groups_[groupId];
  const auto [known, isNew] = exchanges_.try_emplace({groupId, rows.counts});
  RowExchange &exchange = known->second;
  if (isNew || !rows.sameCounts)
    MGC_TRY(readCounts(stream, group, what, rows.counts, exchange));
  const int64_t row = what.width * plan::sizeInBytes(what.type);
  const auto at = [&](mgc_address base, int64_t place) { return base + static_cast<uint64_t>(place * row); };
  const auto move = [&](int64_t peer, int64_t expert) -> Status {
    const RowExchange::Piece &mine = exchange.piece(group.index, peer, expert),
                             &theirs = exchange.piece(peer, group.index, expert);
    const auto [from, to] = what.back ? std::pair(at(rows.source, theirs.there), at(rows.destination, mine.own))
                                      : std::pair(at(rows.source, mine.own), at(rows.destination, theirs.there));
    const int64_t sent = (what.back ? theirs : mine).count * row, received = (what.back ? mine : theirs).count * row;
    if (peer == group.index)
      return sent > 0 ? stream.copy(to, from, sent) : Status::ok();
    if (sent > 0)
      MGC_TRY(stream.send(group.comm, from, sent, peer));
    return received > 0 ? stream.receive(group.comm, to, received, peer) : Status::ok();
  };
  const auto moveAll = [&]() -> Status {
    for (int64_t peer = 0; peer < group.size; ++peer)
      for (int64_t expert = 0; expert < what.groups; ++expert)
        MGC_TRY(move(peer, expert));
    return Status::ok();
  };
  MGC_TRY(device_.beginGroup());
  const Status enqueued = moveAll();
  MGC_TRY(rootOf(device_.endGroup()));
  return Status(enqueued);
}

Result<Ticket> NcclRank::finished(const Stream &stream, const Event &mine) {
  MGC_TRY(stream.record(mine));
  if (free_.empty()) {
    free_.push_back(static_cast<Ticket>(transfers_.size()));
    transfers_.push_back(nullptr);
  }
  const Ticket ticket = free_.back();
  free_.pop_back();
  transfers_[ticket] = &mine;
  return ticket;
}

Result<Ticket> NcclRank::send(const Stream &stream, const Transfer &transfer, const Event &mine) {
  MGC_TRY(rootOf(stream.send(channels_.at({rank(), transfer.peer}).comm, transfer.data, transfer.bytes, 1)));
  return finished(stream, mine);
}

Result<Ticket> NcclRank::receive(const Stream &stream, const Transfer &transfer, const Event &mine) {
  MGC_TRY(rootOf(stream.receive(channels_.at({transfer.peer, rank()}).comm, transfer.data, transfer.bytes, 0)));
  return finished(stream, mine);
}

Result<const Event *> NcclRank::finish(Ticket ticket) {
  free_.push_back(ticket);
  return transfers_.at(ticket);
}

// With the mutex.
std::vector<mgc_comm *> NcclRank::all() const {
  std::vector<mgc_comm *> comms;
  for (const Group &group : groups_)
    if (group.comm)
      comms.push_back(group.comm.raw());
  for (const auto &[channel, group] : channels_)
    if (group.comm)
      comms.push_back(group.comm.raw());
  return comms;
}

void NcclRank::abort(const Status &cause) {
  std::vector<mgc_comm *> comms;
  {
    std::lock_guard lock(mutex_);
    if (aborted_)
      return;
    cause_ = cause;
    aborted_.store(true, std::memory_order_release);
    comms = all();
  }
  device_.abort(comms);
}

Status NcclRank::cause() const {
  std::lock_guard lock(mutex_);
  return cause_;
}

Status NcclRank::check() {
  if (isAborted())
    return cause();
  MGC_TRY(options_.check());
  for (const Group &group : groups_)
    if (group.comm)
      MGC_TRY(rootOf(group.comm.check()));
  for (const auto &[channel, group] : channels_)
    if (group.comm)
      MGC_TRY(rootOf(group.comm.check().at(fmt::format("transfers from rank {} to rank {}", channel[0], channel[1]))));
  return Status::ok();
}

// An error of NCCL mostly follows from the end of another rank, which says why; the hosts hear that within moments.
Status NcclRank::rootOf(Status error) const {
  const auto deadline = std::chrono::steady_clock::now() + kHearsay;
  while (!error.isOk() && std::chrono::steady_clock::now() < deadline) {
    MGC_TRY(options_.check());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return error;
}

} // namespace

std::unique_ptr<Communicator> makeNcclRank(const plugin::PluginDevice &device, NcclOptions options) {
  return std::make_unique<NcclRank>(device, std::move(options));
}

} // namespace mgc
