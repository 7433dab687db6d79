// Memory that lives while a chunk runs (region `transient`): what it holds is made and read by calls of one run, or of several
// that are parts of it. In: reads and writes in the order of the calls. Out: what was not written, or not read.
#pragma once

#include "plan/Plan.h"
#include "plan/prove/Bytes.h"

#include <optional>

namespace mgc::plan {

class TransientMemory {
public:
  explicit TransientMemory(const StagePlan &stage);
  const ByteSet &bytes() const { return bytes_; }
  struct Read {
    bool isUndefined = false; // no call has written some of it
    ByteSet earlier;          // bytes that calls before `first` wrote
  };
  Read read(ByteInterval at, int64_t first);
  // The call whose bytes are written over before any call has read them; nothing: there is none.
  std::optional<int64_t> write(ByteInterval at, int64_t call);
  ByteSet written() const;
  // The call whose bytes none has read; nothing: there is none.
  std::optional<int64_t> unread() const;

private:
  struct Content {
    int64_t writer = -1; // call; -1: none
    bool isRead = false;
    bool operator==(const Content &) const = default;
  };
  static std::optional<int64_t> unreadIn(const ByteMap<Content> &content, ByteInterval at);
  ByteSet bytes_;
  ByteMap<Content> content_;
};

} // namespace mgc::plan
