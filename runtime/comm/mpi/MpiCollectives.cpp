// Collectives of MPI ranks: all members meet, then each sends each what is the other's. A reduction adds up in the order of the
// group, element by element, so its bits are those of ThreadCollectives.cpp. A large one is done in rounds; here an all_reduce over
// 3 ranks of a buffer cut in slices a b c, of each of which a round has a part:
//
//     rank       0          1          2
//     terms      b c        a c        a b      each gets the two others' terms of its slice
//     add        a=a+a+a    b=b+b+b    c=c+c+c  while the terms of the next round travel
//     sums       a          b          c        and sends the sum to both
//
// In place it is safe because a round's part of the source has been sent when its sums are received.
#include "runtime/base/Rounding.h"
#include "runtime/comm/mpi/MpiRank.h"
#include "runtime/comm/mpi/MpiToken.h"

#include <algorithm>
#include <cstring>
#include <fmt/ranges.h>

namespace mgc {

namespace {

using Kind = plan::Collective::Kind;

constexpr int64_t kMostRoundBytes = 512 << 10, kScratchBytes = 8 << 20; // bytes per member; per group
constexpr int64_t kLeastRoundBytes = 16 << 10;
constexpr size_t kMostGroups = 4096;
constexpr int kTermsSlot = 0, kSumsSlot = 2; // slots of even rounds; odd rounds use the next one

MpiRegion rowsOf(const std::byte *base, int64_t rows, int64_t rowBytes, int64_t stride) {
  return {const_cast<std::byte *>(base), rows, rowBytes, stride};
}

int64_t bytesOf(const MpiRegion &region) { return region.rows * region.row_bytes; }

std::byte *baseOf(const MpiRegion &region) { return static_cast<std::byte *>(region.base); }

// The rows of one are parts of those of the other.
void copy(const MpiRegion &from, const MpiRegion &to) {
  const int64_t piece = std::min(from.row_bytes, to.row_bytes);
  for (int64_t done = 0; done < bytesOf(from); done += piece)
    std::memcpy(baseOf(to) + done / to.row_bytes * to.stride + done % to.row_bytes,
                baseOf(from) + done / from.row_bytes * from.stride + done % from.row_bytes, static_cast<size_t>(piece));
}

// The slice of `all` things that member `index` of `members` has: its begin and its count.
std::pair<int64_t, int64_t> sliceOf(int64_t all, int64_t index, int64_t members) {
  const int64_t begin = all * index / members;
  return {begin, all * (index + 1) / members - begin};
}

MpiFields fieldsOf(uint64_t key, uint64_t meeting, const Agreement &agreement) {
  return {static_cast<int64_t>(key),
          static_cast<int64_t>(meeting),
          static_cast<int64_t>(agreement.meeting),
          static_cast<int64_t>(agreement.kind),
          static_cast<int64_t>(agreement.reduce),
          static_cast<int64_t>(agreement.type),
          agreement.outer,
          agreement.chunk,
          agreement.middle,
          agreement.splitsInner,
          agreement.counts};
}

// Nothing where they are no agreement.
std::optional<Agreement> agreementOf(const MpiFields &fields) {
  const auto isOne = [&](size_t field, int64_t of) { return fields[field] >= 0 && fields[field] < of; };
  if (!isOne(2, static_cast<int64_t>(Agreement::Meeting::rowsBack) + 1) ||
      !isOne(3, std::ssize(plan::enumNames<plan::Collective::Kind>)) ||
      !isOne(4, std::ssize(plan::enumNames<plan::ReduceKind>)) || !isOne(5, std::ssize(plan::enumNames<plan::DType>)))
    return std::nullopt;
  return Agreement{static_cast<Agreement::Meeting>(fields[2]),
                   static_cast<plan::Collective::Kind>(fields[3]),
                   static_cast<plan::ReduceKind>(fields[4]),
                   static_cast<plan::DType>(fields[5]),
                   fields[6],
                   fields[7],
                   fields[8],
                   fields[9] != 0,
                   fields[10]};
}

int64_t roundBytesOf(int64_t members) {
  return std::clamp(kScratchBytes / (2 * members) / plan::kAlignment * plan::kAlignment, kLeastRoundBytes,
                    kMostRoundBytes);
}

} // namespace

MpiRank::MpiGroup::MpiGroup(const std::vector<int64_t> &ranks, int64_t index, uint64_t key, Arrivals &arrivals)
    : terms(ranks), index(index), key(key), arrivals(arrivals), roundBytes(roundBytesOf(size())),
      scratch(2 * ranks.size() * static_cast<size_t>(roundBytes)) {
  for (int64_t rank : ranks)
    ofMember.push_back(&arrivals.ofRank[rank]);
}

// The group may be one that this rank opens later.
Status MpiRank::enter(int64_t from, const MpiFrame &frame) {
  const auto key = static_cast<uint64_t>(frame.fields[0]), meeting = static_cast<uint64_t>(frame.fields[1]);
  const std::optional<Agreement> agreement = agreementOf(frame.fields);
  Arrivals &arrivals = arrivals_[key];
  if (!agreement || arrivals_.size() > kMostGroups)
    return errorf("rank {} entered a collective that is none, or of more than {} groups", from, kMostGroups);
  Arrival &arrival = arrivals.ofRank[from][meeting % 2];
  arrival.meeting = meeting;
  arrival.agreement = *agreement;
  arrival.data.assign(frame.data.data(), frame.data.data() + frame.bytes);
  ++arrivals.come[meeting % 2];
  return Status::ok();
}

template <typename InlineOf>
Status MpiRank::meet(MpiGroup &group, const Agreement &agreement, const InlineOf &inlineOf) {
  if (isAborted())
    return cause();
  ++group.meetings;
  (*group.ofMember[static_cast<size_t>(group.index)])[group.meetings % 2].agreement = agreement;
  const MpiFields fields = fieldsOf(group.key, group.meetings, agreement);
  for (int64_t step = 1; step < group.size(); ++step) {
    const int64_t member = (group.index + step) % group.size();
    const MpiRegion data = inlineOf(member);
    MpiFrame *frame = takeFrame();
    frame->kind = MpiFrame::Kind::enter;
    frame->fields = fields;
    frame->bytes = bytesOf(data);
    copy(data, regionOf(frame->data.data(), frame->bytes));
    MGC_TRY(sendFrame(frame, group.rankOf(member)));
  }
  int64_t &come = group.arrivals.come[group.meetings % 2];
  MGC_TRY(waitUntil([&] { return come == group.size() - 1; }, [&] { return describeMissing(group); }));
  come = 0;
  return verifyAgreement(group);
}

Status MpiRank::meet(MpiGroup &group, const Agreement &agreement) {
  return meet(group, agreement, [](int64_t) { return MpiRegion{}; });
}

std::string MpiRank::describeMissing(const MpiGroup &group) const {
  std::vector<int64_t> missing;
  for (int64_t member = 0; member < group.size(); ++member)
    if (member != group.index && group.arrivalOf(member).meeting != group.meetings)
      missing.push_back(group.rankOf(member));
  return fmt::format("ranks [{}] to join a collective of ranks [{}]", fmt::join(missing, ", "),
                     fmt::join(group.terms.ranks, ", "));
}

Status MpiRank::verifyAgreement(const MpiGroup &group) const {
  for (int64_t member = 1; member < group.size(); ++member)
    if (!(group.arrivalOf(member).agreement == group.arrivalOf(0).agreement))
      return errorf("ranks [{}] meet in different collectives: rank {} in {}, rank {} in {}",
                    fmt::join(group.terms.ranks, ", "), group.rankOf(0), toString(group.arrivalOf(0).agreement),
                    group.rankOf(member), toString(group.arrivalOf(member).agreement));
  return Status::ok();
}

Status MpiRank::barrier(GroupId group) { return meet(groups_.at(static_cast<size_t>(group)), {}); }

Status MpiRank::begin(const MpiGroup &group, std::span<const Exchange> parts, MpiTag tag, int slot) {
  for (const Exchange &part : parts) {
    const int64_t rank = group.rankOf(part.member);
    const MpiToken token{MpiToken::Kind::part, static_cast<uint8_t>(slot), static_cast<uint64_t>(rank)};
    const auto count = [&] { ++pending_[static_cast<size_t>(slot)], ++pendingOf_[static_cast<size_t>(rank)]; };
    if (bytesOf(part.receive) > 0) {
      MGC_TRY(receiveData(part.receive, rank, tag, token.bits()));
      count();
    }
    if (bytesOf(part.send) > 0) {
      MGC_TRY(sendData(part.send, rank, tag, token.bits()));
      count();
    }
  }
  return Status::ok();
}

Status MpiRank::awaitSlot(const MpiGroup &group, int slot) {
  const int64_t &pending = pending_[static_cast<size_t>(slot)];
  return waitUntil([&] { return pending == 0; },
                   [&] {
                     std::vector<int64_t> missing;
                     for (int64_t rank : group.terms.ranks)
                       if (pendingOf_[static_cast<size_t>(rank)] > 0)
                         missing.push_back(rank);
                     return fmt::format("ranks [{}] to send or take their parts of a collective of ranks [{}]",
                                        fmt::join(missing, ", "), fmt::join(group.terms.ranks, ", "));
                   });
}

Status MpiRank::reduceInRounds(MpiGroup &group, const Call &call, int64_t rounds, const MakeRound &make) {
  const auto beginRound = [&](int64_t number) {
    Round &round = rounds_[static_cast<size_t>(number % 2)];
    round.terms.clear(), round.sums.clear();
    make(number, round);
    return begin(group, round.terms, termsTag, kTermsSlot + static_cast<int>(number % 2));
  };
  if (rounds > 0)
    MGC_TRY(beginRound(0));
  for (int64_t number = 0; number < rounds; ++number) {
    const int odd = static_cast<int>(number % 2);
    const Round &round = rounds_[static_cast<size_t>(odd)];
    if (number + 1 < rounds)
      MGC_TRY(beginRound(number + 1));
    MGC_TRY(awaitSlot(group, kTermsSlot + odd));
    for (int64_t member = 0; member < group.size(); ++member)
      group.terms.members[static_cast<size_t>(member)].source =
          member == group.index ? round.own : group.scratchOf(number, member);
    reduceSources(group.terms, call.what, round.elements, round.sum);
    MGC_TRY(awaitSlot(group, kSumsSlot + odd)); // the slot was used two rounds ago
    MGC_TRY(begin(group, round.sums, sumsTag, kSumsSlot + odd));
  }
  MGC_TRY(awaitSlot(group, kSumsSlot));
  return awaitSlot(group, kSumsSlot + 1);
}

// Each gets all, and adds up for itself.
Status MpiRank::allReduceSmall(MpiGroup &group, const Call &call, const Agreement &agreement) {
  const int64_t elements = call.what.outer * call.what.chunk;
  const MpiRegion source = regionOf(call.source, elements * call.elementBytes);
  MGC_TRY(meet(group, agreement, [&](int64_t) { return source; }));
  for (int64_t member = 0; member < group.size(); ++member)
    group.terms.members[static_cast<size_t>(member)].source =
        member == group.index ? call.source : group.arrivalOf(member).data.data();
  reduceSources(group.terms, call.what, elements, call.destination);
  return Status::ok();
}

Status MpiRank::allReduce(MpiGroup &group, const Call &call) {
  const int64_t elements = call.what.outer * call.what.chunk, size = group.size(), bytes = call.elementBytes;
  const int64_t step = group.roundBytes / bytes;
  return reduceInRounds(group, call, divideUp(divideUp(elements, size), step), [&](int64_t number, Round &round) {
    // Where a member's slice is in this round, and its bytes.
    const auto place = [&](int64_t member) {
      const auto [begin, count] = sliceOf(elements, member, size);
      return std::pair((begin + number * step) * bytes, std::clamp<int64_t>(count - number * step, 0, step) * bytes);
    };
    const auto [mine, mineBytes] = place(group.index);
    round.own = call.source + mine;
    round.sum = call.destination + mine;
    round.elements = mineBytes / bytes;
    for (int64_t i = 1; i < size; ++i) {
      const int64_t member = (group.index + i) % size;
      const auto [theirs, theirBytes] = place(member);
      round.terms.push_back(
          {member, regionOf(call.source + theirs, theirBytes), regionOf(group.scratchOf(number, member), mineBytes)});
      round.sums.push_back({member, regionOf(round.sum, mineBytes), regionOf(call.destination + theirs, theirBytes)});
    }
  });
}

// A round has rows, or a part of one.
Status MpiRank::reduceScatter(MpiGroup &group, const Call &call) {
  const int64_t chunk = call.what.chunk, outer = call.what.outer, size = group.size(), bytes = call.elementBytes;
  if (chunk == 0)
    return Status::ok();
  const int64_t most = group.roundBytes / bytes, rows = std::max<int64_t>(most / chunk, 1);
  const int64_t partsOfRow = divideUp(chunk, most), rounds = divideUp(outer, rows) * partsOfRow;
  return reduceInRounds(group, call, rounds, [&](int64_t number, Round &round) {
    const int64_t row = number / partsOfRow * rows, begin = number % partsOfRow * most;
    const int64_t count = std::min(most, chunk - begin), taken = std::min(rows, outer - row);
    const auto blockFor = [&](int64_t member) {
      return rowsOf(call.source + ((row * size + member) * chunk + begin) * bytes, taken, count * bytes,
                    size * chunk * bytes);
    };
    const auto roomFor = [&](int64_t member) {
      return regionOf(group.scratchOf(number, member), taken * count * bytes);
    };
    copy(blockFor(group.index), roomFor(group.index));
    round.own = group.scratchOf(number, group.index);
    round.sum = call.destination + (row * chunk + begin) * bytes;
    round.elements = taken * count;
    for (int64_t i = 1; i < size; ++i) {
      const int64_t member = (group.index + i) % size;
      round.terms.push_back({member, blockFor(member), roomFor(member)});
    }
  });
}

Status MpiRank::exchangeParts(MpiGroup &group, const ExchangeWith &exchangeWith) {
  std::vector<Exchange> &parts = rounds_[0].terms;
  parts.clear();
  for (int64_t step = 1; step < group.size(); ++step)
    parts.push_back(exchangeWith((group.index + step) % group.size()));
  MGC_TRY(begin(group, parts, termsTag, kTermsSlot));
  const Exchange own = exchangeWith(group.index);
  copy(own.send, own.receive);
  return awaitSlot(group, kTermsSlot);
}

Status MpiRank::rearrange(MpiGroup &group, const Agreement &agreement, int64_t bytes,
                          const ExchangeWith &exchangeWith) {
  if (bytes > kInlineBytes) {
    MGC_TRY(meet(group, agreement));
    return exchangeParts(group, exchangeWith);
  }
  MGC_TRY(meet(group, agreement, [&](int64_t member) { return exchangeWith(member).send; }));
  for (int64_t member = 0; member < group.size(); ++member) {
    const Exchange with = exchangeWith(member);
    const std::vector<std::byte> &data = group.arrivalOf(member).data;
    copy(member == group.index ? with.send : regionOf(data.data(), bytesOf(with.receive)), with.receive);
  }
  return Status::ok();
}

Status MpiRank::allGather(MpiGroup &group, const Call &call, const Agreement &agreement) {
  const int64_t bytes = call.what.chunk * call.elementBytes, outer = call.what.outer, size = group.size();
  return rearrange(group, agreement, outer * bytes, [&](int64_t member) {
    return Exchange{member, regionOf(call.source, outer * bytes),
                    rowsOf(call.destination + member * bytes, outer, bytes, size * bytes)};
  });
}

Status MpiRank::allToAll(MpiGroup &group, const Call &call, const Agreement &agreement) {
  const int64_t bytes = call.what.chunk * call.elementBytes, outer = call.what.outer, middle = call.what.middle;
  const int64_t size = group.size(), block = middle * bytes;
  // The blocks of a member in [outer, n, middle, chunk], and its chunks in [outer, middle, n, chunk].
  const auto blocks = [&](const std::byte *base, int64_t member) {
    return rowsOf(base + member * block, outer, block, size * block);
  };
  const auto chunks = [&](const std::byte *base, int64_t member) {
    return rowsOf(base + member * bytes, outer * middle, bytes, size * bytes);
  };
  return rearrange(group, agreement, outer * block, [&](int64_t member) {
    return call.what.splitsInner ? Exchange{member, chunks(call.source, member), blocks(call.destination, member)}
                                 : Exchange{member, blocks(call.source, member), chunks(call.destination, member)};
  });
}

// To the next one, from the one before.
Status MpiRank::permute(MpiGroup &group, const Call &call, const Agreement &agreement) {
  const int64_t size = group.size(), bytes = call.what.chunk * call.elementBytes;
  const int64_t next = (group.index + 1) % size, previous = (group.index + size - 1) % size;
  return rearrange(group, agreement, bytes, [&](int64_t member) {
    return Exchange{member, regionOf(call.source, member == next ? bytes : 0),
                    regionOf(call.destination, member == previous ? bytes : 0)};
  });
}

Status MpiRank::collective(const plugin::Stream &, GroupId groupId, const plan::Collective &what, mgc_address source,
                           mgc_address destination, mgc_address) {
  MpiGroup &group = groups_.at(static_cast<size_t>(groupId));
  const Agreement agreement = Agreement::of(what);
  const Call call{what, reinterpret_cast<const std::byte *>(source), reinterpret_cast<std::byte *>(destination),
                  plan::sizeInBytes(what.type)};
  switch (what.kind) {
  case Kind::allReduce:
    if (what.outer * what.chunk * call.elementBytes <= kInlineBytes)
      return allReduceSmall(group, call, agreement);
    MGC_TRY(meet(group, agreement));
    return allReduce(group, call);
  case Kind::reduceScatter:
    MGC_TRY(meet(group, agreement));
    return reduceScatter(group, call);
  case Kind::allGather:
    return allGather(group, call, agreement);
  case Kind::allToAll:
    return allToAll(group, call, agreement);
  case Kind::permute:
    return permute(group, call, agreement);
  }
  return Status::ok();
}

// In a round for each expert of a rank: what is for one member of one expert lies together at both ends.
Status MpiRank::exchangeRows(const plugin::Stream &, GroupId groupId, const plan::ExchangeRows &what,
                             const RowBuffers &rows) {
  MpiGroup &group = groups_.at(static_cast<size_t>(groupId));
  MGC_TRY(rows_.read(what, group.terms.ranks, reinterpret_cast<const int32_t *>(rows.counts)));
  MGC_TRY(meet(group, Agreement::of(what, rows_.hash())));
  const int64_t row = what.width * plan::sizeInBytes(what.type);
  const auto *from = reinterpret_cast<const std::byte *>(rows.source);
  auto *to = reinterpret_cast<std::byte *>(rows.destination);
  for (int64_t expert = 0; expert < what.groups; ++expert)
    MGC_TRY(exchangeParts(group, [&](int64_t member) {
      const RowExchange::Piece &mine = rows_.piece(group.index, member, expert),
                               &theirs = rows_.piece(member, group.index, expert);
      return what.back ? Exchange{member, regionOf(from + theirs.there * row, theirs.count * row),
                                  regionOf(to + mine.own * row, mine.count * row)}
                       : Exchange{member, regionOf(from + mine.own * row, mine.count * row),
                                  regionOf(to + theirs.there * row, theirs.count * row)};
    }));
  return Status::ok();
}

} // namespace mgc
