#include "runtime/exec/ProcessReports.h"

#include "runtime/random/Philox.h"

#include <bit>

namespace mgc {

static std::array<uint32_t, 2> hashOf(const GlobalBatch &batch) {
  uint64_t hash = 0;
  const auto add = [&](const auto &values) {
    hash = hash * 31 +
           hashName({reinterpret_cast<const char *>(values.data()), values.size() * sizeof(values.front())});
  };
  add(batch.pixels);
  for (const std::vector<int32_t> *values : {&batch.encoderTokens, &batch.tokens, &batch.labels})
    add(*values);
  return std::bit_cast<std::array<uint32_t, 2>>(hash);
}

Status ProcessReports::collect(const StepValues &own, const GlobalBatch &batch,
                               std::span<StepValues> values) {
  const Report mine{own, hashOf(batch)};
  plan::Collective gather;
  gather.kind = plan::Collective::Kind::allGather;
  gather.type = plan::DType::i32;
  gather.chunk = sizeof mine / sizeof(int32_t);
  communicator_.setWaitObserver(nullptr);
  MGC_TRY(communicator_.collective(everyone_, gather, &mine, reports_.data()));
  for (size_t rank = 0; rank < reports_.size(); ++rank) {
    if (reports_[rank].batch != reports_[0].batch)
      return errorf(
          "rank {} was given other data than rank 0; expected the same file, and the same flags, for all",
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
