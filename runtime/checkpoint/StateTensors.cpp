// See StateTensors.h.
#include "runtime/checkpoint/StateTensors.h"

namespace mgc {

std::string stateName(const std::string &tensor, const std::string &state) {
  return fmt::format("state.{}.{}", tensor, state);
}

std::vector<StateTensor> stateOf(const plan::Plan &plan, const FileTensor &tensor) {
  const plan::Bucket &bucket = bucketOf(plan, *tensor.parameters[0], {0, 0});
  std::vector<StateTensor> state = {
      {tensor.name, weightsOf, weightsOf(bucket).type == plan::DType::bf16 ? ElementType::BF16 : ElementType::F32}};
  for (const plan::State &kept : bucket.states)
    if (kept.role == plan::StateRole::optimizer)
      state.push_back({stateName(tensor.name, kept.name), stateNamed(kept.name), ElementType::F32, /*isWeight=*/false});
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
