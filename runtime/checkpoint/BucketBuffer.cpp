// See BucketBuffer.h.
#include "runtime/checkpoint/BucketBuffer.h"

#include "runtime/base/Bf16.h"

#include <algorithm>
#include <cstring>

namespace mgc {

namespace {

void load(plan::DType type, const std::byte *from, int64_t count, float *to) {
  if (type == plan::DType::bf16)
    widen(reinterpret_cast<const Bf16 *>(from), count, to);
  else
    std::memcpy(to, from, size_t(count) * sizeof(float));
}

void store(plan::DType type, const float *from, int64_t count, std::byte *to) {
  if (type == plan::DType::bf16)
    narrow(from, count, reinterpret_cast<Bf16 *>(to));
  else
    std::memcpy(to, from, size_t(count) * sizeof(float));
}

} // namespace

const plan::State &valuesOf(const plan::Bucket &bucket) { return *bucket.stateOf(plan::StateRole::value); }

const plan::State &weightsOf(const plan::Bucket &bucket) {
  const plan::State *masters = bucket.stateOf(plan::StateRole::master);
  return masters ? *masters : valuesOf(bucket);
}

const plan::State &gradientsOf(const plan::Bucket &bucket) { return *bucket.completeGradient(); }

StateOf stateNamed(const std::string &name) {
  return [name](const plan::Bucket &bucket) -> const plan::State & { return *bucket.stateNamed(name); };
}

// Slice i lies with the rank whose coordinate along the state's axes is i.
BucketBuffer::BucketBuffer(const plan::Plan &plan, const plan::Bucket &bucket, int64_t rank, const StateOf &stateOf,
                           Arenas arenas) {
  const plan::State &state = stateOf(bucket);
  std::vector<int64_t> ranks = {rank};
  if (state.sliced) {
    ranks = plan::groupOf(plan.mesh, rank, bucket.axesOf(state));
    mine_ = plan::coordinate(plan.mesh, rank, bucket.axesOf(state));
  }
  type_ = state.type;
  offset_ = state.offset, onHost_ = state.hostElements, hostOffset_ = state.hostOffset;
  elementBytes_ = sizeInBytes(type_);
  unit_ = state.sliced ? bucket.unitElements() : bucket.elements;
  slice_ = unit_ / int64_t(ranks.size());
  ranks_ = ranks;
  for (int64_t holder : ranks)
    slices_.push_back(arenas[holder]);
}

BucketBuffer::BucketBuffer(const plan::Plan &plan, const plan::Parameter &parameter, const Holder &of,
                           const StateOf &state, Arenas arenas)
    : BucketBuffer(plan, bucketOf(plan, parameter, of), of.rank, state, arenas) {}

BucketBuffer::At BucketBuffer::at(int64_t element) const {
  const int64_t unit = element / unit_, inUnit = element % unit_, inSlice = inUnit % slice_;
  const int64_t inside = unit * slice_ + inSlice, left = slice_ - inSlice;
  return {inUnit / slice_, inside, inside < onHost_ ? std::min(left, onHost_ - inside) : left};
}

void BucketBuffer::read(BucketRange range, float *out) const {
  for (int64_t done = 0; done < range.count;) {
    const auto [owner, inside, left] = at(range.begin + done);
    const int64_t count = std::min(range.count - done, left);
    load(type_, at(slices_[owner], inside), count, out + done);
    done += count;
  }
}

Status BucketBuffer::fetch(BucketRange range, RankMemory &memory, std::vector<std::byte> &scratch, float *out) const {
  for (int64_t done = 0; done < range.count;) {
    const auto [owner, inside, left] = at(range.begin + done);
    const int64_t count = std::min(range.count - done, left);
    const std::byte *own = at(slices_[owner], inside);
    MGC_ASSIGN(come, memory.fetch(ranks_[owner], own, count * elementBytes_, scratch));
    if (memory.isWriter())
      load(type_, come, count, out + done);
    done += count;
  }
  return Status::ok();
}

BucketRange BucketBuffer::ownPart(BucketRange range) const {
  const int64_t first = range.begin / unit_ * unit_ + mine_ * slice_, begin = std::max(range.begin, first),
                end = std::min(range.begin + range.count, first + slice_);
  return {begin, std::max<int64_t>(end - begin, 0)};
}

void BucketBuffer::write(BucketRange range, const float *from) const {
  const BucketRange own = ownPart(range);
  for (int64_t done = 0; done < own.count;) {
    const int64_t begin = own.begin + done, count = std::min(own.count - done, runFrom(begin));
    store(type_, from + (begin - range.begin), count, data(begin));
    done += count;
  }
}

} // namespace mgc
