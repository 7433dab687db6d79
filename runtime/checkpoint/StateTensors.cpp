// See StateTensors.h.
#include "runtime/checkpoint/StateTensors.h"

namespace mgc {

std::string stateName(const std::string &tensor, BucketBuffer::Kind buffer) {
  using Kind = BucketBuffer::Kind;
  return buffer == Kind::firstMoments    ? fmt::format("state.{}.exp_avg", tensor)
         : buffer == Kind::secondMoments ? fmt::format("state.{}.exp_avg_sq", tensor)
                                         : tensor;
}

std::vector<StateTensor> stateOf(const plan::Plan &plan, const FileTensor &tensor) {
  using Kind = BucketBuffer::Kind;
  const plan::Bucket &bucket = bucketOf(plan, *tensor.parameters[0], {0, 0});
  const bool isRounded = bucket.masterOffset < 0 && valueType(plan, bucket) == plan::DType::bf16;
  std::vector<StateTensor> state = {{tensor.name, Kind::masters, isRounded ? ElementType::BF16 : ElementType::F32}};
  if (bucket.hasMoments())
    for (const Kind kind : {Kind::firstMoments, Kind::secondMoments})
      state.push_back({stateName(tensor.name, kind), kind});
  return state;
}

int64_t stateBytes(const plan::Plan &plan) {
  int64_t bytes = 0;
  for (const FileTensor &tensor : fileTensors(plan))
    for (const StateTensor &state : stateOf(plan, tensor))
      bytes += state.bytes(tensor.elements());
  return bytes;
}

} // namespace mgc
