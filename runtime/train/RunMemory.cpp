// See RunMemory.h.
#include "runtime/train/RunMemory.h"

#include "runtime/base/Cores.h"
#include "runtime/checkpoint/StateFiles.h"

#include <algorithm>

namespace mgc {

// The threads of this process, without a few that only wait.
static int64_t threadsHere(const TrainingOptions &options, const plan::Plan &plan, const Processes *processes) {
  const auto cores = static_cast<int64_t>(availableCores().size());
  const int64_t ranks = processes ? 1 : plan.mesh.worldSize();
  const int64_t ofStreams = ranks > 1 ? 2 * ranks : 0; // at most: StreamExecutor.h
  return ofStreams + (options.threads > 0 ? options.threads * ranks : std::max(cores, ranks));
}

std::vector<LocalRank> ranksOfRun(const TrainingOptions &options, const plan::Plan &plan, const plan::Plan *evaluation,
                                  const Processes *processes) {
  std::vector<LocalRank> ranks;
  if (processes)
    for (const auto &[rank, memoryGroup] : processes->neighbours())
      ranks.push_back({rank, rank == processes->rank(), memoryGroup, 0});
  else
    for (const std::string group = memoryGroup(); std::ssize(ranks) < plan.mesh.worldSize();)
      ranks.push_back({std::ssize(ranks), true, group, 0});
  for (LocalRank &rank : ranks) {
    if (evaluation)
      rank.extra += machineBytes(*evaluation, evaluation->stages[plan::stageOf(plan.mesh, rank.rank)]);
    if (options.copiesState())
      rank.extra += stateBytes(plan, rank.rank);
  }
  return ranks;
}

Status verifyRunMemory(const TrainingOptions &options, const plan::Plan &plan, const plan::Plan *evaluation,
                       const Processes *processes, std::span<const MemoryLimit> limits) {
  const std::vector<LocalRank> ranks = ranksOfRun(options, plan, evaluation, processes);
  Status suffices = verifyMemory(plan, ranks, threadsHere(options, plan, processes), limits);
  if (suffices.isOk() || !options.copiesState())
    return suffices;
  int64_t copies = 0;
  for (const LocalRank &rank : ranks)
    copies += stateBytes(plan, rank.rank);
  return errorf("{}; or no --async-save, whose copies of the state are {} of these ranks' memory", suffices.message(),
                inGib(copies));
}

} // namespace mgc
