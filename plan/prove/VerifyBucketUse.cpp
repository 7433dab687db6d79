// See VerifyBucketUse.h.
#include "plan/prove/VerifyBucketUse.h"

#include "plan/Expand.h"
#include "plan/mesh/Mesh.h"
#include "runtime/base/Checked.h"

#include <map>
#include <set>

namespace mgc::plan {

namespace {

using Places = std::set<std::pair<int64_t, int64_t>>; // offset, bytes

// The places in the allocation itself that the calls of each task bind.
std::map<plan::Task, Places> boundPlaces(const Plan &plan, const StagePlan &stage) {
  std::map<plan::Task, Places> bound;
  for (const plan::ScheduleStep &step : stage.schedule) {
    if (step.kind != plan::ScheduleStep::Kind::run || step.microbatch >= 0)
      continue;
    const plan::Chunk &chunk = stage.chunks[step.chunk];
    for (const plan::Call &call : plan::expandedCalls(chunk))
      for (size_t i = 0; i < call.segments.size(); ++i)
        if (call.segments[i].slot < 0)
          bound[chunk.task].insert({call.segments[i].offset, plan.programs[call.program].segmentBytes[i]});
  }
  return bound;
}

void checkBucket(const Plan &plan, int64_t stage, const Bucket &bucket, std::map<plan::Task, Places> &bound,
                 Problems &problems) {
  bool sharded = bucket.sharded && plan::verifyAxes(plan.mesh, bucket.dataAxes).isOk();
  int64_t all = bucket.elements, shard = sharded ? all / plan::groupSize(plan.mesh, bucket.dataAxes) : all;
  auto check = [&](plan::Task task, const char *name, int64_t offset, int64_t elements, plan::DType type) {
    Checked bytes = checkedMultiply(elements, plan::sizeInBytes(type));
    if (elements > 0 && (!bytes || !bound[task].contains({offset, *bytes})))
      problems.add("stage {} bucket {}: {}Offset = {} with {} elements is bound by no call of {}", stage,
                   bucket.name, name, offset, elements, plan::nameOf(task));
  };
  using enum Task;
  check(begin, "gradient", bucket.gradientOffset, all, plan.gradientType);
  bound[reduce].insert(bound[gradients].begin(), bound[gradients].end()); // either completes it
  check(reduce, "gradient", bucket.gradientOffset, all, plan.gradientType);
  check(reduce, "gradientShard", bucket.gradientShardOffset, shard, plan.gradientType);
  check(update, "gradientShard", bucket.gradientShardOffset, shard, plan.gradientType);
  check(update, "value", bucket.valueOffset, all, plan.dtype);
  check(update, "firstMoment", bucket.firstMomentOffset, shard, DType::f32);
  check(update, "secondMoment", bucket.secondMomentOffset, shard, DType::f32);
  if (bucket.masterOffset >= 0)
    check(update, "master", bucket.masterOffset, shard, DType::f32);
}

} // namespace

void verifyBucketUse(const Plan &plan, Problems &problems) {
  for (int64_t s = 0; s < int64_t(plan.stages.size()); ++s) {
    std::map<plan::Task, Places> bound = boundPlaces(plan, plan.stages[s]);
    for (const Bucket &bucket : plan.stages[s].buckets)
      checkBucket(plan, s, bucket, bound, problems);
  }
}

} // namespace mgc::plan
