// See StepTime.h.
#include "plan/cost/StepTime.h"

#include "plan/cost/GradientTime.h"
#include "plan/cost/HostCopyTime.h"
#include "plan/cost/ModelFlops.h"
#include "plan/cost/PlanWalk.h"
#include "plan/cost/RunTime.h"
#include "plan/play/Player.h"

#include <algorithm>
#include <map>

namespace mgc::cost {

using plan::Chunk;
using plan::Plan;
using plan::StagePlan;
using plan::Task;

namespace {

using ChunkTimes = std::vector<std::vector<RunTime>>; // [stage][chunk]: one run

RunTime chunkTime(const Cluster &cluster, const Plan &plan, const StagePlan &stage, const Chunk &chunk, RunTimes &runs,
                  const std::vector<ProgramTime> &programs) {
  RunTime time = runs.secondsOf(stage, chunk);
  const HostCopyTime copies = hostCopyTime(cluster, plan, stage, chunk, programs);
  time.layers.hostCopies = copies.exposed, time.layers.hiddenHostCopies = copies.hidden;
  return time;
}

ChunkTimes chunkTimes(const Cluster &cluster, const Plan &plan, RunTimes &runs) {
  const bool hasCopies = std::ranges::any_of(plan.programs, plan::hasHostCopies);
  std::vector<ProgramTime> programs; // where they are needed
  for (int64_t i = 0; hasCopies && i < std::ssize(plan.programs); ++i)
    programs.push_back(runs.secondsOf(i));
  ChunkTimes times;
  for (const StagePlan &stage : plan.stages) {
    times.emplace_back();
    for (const Chunk &chunk : stage.chunks)
      times.back().push_back(chunkTime(cluster, plan, stage, chunk, runs, programs));
  }
  return times;
}

schedule::PlayCosts costsOf(const Cluster &cluster, const Plan &plan, const ChunkTimes &times) {
  schedule::PlayCosts costs;
  std::map<Task, double> slowest; // seconds of tasks of all stages
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (size_t i = 0; i < times[stage].size(); ++i)
      if (double &most = slowest[plan.stages[stage].chunks[i].task];
          !isPerVirtualStage(plan.stages[stage].chunks[i].task))
        most = std::max(most, times[stage][i].all().seconds());
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    costs.chunks.emplace_back();
    for (size_t i = 0; i < times[stage].size(); ++i) {
      const Task task = plan.stages[stage].chunks[i].task;
      costs.chunks.back().push_back(isPerVirtualStage(task) ? times[stage][i].all().seconds() : slowest[task]);
    }
  }
  const MessageRates messages = messageRates(cluster);
  costs.messageLatency = messages.latency;
  costs.secondsPerByte = messages.secondsPerByte;
  return costs;
}

// --- Pairs ------------------------------------------------------------------------------------------------------

// The pairs of runs of a stage, by first and second chunk.
struct ChunkPair {
  RunTime time;
  double runs = 0;
};
using ChunkPairs = std::map<std::pair<int64_t, int64_t>, ChunkPair>;

ChunkPairs pairsOf(RunTimes &runs, const StagePlan &stage) {
  ChunkPairs pairs;
  int64_t before = -1;
  forEachStep(stage, [&](const plan::ScheduleStep &step, int64_t count) {
    if (step.paired) {
      const auto [pair, isNew] = pairs.try_emplace({before, step.chunk});
      if (isNew)
        pair->second.time = runs.secondsOfPair(stage, stage.chunks[before], stage.chunks[step.chunk]);
      pair->second.runs += double(count);
    }
    before = step.chunk;
  });
  return pairs;
}

void addPairs(schedule::PlayCosts &costs, size_t stage, const ChunkPairs &pairs) {
  for (const auto &[chunks, pair] : pairs)
    costs.pairs[{int64_t(stage), chunks.first, chunks.second}] = pair.time.all().seconds();
}

// --- Gradients' stream --------------------------------------------------------------------------------------------

void addSlowed(schedule::PlayCosts &costs, const RunTimes &runs, const Plan &plan, size_t stage,
               const ChunkTimes &times) {
  double taken = 0;
  for (const Chunk &chunk : plan.stages[stage].chunks)
    if (chunk.task == Task::gradients)
      taken = std::max(taken, runs.takenBy(chunk));
  if (taken == 0)
    return;
  const std::vector<double> slowed = slowedByGradients(plan.stages[stage], times[stage], taken);
  for (size_t step = 0; step < slowed.size(); ++step)
    costs.longer[{int64_t(stage), int64_t(step)}] = slowed[step];
}

// --- The work of a stage in a step -----------------------------------------------------------------------------

struct StageWork {
  RunTime microbatches;  // forward and backward
  ProgramTime step;      // begin, reduce, update
  ProgramTime gradients; // on a stream of its own
  double busy() const { return microbatches.all().seconds() + step.seconds(); }
};

StageWork workOf(const StagePlan &stage, const std::vector<RunTime> &chunks, const ChunkPairs &pairs) {
  std::vector<double> alone; // runs of each chunk that are of no pair
  for (const int64_t runs : runsOfChunks(stage))
    alone.push_back(double(runs));
  StageWork work;
  for (const auto &[ofChunks, pair] : pairs) {
    work.microbatches += pair.time * pair.runs;
    alone[ofChunks.first] -= pair.runs;
    alone[ofChunks.second] -= pair.runs;
  }
  for (size_t i = 0; i < stage.chunks.size(); ++i)
    if (const Task task = stage.chunks[i].task; isPerMicrobatch(task))
      work.microbatches += chunks[i] * alone[i];
    else
      (task == Task::gradients ? work.gradients : work.step) += chunks[i].all() * alone[i];
  return work;
}

// Adds a stage's seconds to the means over the stages. `share`: 1 / stages.
void addParts(StepCost &cost, const StageWork &work, double share) {
  StepParts &parts = cost.parts;
  const auto context = size_t(plan::AxisRole::sequence);
  const auto &[layers, units] = work.microbatches;
  parts.products += share * layers.products;
  parts.attention += share * layers.attention;
  parts.rows += share * layers.rows;
  parts.moves += share * layers.moves;
  parts.launches += share * layers.launches;
  parts.context += share * layers.exposed[context];
  // Layers talk over the ranks of data for their experts alone, whose tokens are gathered where rows do not travel.
  const auto ofExperts = [](const auto &seconds) {
    return seconds[kRowExchanges] + seconds[size_t(plan::AxisRole::data)];
  };
  const double exposed = ofExperts(layers.exposed), hidden = ofExperts(layers.hidden);
  parts.experts += share * exposed;
  parts.tensor += share * (total(layers.exposed) - layers.exposed[context] - exposed);
  parts.gradients += share * (total(work.step.exposed) + total(units.exposed));
  parts.optimizer += share * (work.step.compute() + units.compute());
  parts.hostCopies += share * (work.step.hostCopies + layers.hostCopies);
  cost.hiddenHostCopies += share * (work.step.hiddenHostCopies + layers.hiddenHostCopies);
  cost.hiddenExchanges += share * hidden;
  cost.hiddenLayers += share * (total(layers.hidden) - hidden);
  cost.hiddenGradients +=
      share * (total(work.step.hidden) + total(units.hidden) + work.gradients.seconds() + total(work.gradients.hidden));
}

// --- Waiting ----------------------------------------------------------------------------------------

double makespanOf(const Plan &plan, const schedule::PlayCosts &costs) { return play(listsOf(plan, costs)).makespan; }

// Clears the seconds of the gradients' stream, and by which it makes others longer; whether there were any.
bool clearGradients(const Plan &plan, schedule::PlayCosts &costs) {
  double cleared = 0;
  costs.longer.clear();
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (size_t i = 0; i < plan.stages[stage].chunks.size(); ++i)
      if (plan.stages[stage].chunks[i].task == Task::gradients)
        cleared += std::exchange(costs.chunks[stage][i], 0);
  return cleared > 0;
}

// The schedule is played again without messages, then without the gradients' stream too: each costs the seconds by which
// the step gets shorter.
void addWaits(StepCost &cost, const Plan &plan, double busy) {
  schedule::PlayCosts costs = cost.costs;
  double left = cost.seconds;
  if (plan.stages.size() > 1) {
    costs.messageLatency = costs.secondsPerByte = 0;
    const double without = makespanOf(plan, costs);
    cost.parts.messages = left - without;
    left = without;
  }
  if (clearGradients(plan, costs)) {
    const double without = makespanOf(plan, costs);
    cost.parts.gradients += left - without;
    // The mean over the stages less what the slowest exposes, which may have more than the mean.
    cost.hiddenGradients = std::max(0.0, cost.hiddenGradients - (left - without));
    left = without;
  }
  cost.parts.bubble = std::max(0.0, left - busy);
}

void addUtilisation(StepCost &cost, const Plan &plan, const Machine &machine) {
  const auto ranks = double(plan.mesh.worldSize());
  const double peak = plan.dtype == plan::DType::bf16 ? machine.flops.bf16 : machine.flops.f32;
  cost.modelFlops = modelFlops(plan);
  if (cost.seconds <= 0)
    return;
  cost.tokensPerSecond = double(plan.globalBatchSize) * double(plan.sequenceLength) / cost.seconds / ranks;
  cost.modelUtilisation = cost.modelFlops / (cost.seconds * ranks * peak);
  cost.hardwareUtilisation = cost.hardwareFlops / (cost.seconds * ranks * peak);
}

} // namespace

schedule::PlayCosts costsOf(const Cluster &cluster, const Plan &plan) {
  RunTimes runs(cluster, plan);
  return costsOf(cluster, plan, chunkTimes(cluster, plan, runs));
}

StepCost predict(const Plan &plan, const Machine &machine, const StepAssumptions &assumptions) {
  const Cluster cluster{machine, plan.mesh, plan.target, assumptions.stack, assumptions.imbalance};
  RunTimes runs(cluster, plan);
  const ChunkTimes times = chunkTimes(cluster, plan, runs);
  StepCost cost{assumptions.stack.name, assumptions.imbalance};
  cost.costs = costsOf(cluster, plan, times);
  std::vector<ChunkPairs> pairs;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    pairs.push_back(pairsOf(runs, plan.stages[stage]));
    addPairs(cost.costs, stage, pairs.back());
    addSlowed(cost.costs, runs, plan, stage, times);
  }
  const auto stages = double(plan.stages.size());
  cost.seconds = makespanOf(plan, cost.costs);
  double busy = 0;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StageWork work = workOf(plan.stages[stage], times[stage], pairs[stage]);
    addParts(cost, work, 1 / stages);
    cost.hardwareFlops += work.microbatches.layers.flops * double(plan.mesh.worldSize()) / stages;
    cost.stages.push_back({work.busy(), cost.seconds > 0 ? std::max(0.0, 1 - work.busy() / cost.seconds) : 0});
    busy += work.busy() / stages;
  }
  addWaits(cost, plan, busy);
  addUtilisation(cost, plan, machine);
  return cost;
}

Machine machineOf(const Plan &plan) {
  const std::vector<std::string> known = machineNames();
  if (std::ranges::find(known, plan.fit.machine) != known.end())
    if (Result<Machine> machine = findMachine(plan.fit.machine); machine.isOk())
      return machine.take();
  std::string target(nameOf(plan.target));
  if (plan.target != plan::Target::cpu && !plan.kernels.empty())
    target += fmt::format(":{}", factsOf(plan.kernels.back().level).name);
  return machineForTarget(target);
}

} // namespace mgc::cost
