// Collectives of thread ranks. All follow one scheme, here all_reduce over 3 ranks of a buffer cut in slices
// a b c:
//
//     rank      0        1        2
//     lay down the pointers, meet (barrier)
//     reduce    a=a+a+a  b=b+b+b  c=c+c+c    each reads its slice of all sources, adds in group order, and
//     write     aaa      bbb      ccc        writes it to all destinations, block by block out of the cache
//     meet                                   now the sources and destinations may change again
//
// A slice is reduced by one rank, so all ranks get the same bits; in place is safe because only that rank reads
// and writes it, each block after it has read it everywhere. Nothing is copied on the way: n ranks read and
// write each byte of n buffers once.
#include "runtime/comm/ThreadRank.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace mgc {

namespace {

using Kind = plan::Collective::Kind;
constexpr int64_t kElementBytes = 4;    // f32 and i32
constexpr int64_t kBlock = 2048;        // elements reduced at once: 8 KiB stay in the first-level cache
constexpr int64_t kSliceAlignment = 16; // elements: no two ranks write one cache line

template <typename T>
void accumulate(T *__restrict sum, const T *__restrict term, int64_t count, bool isMax) {
  if (isMax)
    for (int64_t i = 0; i < count; ++i) // keeps a NaN
      sum[i] = term[i] > sum[i] || term[i] != term[i] ? term[i] : sum[i];
  else
    for (int64_t i = 0; i < count; ++i)
      sum[i] += term[i];
}

// write(done, sum, size): elements [done, done + size) of the reduction, in group order, of all sources'
// [begin, begin + count).
template <typename T, typename Write>
void reduceElements(const Group &group, int64_t begin, int64_t count, bool isMax, const Write &write) {
  std::array<T, kBlock> sum;
  for (int64_t done = 0; done < count; done += kBlock) {
    const int64_t size = std::min(kBlock, count - done);
    for (const GroupMember &member : group.members) {
      const T *term = reinterpret_cast<const T *>(member.source) + begin + done;
      if (&member == &group.members.front())
        std::memcpy(sum.data(), term, size * sizeof(T));
      else
        accumulate(sum.data(), term, size, isMax);
    }
    write(done, sum.data(), size);
  }
}

template <typename Write>
void reduce(const Group &group, const plan::Collective &what, int64_t begin, int64_t count,
            const Write &write) {
  const bool isMax = what.reduce == plan::ReduceKind::max;
  if (what.type == plan::DType::f32)
    reduceElements<float>(group, begin, count, isMax, write);
  else
    reduceElements<int32_t>(group, begin, count, isMax, write);
}

struct Slice {
  int64_t begin, count;
};

Slice sliceOf(int64_t elements, int64_t index, int64_t parts) {
  const int64_t lines = (elements + kSliceAlignment - 1) / kSliceAlignment;
  const int64_t begin = std::min(elements, lines * index / parts * kSliceAlignment);
  return {begin, std::min(elements, lines * (index + 1) / parts * kSliceAlignment) - begin};
}

void copyElements(std::byte *to, int64_t toElement, const std::byte *from, int64_t fromElement,
                  int64_t count) {
  if (count > 0) // empty buffers may be null
    std::memcpy(to + toElement * kElementBytes, from + fromElement * kElementBytes, count * kElementBytes);
}

void reduceOwnSliceForAll(const Group &group, int64_t index, const plan::Collective &what) {
  const Slice mine = sliceOf(what.outer * what.chunk, index, group.size());
  reduce(group, what, mine.begin, mine.count, [&](int64_t done, const void *sum, int64_t size) {
    for (const GroupMember &member : group.members)
      std::memcpy(member.destination + (mine.begin + done) * kElementBytes, sum, size * kElementBytes);
  });
}

// The order begins after the own place, so that the ranks do not all read from one.
template <typename Visit> void forEachPeer(const Group &group, int64_t index, Visit visit) {
  for (int64_t step = 1; step < group.size(); ++step)
    visit((index + step) % group.size());
}

void gather(const Group &group, int64_t index, const plan::Collective &what) {
  const auto copyFrom = [&](int64_t peer) {
    for (int64_t row = 0; row < what.outer; ++row)
      copyElements(group.members[index].destination, (row * group.size() + peer) * what.chunk,
                   group.members[peer].source, row * what.chunk, what.chunk);
  };
  copyFrom(index);
  forEachPeer(group, index, copyFrom);
}

void reduceOwnChunk(const Group &group, int64_t index, const plan::Collective &what) {
  for (int64_t row = 0; row < what.outer; ++row) {
    std::byte *to = group.members[index].destination + row * what.chunk * kElementBytes;
    reduce(group, what, (row * group.size() + index) * what.chunk, what.chunk,
           [&](int64_t done, const void *sum, int64_t size) {
             std::memcpy(to + done * kElementBytes, sum, size * kElementBytes);
           });
  }
}

void exchange(const Group &group, int64_t index, const plan::Collective &what) {
  const auto copyFrom = [&](int64_t peer) {
    for (int64_t row = 0; row < what.outer; ++row)
      for (int64_t middle = 0; middle < what.middle; ++middle) {
        const int64_t to = (row * what.middle + middle) * group.size() + peer;
        const int64_t from = (row * group.size() + index) * what.middle + middle;
        copyElements(group.members[index].destination, to * what.chunk, group.members[peer].source,
                     from * what.chunk, what.chunk);
      }
  };
  copyFrom(index);
  forEachPeer(group, index, copyFrom);
}

std::string describe(const Agreement &agreement) {
  if (agreement.isBarrier)
    return "barrier";
  return fmt::format("{} ({} of {}, outer {}, middle {}, chunk {})", nameOf(agreement.kind),
                     nameOf(agreement.reduce), nameOf(agreement.type), agreement.outer, agreement.middle,
                     agreement.chunk);
}

} // namespace

Status ThreadSeat::publish(const Membership &my, const Agreement &agreement, const void *source,
                           void *destination) {
  if (isAborted())
    return cause();
  GroupMember &member = my.group->members[my.index];
  member.source = static_cast<const std::byte *>(source);
  member.destination = static_cast<std::byte *>(destination);
  member.agreement = agreement;
  MGC_TRY(meet(my));
  return checkAgreement(*my.group);
}

Status ThreadSeat::meet(const Membership &my) {
  Group &group = *my.group;
  const uint64_t generation = group.generation.load(std::memory_order_acquire);
  group.members[my.index].arrivals.store(generation + 1, std::memory_order_relaxed);
  if (group.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < group.size())
    return waitUntil([&] { return group.generation.load(std::memory_order_acquire) != generation; },
                     [&] { return describeWait(group, generation); });
  group.arrived.store(0, std::memory_order_relaxed);
  group.generation.store(generation + 1, std::memory_order_release);
  for (int64_t rank : group.ranks)
    if (rank != rank_)
      shared_.bells[rank].ring();
  return Status::ok();
}

Status ThreadSeat::checkAgreement(const Group &group) const {
  for (int64_t i = 1; i < group.size(); ++i)
    if (!(group.members[i].agreement == group.members[0].agreement))
      return errorf("ranks [{}] meet in different collectives: rank {} in {}, rank {} in {}",
                    fmt::join(group.ranks, ", "), group.ranks[0], describe(group.members[0].agreement),
                    group.ranks[i], describe(group.members[i].agreement));
  return Status::ok();
}

std::string ThreadSeat::describeWait(const Group &group, uint64_t generation) const {
  std::vector<int64_t> missing;
  for (int64_t i = 0; i < group.size(); ++i)
    if (group.members[i].arrivals.load(std::memory_order_relaxed) <= generation)
      missing.push_back(group.ranks[i]);
  return fmt::format("ranks [{}] to join a collective of ranks [{}]", fmt::join(missing, ", "),
                     fmt::join(group.ranks, ", "));
}

// The second meeting keeps what was laid down until all have compared it.
Status ThreadSeat::barrier(GroupId groupId) {
  const Membership my = memberships_.at(groupId);
  MGC_TRY(publish(my, {}, nullptr, nullptr));
  return meet(my);
}

Status ThreadRank::collective(GroupId groupId, const plan::Collective &what, const void *source,
                              void *destination) {
  const ThreadSeat::Membership my = seat_.membership(groupId);
  const Group &group = *my.group;
  MGC_TRY(seat_.publish(my, {false, what.kind, what.reduce, what.type, what.outer, what.chunk, what.middle}, source,
                  destination));
  switch (what.kind) {
  case Kind::allReduce:
    reduceOwnSliceForAll(group, my.index, what);
    break;
  case Kind::allGather:
    gather(group, my.index, what);
    break;
  case Kind::reduceScatter:
    reduceOwnChunk(group, my.index, what);
    break;
  case Kind::allToAll:
    exchange(group, my.index, what);
    break;
  }
  return seat_.meet(my);
}

std::string toString(const Agreement &agreement) { return describe(agreement); }

void reduceSources(const Group &group, const plan::Collective &what, int64_t elements, std::byte *sum) {
  const int64_t bytes = plan::sizeInBytes(what.type);
  reduce(group, what, 0, elements, [&](int64_t done, const void *part, int64_t count) {
    std::memcpy(sum + done * bytes, part, count * bytes);
  });
}

} // namespace mgc
