// A rank's memory on its device, of exactly StagePlan::bytes, and a mirror of it on the host: pages of the mirror exist where
// they were touched. Weights are loaded into and saved from the mirror; parts of it go up and down through pinned memory.
// Behind the mirror, pinned, is the rank's memory on the host, of StagePlan::hostBytes: one mapping has all addresses of a plan.
// Memory of a device of the host is its own mirror: nothing goes up or down.
#pragma once

#include "runtime/base/Owned.h"
#include "runtime/device/Plugin.h"
#include "runtime/exec/Engine.h"

namespace mgc {

// Where the addresses of a plan are: [0, bytes) on the device, from `bytes` on on the host.
struct RankAddresses {
  mgc_address device = 0, host = 0;
  int64_t bytes = 0;
  mgc_address at(int64_t offset) const {
    return offset < bytes ? device + static_cast<uint64_t>(offset) : host + static_cast<uint64_t>(offset - bytes);
  }
};

struct ByteRange {
  int64_t offset = 0, bytes = 0;
};
// The ranges of a stage's memory that the part has; those of what the optimizer keeps. Those on the host come too.
std::vector<ByteRange> rangesOf(const plan::Plan &plan, const plan::StagePlan &stage, Part part);
std::vector<ByteRange> keptByOptimizer(const plan::Plan &plan, const plan::StagePlan &stage);

class RankArena {
public:
  static Result<RankArena> allocate(const plugin::PluginDevice &device, const plan::StagePlan &stage, bool isOnHost);
  mgc_address address() const { return memory_.address(); }
  int64_t bytes() const { return memory_.bytes(); }
  RankAddresses addresses() const { return {address(), reinterpret_cast<mgc_address>(hostMemory()), bytes()}; }
  Status fill(const plugin::Stream &stream, uint8_t byte); // device and host; done when it returns
  // Fills ranges with zeros, wherever they are.
  Status clear(const plugin::Stream &stream, std::span<const ByteRange> ranges);
  std::byte *mirror() const {
    return isOnHost_ ? reinterpret_cast<std::byte *>(address()) : mirror_.get() + mirrorOffset_;
  }
  // Between the mirror and the device, on the stream, done when they return. Of ranges on the host nothing is to be done. Not of a
  // device of memory of the host.
  Status upload(const plugin::Stream &stream, std::span<const ByteRange> ranges);
  Status download(const plugin::Stream &stream, std::span<const ByteRange> ranges);

private:
  static constexpr int64_t kPiece = 16 << 20;
  struct Piece {
    plugin::PinnedBuffer buffer;
    plugin::Event done;
    ByteRange range; // being copied down
  };
  Status wait(const Piece &piece) const;
  Status finishDownload(Piece &piece) const;

  std::byte *hostMemory() const { return mirror() + bytes(); }
  bool isOfDevice(const ByteRange &range) const { return range.offset < bytes(); }

  bool isOnHost_ = false;
  int64_t hostBytes_ = 0,
          mirrorOffset_ = 0; // so far into its pages the mirror begins, that the host's memory begins with a page
  plugin::DeviceBuffer memory_;
  Mapping<std::byte> mirror_;
  plugin::PinnedRange pinned_;  // gone before the mirror is
  std::array<Piece, 2> pieces_; // one is transferred while the other is copied
};

} // namespace mgc
