// Rings for buffers of one kind. A chunk's buffers are used and released in the order of their microbatches, so they go
// around the slots of a ring. There are two assignments for chunks whose buffers have the same size; the one with fewer
// slots is taken. Those of other sizes share slots too, as large as the largest, where that takes fewer bytes:
//   apart     each chunk has a ring of its own, as large as its peak
//   together  they share slots: the n-th buffer to begin takes the slot of the (n - R)-th to end, of all chunks, where R is
//             the most that live at one time. Interleaved schedules need it: while one chunk fills, another drains. With
//             groups of g microbatches that pass all chunks, buffers begin and end in the same order in each group; so
//             there is a permutation `next` of the slots that gives the slot of (chunk, m + g) for that of (chunk, m), and
//             each cycle of it is what a turn of plan::Ring goes around.
// Areas of slots are then placed as buffers that live from their first use to their last.
#include "compiler/schedule/Rings.h"

#include "compiler/assemble/memory/MemorySolver.h"
#include "runtime/base/Rounding.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

namespace mgc::schedule {
namespace {

using Turns = std::vector<plan::Ring::Turn>;
using Buffers = std::vector<ScheduledBuffer *>; // one chunk's, by microbatch

struct SharedSlots {
  int64_t slots = 0;
  std::vector<Turns> turns; // by chunk
};

// The buffers of several chunks in the order in which they begin. A last group that is not full is filled with buffers that do
// not exist: they keep the order of the groups, and take no memory.
class SlotQueue {
public:
  SlotQueue(const std::vector<Buffers> &chunks, int64_t group) : chunks_(chunks), group_(group) {
    for (size_t chunk = 0; chunk < chunks.size(); ++chunk)
      for (int64_t m = 0; m < int64_t(roundUp(chunks[chunk].size(), size_t(group))); ++m) {
        const bool isReal = m < int64_t(chunks[chunk].size());
        const ScheduledBuffer &buffer = isReal ? *chunks[chunk][m] : *chunks[chunk].back();
        items_.push_back({buffer.begin, buffer.end, int64_t(chunk), m, isReal});
      }
    std::ranges::stable_sort(items_, {}, &Item::begin);
    ends_.resize(items_.size());
    for (size_t i = 0; i < ends_.size(); ++i)
      ends_[i] = i;
    std::ranges::stable_sort(ends_, {}, [&](size_t i) { return items_[i].end; });
  }

  int64_t mostAlive() const {
    int64_t alive = 0, most = 0;
    auto end = ends_.begin();
    for (const Item &item : items_) {
      if (!item.isReal)
        continue;
      for (; end != ends_.end() && items_[*end].end <= item.begin; ++end)
        alive -= items_[*end].isReal;
      most = std::max(most, ++alive);
    }
    return most;
  }

  // Turns around so many slots; nothing where they do not suffice, or do not repeat with groups.
  std::optional<std::vector<Turns>> turns(int64_t slots) {
    if (!assign(slots))
      return std::nullopt;
    const auto group = size_t(group_);
    std::vector<int64_t> next(slots, -1), before(slots, -1);
    for (const std::vector<int64_t> &chunk : slotOf_)
      for (size_t m = 0; m + group < chunk.size(); ++m) {
        int64_t &to = next[chunk[m]], &from = before[chunk[m + group]];
        if ((to >= 0 && to != chunk[m + group]) || (from >= 0 && from != chunk[m]))
          return std::nullopt;
        to = chunk[m + group], from = chunk[m];
      }
    return turnsAround(cyclesOf(next, before));
  }

private:
  struct Item {
    int64_t begin, end, chunk, microbatch;
    bool isReal;
  };
  struct Cycles { // by slot: where its cycle begins, how long it is, and the slot's place in it
    Turns of;
  };

  bool assign(int64_t slots) {
    std::vector<int64_t> bySlot(items_.size());
    slotOf_.assign(chunks_.size(), {});
    for (size_t chunk = 0; chunk < chunks_.size(); ++chunk)
      slotOf_[chunk].resize(roundUp(chunks_[chunk].size(), size_t(group_)));
    for (size_t n = 0; n < items_.size(); ++n) {
      const bool isFirst = int64_t(n) < slots;
      if (!isFirst && items_[n].isReal && items_[ends_[n - slots]].end > items_[n].begin)
        return false;
      bySlot[n] = isFirst ? int64_t(n) : bySlot[ends_[n - slots]];
      slotOf_[items_[n].chunk][items_[n].microbatch] = bySlot[n];
    }
    return true;
  }

  // A list that never repeats ends a cycle too: its continuation is unknown.
  static Cycles cyclesOf(const std::vector<int64_t> &next, const std::vector<int64_t> &before) {
    Cycles cycles{Turns(next.size(), {-1, 0, 0})};
    int64_t begin = 0;
    const auto follow = [&](int64_t slot) {
      std::vector<int64_t> members;
      for (; slot >= 0 && cycles.of[slot].first < 0; slot = next[slot]) {
        cycles.of[slot] = {begin, 0, int64_t(members.size())};
        members.push_back(slot);
      }
      for (int64_t member : members)
        cycles.of[member].slots = int64_t(members.size());
      begin += int64_t(members.size());
    };
    for (size_t slot = 0; slot < next.size(); ++slot)
      if (before[slot] < 0)
        follow(int64_t(slot));
    for (size_t slot = 0; slot < next.size(); ++slot)
      follow(int64_t(slot));
    return cycles;
  }

  std::vector<Turns> turnsAround(const Cycles &cycles) const {
    std::vector<Turns> turns;
    for (const std::vector<int64_t> &chunk : slotOf_) {
      turns.emplace_back();
      for (size_t m = 0; m < std::min(size_t(group_), chunks_[turns.size() - 1].size()); ++m)
        turns.back().push_back(cycles.of[chunk[m]]);
    }
    return turns;
  }

  const std::vector<Buffers> &chunks_;
  const int64_t group_;
  std::vector<Item> items_;
  std::vector<size_t> ends_;                 // into items_
  std::vector<std::vector<int64_t>> slotOf_; // by chunk and microbatch
};

constexpr int64_t kFewGroups = 2;

SharedSlots ringOf(const Buffers &buffers) {
  const std::vector<Buffers> one = {buffers};
  const int64_t slots = SlotQueue(one, 1).mostAlive();
  return {slots, {Turns{{0, slots, 0}}}};
}

// With fewer slots than `most`. Nothing where sharing does not pay, or the slots do not repeat.
std::optional<SharedSlots> sharedRings(const std::vector<Buffers> &chunks, int64_t group, int64_t most) {
  SlotQueue queue(chunks, group);
  for (int64_t slots = queue.mostAlive(); slots < most; ++slots)
    if (std::optional<std::vector<Turns>> turns = queue.turns(slots))
      return SharedSlots{slots, *std::move(turns)};
  return std::nullopt;
}

// Where there are few groups, one of which is not full, a turn for each microbatch needs fewer slots.
std::optional<SharedSlots> sharedRings(const std::vector<Buffers> &chunks, int64_t group) {
  int64_t apart = 0, microbatches = 0;
  for (const Buffers &buffers : chunks) {
    apart += ringOf(buffers).slots;
    microbatches = std::max(microbatches, int64_t(buffers.size()));
  }
  std::optional<SharedSlots> best = sharedRings(chunks, group, apart);
  if (microbatches % group == 0 || microbatches > kFewGroups * group)
    return best;
  std::optional<SharedSlots> single = sharedRings(chunks, microbatches, best ? best->slots : apart);
  return single ? single : best;
}

// Bytes of the slots, each as large as the largest buffer.
template <typename SizeOf> int64_t bytesOf(const SlotGroup &group, const SizeOf &sizeOf) {
  int64_t most = 0;
  for (const int64_t chunk : group.chunks)
    most = std::max(most, plan::aligned(sizeOf(chunk)));
  return group.slots * most;
}
template <typename SizeOf> bool isSharedBetter(const KindSlots &slots, const SizeOf &sizeOf) {
  int64_t bytes = 0;
  for (const SlotGroup &group : slots.alike)
    bytes += bytesOf(group, sizeOf);
  return slots.shared && bytesOf(*slots.shared, sizeOf) < bytes;
}

} // namespace

std::vector<BufferArea> areasOf(const std::vector<KindSlots> &slots, const std::vector<Sizes> &sizes) {
  std::vector<BufferArea> areas;
  for (const KindSlots &kind : slots) {
    const auto sizeOf = [&](int64_t chunk) { return sizes[size_t(chunk)][size_t(kind.kind)]; };
    const auto add = [&](const SlotGroup &group) {
      areas.push_back({kind.kind, group.chunks.size() == 1 ? group.chunks.front() : -1, group.slots,
                       group.slots == 0 ? 0 : bytesOf(group, sizeOf) / group.slots, group.begin, group.end});
    };
    if (kind.kind == BufferKind::offloaded) // no memory of the device
      continue;
    if (kind.kind == BufferKind::activation || kind.kind == BufferKind::split) { // by what layers recompute
      std::ranges::for_each(kind.apart, add);
      if (kind.shared)
        add(*kind.shared);
    } else if (isSharedBetter(kind, sizeOf)) {
      add(*kind.shared);
    } else {
      std::ranges::for_each(kind.alike, add);
    }
  }
  return areas;
}

namespace {

class Placer {
public:
  Placer(StageSchedule &stage, int64_t group) : stage_(stage), group_(group) {}

  Status place() {
    std::map<std::tuple<BufferKind, int64_t, int64_t>, Buffers> chunks; // by kind, bytes, chunk
    for (ScheduledBuffer &buffer : stage_.buffers)
      chunks[{buffer.kind, buffer.bytes, buffer.chunk}].push_back(&buffer);
    std::map<BufferKind, std::map<int64_t, std::vector<Buffers>>> alike; // by bytes
    for (auto &[key, buffers] : chunks) {
      std::ranges::sort(buffers, {}, &ScheduledBuffer::microbatch);
      alike[std::get<0>(key)][std::get<1>(key)].push_back(std::move(buffers));
    }
    for (const auto &[kind, bySize] : alike)
      addKind(kind, bySize);
    stage_.areas = areasOf(stage_.slots, sizes_);
    return setOffsets();
  }

private:
  // The rings of chunks that share slots, or one chunk's.
  struct Group {
    std::vector<Buffers> chunks;
    SharedSlots slots;
    int64_t stride = 0;
    int64_t bytes() const { return slots.slots * stride; }
  };

  void addKind(BufferKind kind, const std::map<int64_t, std::vector<Buffers>> &bySize) {
    std::vector<Group> groups;
    std::vector<Buffers> all;
    for (const auto &[size, chunks] : bySize) {
      for (Group &group : groupsOf(chunks))
        groups.push_back(std::move(group));
      all.insert(all.end(), chunks.begin(), chunks.end());
    }
    const std::optional<SharedSlots> shared = all.size() > 1 ? sharedRings(all, group_) : std::nullopt;
    KindSlots &slots = stage_.slots.emplace_back(KindSlots{kind, {}, {}, {}});
    for (const Buffers &buffers : all) {
      slots.apart.push_back(slotsOf({{buffers}, ringOf(buffers), 0}));
      sizes_.resize(std::max(std::ssize(sizes_), buffers.front()->chunk + 1));
      sizes_[size_t(buffers.front()->chunk)][size_t(kind)] = buffers.front()->bytes;
    }
    for (const Group &group : groups)
      slots.alike.push_back(slotsOf(group));
    if (shared) {
      const Group together = {all, *shared, plan::aligned(bySize.rbegin()->first)};
      slots.shared = slotsOf(together);
      if (isSharedBetter(slots, [&](int64_t chunk) { return sizes_[size_t(chunk)][size_t(kind)]; }))
        groups = {together};
    }
    for (const Group &group : groups) {
      areas_.push_back({});
      for (size_t i = 0; i < group.chunks.size(); ++i)
        addRing(group.chunks[i], group, group.slots.turns[i]);
    }
  }

  static SlotGroup slotsOf(const Group &group) {
    SlotGroup slots{{}, group.slots.slots, std::numeric_limits<int64_t>::max(), 0};
    for (const Buffers &buffers : group.chunks) {
      slots.chunks.push_back(buffers.front()->chunk);
      for (const ScheduledBuffer *buffer : buffers)
        slots.begin = std::min(slots.begin, buffer->begin), slots.end = std::max(slots.end, buffer->end);
    }
    return slots;
  }

  // Chunks whose buffers have the same size.
  std::vector<Group> groupsOf(const std::vector<Buffers> &chunks) const {
    const int64_t stride = plan::aligned(chunks.front().front()->bytes);
    if (const std::optional<SharedSlots> shared = sharedRings(chunks, group_))
      return {{chunks, *shared, stride}};
    std::vector<Group> groups;
    for (const Buffers &buffers : chunks)
      groups.push_back({{buffers}, ringOf(buffers), stride});
    return groups;
  }

  // In the last area, that of the group.
  void addRing(const Buffers &buffers, const Group &group, Turns turns) {
    const ScheduledBuffer &first = *buffers.front();
    plan::Ring ring;
    ring.name = fmt::format("{}.{}", nameOf(first.kind), first.chunk);
    ring.bytes = first.bytes;
    ring.stride = group.stride;
    ring.turns = std::move(turns);
    memory::LiveBuffer &area = areas_.back();
    isOnHost_.resize(areas_.size());
    isOnHost_.back() = first.kind == BufferKind::offloaded;
    area.size = group.bytes();
    for (ScheduledBuffer *buffer : buffers) {
      buffer->ring = int64_t(stage_.rings.size());
      area.begin = area.end == 0 ? buffer->begin : std::min(area.begin, buffer->begin);
      area.end = std::max(area.end, buffer->end);
    }
    areaOf_.push_back(areas_.size() - 1);
    stage_.rings.push_back(std::move(ring));
  }

  Status setOffsets() {
    MGC_SET(stage_.bytes, placeAreas(false, 0));
    MGC_SET(stage_.hostBytes, placeAreas(true, stage_.bytes));
    for (ScheduledBuffer &buffer : stage_.buffers)
      buffer.offset = stage_.rings[buffer.ring].offsetOf(buffer.microbatch);
    return Status::ok();
  }

  // Places those of the device, or those on the host. Returns their peak.
  Result<int64_t> placeAreas(bool onHost, int64_t begin) {
    std::vector<memory::LiveBuffer> areas;
    std::vector<size_t> numbers(areas_.size());
    for (size_t i = 0; i < areas_.size(); ++i)
      if (isOnHost_[i] == onHost)
        numbers[i] = areas.size(), areas.push_back(areas_[i]);
    MGC_ASSIGN(assignment, memory::solve(areas));
    for (size_t i = 0; i < stage_.rings.size(); ++i)
      if (isOnHost_[areaOf_[i]] == onHost)
        stage_.rings[i].offset = begin + assignment.offsets[numbers[areaOf_[i]]];
    return assignment.peak;
  }

  StageSchedule &stage_;
  int64_t group_;
  std::vector<memory::LiveBuffer> areas_; // areas of a ring, or of the rings that share slots
  std::vector<bool> isOnHost_;            // by area
  std::vector<size_t> areaOf_;            // by ring
  std::vector<Sizes> sizes_;              // by chunk
};

} // namespace

Status placeBuffers(StageSchedule &stage, int64_t group) { return Placer(stage, group).place(); }

Result<int64_t> bytesOfSlots(const std::vector<KindSlots> &slots, const std::vector<Sizes> &sizes, bool onHost) {
  std::vector<memory::LiveBuffer> areas;
  for (const KindSlots &kind : slots) {
    if ((kind.kind == BufferKind::offloaded) != onHost)
      continue;
    const auto sizeOf = [&](int64_t chunk) { return sizes[size_t(chunk)][size_t(kind.kind)]; };
    const auto add = [&](const SlotGroup &group) { areas.push_back({bytesOf(group, sizeOf), group.begin, group.end}); };
    if (isSharedBetter(kind, sizeOf))
      add(*kind.shared);
    else
      std::ranges::for_each(kind.alike, add);
  }
  MGC_ASSIGN(assignment, memory::solve(areas));
  return assignment.peak;
}

} // namespace mgc::schedule
