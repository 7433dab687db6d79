// See TransientMemory.h.
#include "plan/prove/TransientMemory.h"

#include <algorithm>

namespace mgc::plan {

TransientMemory::TransientMemory(const StagePlan &stage) : content_(stage.addresses(), {}) {
  for (const Region &region : stage.regions)
    if (region.kind == kTransient)
      bytes_.add({region.offset, region.offset + region.bytes});
}

TransientMemory::Read TransientMemory::read(ByteInterval at, int64_t first) {
  Read result;
  content_.forEach(at, [&](ByteInterval part, Content &content) {
    result.isUndefined |= content.writer < 0;
    if (content.writer >= 0 && content.writer < first)
      result.earlier.add({std::max(part.begin, at.begin), std::min(part.end, at.end)});
    content.isRead = true;
  });
  return result;
}

std::optional<int64_t> TransientMemory::unreadIn(const ByteMap<Content> &content, ByteInterval at) {
  std::optional<int64_t> unread;
  content.peek(at, [&](ByteInterval, const Content &one) {
    if (one.writer >= 0 && !one.isRead)
      unread = one.writer;
  });
  return unread;
}

std::optional<int64_t> TransientMemory::write(ByteInterval at, int64_t call) {
  const std::optional<int64_t> lost = unreadIn(content_, at);
  content_.set(at, {call});
  return lost;
}

ByteSet TransientMemory::written() const {
  ByteSet all;
  content_.peek({0, content_.bytes()}, [&](ByteInterval range, const Content &content) {
    if (content.writer >= 0)
      all.add(range);
  });
  return all;
}

std::optional<int64_t> TransientMemory::unread() const { return unreadIn(content_, {0, content_.bytes()}); }

} // namespace mgc::plan
