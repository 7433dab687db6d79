// See Transfers.h.
#include "runtime/exec/Transfers.h"

#include <algorithm>

namespace mgc {

Transfers::Transfers(const RankRecord &record, TransferExecutor &executor) : record_(record), executor_(executor) {
  deferred_.reserve(record.transfers);
}

bool Transfers::isDeferred(int64_t transfer) const { return std::ranges::find(deferred_, transfer) != deferred_.end(); }

int64_t Transfers::firstDeferredLike(int64_t transfer) const {
  const StepRecord &mine = record_.schedule[transfer];
  const auto first = std::ranges::find_if(deferred_, [&](int64_t other) {
    const StepRecord &before = record_.schedule[other];
    return before.peer == mine.peer && before.step.kind == mine.step.kind;
  });
  return first == deferred_.end() ? transfer : *first;
}

Result<bool> Transfers::isReady(int64_t transfer) {
  for (int64_t wait : record_.schedule[transfer].step.waits) {
    MGC_ASSIGN(over, executor_.isOver(wait));
    if (!over)
      return false;
  }
  return firstDeferredLike(transfer) >= transfer;
}

Status Transfers::start(int64_t transfer) {
  MGC_ASSIGN(ready, isReady(transfer));
  if (ready)
    return executor_.post(transfer);
  deferred_.push_back(transfer);
  return Status::ok();
}

Status Transfers::retry() {
  for (size_t i = 0; i < deferred_.size();) {
    const int64_t transfer = deferred_[i];
    MGC_ASSIGN(ready, isReady(transfer));
    if (!ready) {
      ++i;
      continue;
    }
    MGC_TRY(executor_.post(transfer));
    deferred_.erase(deferred_.begin() + static_cast<int64_t>(i));
  }
  return Status::ok();
}

// It needs its waits over, and then those before it posted. While the executor waits, progress() may post it.
Status Transfers::untilPosted(int64_t transfer) {
  for (int64_t wait : record_.schedule[transfer].step.waits)
    if (isDeferred(transfer))
      MGC_TRY(executor_.finish(wait));
  while (isDeferred(transfer)) {
    const int64_t first = firstDeferredLike(transfer);
    MGC_TRY(first < transfer ? executor_.finish(first) : executor_.progress());
  }
  return Status::ok();
}

} // namespace mgc
