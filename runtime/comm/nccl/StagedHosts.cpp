// See StagedHosts.h. A block is sent as an exchange of rows among all, in which one rank has rows for one other: NCCL connects the two
// when they first do, so there is one communicator, not one for each pair.
#include "runtime/comm/nccl/StagedHosts.h"

#include "runtime/base/Rounding.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace mgc {

namespace {

// Sizes of the rows, and of the pieces, in which a block moves.
constexpr int64_t kRowBytes = 64, kPieceBytes = 4 << 20;

class StagedHosts final : public Communicator {
public:
  StagedHosts(const plugin::PluginDevice &device, Communicator &said, Communicator &nccl,
              std::chrono::milliseconds timeout)
      : device_(device), said_(said), nccl_(nccl), timeout_(timeout) {}
  Status open();

  int64_t rank() const override { return said_.rank(); }
  int64_t worldSize() const override { return said_.worldSize(); }
  Result<GroupId> openGroup(const std::vector<int64_t> &ranks, int64_t color) override {
    return said_.openGroup(ranks, color);
  }
  void setProgress(Progress *) override {}
  void setWaitObserver(WaitObserver *) override {}
  using Communicator::collective;
  Status collective(const plugin::Stream &stream, GroupId group, const plan::Collective &what, mgc_address source,
                    mgc_address destination, mgc_address workspace) override {
    return said_.collective(stream, group, what, source, destination, workspace);
  }
  Status exchangeRows(const plugin::Stream &stream, GroupId group, const plan::ExchangeRows &what,
                      const RowBuffers &rows) override {
    return said_.exchangeRows(stream, group, what, rows);
  }
  Status barrier(GroupId group) override { return said_.barrier(group); }
  Result<Ticket> send(const plugin::Stream &, const Transfer &transfer, const plugin::Event &) override {
    return move(transfer, true);
  }
  Result<Ticket> receive(const plugin::Stream &, const Transfer &transfer, const plugin::Event &) override {
    return move(transfer, false);
  }
  Result<const plugin::Event *> poll(Ticket) override { return &none_; }
  Result<const plugin::Event *> finish(Ticket) override { return &none_; }
  void abort(const Status &cause) override { said_.abort(cause); }
  bool isAborted() const override { return said_.isAborted(); }
  Status cause() const override { return said_.cause(); }

private:
  Result<Ticket> move(const Transfer &transfer, bool isSend);
  Status movePiece(std::byte *data, int64_t bytes, int64_t peer, bool isSend);
  Status awaitDevice(int64_t peer, bool isSend);

  const plugin::PluginDevice &device_;
  Communicator &said_, &nccl_;
  const std::chrono::milliseconds timeout_;
  const plugin::Event none_;
  GroupId everyone_ = -1;
  plugin::Stream stream_;
  plugin::PinnedBuffer host_, hostCounts_;
  plugin::DeviceBuffer piece_, counts_;
};

Status StagedHosts::open() {
  std::vector<int64_t> ranks(static_cast<size_t>(worldSize()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const int64_t countBytes = worldSize() * worldSize() * static_cast<int64_t>(sizeof(int32_t));
  MGC_ASSIGN(everyone, nccl_.openGroup(ranks));
  MGC_ASSIGN(stream, device_.makeStream());
  MGC_ASSIGN(host, device_.allocateHost(kPieceBytes));
  MGC_ASSIGN(hostCounts, device_.allocateHost(countBytes));
  MGC_ASSIGN(piece, device_.allocate(kPieceBytes));
  MGC_ASSIGN(counts, device_.allocate(countBytes));
  everyone_ = everyone;
  stream_ = std::move(stream);
  host_ = std::move(host), hostCounts_ = std::move(hostCounts);
  piece_ = std::move(piece), counts_ = std::move(counts);
  return Status::ok();
}

Result<Ticket> StagedHosts::move(const Transfer &transfer, bool isSend) {
  if (isAborted())
    return cause();
  auto *data = reinterpret_cast<std::byte *>(transfer.data);
  for (int64_t done = 0; done < transfer.bytes; done += kPieceBytes)
    MGC_TRY(movePiece(data + done, std::min(kPieceBytes, transfer.bytes - done), transfer.peer, isSend));
  return Ticket(0);
}

// The last row may have more than there is to move.
Status StagedHosts::movePiece(std::byte *data, int64_t bytes, int64_t peer, bool isSend) {
  const int64_t ranks = worldSize(), rows = divideUp(bytes, kRowBytes);
  const int64_t owner = isSend ? rank() : peer, host = isSend ? peer : rank();
  std::memset(hostCounts_.data(), 0, static_cast<size_t>(hostCounts_.bytes()));
  const auto count = static_cast<int32_t>(rows);
  std::memcpy(hostCounts_.data() + (owner * ranks + host) * int64_t(sizeof count), &count, sizeof count);
  MGC_TRY(stream_.copyIn(counts_.address(), hostCounts_.data(), hostCounts_.bytes()));
  if (isSend) {
    std::memcpy(host_.data(), data, static_cast<size_t>(bytes));
    MGC_TRY(stream_.copyIn(piece_.address(), host_.data(), bytes));
  }
  plan::ExchangeRows what;
  what.type = plan::DType::i32;
  what.width = kRowBytes / plan::sizeInBytes(what.type);
  what.groups = 1;
  what.rows = what.places = kPieceBytes / kRowBytes;
  MGC_TRY(
      nccl_.exchangeRows(stream_, everyone_, what,
                         {.counts = counts_.address(), .source = piece_.address(), .destination = piece_.address()}));
  if (!isSend)
    MGC_TRY(stream_.copyOut(host_.data(), piece_.address(), bytes));
  MGC_TRY(awaitDevice(peer, isSend));
  if (!isSend)
    std::memcpy(data, host_.data(), static_cast<size_t>(bytes));
  return Status::ok();
}

Status StagedHosts::awaitDevice(int64_t peer, bool isSend) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  while (!stream_.synchronize(kLivenessInterval).isOk()) {
    MGC_TRY(device_.check());
    MGC_TRY(nccl_.check());
    if (std::chrono::steady_clock::now() > deadline)
      return errorf("waited {} s for rank {} to {} a block of memory", std::chrono::duration<double>(timeout_).count(),
                    peer, isSend ? "receive" : "send");
  }
  return Status::ok();
}

} // namespace

Result<std::unique_ptr<Communicator>> makeStagedHosts(const plugin::PluginDevice &device, Communicator &said,
                                                      Communicator &nccl, std::chrono::milliseconds timeout) {
  auto hosts = std::make_unique<StagedHosts>(device, said, nccl, timeout);
  MGC_TRY(hosts->open());
  return std::unique_ptr<Communicator>(std::move(hosts));
}

} // namespace mgc
