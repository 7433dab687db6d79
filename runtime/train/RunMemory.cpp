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

static std::string inMib(int64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

std::string describeMemory(const plan::Plan &plan, std::span<const LocalRank> ranks,
                           std::span<const MemoryLimit> limits) {
  int64_t bytes = 0, ofDevice = 0;
  for (const LocalRank &rank : ranks) {
    const plan::StagePlan &stage = plan.stages[plan::stageOf(plan.mesh, rank.rank)];
    bytes += machineBytes(plan, stage) + rank.extra;
    ofDevice = std::max(ofDevice, stage.bytes);
  }
  const auto tightest = std::ranges::min_element(limits, {}, &MemoryLimit::available);
  std::string text = fmt::format("{} of the plan's ranks here take {} of this machine's", ranks.size(), inMib(bytes));
  if (tightest != limits.end())
    text += fmt::format("; {} are available ({})", inMib(tightest->available), tightest->name);
  if (plan.target != plan::Target::cpu)
    text += fmt::format("; each takes at most {} of its device", inMib(ofDevice));
  return text;
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
