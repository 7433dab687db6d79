// Instructions by which the lanes of a warp exchange values. A value from a lane that does not take part is
// undefined: here it has all bits set (as f32: NaN).
#include "test/emulate/cuda/ptx/Forms.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mgc::ptx {
namespace {

enum class Shuffle { up, down, butterfly, index };

struct Source {
  uint32_t lane;
  bool inRange;
};

// PTX ISA, shfl.sync: c holds the last lane of a segment and the mask that makes segments.
Source sourceOf(Shuffle kind, uint32_t lane, uint32_t b, uint32_t c) {
  uint32_t segment = c >> 8 & 31, last = c & 31;
  uint32_t lowest = lane & segment, highest = lowest | (last & ~segment);
  b &= 31;
  if (kind == Shuffle::up)
    return {lane - b, static_cast<int>(lane - b) >= static_cast<int>(highest)};
  uint32_t from = kind == Shuffle::down ? lane + b : kind == Shuffle::butterfly ? lane ^ b : lowest | (b & ~segment);
  return {from, from <= highest};
}

// shfl.sync d, a, b, c; the predicate in aux tells whether the source lay in the segment.
template <Shuffle kind> Form shuffle() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    std::array<uint32_t, kLanes> values;
    std::memcpy(values.data(), warp.at<uint32_t>(op.a), sizeof(values));
    const uint32_t *b = warp.at<uint32_t>(op.b), *c = warp.at<uint32_t>(op.c);
    std::array<uint32_t, kLanes> from, isInRange;
    eachLane(kAllLanes, [&](unsigned lane) {
      Source source = sourceOf(kind, lane, b[lane], c[lane]);
      from[lane] = source.inRange ? source.lane : lane;
      isInRange[lane] = source.inRange;
    });
    uint32_t *d = warp.at<uint32_t>(op.d), inRange = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
      unsigned lane = std::countr_zero(rest);
      d[lane] = mask >> from[lane] & 1 ? values[from[lane]] : ~0u;
      inRange |= isInRange[lane] << lane;
    }
    uint32_t &predicate = warp.predicate(op.aux);
    predicate = (predicate & ~mask) | inRange;
  };
  return {run, 32, {32, 32, 32}};
}

void setPredicate(Warp &warp, uint32_t at, uint32_t mask, bool value) {
  uint32_t &d = warp.predicate(at);
  d = value ? d | mask : d & ~mask;
}

template <auto f> Form vote() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    setPredicate(warp, op.d, mask, f(warp.predicate(op.a) & mask, mask));
  };
  return {run, 1, {1}};
}

Form ballot() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    uint32_t *d = warp.at<uint32_t>(op.d), votes = warp.predicate(op.a) & mask;
    eachLane(mask, [=](unsigned lane) { d[lane] = votes; });
  };
  return {run, 32, {1}};
}

Form activeMask() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    uint32_t *d = warp.at<uint32_t>(op.d);
    eachLane(mask, [=](unsigned lane) { d[lane] = mask; });
  };
  return {run, 32, {}};
}

template <typename T> uint32_t equalLanes(const T *a, uint32_t mask, T value) {
  uint32_t equal = 0;
  for (uint32_t rest = mask; rest; rest &= rest - 1)
    if (unsigned lane = std::countr_zero(rest); a[lane] == value)
      equal |= 1u << lane;
  return equal;
}

template <typename T> Form matchAny() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    std::array<uint32_t, kLanes> found{};
    const T *a = warp.at<T>(op.a);
    eachLane(mask, [&](unsigned lane) { found[lane] = equalLanes(a, mask, a[lane]); });
    uint32_t *d = warp.at<uint32_t>(op.d);
    eachLane(mask, [&](unsigned lane) { d[lane] = found[lane]; });
  };
  return {run, 32, {kBits<T>}};
}

template <typename T> Form matchAll() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    const T *a = warp.at<T>(op.a);
    bool all = equalLanes(a, mask, a[std::countr_zero(mask)]) == mask;
    uint32_t *d = warp.at<uint32_t>(op.d);
    eachLane(mask, [=](unsigned lane) { d[lane] = all ? mask : 0; });
    setPredicate(warp, op.aux, mask, all);
  };
  return {run, 32, {kBits<T>}};
}

template <auto f, typename T> Form reduction() {
  Handler run = [](Warp &warp, const Op &op, uint32_t mask) {
    const T *a = warp.at<T>(op.a);
    T sum = a[std::countr_zero(mask)];
    for (uint32_t rest = mask & (mask - 1); rest; rest &= rest - 1)
      sum = f(sum, a[std::countr_zero(rest)]);
    T *d = warp.at<T>(op.d);
    eachLane(mask, [=](unsigned lane) { d[lane] = sum; });
  };
  return {run, 32, {32}};
}

} // namespace

void addWarpWide(Forms &forms) {
  forms["shfl.sync.up.b32"] = shuffle<Shuffle::up>();
  forms["shfl.sync.down.b32"] = shuffle<Shuffle::down>();
  forms["shfl.sync.bfly.b32"] = shuffle<Shuffle::butterfly>();
  forms["shfl.sync.idx.b32"] = shuffle<Shuffle::index>();
  forms["vote.sync.all.pred"] = vote<[](uint32_t votes, uint32_t mask) { return votes == mask; }>();
  forms["vote.sync.any.pred"] = vote<[](uint32_t votes, uint32_t) { return votes != 0; }>();
  forms["vote.sync.uni.pred"] = vote<[](uint32_t votes, uint32_t mask) { return votes == 0 || votes == mask; }>();
  forms["vote.sync.ballot.b32"] = ballot();
  forms["activemask.b32"] = activeMask();
  forms["match.any.sync.b32"] = matchAny<uint32_t>();
  forms["match.any.sync.b64"] = matchAny<uint64_t>();
  forms["match.all.sync.b32"] = matchAll<uint32_t>();
  forms["match.all.sync.b64"] = matchAll<uint64_t>();
  forms["redux.sync.add.u32"] = reduction<[](uint32_t a, uint32_t b) { return a + b; }, uint32_t>();
  forms["redux.sync.add.s32"] = forms["redux.sync.add.u32"];
  forms["redux.sync.min.u32"] = reduction<[](uint32_t a, uint32_t b) { return std::min(a, b); }, uint32_t>();
  forms["redux.sync.max.u32"] = reduction<[](uint32_t a, uint32_t b) { return std::max(a, b); }, uint32_t>();
  forms["redux.sync.min.s32"] = reduction<[](int32_t a, int32_t b) { return std::min(a, b); }, int32_t>();
  forms["redux.sync.max.s32"] = reduction<[](int32_t a, int32_t b) { return std::max(a, b); }, int32_t>();
  forms["redux.sync.and.b32"] = reduction<[](uint32_t a, uint32_t b) { return a & b; }, uint32_t>();
  forms["redux.sync.or.b32"] = reduction<[](uint32_t a, uint32_t b) { return a | b; }, uint32_t>();
  forms["redux.sync.xor.b32"] = reduction<[](uint32_t a, uint32_t b) { return a ^ b; }, uint32_t>();
}

} // namespace mgc::ptx
