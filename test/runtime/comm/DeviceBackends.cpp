// The communicators of devices under the suite of all: buffers of the host go up before and down after each call. On the
// devices that the program opens.
#include "runtime/comm/indevice/InDeviceWorld.h"
#include "runtime/comm/thread/ThreadWorld.h"
#include "test/runtime/comm/Backends.h"
#include "test/runtime/comm/OnThreads.h"
#include "test/runtime/comm/SharedValues.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

namespace mgc::test {

namespace {

using plugin::Stream;
using std::chrono::milliseconds;

struct Mirrored { // a buffer on the device and where it comes from or goes to
  plugin::DeviceBuffer device;
  plugin::PinnedBuffer pinned;
};

// Memory of a rank that streams may use until all ranks' streams have ended: of what an abort cut off.
using LeftMemory = std::deque<Mirrored>;

void *hostData(mgc_address address) { return reinterpret_cast<void *>(address); }

// One rank, with buffers of the host.
class HostedRank final : public Communicator, private Progress {
public:
  HostedRank(const plugin::PluginDevice &device, Communicator &inner, milliseconds timeout, LeftMemory &left)
      : device_(device), inner_(inner), timeout_(timeout), left_(left), stream_(device.makeStream().take()) {
    inner_.setProgress(this);
  }
  ~HostedRank() override {
    inner_.setProgress(nullptr);
    for (Pending &pending : pending_)
      left_.push_back(std::move(pending.memory));
  }
  int64_t rank() const override { return inner_.rank(); }
  int64_t worldSize() const override { return inner_.worldSize(); }
  Result<GroupId> openGroup(const std::vector<int64_t> &ranks, int64_t color) override {
    MGC_ASSIGN(group, inner_.openGroup(ranks, color));
    sizes_.push_back(static_cast<int64_t>(ranks.size()));
    MGC_TRY(inner_.connect());
    return group;
  }
  void reserveTransfers(int64_t) override {}
  void setProgress(Progress *progress) override { progress_ = progress; }
  void setWaitObserver(WaitObserver *) override {}
  using Communicator::collective;
  Status collective(const Stream &, GroupId group, const plan::Collective &what, mgc_address source,
                    mgc_address destination, mgc_address) override;
  Status exchangeRows(const Stream &, GroupId group, const plan::ExchangeRows &what, const RowBuffers &rows) override;
  Status barrier(GroupId group) override;
  Result<Ticket> send(const Stream &, const Transfer &transfer, const plugin::Event &) override {
    return post(transfer, true);
  }
  Result<Ticket> receive(const Stream &, const Transfer &transfer, const plugin::Event &) override {
    return post(transfer, false);
  }
  Result<const plugin::Event *> poll(Ticket ticket) override;
  Result<const plugin::Event *> finish(Ticket ticket) override;
  void abort(const Status &cause) override { inner_.abort(cause); }
  bool isAborted() const override { return inner_.isAborted(); }
  Status cause() const override { return inner_.cause(); }

private:
  struct Pending {
    Transfer what;
    Mirrored memory;
    plugin::Event mine;
    Ticket inner = -1;
    bool isSend = false, isFinished = false;
  };
  Status progress() override;
  Result<Mirrored> allocate(int64_t bytes) const;
  Result<Mirrored> uploaded(mgc_address source, int64_t bytes) const;
  Result<Ticket> post(const Transfer &transfer, bool isSend);
  Result<const Stream *> way(int64_t peer, bool isSend);
  Status awaitDevice(const Stream &stream); // the host waits for the device
  // The same, behind operations that use this memory.
  Status awaitDevice(const Stream &stream, std::initializer_list<Mirrored *> used);

  const plugin::PluginDevice &device_;
  Communicator &inner_;
  const milliseconds timeout_;
  LeftMemory &left_;
  Stream stream_;
  Progress *progress_ = nullptr;
  std::vector<int64_t> sizes_; // by group
  std::map<std::pair<int64_t, bool>, Stream> ways_;
  std::deque<Pending> pending_; // by Ticket
};

// As an executor does: what has met its other end goes on, then what the test wants.
Status HostedRank::progress() {
  for (const Pending &pending : pending_)
    if (pending.inner >= 0 && !pending.isFinished)
      MGC_TRY(inner_.poll(pending.inner).status());
  return progress_ ? progress_->progress() : Status::ok();
}

Result<Mirrored> HostedRank::allocate(int64_t bytes) const {
  bytes = std::max<int64_t>(bytes, 1); // a device need not have a buffer of nothing
  MGC_ASSIGN(device, device_.allocate(bytes));
  MGC_ASSIGN(pinned, device_.allocateHost(bytes));
  return Mirrored{std::move(device), std::move(pinned)};
}

Status HostedRank::awaitDevice(const Stream &stream) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  while (!stream.synchronize(milliseconds(5)).isOk()) {
    MGC_TRY(inner_.check());
    MGC_TRY(device_.check());
    MGC_TRY(progress());
    if (std::chrono::steady_clock::now() > deadline)
      return errorf("the device is not done after {} ms", timeout_.count());
  }
  return Status::ok();
}

Status HostedRank::awaitDevice(const Stream &stream, std::initializer_list<Mirrored *> used) {
  Status status = awaitDevice(stream);
  if (!status.isOk())
    for (Mirrored *memory : used)
      left_.push_back(std::move(*memory));
  return status;
}

int64_t elementsOf(const plan::Collective &what, int64_t ranks, bool isSource) {
  using Kind = plan::Collective::Kind;
  const int64_t one = what.outer * what.middle * what.chunk;
  const bool isLarge = what.kind == Kind::allToAll || (what.kind == Kind::reduceScatter && isSource) ||
                       (what.kind == Kind::allGather && !isSource);
  return isLarge ? one * ranks : one;
}

Status HostedRank::collective(const Stream &, GroupId group, const plan::Collective &what, mgc_address source,
                              mgc_address destination, mgc_address) {
  const int64_t width = plan::sizeInBytes(what.type);
  const int64_t in = elementsOf(what, sizes_[group], true) * width,
                out = elementsOf(what, sizes_[group], false) * width;
  MGC_ASSIGN(from, allocate(in));
  MGC_ASSIGN(to, allocate(out));
  const bool inPlace = source == destination;
  if (in > 0) {
    std::memcpy(from.pinned.data(), hostData(source), size_t(in));
    MGC_TRY(stream_.copyIn(from.device.address(), from.pinned.data(), in));
  }
  const mgc_address target = inPlace ? from.device.address() : to.device.address();
  plan::Collective packed = what;
  packed.workspaceBytes = what.kind == plan::Collective::Kind::allToAll ? in : 0;
  MGC_ASSIGN(workspace, allocate(packed.workspaceBytes));
  Status status = inner_.collective(stream_, group, packed, from.device.address(), target, workspace.device.address());
  if (status.isOk() && out > 0)
    status = stream_.copyOut(to.pinned.data(), target, out);
  const Status finished = awaitDevice(stream_, {&from, &to, &workspace});
  MGC_TRY(std::move(status));
  MGC_TRY(Status(finished));
  if (out > 0)
    std::memcpy(hostData(destination), to.pinned.data(), size_t(out));
  return Status::ok();
}

Result<Mirrored> HostedRank::uploaded(mgc_address source, int64_t bytes) const {
  MGC_ASSIGN(memory, allocate(bytes));
  std::memcpy(memory.pinned.data(), hostData(source), size_t(bytes));
  MGC_TRY(stream_.copyIn(memory.device.address(), memory.pinned.data(), bytes));
  return memory;
}

Status HostedRank::exchangeRows(const Stream &, GroupId group, const plan::ExchangeRows &what, const RowBuffers &rows) {
  const int64_t row = what.width * plan::sizeInBytes(what.type), ranks = sizes_[group];
  const int64_t out = (what.back ? what.rows : what.places) * row;
  MGC_ASSIGN(numbers, uploaded(rows.counts, ranks * ranks * what.groups * int64_t(sizeof(int32_t))));
  MGC_ASSIGN(from, uploaded(rows.source, (what.back ? what.places : what.rows) * row));
  MGC_ASSIGN(to, uploaded(rows.destination, out)); // bytes that the exchange does not write show
  Status status = inner_.exchangeRows(
      stream_, group, what, {numbers.device.address(), from.device.address(), to.device.address(), rows.sameCounts});
  if (status.isOk())
    status = stream_.copyOut(to.pinned.data(), to.device.address(), out);
  const Status finished = awaitDevice(stream_, {&numbers, &from, &to});
  MGC_TRY(std::move(status));
  MGC_TRY(Status(finished));
  std::memcpy(hostData(rows.destination), to.pinned.data(), size_t(out));
  return Status::ok();
}

Status HostedRank::barrier(GroupId group) {
  plan::Collective nothing;
  nothing.type = plan::DType::i32;
  nothing.chunk = 1;
  int32_t word = 0;
  if (isAborted())
    return cause();
  return collective(group, nothing, &word, &word);
}

Result<const Stream *> HostedRank::way(int64_t peer, bool isSend) {
  const auto [entry, isNew] = ways_.try_emplace({peer, isSend});
  if (isNew) {
    MGC_TRY(inner_.openTransfers(peer, isSend));
    MGC_TRY(inner_.connect());
    MGC_SET(entry->second, device_.makeStream());
  }
  return &std::as_const(entry->second);
}

Result<Ticket> HostedRank::post(const Transfer &transfer, bool isSend) {
  MGC_ASSIGN(stream, way(transfer.peer, isSend));
  MGC_ASSIGN(memory, allocate(transfer.bytes));
  MGC_ASSIGN(mine, device_.makeEvent());
  pending_.push_back({transfer, std::move(memory), std::move(mine), -1, isSend, false});
  Pending &pending = pending_.back();
  if (isSend) {
    std::memcpy(pending.memory.pinned.data(), hostData(transfer.data), size_t(transfer.bytes));
    MGC_TRY(stream->copyIn(pending.memory.device.address(), pending.memory.pinned.data(), transfer.bytes));
  }
  const Transfer what{transfer.peer, transfer.value, transfer.microbatch, pending.memory.device.address(),
                      transfer.bytes};
  MGC_SET(pending.inner,
          isSend ? inner_.send(*stream, what, pending.mine) : inner_.receive(*stream, what, pending.mine));
  return static_cast<Ticket>(pending_.size()) - 1;
}

Result<const plugin::Event *> HostedRank::poll(Ticket ticket) { return inner_.poll(pending_[ticket].inner); }

Result<const plugin::Event *> HostedRank::finish(Ticket ticket) {
  Pending &pending = pending_[ticket];
  MGC_ASSIGN(event, inner_.finish(pending.inner));
  pending.isFinished = true;
  MGC_TRY(stream_.wait(*event));
  if (!pending.isSend)
    MGC_TRY(stream_.copyOut(pending.memory.pinned.data(), pending.memory.device.address(), pending.what.bytes));
  MGC_TRY(awaitDevice(stream_));
  if (!pending.isSend)
    std::memcpy(hostData(pending.what.data), pending.memory.pinned.data(), size_t(pending.what.bytes));
  return event;
}

class SharedDevice final : public World {
public:
  SharedDevice(int64_t ranks, milliseconds timeout)
      : device_(openTestDevice(0)), world_(device_, ranks, timeout), size_(ranks), left_(size_t(ranks)) {
    for (int64_t rank = 0; rank < ranks; ++rank)
      ranks_.emplace_back(device_, world_.communicator(rank), timeout, left_[rank]);
  }
  int64_t size() const override { return size_; }
  void run(const std::function<void(Communicator &)> &body) override {
    onThreads(size_, [&](int64_t rank) { body(ranks_[rank]); });
  }

private:
  plugin::PluginDevice device_;
  InDeviceWorld world_;
  const int64_t size_;
  std::vector<LeftMemory> left_;
  std::deque<HostedRank> ranks_;
};

// A device for each rank; what launchers do, their hosts do here: they share ids.
class DevicePerRank final : public World {
public:
  DevicePerRank(int64_t ranks, milliseconds timeout) : hosts_(ranks, {timeout}), left_(size_t(ranks)) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      devices_.push_back(openTestDevice(rank));
      inner_.push_back(makeNcclRank(devices_[rank], {rank, ranks, timeout, ids_.share(), [] { return Status::ok(); },
                                                     [this, rank] { return hosts_.communicator(rank).cause(); }}));
      ranks_.emplace_back(devices_[rank], *inner_[rank], timeout, left_[rank]);
    }
  }
  ~DevicePerRank() override { // to leave a communicator, its ranks meet
    ranks_.clear();
    onThreads(size(), [&](int64_t rank) { inner_[rank].reset(); });
  }
  int64_t size() const override { return hosts_.size(); }
  void run(const std::function<void(Communicator &)> &body) override {
    onThreads(size(), [&](int64_t rank) { body(ranks_[rank]); });
  }

private:
  ThreadWorld hosts_;
  SharedValues ids_;
  std::deque<plugin::PluginDevice> devices_;
  std::vector<LeftMemory> left_;
  std::vector<std::unique_ptr<Communicator>> inner_;
  std::deque<HostedRank> ranks_;
};

} // namespace

std::unique_ptr<World> makeSharedDevice(int64_t ranks, milliseconds timeout) {
  return std::make_unique<SharedDevice>(ranks, timeout);
}

std::unique_ptr<World> makeDevicePerRank(int64_t ranks, milliseconds timeout) {
  return std::make_unique<DevicePerRank>(ranks, timeout);
}

} // namespace mgc::test
