// Collectives of thread ranks. All follow one scheme, here all_reduce over 3 ranks of a buffer cut in slices a b c:
//
//     rank      0        1        2
//     lay down the pointers, meet (barrier)
//     reduce    a=a+a+a  b=b+b+b  c=c+c+c    each reads its slice of all sources, adds in group order, and
//     write     aaa      bbb      ccc        writes it to all destinations, block by block out of the cache
//     meet                                   now the sources and destinations may change again
//
// A slice is reduced by one rank, so all ranks get the same bits; in place is safe because only that rank reads
// and writes it, each block after it has read it everywhere. No intermediate copies: n ranks read and
// write each byte of n buffers once.
#include "runtime/base/Bf16.h"
#include "runtime/base/Rounding.h"
#include "runtime/comm/thread/ThreadRank.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <type_traits>

namespace mgc {

namespace {

using Kind = plan::Collective::Kind;
constexpr int64_t kBlock = 2048; // elements reduced at once: 8 KiB stay in the first-level cache

// The type in which sums of T are computed.
template <typename T> struct SumOf {
  using Type = T;
};
template <> struct SumOf<Bf16> {
  using Type = float;
};

void load(const Bf16 *from, int64_t count, float *to) { widen(from, count, to); }
template <typename T> void load(const T *from, int64_t count, T *to) { std::memcpy(to, from, count * sizeof(T)); }

template <typename T> void accumulate(T *__restrict sum, const T *__restrict term, int64_t count, bool isMax) {
  if (isMax)
    for (int64_t i = 0; i < count; ++i) // keeps a NaN
      sum[i] = term[i] > sum[i] || term[i] != term[i] ? term[i] : sum[i];
  else
    for (int64_t i = 0; i < count; ++i)
      sum[i] += term[i];
}

// Sums that are not of T are made in another type, term by term, and rounded at the end.
template <typename T> class ThreadReduction {
public:
  using Sum = typename SumOf<T>::Type;
  void add(const T *terms, int64_t count, bool isFirst, bool isMax) {
    if (isFirst)
      return load(terms, count, sum_.data());
    if constexpr (std::is_same_v<T, Sum>) {
      accumulate(sum_.data(), terms, count, isMax);
    } else {
      load(terms, count, wide_.data());
      accumulate(sum_.data(), wide_.data(), count, isMax);
    }
  }
  const T *result(int64_t count) {
    if constexpr (std::is_same_v<T, Sum>) {
      return sum_.data();
    } else {
      narrow(sum_.data(), count, rounded_.data());
      return rounded_.data();
    }
  }

private:
  static constexpr size_t kOther = std::is_same_v<T, Sum> ? 0 : kBlock;
  std::array<Sum, kBlock> sum_;
  std::array<Sum, kOther> wide_;
  std::array<T, kOther> rounded_;
};

// write(done, sum, size): elements [done, done + size) of the reduction, in group order, of all sources'
// [begin, begin + count).
template <typename T, typename Write>
void reduceElements(const ThreadGroup &group, int64_t begin, int64_t count, bool isMax, const Write &write) {
  ThreadReduction<T> reduction;
  for (int64_t done = 0; done < count; done += kBlock) {
    const int64_t size = std::min(kBlock, count - done);
    for (const GroupMember &member : group.members)
      reduction.add(reinterpret_cast<const T *>(member.source) + begin + done, size, &member == &group.members.front(),
                    isMax);
    write(done, reduction.result(size), size);
  }
}

template <typename Write>
void reduce(const ThreadGroup &group, const plan::Collective &what, int64_t begin, int64_t count, const Write &write) {
  const bool isMax = what.reduce == plan::ReduceKind::max;
  switch (what.type) {
  case plan::DType::f32:
    return reduceElements<float>(group, begin, count, isMax, write);
  case plan::DType::bf16:
    return reduceElements<Bf16>(group, begin, count, isMax, write);
  case plan::DType::i32:
    return reduceElements<int32_t>(group, begin, count, isMax, write);
  }
}

struct Slice {
  int64_t begin, count;
};

// Whole cache lines, so that no two ranks write one.
Slice sliceOf(int64_t elements, int64_t elementBytes, int64_t index, int64_t parts) {
  const int64_t line = plan::kAlignment / elementBytes, lines = divideUp(elements, line);
  const int64_t begin = std::min(elements, lines * index / parts * line);
  return {begin, std::min(elements, lines * (index + 1) / parts * line) - begin};
}

void copyChunk(const plan::Collective &what, std::byte *to, int64_t toChunk, const std::byte *from, int64_t fromChunk) {
  const int64_t bytes = what.chunk * sizeInBytes(what.type);
  if (bytes > 0) // empty buffers may be null
    std::memcpy(to + toChunk * bytes, from + fromChunk * bytes, bytes);
}

void reduceOwnSliceForAll(const ThreadGroup &group, int64_t index, const plan::Collective &what) {
  const int64_t width = sizeInBytes(what.type);
  const Slice mine = sliceOf(what.outer * what.chunk, width, index, group.size());
  reduce(group, what, mine.begin, mine.count, [&](int64_t done, const void *sum, int64_t size) {
    for (const GroupMember &member : group.members)
      std::memcpy(member.destination + (mine.begin + done) * width, sum, size * width);
  });
}

// The order begins after the own place, so that the ranks do not all read from one.
template <typename Visit> void forEachPeer(const ThreadGroup &group, int64_t index, Visit visit) {
  for (int64_t step = 1; step < group.size(); ++step)
    visit((index + step) % group.size());
}

void gather(const ThreadGroup &group, int64_t index, const plan::Collective &what) {
  const auto copyFrom = [&](int64_t peer) {
    for (int64_t row = 0; row < what.outer; ++row)
      copyChunk(what, group.members[index].destination, row * group.size() + peer, group.members[peer].source, row);
  };
  copyFrom(index);
  forEachPeer(group, index, copyFrom);
}

void reduceOwnChunk(const ThreadGroup &group, int64_t index, const plan::Collective &what) {
  for (int64_t row = 0; row < what.outer; ++row) {
    const int64_t width = sizeInBytes(what.type);
    std::byte *to = group.members[index].destination + row * what.chunk * width;
    reduce(group, what, (row * group.size() + index) * what.chunk, what.chunk,
           [&](int64_t done, const void *sum, int64_t size) { std::memcpy(to + done * width, sum, size * width); });
  }
}

void exchange(const ThreadGroup &group, int64_t index, const plan::Collective &what) {
  const auto copyFrom = [&](int64_t peer) {
    for (int64_t row = 0; row < what.outer; ++row)
      for (int64_t middle = 0; middle < what.middle; ++middle) {
        const auto inner = [&](int64_t member) { return (row * what.middle + middle) * group.size() + member; };
        const auto outer = [&](int64_t member) { return (row * group.size() + member) * what.middle + middle; };
        copyChunk(what, group.members[index].destination, what.splitsInner ? outer(peer) : inner(peer),
                  group.members[peer].source, what.splitsInner ? inner(index) : outer(index));
      }
  };
  copyFrom(index);
  forEachPeer(group, index, copyFrom);
}

void copyFromPrevious(const ThreadGroup &group, int64_t index, const plan::Collective &what) {
  const int64_t previous = (index + group.size() - 1) % group.size();
  copyChunk(what, group.members[index].destination, 0, group.members[previous].source, 0);
}

std::string describe(const Agreement &agreement) {
  using Meeting = Agreement::Meeting;
  if (agreement.meeting == Meeting::barrier)
    return "barrier";
  if (agreement.meeting != Meeting::collective)
    return fmt::format("exchange of rows ({} of {} {}, {} experts a rank, counts {:x}{})", agreement.middle,
                       agreement.chunk, nameOf(agreement.type), agreement.outer, uint64_t(agreement.counts),
                       agreement.meeting == Meeting::rowsBack ? ", back" : "");
  return fmt::format("{} ({} of {}, outer {}, middle {}, chunk {}{})", nameOf(agreement.kind), nameOf(agreement.reduce),
                     nameOf(agreement.type), agreement.outer, agreement.middle, agreement.chunk,
                     agreement.splitsInner ? ", inner split" : "");
}

} // namespace

Status ThreadSeat::publish(const Membership &my, const Agreement &agreement, mgc_address source,
                           mgc_address destination, const WaitListeners &listeners) {
  if (isAborted())
    return cause();
  GroupMember &member = my.group->members[my.index];
  member.source = reinterpret_cast<const std::byte *>(source);
  member.destination = reinterpret_cast<std::byte *>(destination);
  member.agreement = agreement;
  MGC_TRY(meet(my, listeners));
  return checkAgreement(*my.group);
}

Status ThreadSeat::meet(const Membership &my, const WaitListeners &listeners) {
  ThreadGroup &group = *my.group;
  const uint64_t generation = group.generation.load(std::memory_order_acquire);
  group.members[my.index].arrivals.store(generation + 1, std::memory_order_relaxed);
  if (group.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < group.size())
    return waitUntil([&] { return group.generation.load(std::memory_order_acquire) != generation; },
                     [&] { return describeWait(group, generation); }, listeners);
  group.arrived.store(0, std::memory_order_relaxed);
  group.generation.store(generation + 1, std::memory_order_release);
  for (int64_t rank : group.ranks)
    if (rank != rank_)
      shared_.bells[rank].ring();
  return Status::ok();
}

Status ThreadSeat::checkAgreement(const ThreadGroup &group) const {
  for (int64_t i = 1; i < group.size(); ++i)
    if (!(group.members[i].agreement == group.members[0].agreement))
      return errorf("ranks [{}] meet in different collectives: rank {} in {}, rank {} in {}",
                    fmt::join(group.ranks, ", "), group.ranks[0], describe(group.members[0].agreement), group.ranks[i],
                    describe(group.members[i].agreement));
  return Status::ok();
}

std::string ThreadSeat::describeWait(const ThreadGroup &group, uint64_t generation) const {
  std::vector<int64_t> missing;
  for (int64_t i = 0; i < group.size(); ++i)
    if (group.members[i].arrivals.load(std::memory_order_relaxed) <= generation)
      missing.push_back(group.ranks[i]);
  return fmt::format("ranks [{}] to join a collective of ranks [{}]", fmt::join(missing, ", "),
                     fmt::join(group.ranks, ", "));
}

// The second meeting keeps the stored values until all have compared them.
Status ThreadSeat::barrier(GroupId groupId) {
  const Membership my = memberships_.at(groupId);
  MGC_TRY(publish(my, {}, 0, 0, listeners_));
  return meet(my, listeners_);
}

Status ThreadRank::collective(const plugin::Stream &, GroupId group, const plan::Collective &what, mgc_address source,
                              mgc_address destination, mgc_address) {
  return collective(group, what, source, destination, seat_.listeners());
}

Status ThreadRank::collective(GroupId groupId, const plan::Collective &what, mgc_address source,
                              mgc_address destination, const WaitListeners &listeners) {
  const ThreadSeat::Membership my = seat_.membership(groupId);
  const ThreadGroup &group = *my.group;
  MGC_TRY(seat_.publish(my, Agreement::of(what), source, destination, listeners));
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
  case Kind::permute:
    copyFromPrevious(group, my.index, what);
    break;
  }
  return seat_.meet(my, listeners);
}

// Each copies what is for it from where it lies: as their host with the owner's source, back as their owner.
Status ThreadRank::exchangeRows(GroupId groupId, const plan::ExchangeRows &what, const RowBuffers &rows,
                                const WaitListeners &listeners) {
  const ThreadSeat::Membership my = seat_.membership(groupId);
  const ThreadGroup &group = *my.group;
  RowExchange &exchange = exchanges_[groupId];
  MGC_TRY(exchange.read(what, group.ranks, reinterpret_cast<const int32_t *>(rows.counts)));
  MGC_TRY(seat_.publish(my, Agreement::of(what, exchange.hash()), rows.source, rows.destination, listeners));
  const int64_t row = what.width * sizeInBytes(what.type);
  auto *to = reinterpret_cast<std::byte *>(rows.destination);
  const auto copyFrom = [&](int64_t peer) {
    const std::byte *from = group.members[peer].source;
    for (int64_t expert = 0; expert < what.groups; ++expert) {
      const RowExchange::Piece &piece =
          what.back ? exchange.piece(my.index, peer, expert) : exchange.piece(peer, my.index, expert);
      const auto [there, here] = what.back ? std::pair(piece.there, piece.own) : std::pair(piece.own, piece.there);
      std::memcpy(to + here * row, from + there * row, piece.count * row);
    }
  };
  copyFrom(my.index);
  forEachPeer(group, my.index, copyFrom);
  return seat_.meet(my, listeners);
}

Agreement Agreement::of(const plan::Collective &what) {
  return {Meeting::collective, what.kind,  what.reduce, what.type,
          what.outer,          what.chunk, what.middle, what.splitsInner};
}

Agreement Agreement::of(const plan::ExchangeRows &what, int64_t countsHash) {
  return {.meeting = what.back ? Meeting::rowsBack : Meeting::rows,
          .type = what.type,
          .outer = what.groups,
          .chunk = what.width,
          .middle = what.rows,
          .counts = countsHash};
}

std::string toString(const Agreement &agreement) { return describe(agreement); }

void reduceSources(const ThreadGroup &group, const plan::Collective &what, int64_t elements, std::byte *sum) {
  const int64_t bytes = plan::sizeInBytes(what.type);
  reduce(group, what, 0, elements,
         [&](int64_t done, const void *part, int64_t count) { std::memcpy(sum + done * bytes, part, count * bytes); });
}

} // namespace mgc
