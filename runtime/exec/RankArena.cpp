#include "runtime/exec/RankArena.h"

#include "plan/Expand.h"
#include "plan/Plan.h"
#include "runtime/base/Rounding.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace mgc {

// Address space of this process; zero until it is written, and no memory until it is touched.
static Result<Mapping<std::byte>> makeMirror(int64_t bytes) {
  if (bytes == 0)
    return Mapping<std::byte>();
  void *data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    return errorf("no address space of {} bytes for a copy of a rank's weights on the host: {}; a higher limit "
                  "(ulimit -v) would work",
                  bytes, std::strerror(errno));
  return Mapping<std::byte>(static_cast<std::byte *>(data), {static_cast<size_t>(bytes)});
}

static void append(const plan::Plan &plan, const plan::Bucket &bucket, const plan::State &state,
                   std::vector<ByteRange> &ranges) {
  for (const plan::StateSpan &part : spansOf(plan, bucket, state))
    ranges.push_back({part.offset, part.bytes});
}

std::vector<ByteRange> rangesOf(const plan::Plan &plan, const plan::StagePlan &stage, Part part) {
  const auto has = [part](const plan::State &state) {
    if (isOfMicrobatches(state.role))
      return false; // behind a microbatch nothing reads it
    if (isGradient(state.role))
      return part == Part::gradients;
    return part == Part::state || (part == Part::weights && state.role != plan::StateRole::optimizer);
  };
  std::vector<ByteRange> ranges;
  for (const plan::Bucket &bucket : stage.buckets)
    for (const plan::State &state : bucket.states)
      if (has(state))
        append(plan, bucket, state, ranges);
  return ranges;
}

std::vector<ByteRange> keptByOptimizer(const plan::Plan &plan, const plan::StagePlan &stage) {
  std::vector<ByteRange> ranges;
  for (const plan::Bucket &bucket : stage.buckets)
    for (const plan::State &state : bucket.states)
      if (state.role == plan::StateRole::optimizer)
        append(plan, bucket, state, ranges);
  return ranges;
}

Result<RankArena> RankArena::allocate(const plugin::PluginDevice &device, const plan::StagePlan &stage, bool isOnHost) {
  RankArena arena;
  arena.isOnHost_ = isOnHost;
  const int64_t bytes = stage.bytes;
  MGC_SET(arena.memory_, device.allocate(bytes));
  if (isOnHost && stage.hostBytes > 0)
    return errorf("the plan has {} bytes on the host, which is the device; expected a plan without "
                  "--optimizer-cpu-offload",
                  stage.hostBytes);
  if (isOnHost)
    return arena;
  arena.hostBytes_ = stage.hostBytes;
  arena.mirrorOffset_ = roundUp(bytes, int64_t(getpagesize())) - bytes;
  MGC_SET(arena.mirror_, makeMirror(arena.mirrorOffset_ + stage.addresses()));
  if (stage.hostBytes > 0)
    MGC_SET(arena.pinned_, device.pin(arena.hostMemory(), stage.hostBytes));
  for (Piece &piece : arena.pieces_) {
    MGC_ASSIGN(buffer, device.allocateHost(std::min(bytes, kPiece)));
    MGC_ASSIGN(done, device.makeEvent());
    piece = {std::move(buffer), std::move(done), {}};
  }
  return arena;
}

Status RankArena::fill(const plugin::Stream &stream, uint8_t byte) {
  if (bytes() > 0)
    MGC_TRY(stream.fill(address(), byte, bytes()));
  if (hostBytes_ > 0 && byte != 0) // it is zero as it is made
    std::memset(hostMemory(), byte, static_cast<size_t>(hostBytes_));
  return stream.synchronize();
}

Status RankArena::clear(const plugin::Stream &stream, std::span<const ByteRange> ranges) {
  for (const ByteRange &range : ranges)
    if (!isOfDevice(range))
      std::memset(mirror() + range.offset, 0, static_cast<size_t>(range.bytes));
    else
      MGC_TRY(stream.fill(address() + static_cast<uint64_t>(range.offset), 0, range.bytes));
  return Status::ok();
}

Status RankArena::wait(const Piece &piece) const {
  while (true) {
    MGC_ASSIGN(done, piece.done.isDone());
    if (done)
      return Status::ok();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// Calls body(piece, part of the range) with alternating pieces, for ranges that begin before `end`.
template <typename Pieces, typename Body>
static Status inPieces(std::span<const ByteRange> ranges, int64_t end, int64_t most, Pieces &pieces, const Body &body) {
  size_t turn = 0;
  for (const ByteRange &range : ranges)
    for (int64_t done = 0; range.offset < end && done < range.bytes; done += most)
      MGC_TRY(body(pieces[turn++ % pieces.size()], ByteRange{range.offset + done, std::min(most, range.bytes - done)}));
  return Status::ok();
}

Status RankArena::upload(const plugin::Stream &stream, std::span<const ByteRange> ranges) {
  MGC_TRY(inPieces(ranges, bytes(), kPiece, pieces_, [&](Piece &piece, const ByteRange &part) -> Status {
    MGC_TRY(wait(piece));
    std::memcpy(piece.buffer.data(), mirror() + part.offset, static_cast<size_t>(part.bytes));
    MGC_TRY(stream.copyIn(address() + static_cast<uint64_t>(part.offset), piece.buffer.data(), part.bytes));
    return stream.record(piece.done);
  }));
  return stream.synchronize();
}

Status RankArena::finishDownload(Piece &piece) const {
  MGC_TRY(wait(piece));
  std::memcpy(mirror() + piece.range.offset, piece.buffer.data(), static_cast<size_t>(piece.range.bytes));
  piece.range = {};
  return Status::ok();
}

Status RankArena::download(const plugin::Stream &stream, std::span<const ByteRange> ranges) {
  MGC_TRY(inPieces(ranges, bytes(), kPiece, pieces_, [&](Piece &piece, const ByteRange &part) -> Status {
    MGC_TRY(finishDownload(piece));
    MGC_TRY(stream.copyOut(piece.buffer.data(), address() + static_cast<uint64_t>(part.offset), part.bytes));
    piece.range = part;
    return stream.record(piece.done);
  }));
  for (Piece &piece : pieces_)
    MGC_TRY(finishDownload(piece));
  return Status::ok();
}

} // namespace mgc
