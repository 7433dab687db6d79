// A rank's memory on its device, of exactly StagePlan::bytes, and a mirror of it on the host: pages of the mirror exist where
// they were touched. Weights are loaded into and saved from the mirror; parts of it go up and down through pinned memory.
// Memory of the host is its own mirror: nothing goes up or down.
#pragma once

#include "runtime/base/Owned.h"
#include "runtime/device/Plugin.h"
#include "runtime/exec/Engine.h"

namespace mgc {

struct ByteRange {
  int64_t offset = 0, bytes = 0;
};
// The ranges of a stage's memory that the part has; those of what the optimizer keeps.
std::vector<ByteRange> rangesOf(const plan::Plan &plan, const plan::StagePlan &stage, Part part);
std::vector<ByteRange> keptByOptimizer(const plan::Plan &plan, const plan::StagePlan &stage);

class RankArena {
public:
  static Result<RankArena> allocate(const plugin::PluginDevice &device, int64_t bytes, bool isOnHost);
  mgc_address address() const { return memory_.address(); }
  int64_t bytes() const { return memory_.bytes(); }
  Status fill(const plugin::Stream &stream, uint8_t byte); // done when it returns
  std::byte *mirror() const { return isOnHost_ ? reinterpret_cast<std::byte *>(address()) : mirror_.get(); }
  // Between the mirror and the device, on the stream, done when they return. Not of memory of the host.
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

  bool isOnHost_ = false;
  plugin::DeviceBuffer memory_;
  Mapping<std::byte> mirror_;
  std::array<Piece, 2> pieces_; // one is transferred while the other is copied
};

} // namespace mgc
