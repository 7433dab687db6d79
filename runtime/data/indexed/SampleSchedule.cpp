// See SampleSchedule.h.
#include "runtime/data/indexed/SampleSchedule.h"

#include "runtime/data/indexed/RandomOrder.h"

namespace mgc {

void CyclicOrder::draw(int64_t epoch) {
  if (epoch == epoch_)
    return;
  const int64_t bucket = samples_ / cut_.atOnce() * cut_.microBatch;
  const int64_t whole = samples_ / cut_.microBatch * cut_.microBatch;
  order_ = torchPermutation(isSharded_ ? bucket : whole, static_cast<uint64_t>(epoch));
  epoch_ = epoch;
}

void CyclicOrder::fill(int64_t consumed, std::span<int64_t> out) {
  const int64_t micro = cut_.microBatch, bucket = samples_ / cut_.atOnce() * micro;
  for (int64_t i = 0; i < std::ssize(out); ++i) {
    const int64_t number = consumed + i;
    draw(number / active_);
    const int64_t place = number % active_, rank = place % cut_.atOnce() / micro;
    const int64_t ofRank = place / cut_.atOnce() * micro + place % micro; // how many the rank has read before
    // Without shards a rank reads each ranks-th place of the order, from its own number on.
    out[i] = isSharded_ ? rank * bucket + order_[ofRank] : order_[ofRank * cut_.ranks + rank];
  }
}

} // namespace mgc
