// The offsets that a plan gives for its buckets are those that its programs work on: a run before the first
// microbatch, which zeroes, binds each gradient whole; runs after the last, which reduce and update, each
// buffer. In: a plan whose steps are well formed. Out: violations.
#include "compiler/schedule/VerifyPlan.h"

#include "compiler/schedule/Match.h"

#include "runtime/base/Checked.h"
#include "runtime/plan/Mesh.h"

#include <algorithm>
#include <set>

namespace mgc::schedule {

using plan::Bucket;
using plan::Plan;
using plan::StagePlan;

namespace {

using Places = std::set<std::pair<int64_t, int64_t>>; // offset, bytes

// What a run's calls bind in the allocation itself.
void addBound(const Plan &plan, const StagePlan &stage, const plan::ScheduleStep &step, Places &bound) {
  if (step.kind != plan::ScheduleStep::Kind::run)
    return;
  for (const plan::Call &call : stage.chunks[step.chunk].calls) {
    const std::vector<int64_t> &bytes = plan.programs[call.program].segmentBytes;
    for (size_t i = 0; i < bytes.size(); ++i)
      if (call.segments[i].slot < 0)
        bound.insert({call.segments[i].offset, bytes[i]});
  }
}

// By the runs of once per step: those before the first microbatch zero gradients, those after the last one
// reduce and update.
struct Bound {
  Places before, after;
};

Bound boundPlaces(const Plan &plan, const StagePlan &stage) {
  auto isOfMicrobatch = [](const plan::ScheduleStep &step) { return step.microbatch >= 0; };
  auto first = std::ranges::find_if(stage.schedule, isOfMicrobatch);
  auto last = std::find_if(stage.schedule.rbegin(), stage.schedule.rend(), isOfMicrobatch).base();
  Bound bound;
  for (auto step = stage.schedule.begin(); step != first; ++step)
    addBound(plan, stage, *step, bound.before);
  for (auto step = last; step != stage.schedule.end(); ++step)
    addBound(plan, stage, *step, bound.after);
  return bound;
}

void checkBucket(const Plan &plan, int64_t stage, const Bucket &bucket, const Bound &bound,
                 Violations &violations) {
  bool sharded = bucket.sharded && plan::verifyAxes(plan.mesh, bucket.dataAxes).isOk();
  int64_t all = bucket.elements, shard = sharded ? all / plan::groupSize(plan.mesh, bucket.dataAxes) : all;
  auto check = [&](const Places &places, const char *what, const char *name, int64_t offset,
                   int64_t elements) {
    Checked bytes = checkedMultiply(elements, 4);
    if (elements > 0 && (!bytes || !places.contains({offset, *bytes})))
      violations.add(
          fmt::format("stage {} bucket {}: {}Offset = {} with {} elements is bound by no call that {}", stage,
                      bucket.name, name, offset, elements, what));
  };
  constexpr const char *ends = "runs after the microbatches";
  check(bound.before, "runs before the microbatches", "gradient", bucket.gradientOffset, all);
  check(bound.after, ends, "gradient", bucket.gradientOffset, all);
  check(bound.after, ends, "gradientShard", bucket.gradientShardOffset, shard);
  check(bound.after, ends, "value", bucket.valueOffset, all);
  check(bound.after, ends, "firstMoment", bucket.firstMomentOffset, shard);
  check(bound.after, ends, "secondMoment", bucket.secondMomentOffset, shard);
}

} // namespace

void checkBuckets(const Plan &plan, Violations &violations) {
  for (int64_t s = 0; s < int64_t(plan.stages.size()); ++s) {
    Bound bound = boundPlaces(plan, plan.stages[s]);
    for (const Bucket &bucket : plan.stages[s].buckets)
      checkBucket(plan, s, bucket, bound, violations);
  }
}

} // namespace mgc::schedule
