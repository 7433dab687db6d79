// Opening, waiting and aborting of MPI ranks, and the messages they send. MpiCollectives.cpp has the collectives, MpiTransfers.cpp
// the transfers.
#include "runtime/base/Cores.h"
#include "runtime/comm/mpi/MpiRank.h"
#include "runtime/comm/mpi/MpiToken.h"
#include "runtime/random/Philox.h"

#include <fmt/ranges.h>

namespace mgc {

namespace {

using namespace std::chrono_literals;

constexpr auto kExplanation = 1500ms; // for the reason why a rank has gone to come here

} // namespace

MpiRegion regionOf(const void *base, int64_t bytes) {
  return {const_cast<void *>(base), bytes > 0 ? 1 : 0, bytes, bytes};
}

MpiRank::MpiRank(MpiProcess &mpi, mgc_mpi_world *world, Processes &processes, std::chrono::milliseconds timeout)
    : table_(mpi.table()), world_(world), processes_(processes), timeout_(timeout),
      haveOwnCores_(processes.coreSize() <= static_cast<int64_t>(availableCores().size())),
      peers_(static_cast<size_t>(processes.size())), pendingOf_(static_cast<size_t>(processes.size())) {
  processes_.setAbortListener([this](const Status &cause) { cause_.set(cause); });
}

MpiRank::~MpiRank() {
  processes_.setAbortListener(nullptr);
  static std::vector<mgc_mpi_world *> left; // with what they have begun, to the end of the process (MpiProcess::leave)
  if (!world_)
    return;
  if (isAborted())
    left.push_back(world_);
  else
    table_.drop_world(world_);
}

Status MpiRank::close() {
  if (!world_)
    return Status::ok();
  const auto haveLeft = [&] { return freeFrames_.size() == frames_.size(); };
  const auto describe = [&] {
    return fmt::format("{} of its messages to leave, at the end of the run", frames_.size() - freeFrames_.size());
  };
  MGC_TRY(waitUntil(haveLeft, describe).at(fmt::format("rank {}", rank())));
  table_.drop_world(std::exchange(world_, nullptr));
  return Status::ok();
}

Result<std::unique_ptr<MpiWorld>> MpiWorld::open(MpiProcess &mpi, Processes &processes,
                                                 std::chrono::milliseconds timeout) {
  MGC_ASSIGN(world, mpi.openWorld());
  auto rank = std::make_unique<MpiRank>(mpi, world, processes, timeout);
  MGC_TRY(rank->listen());
  return std::unique_ptr<MpiWorld>(std::move(rank));
}

void MpiRank::abort(const Status &cause) {
  if (isAborted())
    return;
  cause_.set(cause);
  processes_.abort(cause);
}

// If a rank has gone, the reason comes over another connection, and maybe later.
Status MpiRank::explain(const Status &status) {
  if (status.isOk())
    return status;
  const Status cause = processes_.awaitCause(kExplanation);
  return cause.isOk() ? Status(status).at(fmt::format("rank {}: {}", rank(), table_.kind)) : cause;
}

Status MpiRank::listen() {
  const MpiRegion region = regionOf(&incoming_, sizeof incoming_);
  return explain(mpiCall<&MpiTable::receive>(table_, world_, &region, int64_t(MGC_MPI_ANY_RANK), int32_t(frameTag),
                                             MpiToken{MpiToken::Kind::frame}.bits()));
}

MpiFrame *MpiRank::takeFrame() {
  if (freeFrames_.empty()) {
    frames_.emplace_back();
    freeFrames_.push_back(&frames_.back());
  }
  MpiFrame *frame = freeFrames_.back();
  freeFrames_.pop_back();
  return frame;
}

Status MpiRank::sendFrame(MpiFrame *frame, int64_t to) {
  const MpiRegion region = regionOf(frame, frame->wholeBytes());
  int32_t isDone = 0;
  const auto number = reinterpret_cast<uintptr_t>(frame);
  MGC_TRY(explain(mpiCall<&MpiTable::send>(table_, world_, &region, to, int32_t(frameTag),
                                           MpiToken{MpiToken::Kind::sentFrame, 0, number}.bits(), &isDone)));
  if (isDone)
    freeFrames_.push_back(frame);
  return Status::ok();
}

Status MpiRank::sendData(const MpiRegion &region, int64_t to, MpiTag tag, uint64_t token) {
  return explain(
      mpiCall<&MpiTable::send>(table_, world_, &region, to, int32_t(tag), token, static_cast<int32_t *>(nullptr)));
}

Status MpiRank::receiveData(const MpiRegion &region, int64_t from, MpiTag tag, uint64_t token) {
  return explain(mpiCall<&MpiTable::receive>(table_, world_, &region, from, int32_t(tag), token));
}

Status MpiRank::pump() {
  if (!world_)
    return Status::error("the world of MPI is closed");
  const mgc_mpi_completion *completions = nullptr;
  int64_t count = 0;
  MGC_TRY(explain(mpiCall<&MpiTable::poll>(table_, world_, &completions, &count)));
  moved_ += static_cast<uint64_t>(count);
  completed_.assign(completions, completions + count); // handling one may begin others
  for (const mgc_mpi_completion &completion : completed_)
    MGC_TRY(complete(completion));
  return Status::ok();
}

Status MpiRank::complete(const mgc_mpi_completion &completion) {
  const MpiToken token = MpiToken::of(completion.token);
  switch (token.kind) {
  case MpiToken::Kind::frame:
    return arrived(completion.rank, completion.bytes);
  case MpiToken::Kind::sentFrame:
    freeFrames_.push_back(reinterpret_cast<MpiFrame *>(token.number));
    return Status::ok();
  case MpiToken::Kind::transfer:
    pool_[token.number].isDone = true;
    return Status::ok();
  case MpiToken::Kind::part:
    --pending_[token.slot];
    --pendingOf_[token.number];
    return Status::ok();
  }
  return Status::ok();
}

Status MpiRank::arrived(int64_t from, int64_t bytes) {
  if (bytes < MpiFrame::kHeaderBytes || incoming_.bytes < 0 || bytes != incoming_.wholeBytes())
    return errorf("rank {} sent a frame of {} bytes; expected one of this version of mgrun", from, bytes);
  switch (incoming_.kind) {
  case MpiFrame::Kind::enter:
    MGC_TRY(enter(from, incoming_));
    break;
  case MpiFrame::Kind::want:
    peers_[static_cast<size_t>(from)].wants.push_back(incoming_.fields);
    MGC_TRY(match(from));
    break;
  case MpiFrame::Kind::mismatch:
    MGC_TRY(refused(from, incoming_.fields));
    break;
  }
  return listen();
}

Result<GroupId> MpiRank::openGroup(const std::vector<int64_t> &ranks, int64_t) {
  MGC_ASSIGN(index, indexInGroup(ranks, rank(), worldSize()));
  for (size_t id = 0; id < groups_.size(); ++id)
    if (groups_[id].terms.ranks == ranks)
      return static_cast<GroupId>(id);
  const uint64_t key = hashName({reinterpret_cast<const char *>(ranks.data()), ranks.size() * sizeof(int64_t)});
  for (const MpiGroup &other : groups_)
    if (other.key == key)
      return errorf("groups of ranks [{}] and [{}] have one key; expected other groups", fmt::join(ranks, ", "),
                    fmt::join(other.terms.ranks, ", "));
  groups_.emplace_back(ranks, index, key, arrivals_[key]);
  return static_cast<GroupId>(groups_.size()) - 1;
}

} // namespace mgc
