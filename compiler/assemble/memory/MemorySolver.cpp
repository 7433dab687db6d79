// Greedy placement: buffers in a fixed order, each into the tightest gap between the placed buffers that live
// with it. Several orders are tried and the lowest peak is kept: by size (TFLite's greedy-by-size), which
// wins when sizes differ, and by begin, which is optimal when all sizes are equal (interval colouring). Where both
// stay above the lower bound, what reached the peak is placed earlier, again and again.
#include "compiler/assemble/memory/MemorySolver.h"

#include "runtime/base/Checked.h"

#include <algorithm>
#include <functional>
#include <map>

namespace mgc::memory {
namespace {

bool isPlaced(const LiveBuffer &buffer) { return buffer.size > 0 && buffer.begin < buffer.end; }

Status check(const std::vector<LiveBuffer> &buffers) {
  Checked total = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const LiveBuffer &b = buffers[i];
    if (b.size < 0 || b.begin > b.end)
      return errorf("buffer {}: size {} bytes, lifetime [{}, {}); a size is at least 0 and a lifetime ends after it "
                    "begins",
                    i, b.size, b.begin, b.end);
    total = checkedAdd(total, checkedAdd(b.size, kAlignment - 1));
  }
  if (!total)
    return errorf("the sizes of {} buffers add up to more than 64 bits hold", buffers.size());
  return Status::ok();
}

// The placed buffers by offset. The scan over their lifetimes is the whole cost of the solver: it has no branches.
class Placed {
public:
  explicit Placed(size_t most) : together(most) {}

  // The start of the tightest gap of `size` bytes while the buffer lives, lowest first among equals; above
  // everything when none is large enough.
  int64_t findGap(int64_t size, const LiveBuffer &buffer) {
    size_t count = 0;
    for (size_t i = 0; i < lives.size(); ++i) {
      together[count] = i;
      count += int(lives[i].begin < buffer.end) & int(buffer.begin < lives[i].end);
    }
    int64_t free = 0, best = -1, bestGap = 0;
    for (size_t k = 0; k < count; ++k) {
      const Room &room = rooms[together[k]];
      int64_t gap = room.begin - free;
      if (gap >= size && (best < 0 || gap < bestGap)) {
        best = free;
        bestGap = gap;
      }
      free = std::max(free, room.end);
    }
    return best >= 0 ? best : free;
  }

  void insert(int64_t at, int64_t size, const LiveBuffer &buffer) {
    auto after = std::upper_bound(rooms.begin(), rooms.end(), at,
                                  [](int64_t offset, const Room &room) { return offset < room.begin; });
    lives.insert(lives.begin() + (after - rooms.begin()), {buffer.begin, buffer.end});
    rooms.insert(after, {at, at + size});
  }

private:
  struct Room { // bytes
    int64_t begin, end;
  };
  struct Life { // points
    int64_t begin, end;
  };
  std::vector<Room> rooms;
  std::vector<Life> lives;
  std::vector<size_t> together; // scratch: the placed buffers that live with the current one
};

// Gives up, with a peak of at least `limit`, once the peak reaches it.
Assignment place(const std::vector<LiveBuffer> &buffers, const std::vector<size_t> &order, int64_t limit) {
  Assignment result;
  result.offsets.assign(buffers.size(), 0);
  Placed placed(buffers.size());
  for (size_t index : order) {
    const LiveBuffer &buffer = buffers[index];
    if (!isPlaced(buffer))
      continue;
    int64_t size = plan::aligned(buffer.size);
    int64_t at = placed.findGap(size, buffer);
    placed.insert(at, size, buffer);
    result.offsets[index] = at;
    result.peak = std::max(result.peak, at + size);
    if (result.peak >= limit)
      break;
  }
  return result;
}

// Repeats the placement with the buffers at the last one's peak first: early buffers get low addresses. As often as
// about 2^21 steps of findGap allow.
void improve(const std::vector<LiveBuffer> &buffers, std::vector<size_t> order, int64_t bound, Assignment &best) {
  const int64_t pairs = std::max<int64_t>(1, int64_t(buffers.size()) * int64_t(buffers.size()));
  const int64_t rounds = std::min<int64_t>(200, (1 << 21) / pairs);
  for (int64_t round = 0; round < rounds && best.peak > bound; ++round) {
    Assignment last = place(buffers, order, INT64_MAX);
    if (last.peak < best.peak)
      best = last;
    std::stable_partition(order.begin(), order.end(), [&](size_t i) {
      return isPlaced(buffers[i]) && last.offsets[i] + plan::aligned(buffers[i].size) == last.peak;
    });
  }
}

// Indices sorted by the keys one after the other, then by index, so that the result depends on nothing else.
using Key = std::function<std::pair<int64_t, int64_t>(const LiveBuffer &)>;
std::vector<size_t> sorted(const std::vector<LiveBuffer> &buffers, const Key &key) {
  std::vector<std::pair<std::pair<int64_t, int64_t>, size_t>> keys;
  for (size_t i = 0; i < buffers.size(); ++i)
    keys.emplace_back(key(buffers[i]), i);
  std::sort(keys.begin(), keys.end());
  std::vector<size_t> order;
  for (const auto &[unused, index] : keys)
    order.push_back(index);
  return order;
}

} // namespace

Result<Assignment> solve(const std::vector<LiveBuffer> &buffers) {
  MGC_TRY(check(buffers));
  const Key bySize = [](const LiveBuffer &b) { return std::pair(-b.size, b.begin); };
  const Key byBegin = [](const LiveBuffer &b) { return std::pair(b.begin, -b.size); };
  const Key byLife = [](const LiveBuffer &b) { return std::pair(b.begin - b.end, -b.size); };
  int64_t bound = lowerBound(buffers);
  Assignment best;
  for (const Key &key : {bySize, byBegin}) {
    int64_t limit = best.offsets.empty() ? INT64_MAX : best.peak;
    Assignment found = place(buffers, sorted(buffers, key), limit);
    if (found.peak < limit)
      best = std::move(found);
    if (best.peak == bound)
      return best;
  }
  for (const Key &key : {bySize, byBegin, byLife})
    improve(buffers, sorted(buffers, key), bound, best);
  return best;
}

int64_t lowerBound(const std::vector<LiveBuffer> &buffers) {
  std::vector<std::pair<int64_t, int64_t>> changes; // point, change of the live bytes; ends sort before begins
  for (const LiveBuffer &buffer : buffers)
    if (isPlaced(buffer)) {
      changes.emplace_back(buffer.begin, plan::aligned(buffer.size));
      changes.emplace_back(buffer.end, -plan::aligned(buffer.size));
    }
  std::sort(changes.begin(), changes.end());
  int64_t live = 0, most = 0;
  for (auto [point, change] : changes)
    most = std::max(most, live += change);
  return most;
}

Status verify(const std::vector<LiveBuffer> &buffers, const Assignment &assignment) {
  MGC_TRY(check(buffers));
  if (assignment.offsets.size() != buffers.size())
    return errorf("{} offsets for {} buffers", assignment.offsets.size(), buffers.size());
  std::vector<std::pair<std::pair<int64_t, int>, size_t>> events; // (point, end before begin), buffer
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!isPlaced(buffers[i]))
      continue;
    int64_t offset = assignment.offsets[i];
    if (offset % kAlignment || !fitsInside(offset, buffers[i].size, assignment.peak))
      return errorf("buffer {}: offset {} with {} bytes is not a multiple of {} inside [0, {})", i, offset,
                    buffers[i].size, kAlignment, assignment.peak);
    events.push_back({{buffers[i].begin, 1}, i});
    events.push_back({{buffers[i].end, 0}, i});
  }
  std::sort(events.begin(), events.end());
  std::map<int64_t, size_t> live; // by offset; no two overlap
  auto overlap = [&](size_t a, size_t b) {
    return errorf("buffers {} and {} overlap: [{}, {}) and [{}, {}) bytes, both live at point {}", a, b,
                  assignment.offsets[a], assignment.offsets[a] + buffers[a].size, assignment.offsets[b],
                  assignment.offsets[b] + buffers[b].size, std::max(buffers[a].begin, buffers[b].begin));
  };
  for (auto [key, index] : events) {
    int64_t offset = assignment.offsets[index];
    if (key.second == 0) {
      live.erase(offset);
      continue;
    }
    auto next = live.lower_bound(offset);
    if (next != live.end() && next->first < offset + buffers[index].size)
      return overlap(next->second, index);
    if (next != live.begin() && std::prev(next)->first + buffers[std::prev(next)->second].size > offset)
      return overlap(std::prev(next)->second, index);
    live.emplace(offset, index);
  }
  return Status::ok();
}

} // namespace mgc::memory
