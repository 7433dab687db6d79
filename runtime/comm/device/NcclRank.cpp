// See NcclRank.h. Work of one communicator stays in order, so each group, and each way from a rank to another, has its
// own: one that waits for its peer holds up no other.
#include "runtime/comm/device/NcclRank.h"

#include "runtime/comm/device/DeviceTypes.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <fmt/ranges.h>
#include <map>
#include <mutex>

namespace mgc {

namespace {

using plugin::Event;
using plugin::Stream;
using Kind = plan::Collective::Kind;

class NcclRank final : public DeviceCommunicator {
public:
  NcclRank(const plugin::Device &device, NcclOptions options) : device_(device), options_(std::move(options)) {}
  int64_t rank() const override { return options_.rank; }
  int64_t worldSize() const override { return options_.ranks; }
  Result<GroupId> openGroup(const std::vector<int64_t> &ranks) override;
  Status openTransfers(int64_t peer, bool isSend) override;
  void setProgress(Progress *) override {} // no host waits for another while it enqueues
  Status collective(const Stream &stream, GroupId group, const plan::Collective &what, mgc_address source,
                    mgc_address destination) override;
  Result<Ticket> send(const Stream &stream, const DeviceTransfer &transfer, const Event &mine) override;
  Result<Ticket> receive(const Stream &stream, const DeviceTransfer &transfer, const Event &mine) override;
  Result<const Event *> poll(Ticket ticket) override { return transfers_.at(ticket); }
  Result<const Event *> finish(Ticket ticket) override;
  Status barrier() override { return isAborted() ? cause() : options_.barrier(); }
  void abort(const Status &cause) override;
  bool isAborted() const override { return aborted_.load(std::memory_order_acquire); }
  Status cause() const override;
  Status check() override;

private:
  struct Group {
    plugin::Comm comm;
    int64_t index = 0, size = 1;
  };
  struct Job {
    const Stream &stream;
    const Group &group;
    const plan::Collective &what;
    mgc_address source, destination;
    int64_t bytes; // of a chunk
    mgc_address at(mgc_address base, int64_t chunks) const { return base + static_cast<uint64_t>(chunks * bytes); }
  };
  Result<Group> makeGroup(const std::string &name, const std::vector<int64_t> &ranks);
  Status enqueue(const Job &job) const;
  Status exchange(const Job &job) const;
  Result<Ticket> finished(const Stream &stream, const Event &mine);

  const plugin::Device &device_;
  const NcclOptions options_;
  mutable std::mutex mutex_; // of cause_, and of groups_ as abort() sees them
  std::deque<Group> groups_; // by GroupId
  std::map<std::pair<int64_t, int64_t>, Group> ways_; // by (from, to)
  std::vector<const Event *> transfers_;              // by Ticket
  std::vector<Ticket> free_;
  std::atomic<bool> aborted_{false};
  Status cause_;
};

Result<NcclRank::Group> NcclRank::makeGroup(const std::string &name, const std::vector<int64_t> &ranks) {
  const auto mine = std::ranges::find(ranks, options_.rank);
  if (mine == ranks.end())
    return errorf("ranks [{}]: rank {} is no member", fmt::join(ranks, ", "), options_.rank);
  MGC_ASSIGN(bytes, options_.share(name, mine == ranks.begin(), [&]() -> Result<std::string> {
    MGC_ASSIGN(id, device_.makeCommId());
    return std::string(id.bytes, sizeof id.bytes);
  }));
  mgc_comm_id id;
  if (bytes.size() != sizeof id.bytes)
    return errorf("{}: {} bytes came for an id of {}", name, bytes.size(), sizeof id.bytes);
  std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
  const auto size = static_cast<int64_t>(ranks.size());
  Result<plugin::Comm> comm = device_.makeComm(id, size, mine - ranks.begin(), options_.timeout);
  if (!comm.isOk())
    return Status(comm.status()).at(fmt::format("ranks [{}]", fmt::join(ranks, ", ")));
  return Group{comm.take(), mine - ranks.begin(), size};
}

Result<GroupId> NcclRank::openGroup(const std::vector<int64_t> &ranks) {
  const std::string name = fmt::format("group {} {}", fmt::join(ranks, ","), groups_.size());
  MGC_ASSIGN(group, makeGroup(name, ranks));
  std::lock_guard lock(mutex_);
  groups_.push_back(std::move(group));
  return static_cast<GroupId>(groups_.size()) - 1;
}

Status NcclRank::openTransfers(int64_t peer, bool isSend) {
  const int64_t from = isSend ? rank() : peer, to = isSend ? peer : rank();
  MGC_ASSIGN(group, makeGroup(fmt::format("way {} {}", from, to), {from, to}));
  std::lock_guard lock(mutex_);
  ways_.emplace(std::pair(from, to), std::move(group));
  return Status::ok();
}

Status NcclRank::collective(const Stream &stream, GroupId group, const plan::Collective &what, mgc_address source,
                            mgc_address destination) {
  const Job job{stream, groups_[group], what, source, destination, what.chunk * plan::sizeInBytes(what.type)};
  if (job.bytes == 0)
    return Status::ok();
  MGC_TRY(device_.beginGroup());
  const Status enqueued = enqueue(job);
  MGC_TRY(device_.endGroup());
  return enqueued;
}

// A call per row of `outer`: NCCL knows no strides.
Status NcclRank::enqueue(const Job &job) const {
  const auto &[stream, group, what, source, destination, bytes] = job;
  const mgc_type type = deviceType(what.type);
  const mgc_reduce kind = deviceReduce(what.reduce);
  if (what.kind == Kind::allReduce)
    return stream.allReduce(group.comm, kind, type, destination, source, what.outer * what.chunk);
  if (what.kind == Kind::allToAll)
    return exchange(job);
  for (int64_t row = 0; row < what.outer; ++row)
    MGC_TRY(what.kind == Kind::allGather
                ? stream.allGather(group.comm, type, job.at(destination, row * group.size), job.at(source, row), what.chunk)
                : stream.reduceScatter(group.comm, type, job.at(destination, row), job.at(source, row * group.size),
                                       what.chunk));
  return Status::ok();
}

Status NcclRank::exchange(const Job &job) const {
  const int64_t n = job.group.size, middle = job.what.middle;
  for (int64_t row = 0; row < job.what.outer; ++row)
    for (int64_t m = 0; m < middle; ++m)
      for (int64_t peer = 0; peer < n; ++peer) {
        MGC_TRY(job.stream.send(job.group.comm, job.at(job.source, (row * n + peer) * middle + m), job.bytes, peer));
        MGC_TRY(job.stream.receive(job.group.comm, job.at(job.destination, (row * middle + m) * n + peer), job.bytes, peer));
      }
  return Status::ok();
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

Result<Ticket> NcclRank::send(const Stream &stream, const DeviceTransfer &transfer, const Event &mine) {
  MGC_TRY(stream.send(ways_.at({rank(), transfer.peer}).comm, transfer.address, transfer.bytes, 1));
  return finished(stream, mine);
}

Result<Ticket> NcclRank::receive(const Stream &stream, const DeviceTransfer &transfer, const Event &mine) {
  MGC_TRY(stream.receive(ways_.at({transfer.peer, rank()}).comm, transfer.address, transfer.bytes, 0));
  return finished(stream, mine);
}

Result<const Event *> NcclRank::finish(Ticket ticket) {
  free_.push_back(ticket);
  return transfers_.at(ticket);
}

void NcclRank::abort(const Status &cause) {
  std::lock_guard lock(mutex_);
  if (aborted_)
    return;
  cause_ = cause;
  aborted_.store(true, std::memory_order_release);
  for (const Group &group : groups_)
    group.comm.abort();
  for (const auto &[way, group] : ways_)
    group.comm.abort();
}

Status NcclRank::cause() const {
  std::lock_guard lock(mutex_);
  return cause_;
}

Status NcclRank::check() {
  if (isAborted())
    return cause();
  for (const Group &group : groups_)
    MGC_TRY(group.comm.check());
  for (const auto &[way, group] : ways_)
    MGC_TRY(group.comm.check().at(fmt::format("transfers from rank {} to rank {}", way.first, way.second)));
  return Status::ok();
}

} // namespace

std::unique_ptr<DeviceCommunicator> makeNcclRank(const plugin::Device &device, NcclOptions options) {
  return std::make_unique<NcclRank>(device, std::move(options));
}

} // namespace mgc
