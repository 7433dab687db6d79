// The offsets that a plan gives for its buckets are those that its programs work on: what zeroes, reduces and
// updates a bucket binds each buffer whole. In: a plan whose steps are well formed. Out: violations.
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

// All that calls bind in the allocation itself.
Places boundPlaces(const Plan &plan, const StagePlan &stage) {
  Places bound;
  for (const plan::Chunk &chunk : stage.chunks)
    for (const plan::Call &call : chunk.calls) {
      if (call.program < 0 || call.program >= int64_t(plan.programs.size()))
        continue; // of a chunk that no step runs
      const std::vector<int64_t> &bytes = plan.programs[call.program].segmentBytes;
      for (size_t i = 0; i < std::min(bytes.size(), call.segments.size()); ++i)
        if (call.segments[i].slot < 0)
          bound.insert({call.segments[i].offset, bytes[i]});
    }
  return bound;
}

void checkBucket(const Plan &plan, int64_t stage, const Bucket &bucket, const Places &bound,
                 Violations &violations) {
  bool sharded = bucket.sharded && plan::verifyAxes(plan.mesh, bucket.dataAxes).isOk();
  int64_t all = bucket.elements, shard = sharded ? all / plan::groupSize(plan.mesh, bucket.dataAxes) : all;
  auto check = [&](const char *name, int64_t offset, int64_t elements) {
    Checked bytes = checkedMultiply(elements, 4);
    if (elements > 0 && (!bytes || !bound.contains({offset, *bytes})))
      violations.add(fmt::format("stage {} bucket {}: {}Offset = {} with {} elements is bound by no call",
                                 stage, bucket.name, name, offset, elements));
  };
  check("value", bucket.valueOffset, all);
  check("gradient", bucket.gradientOffset, all);
  check("gradientShard", bucket.gradientShardOffset, shard);
  check("firstMoment", bucket.firstMomentOffset, shard);
  check("secondMoment", bucket.secondMomentOffset, shard);
}

} // namespace

void checkBuckets(const Plan &plan, Violations &violations) {
  for (int64_t s = 0; s < int64_t(plan.stages.size()); ++s) {
    Places bound = boundPlaces(plan, plan.stages[s]);
    for (const Bucket &bucket : plan.stages[s].buckets)
      checkBucket(plan, s, bucket, bound, violations);
  }
}

} // namespace mgc::schedule
