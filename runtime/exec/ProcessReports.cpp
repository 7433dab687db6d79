#include "runtime/exec/ProcessReports.h"

#include <bit>
#include <cstring>

namespace mgc {

// Four sums side by side, word by word: a batch of images has hundreds of megabytes, and this runs in every step.
static uint64_t digestOf(std::span<const std::byte> bytes) {
  constexpr uint64_t kPrime = 0x9e3779b97f4a7c15;
  constexpr size_t kLanes = 4;
  std::array<uint64_t, kLanes> sums = {1, 2, 3, 4};
  const auto add = [&](size_t lane, uint64_t word) { sums[lane] = std::rotl((sums[lane] ^ word) * kPrime, 29); };
  size_t at = 0;
  for (uint64_t words[kLanes]; at + sizeof words <= bytes.size(); at += sizeof words) {
    std::memcpy(words, bytes.data() + at, sizeof words);
    for (size_t lane = 0; lane < kLanes; ++lane)
      add(lane, words[lane]);
  }
  for (; at < bytes.size(); ++at)
    add(at % kLanes, std::to_integer<uint64_t>(bytes[at]));
  uint64_t digest = bytes.size();
  for (uint64_t sum : sums)
    digest = std::rotl((digest ^ sum) * kPrime, 31);
  return digest;
}

// The digest of all that the step reads.
static std::array<uint32_t, 2> hashOf(const GlobalBatch &batch) {
  uint64_t hash = digestOf(std::as_bytes(std::span(batch.pixels)));
  for (const std::vector<int32_t> *values :
       {&batch.tokens, &batch.labels, &batch.starts, &batch.types, &batch.ends, &batch.encoderTokens,
        &batch.encoderEnds, &batch.imagePlaces, &batch.imageSources})
    hash = hash * 31 + digestOf(std::as_bytes(std::span(*values)));
  return std::bit_cast<std::array<uint32_t, 2>>(hash);
}

Status ProcessReports::collect(const StepValues &own, const GlobalBatch &batch, std::span<StepValues> values) {
  const Report mine{own, hashOf(batch)};
  plan::Collective gather;
  gather.kind = plan::Collective::Kind::allGather;
  gather.type = plan::DType::i32;
  gather.chunk = sizeof mine / sizeof(int32_t);
  communicator_.setWaitObserver(nullptr);
  MGC_TRY(communicator_.collective(everyone_, gather, &mine, reports_.data()));
  for (size_t rank = 0; rank < reports_.size(); ++rank) {
    if (reports_[rank].batch != reports_[0].batch)
      return errorf("rank {} was given other data than rank 0; expected the same file, and the same flags, for all",
                    rank);
    values[rank] = reports_[rank].values;
  }
  return Status::ok();
}

Result<int32_t> ProcessReports::greatest(int32_t own) {
  plan::Collective most;
  most.reduce = plan::ReduceKind::max;
  most.type = plan::DType::i32;
  most.chunk = 1;
  communicator_.setWaitObserver(nullptr);
  MGC_TRY(communicator_.collective(everyone_, most, &own, &own));
  return own;
}

} // namespace mgc
