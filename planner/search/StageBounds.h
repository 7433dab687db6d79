// Bounds of a layout's step, by stage. In: facts of its shape, its cut into chunks, its numbers. Out: seconds and bytes that it takes at
// the least, whatever the policy of each layer.
#pragma once

#include "plan/cost/Cluster.h"
#include "plan/play/Solution.h"
#include "planner/search/InFlight.h"
#include "planner/search/ShapeFacts.h"

namespace mgc::planner {

struct StageLeast {
  double passes = 0, all = 0;                   // seconds of a microbatch, of all chunks: BlockLeast
  double unhiding = 0, unexposed = 0;           // likewise
  double onNetwork = 0;                         // likewise
  BlockLeast first;                             // seconds of the first chunk
  std::map<plan::Axes, double> elements, reads; // BlockLeast's
  std::vector<int64_t> kept;                    // bytes of a microbatch, by chunk
  int64_t frame = 0;                            // bytes, the largest
};

// `cut`: instances of each chunk.
std::vector<StageLeast> stagesOf(const ShapeFacts &facts, const std::vector<int64_t> &cut,
                                 const schedule::Shape &pipeline);

// Seconds of the tasks of all microbatches. `pairs`: a stage may run a task beside another, which hides the collectives of each other.
double leastSeconds(const std::vector<StageLeast> &stages, int64_t microbatches, bool pairs);
// Seconds of the step's begin, and of its end.
double leastStepEnd(const frontend::Layout &layout, const cost::Cluster &cluster,
                    const std::vector<StageLeast> &stages);
// Adds what collectives of units take longer than what may hide them.
void addUnits(const frontend::Layout &layout, const cost::Cluster &cluster, std::vector<StageLeast> &stages);

// The ranks that share out parameters which ranks along the axes have.
using RanksAlong = llvm::function_ref<int64_t(const plan::Axes &)>;
// Bytes of a rank where so many ranks share out what level `level` of --zero says of parameters that ranks along the axes have, and
// chunks keep so many microbatches: [stage][chunk].
double leastBytes(const std::vector<StageLeast> &stages, int64_t level, const ElementBytes &ofElement, RanksAlong ranks,
                  const InFlight::Counts &inFlight);

// In: what leastBytes takes, and the facts and the cut that the stages are of. Out, by stage: with policies of which a rank takes at most
// `memory` bytes, a microbatch takes so many seconds more than the stage has; of `unexposed` where `pairs`. Infinite: no policies do.
std::vector<double> leastSlowdown(const ShapeFacts &facts, const std::vector<int64_t> &cut,
                                  const schedule::Shape &pipeline, bool pairs, const std::vector<StageLeast> &stages,
                                  int64_t level, const ElementBytes &ofElement, RanksAlong ranks,
                                  const InFlight::Counts &inFlight, int64_t memory);
// `splits`: halves of backward may come later than what passes the stage. Empty: no slowdown is known.
void addSlowdown(const std::vector<double> &slowdown, bool splits, std::vector<StageLeast> &stages);

} // namespace mgc::planner
