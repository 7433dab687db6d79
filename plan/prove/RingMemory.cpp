// See RingMemory.h.
#include "plan/prove/RingMemory.h"
#include "runtime/base/Rounding.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace mgc::plan {

namespace {

constexpr int64_t kMostPeriod = int64_t(1) << 32; // beyond it nothing repeats

std::set<Cycle> cyclesOf(const Ring &ring) {
  std::set<Cycle> cycles;
  for (const Ring::Turn &turn : ring.turns)
    cycles.insert({turn.first, turn.slots});
  return cycles;
}

// Cycles of one group that turns are equal or apart.
bool areApart(const std::set<Cycle> &cycles) {
  int64_t end = 0;
  for (const Cycle &cycle : cycles) {
    if (cycle.first < end)
      return false;
    end = cycle.first + cycle.slots;
  }
  return true;
}

int64_t leastCommonMultiple(int64_t a, int64_t b) {
  const int64_t unit = a / std::gcd(a, b);
  return unit > kMostPeriod / b ? kMostPeriod : unit * b;
}

} // namespace

RingMemory::RingMemory(const StagePlan &stage) : stage_(stage), groupOf_(stage.rings.size(), -1) {
  std::vector<int64_t> order;
  for (int64_t ring = 0; ring < static_cast<int64_t>(stage.rings.size()); ++ring)
    if (std::ranges::none_of(stage.inputs, [&](const Input &input) { return input.ring == ring; }))
      order.push_back(ring);
  std::ranges::sort(order, {}, [&](int64_t ring) { return stage.rings[ring].offset; });
  for (size_t i = 0; i < order.size();) {
    RingGroup group;
    const Ring &first = stage.rings[order[i]];
    group.offset = first.offset;
    group.stride = first.pitch();
    group.period = static_cast<int64_t>(first.turns.size());
    std::set<Cycle> cycles;
    int64_t end = group.offset + 1, slots = 1;
    for (; i < order.size() && stage.rings[order[i]].offset < end; ++i) {
      const Ring &ring = stage.rings[order[i]];
      end = std::max(end, ring.end());
      groupOf_[order[i]] = static_cast<int64_t>(groups_.size());
      cycles.merge(cyclesOf(ring));
      group.turns &= ring.offset == group.offset && ring.pitch() == group.stride &&
                     static_cast<int64_t>(ring.turns.size()) == group.period;
      period_ = leastCommonMultiple(period_, static_cast<int64_t>(ring.turns.size()));
    }
    group.turns &= areApart(cycles);
    group.cycles.assign(cycles.begin(), cycles.end());
    for (const Cycle &cycle : cycles)
      slots = leastCommonMultiple(slots, cycle.slots), mostSlots_ = std::max(mostSlots_, cycle.slots);
    if (!group.turns)
      period_ = leastCommonMultiple(period_, slots > kMostPeriod / group.period ? kMostPeriod : slots * group.period);
    group.pieces = ByteMap<Piece>(end - group.offset, {});
    groups_.push_back(std::move(group));
  }
}

ByteInterval RingMemory::at(int64_t index, int64_t microbatch, ByteInterval range) const {
  const Ring &ring = stage_.rings[index];
  const auto period = static_cast<int64_t>(ring.turns.size());
  const int64_t round = floorDivide(microbatch, period);
  const Ring::Turn &turn = ring.turns[microbatch - round * period];
  const int64_t place = turn.phase + round, slot = turn.first + place - floorDivide(place, turn.slots) * turn.slots;
  const int64_t begin = ring.offset + ring.pitch() * slot - groups_[groupOf_[index]].offset;
  return {begin + range.begin, begin + range.end};
}

} // namespace mgc::plan
