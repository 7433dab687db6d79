// See StepTime.h.
#include "plan/cost/StepTime.h"

#include "plan/cost/HostCopyTime.h"
#include "plan/cost/ModelFlops.h"
#include "plan/cost/PlanWalk.h"
#include "plan/cost/UnitTime.h"
#include "plan/play/Player.h"

#include <algorithm>
#include <map>

namespace mgc::cost {

using plan::Chunk;
using plan::Plan;
using plan::StagePlan;
using plan::Task;

namespace {

// One run of a chunk.
struct ChunkTime {
  ProgramTime all;
  ProgramTime units; // part of it: what gathers units, and clears and sums up their gradients: ZeRO-2 and 3
};
using ChunkTimes = std::vector<std::vector<ChunkTime>>; // [stage][chunk]

ChunkTime chunkTime(const Cluster &cluster, const Plan &plan, const StagePlan &stage, const Chunk &chunk,
                    const std::vector<ProgramTime> &programs) {
  ChunkTime time{secondsOf(chunk, programs)};
  if (cluster.stack.overlap.units == Overlap::follows)
    time.units = hiddenUnits(plan, stage, chunk, programs);
  time.all += time.units;
  const HostCopyTime copies = hostCopyTime(cluster, plan, stage, chunk, programs);
  time.all.hostCopies = copies.exposed, time.all.hiddenHostCopies = copies.hidden;
  forEachCall(chunk, [&](const plan::Call &call, int64_t runs) {
    if (isPerMicrobatch(chunk.task) && isOfUnit(stage, call))
      time.units += programs[call.program] * double(runs);
  });
  return time;
}

ChunkTimes chunkTimes(const Cluster &cluster, const Plan &plan) {
  const std::vector<ProgramTime> programs = secondsOfPrograms(cluster, plan);
  ChunkTimes times;
  for (const StagePlan &stage : plan.stages) {
    times.emplace_back();
    for (const Chunk &chunk : stage.chunks)
      times.back().push_back(chunkTime(cluster, plan, stage, chunk, programs));
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
        most = std::max(most, times[stage][i].all.seconds());
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    costs.chunks.emplace_back();
    for (size_t i = 0; i < times[stage].size(); ++i) {
      const Task task = plan.stages[stage].chunks[i].task;
      costs.chunks.back().push_back(isPerVirtualStage(task) ? times[stage][i].all.seconds() : slowest[task]);
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
  ProgramTime time, alone; // the pair's; the two chunks' one after the other
  double runs = 0;
};
using ChunkPairs = std::map<std::pair<int64_t, int64_t>, ChunkPair>;

ChunkPairs pairsOf(const Cluster &cluster, const Plan &plan, size_t stage, const ChunkTimes &times) {
  const std::vector<Chunk> &chunks = plan.stages[stage].chunks;
  ChunkPairs pairs;
  int64_t before = -1;
  forEachStep(plan.stages[stage], [&](const plan::ScheduleStep &step, int64_t runs) {
    if (step.paired) {
      const auto [pair, isNew] = pairs.try_emplace({before, step.chunk});
      if (isNew) {
        pair->second.time = secondsOfPair(cluster, plan, chunks[before], chunks[step.chunk]);
        (pair->second.alone += times[stage][before].all) += times[stage][step.chunk].all;
      }
      pair->second.runs += double(runs);
    }
    before = step.chunk;
  });
  return pairs;
}

void addPairs(schedule::PlayCosts &costs, size_t stage, const ChunkPairs &pairs) {
  for (const auto &[chunks, pair] : pairs)
    costs.pairs[{int64_t(stage), chunks.first, chunks.second}] = pair.time.seconds();
}

// --- The work of a stage in a step -----------------------------------------------------------------------------

struct StageWork {
  ProgramTime layers;    // forward and backward
  ProgramTime units;     // part of them: ChunkTime::units
  ProgramTime step;      // begin, reduce, update
  ProgramTime gradients; // on a stream of its own
  double busy() const { return layers.seconds() + step.seconds(); }
};

StageWork workOf(const StagePlan &stage, const std::vector<ChunkTime> &chunks, const ChunkPairs &pairs) {
  const std::vector<int64_t> runs = runsOfChunks(stage);
  StageWork work;
  for (size_t i = 0; i < stage.chunks.size(); ++i) {
    const Task task = stage.chunks[i].task;
    ProgramTime &sum = isPerMicrobatch(task) ? work.layers : task == Task::gradients ? work.gradients : work.step;
    sum += chunks[i].all * double(runs[i]);
    work.units += chunks[i].units * double(runs[i]);
  }
  for (const auto &[ofChunks, pair] : pairs) {
    work.layers += pair.time * pair.runs;
    work.layers += pair.alone * -pair.runs;
  }
  return work;
}

// Adds a stage's seconds to the means over the stages. `share`: 1 / stages.
void addParts(StepCost &cost, const StageWork &work, double share) {
  StepParts &parts = cost.parts;
  const auto context = size_t(plan::AxisRole::sequence);
  ProgramTime layers = work.layers;
  layers += work.units * -1.0;
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
  // Less the units' and less what is only the rounding of the difference.
  const auto withoutUnits = [](double all, double units) { return all - units > 1e-9 * all ? all - units : 0; };
  const double exposed = withoutUnits(ofExperts(work.layers.exposed), ofExperts(work.units.exposed)),
               hidden = withoutUnits(ofExperts(work.layers.hidden), ofExperts(work.units.hidden));
  parts.experts += share * exposed;
  parts.tensor += share * (total(layers.exposed) - layers.exposed[context] - exposed);
  parts.gradients += share * (total(work.step.exposed) + total(work.units.exposed));
  parts.optimizer += share * (work.step.compute() + work.units.compute());
  parts.hostCopies += share * (work.step.hostCopies + layers.hostCopies);
  cost.hiddenHostCopies += share * (work.step.hiddenHostCopies + layers.hiddenHostCopies);
  cost.hiddenExchanges += share * hidden;
  cost.hiddenLayers += share * (total(layers.hidden) - hidden);
  cost.hiddenGradients += share * (total(work.step.hidden) + total(work.units.hidden) + work.gradients.seconds() +
                                   total(work.gradients.hidden));
}

// --- Waiting ----------------------------------------------------------------------------------------

auto lastProduct(const plan::Program &program) {
  return std::ranges::find_if(program.instructions.rbegin(), program.instructions.rend(),
                              [](const auto &one) { return kindOf(one.body) == plan::WorkKind::product; });
}

// "einsum model.layers.{}.mlp.down_proj.weight" of "layer.forward/einsum ..".
std::string_view nameInBlock(const plan::Instruction &instruction) {
  return std::string_view(instruction.label).substr(instruction.label.find('/') + 1);
}

// Whether the program has the forward pass's last product already: a norm behind it wants its result again.
bool repeatsLast(const plan::Program &program, const plan::Program &forward) {
  const auto last = lastProduct(forward);
  return last == forward.instructions.rend() ||
         std::ranges::any_of(program.instructions, [&](const plan::Instruction &one) {
           return one.body == last->body && nameInBlock(one) == nameInBlock(*last);
         });
}

// From the last product of a program on.
plan::Program endOf(const plan::Program &program) {
  plan::Program end = program;
  const auto last = lastProduct(end);
  end.instructions.erase(end.instructions.begin(),
                         last == end.instructions.rend() ? end.instructions.end() : last.base() - 1);
  end.repeats.clear();
  return end;
}

// A stack that computes all of a layer's forward pass again also makes its last product, which our slices leave out.
void addRepeats(const Cluster &cluster, const Plan &plan, std::vector<ProgramTime> &times) {
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    const plan::Program &backward = plan.programs[i];
    if (!recomputesAll(backward) || !beginsBackward(backward))
      continue;
    for (const plan::Program &forward : plan.programs)
      if (&forward != &backward && recomputesAll(forward) && blockOf(forward) == blockOf(backward) &&
          isForward(forward) && !repeatsLast(backward, forward))
        times[i] += secondsOf(cluster, endOf(forward), cluster.stack.rows.layers);
  }
}

double makespanOf(const Plan &plan, const schedule::PlayCosts &costs) { return play(listsOf(plan, costs)).makespan; }

// Clears the seconds of the gradients' stream; whether there were any.
bool clearGradients(const Plan &plan, schedule::PlayCosts &costs) {
  double cleared = 0;
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

std::vector<ProgramTime> secondsOfPrograms(const Cluster &cluster, const Plan &plan) {
  const StackRows &rows = cluster.stack.rows;
  std::vector<double> rowBytes(plan.programs.size(), rows.optimizer);
  for (const StagePlan &stage : plan.stages)
    for (const Chunk &chunk : stage.chunks)
      for (const plan::Call &call : chunk.calls)
        if (isPerMicrobatch(chunk.task))
          rowBytes[call.program] = rows.layers;
  std::vector<ProgramTime> times;
  for (size_t i = 0; i < plan.programs.size(); ++i)
    times.push_back(secondsOf(cluster, plan.programs[i], rowBytes[i]));
  if (cluster.stack.repeatsLastProduct)
    addRepeats(cluster, plan, times);
  return times;
}

schedule::PlayCosts costsOf(const Cluster &cluster, const Plan &plan) {
  return costsOf(cluster, plan, chunkTimes(cluster, plan));
}

StepCost predict(const Plan &plan, const Machine &machine, const StepAssumptions &assumptions) {
  const Cluster cluster{machine, plan.mesh, plan.target, assumptions.stack, assumptions.imbalance};
  const ChunkTimes times = chunkTimes(cluster, plan);
  StepCost cost{assumptions.stack.name, assumptions.imbalance};
  cost.costs = costsOf(cluster, plan, times);
  std::vector<ChunkPairs> pairs;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    pairs.push_back(pairsOf(cluster, plan, stage, times));
    addPairs(cost.costs, stage, pairs.back());
  }
  const auto stages = double(plan.stages.size());
  cost.seconds = makespanOf(plan, cost.costs);
  double busy = 0;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StageWork work = workOf(plan.stages[stage], times[stage], pairs[stage]);
    addParts(cost, work, 1 / stages);
    cost.hardwareFlops += work.layers.flops * double(plan.mesh.worldSize()) / stages;
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
