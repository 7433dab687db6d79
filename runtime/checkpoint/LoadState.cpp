// See LoadState.h.
#include "runtime/checkpoint/LoadState.h"

#include "runtime/base/Problems.h"
#include "runtime/checkpoint/StateTensors.h"

#include <set>

namespace mgc {

using plan::Parameter;
using plan::Plan;

namespace {

// Weights that are not trained go on as rounded values where a plan of bf16 wrote them.
std::string problemWith(const ChunkedTensor *found, const StateTensor &expected, const std::vector<int64_t> &shape,
                        bool mayBeRounded) {
  if (!found)
    return fmt::format("missing, expected {} {}", toString(expected.type), shapeToString(shape));
  if (found->shape() != shape)
    return fmt::format("found shape {}, expected {}", shapeToString(found->shape()), shapeToString(shape));
  if (mayBeRounded ? !isFloat(found->type()) : found->type() != ElementType::F32)
    return fmt::format("found {}, expected {}", toString(found->type()), mayBeRounded ? "F32 or BF16" : "F32");
  return "";
}

} // namespace

Status verifyStateFits(const Plan &plan, const StateReader &checkpoint, StatePart part) {
  Problems problems;
  std::set<std::string> known;
  for (const FileTensor &tensor : fileTensors(plan))
    for (const StateTensor &state : stateOf(plan, tensor)) {
      known.insert(state.name);
      if (part == StatePart::weights && !state.isWeight)
        continue;
      const bool mayBeRounded = part == StatePart::weights || isFrozen(plan, *tensor.parameters[0]);
      const std::string problem = problemWith(checkpoint.find(state.name), state, tensor.shape, mayBeRounded);
      problems.expect(problem.empty(), "  {}: {}", state.name, problem);
    }
  for (const auto &entry : checkpoint.tensors())
    problems.expect(known.contains(entry.first) || (part == StatePart::weights && entry.first.starts_with("state.")),
                    "  {}: not in the plan", entry.first);
  return problems.empty() ? Status::ok()
                          : errorf("{}: {} tensors do not fit the plan; expected a checkpoint of the same model and "
                                   "optimizer, with the same parts frozen; --finetune begins anew with its "
                                   "weights\n{}",
                                   checkpoint.path(), problems.count(), problems.text());
}

Status loadState(const Plan &plan, const StateReader &checkpoint, Arenas arenas, StatePart part,
                 const FillOptions &fill) {
  MGC_TRY(verifyArenas(plan, arenas));
  // kept: the name of what the optimizer keeps; empty: weights.
  const auto from = [&](const std::string &kept) -> FillFor {
    return [&checkpoint, kept](const Parameter &parameter) {
      std::vector<Fill> tensors;
      int64_t elements = 0;
      for (const std::string &name : tensorNames(parameter)) {
        const ChunkedTensor *tensor = checkpoint.find(kept.empty() ? name : stateName(name, kept));
        elements = checkedProduct(tensor->shape()).value_or(0);
        tensors.push_back([tensor](int64_t file, int64_t count, float *out) { tensor->read(file, count, out); });
      }
      return fillOfStack(std::move(tensors), elements);
    };
  };
  Fills fills{from("")};
  for (const plan::StagePlan &stage : plan.stages)
    for (const plan::Bucket &bucket : stage.buckets)
      for (const plan::State &state : bucket.states)
        if (part == StatePart::all && state.role == plan::StateRole::optimizer)
          fills.kept.try_emplace(state.name, from(state.name));
  fillBuckets(plan, arenas, fill, fills);
  return Status::ok();
}

} // namespace mgc
