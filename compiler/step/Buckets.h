// Gradient buckets. In: the parameters of each block and the instances on each stage. Out: per stage its
// buckets, and where each parameter lies in them. Pure arithmetic on plain structs.
#pragma once

#include "dialects/mg/GatherTime.h"
#include "plan/ParameterBuckets.h"
#include "plan/mesh/Mesh.h"
#include "runtime/base/Status.h"

#include <compare>

namespace mgc {

// About, of a part of a bucket: the step's end sums squares of parts. 128 KB, many for each thread and few to add up.
inline constexpr int64_t kPartElements = 32768;

// All parameters of one bucket agree in this.
struct BucketKey {
  plan::Axes split;          // axes that split the parameters
  plan::Axes reduce;         // axes over which the gradient is pending that are no data axes
  plan::Axes data;           // data axes over which it is; of frozen parameters those along which they are the same
  std::vector<int64_t> tied; // stages that hold the same parameters; empty: one
  bool decay = false;
  double meanLoad = 0;                            // the load that replaces gradients; 0: they have gradients
  plan::BucketUse use = plan::BucketUse::trained; // frozen: no reduce, and no part
  bool isEvaluated = false;                       // frozen, but moved by the training that is evaluated
  // Part of the stage whose gradients are completed together; -1: with all others, at the end.
  int64_t part = -1;
  // Number of the unit (ZeRO-2 and 3), which has a bucket of its own; -1: none. Parameters that several instances use are units by themselves.
  int64_t unit = -1;
  auto operator<=>(const BucketKey &) const = default;
};

struct Sharding {
  plan::Mesh mesh;
  int64_t level = 0;         // --zero
  bool shardsOuter = false;  // --outer-dp-sharding-strategy optim
  bool reshards = true;      // --reshard-after-forward
  bool gathersAhead = false; // --overlap-param-gather
};
// Axes of `data` whose ranks have slices of the bucket's states: from level 1 on. Of frozen parameters, which have values alone, where
// these are in slices. Axes between instances of the optimizer (plan::kInstanceAxis) are not among them.
plan::Axes shardAxesOf(const BucketKey &key, const Sharding &sharding);
// Axes of `data` between instances of the optimizer along which what the update needs is shared out again.
plan::Axes outerAxesOf(const BucketKey &key, const Sharding &sharding);
// Whether each instance's parameters are a unit: from level 2 on, but for the few that load moves. So are frozen ones, that an evaluation,
// where all are frozen, has the training's buckets.
bool isPerUnit(const BucketKey &key, const Sharding &sharding);
// When values are gathered: at level 3 for each use or microbatch, frozen ones too; below it once a step, of parameters that the
// training moves, if they are to be gathered ahead. Never of those that load moves.
GatherTime gatherTimeOf(const BucketKey &key, const Sharding &sharding);

struct BlockParameter {
  int64_t argument = 0;     // index in the block's forward function
  std::string tensor, part; // identity; {} in tensor stands for the instance's number
  int64_t elements = 0;     // per rank
  BucketKey key;            // tied, part and unit are filled in here
  std::string view = {};    // its sharded type and what it is of its file, as text: equal for all its uses
};

struct InstanceRange {
  int64_t block = 0; // index
  int64_t first = 0, count = 0;
  int64_t part = -1; // part of the stage: parameters that these instances alone use get buckets of their own
};

struct PlannedBucket {
  BucketKey key;
  int64_t elements = 0; // all units'
  plan::Axes shard, outer;
  int64_t units = 1; // plan::Bucket::units
  GatherTime gather = GatherTime::never;
};
struct PlannedPlace { // element offset of instance i: offset + (i - first) * stride
  int64_t block = 0, parameter = 0, first = 0, count = 0;
  int64_t bucket = 0, offset = 0, stride = 0;
};
struct StageBuckets {
  std::vector<PlannedBucket> buckets;
  std::vector<PlannedPlace> places;
};

struct BucketProblem {
  std::vector<std::vector<BlockParameter>> blocks;
  std::vector<std::vector<InstanceRange>> stages;
  Sharding sharding;
  int64_t alignment = plan::kAlignment / 4; // elements: parameters and slices start at multiples
};

// Parameters start at multiples of BucketProblem::alignment. Slices of ZeRO-1 are such multiples too, large ones whole parts. In
// each bucket equal instances follow each other at one stride. A bucket tied over stages is the same on each of them,
// in content, offsets and order among such buckets: their gradients are added element by element. Error: a tied
// parameter whose uses differ in size, view, split or pending axes.
Result<std::vector<StageBuckets>> planBuckets(const BucketProblem &problem);

} // namespace mgc
