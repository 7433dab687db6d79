// Collectives of socket ranks: all members meet, then each sends each what is the other's. A reduction adds up in the
// order of the group, element by element, so its bits are those of ThreadCollectives.cpp. Here an all_reduce over 3
// ranks of a buffer cut in slices a b c, in rounds of kRoundBytes of each slice:
//
//     rank       0          1          2
//     exchange   b c        a c        a b      each gets the two others' terms of its slice
//     reduce     a=a+a+a    b=b+b+b    c=c+c+c
//     exchange   a          b          c        and sends the sum to both
//
// In place it is safe because a round's part of the source has been sent when its sums arrive.
#include "runtime/base/Rounding.h"
#include "runtime/comm/process/SocketRank.h"

#include <cstring>
#include <fmt/ranges.h>

namespace mgc {

using Kind = plan::Collective::Kind;

SocketRank::SocketGroup::SocketGroup(const std::vector<int64_t> &ranks, int64_t index, uint64_t key)
    : terms(ranks), index(index), key(key), scratch(ranks.size() * kRoundBytes) {}

bool SocketRank::hasEntered(const SocketGroup &group, int64_t member) {
  if (member == group.index)
    return true;
  const auto found = arrivals_.find(group.key);
  return found != arrivals_.end() &&
         found->second[group.rankOf(member)][group.meetings % 2].meeting == group.meetings;
}

Status SocketRank::meet(SocketGroup &group, const Agreement &agreement) {
  if (isAborted())
    return cause();
  ++group.meetings;
  group.terms.members[group.index].agreement = agreement;
  const SocketFrame frame{SocketFrame::Kind::enter,
                          0,
                          {static_cast<int64_t>(group.key), static_cast<int64_t>(group.meetings),
                           static_cast<int64_t>(agreement.meeting), static_cast<int64_t>(agreement.kind),
                           static_cast<int64_t>(agreement.reduce), static_cast<int64_t>(agreement.type),
                           agreement.outer, agreement.chunk, agreement.middle, agreement.splitsInner,
                           agreement.counts}};
  std::vector<int64_t> missing;
  const auto findMissing = [&] {
    missing.clear();
    for (int64_t member = 0; member < group.size(); ++member)
      if (!hasEntered(group, member))
        missing.push_back(group.rankOf(member));
  };
  for (int64_t rank : group.terms.ranks)
    if (rank != this->rank())
      peers_[rank]->queue(frame);
  MGC_TRY(waitUntil(
      [&] {
        findMissing();
        return missing.empty();
      },
      [&] {
        return fmt::format("ranks [{}] to join a collective of ranks [{}]", fmt::join(missing, ", "),
                           fmt::join(group.terms.ranks, ", "));
      }));
  return verifyAgreement(group);
}

Status SocketRank::verifyAgreement(const SocketGroup &group) {
  const auto agreementOf = [&](int64_t member) -> const Agreement & {
    return member == group.index ? group.terms.members[member].agreement
                                 : arrivals_[group.key][group.rankOf(member)][group.meetings % 2].agreement;
  };
  for (int64_t member = 1; member < group.size(); ++member)
    if (!(agreementOf(member) == agreementOf(0)))
      return errorf("ranks [{}] meet in different collectives: rank {} in {}, rank {} in {}",
                    fmt::join(group.terms.ranks, ", "), group.rankOf(0), toString(agreementOf(0)),
                    group.rankOf(member), toString(agreementOf(member)));
  return Status::ok();
}

Status SocketRank::barrier(GroupId group) { return meet(groups_.at(group), {}); }

Status SocketRank::exchange(const SocketGroup &group, std::span<const Exchange> parts) {
  partsToSend_ = partsToCome_ = 0;
  for (const Exchange &part : parts) {
    SocketPeer &peer = *peers_[group.rankOf(part.member)];
    if (part.send.bytes() > 0) {
      peer.queue({SocketFrame::Kind::part}, part.send, kPartNumber);
      ++partsToSend_;
    }
    if (part.receive.bytes() > 0) {
      peer.part = part.receive;
      ++partsToCome_;
    }
  }
  return waitUntil([&] { return partsToSend_ == 0 && partsToCome_ == 0; },
                   [&] { return describeExchange(group); });
}

std::string SocketRank::describeExchange(const SocketGroup &group) const {
  std::vector<int64_t> missing;
  for (int64_t rank : group.terms.ranks)
    if (rank != this->rank() &&
        (partsToCome_ > 0 ? peers_[rank]->part.has_value() : peers_[rank]->hasToSend()))
      missing.push_back(rank);
  return fmt::format("ranks [{}] to {} their parts of a collective of ranks [{}]", fmt::join(missing, ", "),
                     partsToCome_ > 0 ? "send" : "take", fmt::join(group.terms.ranks, ", "));
}

// The slice of `all` things that member `index` of `members` has: its begin and its count.
static std::pair<int64_t, int64_t> sliceOf(int64_t all, int64_t index, int64_t members) {
  const int64_t begin = all * index / members;
  return {begin, all * (index + 1) / members - begin};
}

Status SocketRank::allReduce(SocketGroup &group, const Call &call) {
  const int64_t elements = call.what.outer * call.what.chunk, size = group.size(), bytes = call.elementBytes;
  const int64_t round = kRoundBytes / bytes, longest = divideUp(elements, size);
  std::vector<Exchange> terms(size - 1), sums(size - 1);
  for (int64_t done = 0; done < longest; done += round) {
    // Where a member's slice is in this round, and its bytes.
    const auto place = [&](int64_t member) {
      const auto [begin, count] = sliceOf(elements, member, size);
      return std::pair((begin + done) * bytes, std::clamp<int64_t>(count - done, 0, round) * bytes);
    };
    const auto [mine, mineBytes] = place(group.index);
    group.terms.members[group.index].source = call.source + mine;
    for (int64_t step = 1; step < size; ++step) {
      const int64_t member = (group.index + step) % size;
      const auto [theirs, theirBytes] = place(member);
      group.terms.members[member].source = group.scratchOf(member);
      terms[step - 1] = {member, SocketRegion::of(call.source + theirs, theirBytes),
                         SocketRegion::of(group.scratchOf(member), mineBytes)};
      sums[step - 1] = {member, SocketRegion::of(call.destination + mine, mineBytes),
                        SocketRegion::of(call.destination + theirs, theirBytes)};
    }
    MGC_TRY(exchange(group, terms));
    reduceSources(group.terms, call.what, mineBytes / bytes, call.destination + mine);
    MGC_TRY(exchange(group, sums));
  }
  return Status::ok();
}

// Rows [row, row + rows) of the result, elements [begin, begin + count) of each.
Status SocketRank::reduceBlock(SocketGroup &group, const Call &call, int64_t row, int64_t rows, int64_t begin,
                               int64_t count) {
  const int64_t chunk = call.what.chunk, size = group.size(), bytes = call.elementBytes;
  const auto blockFor = [&](int64_t member) {
    const std::byte *base = call.source + ((row * size + member) * chunk + begin) * bytes;
    return SocketRegion{const_cast<std::byte *>(base), rows, count * bytes, size * chunk * bytes};
  };
  std::vector<Exchange> terms;
  for (int64_t member = 0; member < size; ++member)
    group.terms.members[member].source = group.scratchOf(member);
  for (int64_t step = 1; step < size; ++step) {
    const int64_t member = (group.index + step) % size;
    terms.push_back(
        {member, blockFor(member), SocketRegion::of(group.scratchOf(member), rows * count * bytes)});
  }
  const SocketRegion own = blockFor(group.index);
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(group.scratchOf(group.index) + i * own.rowBytes, own.base + i * own.stride, own.rowBytes);
  MGC_TRY(exchange(group, terms));
  reduceSources(group.terms, call.what, rows * count, call.destination + (row * chunk + begin) * bytes);
  return Status::ok();
}

Status SocketRank::reduceScatter(SocketGroup &group, const Call &call) {
  const int64_t chunk = call.what.chunk, round = kRoundBytes / call.elementBytes;
  if (chunk == 0)
    return Status::ok();
  const int64_t rows = std::max<int64_t>(round / chunk, 1);
  for (int64_t row = 0; row < call.what.outer; row += rows)
    for (int64_t begin = 0; begin < chunk; begin += round)
      MGC_TRY(reduceBlock(group, call, row, std::min(rows, call.what.outer - row), begin,
                          std::min(round, chunk - begin)));
  return Status::ok();
}

// A collective that only moves data: an exchange with each other member, and a copy of its own part.
Status SocketRank::rearrange(SocketGroup &group, const std::function<Exchange(int64_t)> &exchangeWith) {
  std::vector<Exchange> parts;
  for (int64_t step = 1; step < group.size(); ++step)
    parts.push_back(exchangeWith((group.index + step) % group.size()));
  const auto [member, from, to] = exchangeWith(group.index);
  const int64_t piece = std::min(from.rowBytes, to.rowBytes); // one's rows are parts of the other's
  for (int64_t done = 0; done < from.bytes(); done += piece)
    std::memcpy(to.base + done / to.rowBytes * to.stride + done % to.rowBytes,
                from.base + done / from.rowBytes * from.stride + done % from.rowBytes, piece);
  return exchange(group, parts);
}

Status SocketRank::allGather(SocketGroup &group, const Call &call) {
  const int64_t bytes = call.what.chunk * call.elementBytes, outer = call.what.outer, size = group.size();
  return rearrange(group, [&](int64_t member) {
    return Exchange{member,
                    SocketRegion::of(call.source, outer * bytes),
                    {call.destination + member * bytes, outer, bytes, size * bytes}};
  });
}

Status SocketRank::allToAll(SocketGroup &group, const Call &call) {
  const int64_t bytes = call.what.chunk * call.elementBytes, outer = call.what.outer,
                middle = call.what.middle;
  const int64_t size = group.size(), block = middle * bytes;
  const auto blocks = [&](std::byte *base, int64_t member) { // of a member, in [outer, n, middle, chunk]
    return SocketRegion{base + member * block, outer, block, size * block};
  };
  const auto chunks = [&](std::byte *base, int64_t member) { // and in [outer, middle, n, chunk]
    return SocketRegion{base + member * bytes, outer * middle, bytes, size * bytes};
  };
  std::byte *source = const_cast<std::byte *>(call.source);
  return rearrange(group, [&](int64_t member) {
    return call.what.splitsInner ? Exchange{member, chunks(source, member), blocks(call.destination, member)}
                                 : Exchange{member, blocks(source, member), chunks(call.destination, member)};
  });
}

Status SocketRank::permute(SocketGroup &group, const Call &call) {
  const int64_t size = group.size(), bytes = call.what.chunk * call.elementBytes;
  const SocketRegion source = SocketRegion::of(call.source, bytes),
                     destination = SocketRegion::of(call.destination, bytes);
  if (size == 1) {
    std::copy_n(call.source, bytes, call.destination);
    return Status::ok();
  }
  const SocketRegion nothing = SocketRegion::of(call.source, 0);
  const Exchange parts[] = {{(group.index + 1) % size, source, nothing},
                            {(group.index + size - 1) % size, nothing, destination}};
  return exchange(group, parts);
}

Status SocketRank::collective(const plugin::Stream &, GroupId groupId, const plan::Collective &what,
                              mgc_address source, mgc_address destination, mgc_address) {
  SocketGroup &group = groups_.at(groupId);
  MGC_TRY(meet(group, Agreement::of(what)));
  const Call call{what, reinterpret_cast<const std::byte *>(source),
                  reinterpret_cast<std::byte *>(destination), plan::sizeInBytes(what.type)};
  switch (what.kind) {
  case Kind::allReduce:
    return allReduce(group, call);
  case Kind::allGather:
    return allGather(group, call);
  case Kind::reduceScatter:
    return reduceScatter(group, call);
  case Kind::allToAll:
    return allToAll(group, call);
  case Kind::permute:
    return permute(group, call);
  }
  return Status::ok();
}

// In a round for each expert of a rank: what is for one member of one expert lies together at both ends.
Status SocketRank::exchangeRows(const plugin::Stream &, GroupId groupId, const plan::ExchangeRows &what,
                                const RowBuffers &rows) {
  SocketGroup &group = groups_.at(groupId);
  MGC_TRY(rows_.read(what, group.terms.ranks, reinterpret_cast<const int32_t *>(rows.counts)));
  MGC_TRY(meet(group, Agreement::of(what, rows_.hash())));
  const int64_t row = what.width * plan::sizeInBytes(what.type);
  const auto *from = reinterpret_cast<const std::byte *>(rows.source);
  auto *to = reinterpret_cast<std::byte *>(rows.destination);
  for (int64_t expert = 0; expert < what.groups; ++expert)
    MGC_TRY(rearrange(group, [&](int64_t member) {
      const RowExchange::Piece &mine = rows_.piece(group.index, member, expert),
                               &theirs = rows_.piece(member, group.index, expert);
      return what.back ? Exchange{member, SocketRegion::of(from + theirs.there * row, theirs.count * row),
                                  SocketRegion::of(to + mine.own * row, mine.count * row)}
                       : Exchange{member, SocketRegion::of(from + mine.own * row, mine.count * row),
                                  SocketRegion::of(to + theirs.there * row, theirs.count * row)};
    }));
  return Status::ok();
}

} // namespace mgc
