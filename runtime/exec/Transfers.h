// The sends and receives of a schedule, each posted as soon as its waits are over. A transfer that the list reaches
// earlier does not block the list: it is deferred, and posted by whatever the rank does next. Transfers with one peer
// in one direction keep their order. The executor defines what posting a transfer and the end of a step mean: done, or
// enqueued.
#pragma once

#include "runtime/exec/Records.h"

namespace mgc {

// Steps are schedule indices.
class TransferExecutor : public Progress { // progress() retries
public:
  virtual Result<bool> isOver(int64_t step) = 0; // a run, once the list has gone past it
  virtual Status post(int64_t transfer) = 0;
  virtual Status finish(int64_t step) = 0; // until it is over
};

class Transfers {
public:
  // Both outlive it. Allocates nothing later.
  Transfers(const RankRecord &record, TransferExecutor &executor);
  void clear() { deferred_.clear(); }
  Status start(int64_t transfer); // the list has reached it
  Status retry();
  Status untilPosted(int64_t transfer); // for a transfer that has been started

private:
  bool isDeferred(int64_t transfer) const;
  // The first of the same peer and direction; itself if none.
  int64_t firstDeferredLike(int64_t transfer) const;
  Result<bool> isReady(int64_t transfer);

  const RankRecord &record_;
  TransferExecutor &executor_;
  std::vector<int64_t> deferred_; // ascending
};

} // namespace mgc
