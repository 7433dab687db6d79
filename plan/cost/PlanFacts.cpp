// See PlanFacts.h.
#include "plan/cost/PlanFacts.h"

#include "plan/EvenLoad.h"
#include "plan/Expand.h"
#include "plan/Plan.h"
#include "plan/RowRoom.h"
#include "plan/cost/PlanWalk.h"
#include "plan/mesh/Mesh.h"
#include "plan/play/Picture.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

using namespace mgc;
using namespace mgc::plan;
using namespace mgc::cost;

namespace {

// --- Traffic of one instruction

std::string joined(const std::vector<std::string> &parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

// "tp" for the axes tpg, tpr when the mesh calls them so together.
std::string nameOf(const Mesh &mesh, const Axes &axes) {
  Axes primitive = primitiveAxes(mesh, axes);
  if (primitive.size() > 1)
    for (const auto &[name, list] : mesh.named)
      if (list == primitive)
        return name;
  return joined(primitive);
}

std::string overOf(const Mesh &mesh, const RankGroup &group) {
  return group.stages.empty() ? nameOf(mesh, group.axes) : fmt::format("stages {}", fmt::join(group.stages, ", "));
}

// --- One stage

struct WorkTotals {
  double flops = 0;
  std::vector<double> attention;                                  // FLOPs of each rank along the axes of sequences
  std::map<std::pair<std::string, std::string>, Traffic> traffic; // by operation and group

  void add(const Traffic &one, int64_t times) {
    Traffic &sum =
        traffic.try_emplace({one.operation, one.over}, Traffic{one.operation, one.over, one.ranks}).first->second;
    sum.count += one.count * times;
    sum.bytes += one.bytes * double(times);
  }
  void add(const WorkTotals &other, int64_t times) {
    flops += other.flops * double(times);
    attention.resize(std::max(attention.size(), other.attention.size()));
    for (size_t i = 0; i < other.attention.size(); ++i)
      attention[i] += other.attention[i] * double(times);
    for (const auto &[key, one] : other.traffic)
      add(one, times);
  }
};

// FLOPs on each rank of one group along the axes of sequences.
std::vector<double> flopsOfRanks(const Mesh &mesh, const plan::Work &work) {
  std::vector<double> flops;
  for (int64_t rank : groupOf(mesh, 0, plan::axesOf(mesh, plan::AxisRole::sequence)))
    flops.push_back(work.flops * (work.shares.empty() ? 1 : work.shares[coordinate(mesh, rank, work.axes)]));
  return flops;
}

WorkTotals totalsOf(const Mesh &mesh, const Program &program) {
  WorkTotals totals;
  const EvenLoad load(mesh, program);
  forEachInstruction(program, [&](const Instruction &instruction) {
    const plan::Work work = load.workOf(instruction);
    totals.flops += work.flops;
    if (kindOf(instruction.body) == WorkKind::attention)
      totals.add({.attention = flopsOfRanks(mesh, work)}, 1);
    if (const std::optional<RankGroup> group = groupOf(instruction.body)) {
      const plan::Communication moved = communicationOf(mesh, instruction.body);
      totals.add({std::string(moved.operation), overOf(mesh, *group), groupSize(mesh, *group), 1, moved.bytesSent}, 1);
    }
  });
  return totals;
}

std::vector<WorkTotals> totalsOfChunks(const StagePlan &stage, const std::vector<WorkTotals> &programs) {
  std::vector<WorkTotals> chunks;
  for (const Chunk &chunk : stage.chunks) {
    WorkTotals &totals = chunks.emplace_back();
    forEachCall(chunk, [&](const Call &call, int64_t runs) { totals.add(programs[call.program], runs); });
  }
  return chunks;
}

WorkTotals totalsOfStep(const StagePlan &stage, const std::vector<WorkTotals> &chunks) {
  WorkTotals totals;
  const std::vector<int64_t> runs = runsOfChunks(stage);
  for (size_t i = 0; i < chunks.size(); ++i)
    if (runs[i] > 0)
      totals.add(chunks[i], runs[i]);
  forEachStep(stage, [&](const ScheduleStep &step, int64_t count) {
    if (step.kind != ScheduleStep::Kind::send)
      return;
    const Ring &ring = stage.rings[step.ring];
    totals.add({"send", fmt::format("stage {}", ring.peer), 2, 1, double(ring.bytes)}, count);
  });
  return totals;
}

int64_t parametersOfRank(const Plan &plan, int64_t stage) {
  int64_t sum = 0;
  for (const Parameter &parameter : plan.parameters)
    for (const Parameter::Place &place : parameter.places) {
      int64_t elements = place.stage == stage && !isCounter(plan, parameter) ? place.count : 0;
      for (const ParameterDim &dim : parameter.dims)
        elements *= dim.size / groupSize(plan.mesh, dim.axes);
      sum += elements;
    }
  return sum;
}

// The numbers of the instances whose parameters the stage has, of the encoder's layers or of the others.
std::vector<LayerRange> layersOf(const Plan &plan, int64_t stage, bool ofEncoder) {
  std::vector<LayerRange> places, joined;
  for (const Parameter &parameter : plan.parameters)
    if (isNumbered(parameter) && parameter.ofEncoder == ofEncoder)
      for (const Parameter::Place &place : parameter.places)
        if (place.stage == stage)
          places.push_back({place.first, place.first + place.count});
  std::ranges::sort(places, {}, &LayerRange::begin);
  for (const LayerRange &place : places) {
    if (joined.empty() || joined.back().end < place.begin)
      joined.push_back(place);
    joined.back().end = std::max(joined.back().end, place.end);
  }
  return joined;
}

std::vector<double> sharesOf(std::vector<double> work) {
  const double sum = std::accumulate(work.begin(), work.end(), 0.0);
  for (double &one : work)
    one *= double(work.size()) / sum;
  return work.size() > 1 && sum > 0 ? work : std::vector<double>();
}

using Layers = std::map<std::pair<std::string, int64_t>, LayerPolicy>; // by block and layer

// A copy behind the forward of a layer is of what it saves.
void addOffloaded(const Plan &plan, const Chunk &chunk, Layers &layers) {
  Layers::iterator before = layers.end();
  for (const Call &call : expandedCalls(chunk)) {
    const Program &program = plan.programs[call.program];
    if (hasHostCopies(program) && before != layers.end())
      before->second.isOffloaded = true;
    else if (const auto layer = layers.find({blockOf(program), call.instance}); layer != layers.end())
      before = layer;
  }
}

// Forwards in a backward recompute: with the backward behind them they are a unit.
void addUnits(const Plan &plan, const Chunk &chunk, Layers &layers) {
  std::vector<LayerPolicy *> unit;
  for (const Call &call : expandedCalls(chunk)) {
    const Program &program = plan.programs[call.program];
    const auto layer = layers.find({blockOf(program), call.instance});
    if (layer == layers.end())
      continue;
    unit.push_back(&layer->second);
    if (isForward(program))
      continue;
    for (LayerPolicy *member : unit)
      member->unit = std::max(member->unit, int64_t(unit.size()));
    unit.clear();
  }
}

// By the calls of the stage's microbatches, in ascending order of layers: those of forward say what a layer keeps, where backward
// recomputes what another policy saves. A loss has no forward.
std::vector<LayerPolicy> policiesOf(const Plan &plan, const StagePlan &stage) {
  Layers layers;
  for (Task task : kBlockTasks) // forward is the first
    for (const Chunk &chunk : stage.chunks)
      if (chunk.task == task)
        for (const Call &call : expandedCalls(chunk))
          if (const Program &program = plan.programs[call.program]; !hasHostCopies(program))
            layers.try_emplace({blockOf(program), call.instance},
                               LayerPolicy{.block = blockOf(program), .policy = program.policy});
  for (const Chunk &chunk : stage.chunks)
    if (chunk.task == Task::forward)
      addOffloaded(plan, chunk, layers);
    else if (chunk.task == Task::backward)
      addUnits(plan, chunk, layers);
  std::set<std::string> told; // blocks
  for (const auto &[layer, policy] : layers)
    if (!policy.policy.empty() || policy.isOffloaded)
      told.insert(layer.first);
  std::vector<LayerPolicy> out;
  for (const auto &[layer, policy] : layers) {
    if (!told.contains(layer.first))
      continue;
    if (out.empty() || !out.back().isLike(policy))
      out.push_back(policy);
    std::vector<LayerRange> &ranges = out.back().layers;
    if (ranges.empty() || ranges.back().end != layer.second)
      ranges.push_back({layer.second, layer.second});
    ++ranges.back().end;
  }
  return out;
}

StageFacts factsOf(const Plan &plan, int64_t index, const WorkTotals &totals) {
  const StagePlan &stage = plan.stages[index];
  StageFacts facts;
  facts.layers = layersOf(plan, index, false);
  facts.encoderLayers = layersOf(plan, index, true);
  facts.policies = policiesOf(plan, stage);
  facts.bytes = stage.bytes;
  facts.leastBytes = stage.leastBytes;
  facts.hostBytes = stage.hostBytes;
  facts.parameters = parametersOfRank(plan, index);
  facts.flops = totals.flops;
  facts.attentionShares = sharesOf(totals.attention);
  for (const Region &region : stage.regions) {
    auto same = [&](const auto &entry) { return entry.first == region.kind; };
    auto found = std::find_if(facts.memory.begin(), facts.memory.end(), same);
    if (found == facts.memory.end())
      facts.memory.emplace_back(region.kind, region.bytes);
    else
      found->second += region.bytes;
  }
  for (const auto &entry : totals.traffic)
    facts.traffic.push_back(entry.second);
  return facts;
}

} // namespace

ParameterCounts mgc::cost::parametersOf(const Plan &plan) {
  ParameterCounts counts;
  for (const Parameter &parameter : plan.parameters) {
    const int64_t elements = isCounter(plan, parameter) ? 0 : elementsOf(parameter);
    counts.all += elements;
    counts.active += std::llround(double(elements) * parameter.activeShare);
    counts.trained += isFrozen(plan, parameter) ? 0 : elements;
  }
  return counts;
}

PlanFacts mgc::cost::factsOf(const Plan &plan, int64_t columns) {
  PlanFacts facts;
  facts.parameters = parametersOf(plan);
  facts.fit = fitOf(plan);
  const std::vector<int64_t> rooms = roomBeyondMean(plan);
  std::vector<WorkTotals> programs;
  for (const Program &program : plan.programs)
    programs.push_back(totalsOf(plan.mesh, program));
  const int64_t ranksPerStage = plan.mesh.worldSize() / stageCount(plan.mesh);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const std::vector<WorkTotals> chunks = totalsOfChunks(plan.stages[stage], programs);
    facts.stages.push_back(::factsOf(plan, int64_t(stage), totalsOfStep(plan.stages[stage], chunks)));
    facts.stages.back().roomBeyondMean = rooms[stage];
    facts.flops += facts.stages.back().flops * double(ranksPerStage);
  }
  facts.picture = schedule::draw(plan, columns);
  return facts;
}
