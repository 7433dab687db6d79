// See WeightDigests.h.
#include "runtime/checkpoint/WeightDigests.h"

#include "runtime/base/Bf16.h"
#include "runtime/checkpoint/VerifyWeights.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/ranges.h>

namespace mgc {

using plan::Parameter;
using plan::Plan;

namespace {

// A digest of a rank's copy of a block, or of its slice of one, in the place of the copy.
struct Digest {
  uint64_t hash = 0;                      // hash of the values
  int64_t notFinite = -1;                 // the first element that is not
  int64_t notRounded = -1;                // the first whose master, where this rank has it, is another's
  float value = 0, other = 0, master = 0; // the values of the first; of the second, and its master
  int64_t slice = 0;                      // number of the slice; 0: all
};

// The elements of a block that lie together.
struct DigestRow {
  BucketRange range; // elements of the bucket
  int64_t number;    // number of the first element in the block
};

// Reads what the rank has of the row.
void lookAtValues(const BucketBuffer &buffer, const DigestRow &row, std::vector<float> &values, Digest &digest) {
  values.resize(row.range.count);
  if (row.range.count > 0)
    buffer.read(row.range, values.data());
  const std::string_view bytes(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float));
  digest.hash = digest.hash * 31 + hashName(bytes);
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (digest.notFinite < 0 && bad != values.end()) {
    digest.notFinite = row.number + (bad - values.begin());
    digest.value = *bad;
  }
}

// Compares the values with the masters in the slice that the rank has.
void lookAtMasters(const BucketBuffer &masters, const DigestRow &row, const std::vector<float> &values,
                   Digest &digest) {
  const BucketRange own = masters.ownPart(row.range);
  std::vector<float> found(own.count);
  if (own.count > 0)
    masters.read(own, found.data());
  for (int64_t i = 0; i < own.count && digest.notRounded < 0; ++i) {
    const int64_t at = own.begin - row.range.begin + i;
    if (toBf16(found[i]) == toBf16(values[at]))
      continue;
    digest.notRounded = row.number + at;
    digest.other = values[at];
    digest.master = found[i];
  }
}

Digest digestOf(const Plan &plan, const Parameter &parameter, const Holder &holder, Arenas arenas) {
  const BucketBuffer values(plan, parameter, holder, valuesOf, arenas),
      masters(plan, parameter, holder, weightsOf, arenas);
  const plan::Bucket &bucket = bucketOf(plan, parameter, holder);
  const bool hasMasters = bucket.has(plan::StateRole::master);
  const Shard shard = shardOf(plan.mesh, parameter, holder.rank);
  std::vector<float> staged;
  Digest digest;
  if (values.isSliced())
    digest.slice = plan::coordinate(plan.mesh, holder.rank, bucket.axesOf(valuesOf(bucket)));
  for (int64_t i = 0; i < shard.rows; ++i) {
    const BucketRange all{beginOf(parameter, holder) + i * shard.rowStride, shard.rowElements},
        own = values.isSliced() ? values.ownPart(all) : all;
    const DigestRow row{own, i * shard.rowElements + own.begin - all.begin};
    lookAtValues(values, row, staged, digest);
    if (hasMasters)
      lookAtMasters(masters, row, staged, digest);
  }
  return digest;
}

// The problems with a block, from the digests of its holders.
std::string compareDigests(const Parameter &parameter, const std::vector<Holder> &holders,
                           const std::vector<Digest> &digests) {
  std::string text;
  for (size_t first = 0; first < holders.size(); ++first) { // each first holder of a slice
    const auto isSame = [&](const Digest &digest) { return digest.slice == digests[first].slice; };
    if (std::ranges::find_if(digests, isSame) - digests.begin() != int64_t(first))
      continue;
    std::vector<int64_t> differing;
    for (size_t i = first + 1; i < holders.size(); ++i)
      if (isSame(digests[i]) && digests[i].hash != digests[first].hash)
        differing.push_back(holders[i].rank);
    if (!differing.empty())
      text += fmt::format("\n  parameter {}: ranks {} differ from rank {}", parameter.name, fmt::join(differing, ", "),
                          holders[first].rank);
    if (digests[first].notFinite >= 0)
      text += fmt::format("\n  parameter {}: element {} on rank {} is {}", parameter.name, digests[first].notFinite,
                          holders[first].rank, digests[first].value);
  }
  for (size_t i = 0; i < holders.size(); ++i)
    if (digests[i].notRounded >= 0)
      return text + fmt::format("\n  parameter {}: element {} on rank {} is {}, expected the rounding of its master {}",
                                parameter.name, digests[i].notRounded, holders[i].rank, digests[i].other,
                                digests[i].master);
  return text;
}

template <typename Visit> void forEachBlock(const Plan &plan, const Visit &visit) {
  for (size_t i = 0; i < plan.parameters.size(); ++i)
    for (const std::vector<Holder> &holders : blocksOf(plan, plan.parameters[i]))
      visit(i, holders);
}

} // namespace

// Each rank's digests travel together, in the order of parameters and blocks.
Status verifyDigests(const Plan &plan, RankMemory &memory, Arenas arenas, std::string_view what) {
  std::vector<std::vector<Digest>> byRank(arenas.size());
  forEachBlock(plan, [&](size_t i, const std::vector<Holder> &holders) {
    for (const Holder &holder : holders)
      byRank[holder.rank].push_back(memory.isHere(holder.rank) ? digestOf(plan, plan.parameters[i], holder, arenas)
                                                               : Digest());
  });
  std::vector<std::byte> scratch;
  for (size_t rank = 0; rank < byRank.size(); ++rank) {
    const std::span bytes = std::as_writable_bytes(std::span(byRank[rank]));
    MGC_ASSIGN(come, memory.fetch(int64_t(rank), bytes.data(), int64_t(bytes.size()), scratch));
    if (come && come != bytes.data() && !bytes.empty())
      std::memcpy(bytes.data(), come, bytes.size());
  }
  if (!memory.isWriter())
    return Status::ok();
  std::vector<std::string> perParameter(plan.parameters.size());
  std::vector<size_t> next(arenas.size());
  forEachBlock(plan, [&](size_t i, const std::vector<Holder> &holders) {
    std::vector<Digest> digests;
    for (const Holder &holder : holders)
      digests.push_back(byRank[holder.rank][next[holder.rank]++]);
    perParameter[i] += compareDigests(plan.parameters[i], holders, digests);
  });
  return reportProblems(what, perParameter);
}

} // namespace mgc
