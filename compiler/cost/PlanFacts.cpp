// See PlanFacts.h.
#include "compiler/cost/PlanFacts.h"

#include "compiler/cost/PlanOrders.h"

#include "compiler/schedule/solver/Timing.h"
#include "plan/Plan.h"
#include "plan/Work.h"
#include "plan/mesh/Mesh.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace mgc;
using namespace mgc::plan;
using namespace mgc::cost;

namespace {

// --- Traffic of one instruction

double bytesSent(const Collective &c, double ranks) {
  double block = double(c.outer) * double(c.middle) * double(c.chunk) * double(sizeInBytes(c.type));
  switch (c.kind) {
  case Collective::Kind::allReduce:
    return 2 * block * (ranks - 1) / ranks;
  case Collective::Kind::allGather:
  case Collective::Kind::reduceScatter:
  case Collective::Kind::allToAll:
    return block * (ranks - 1); // `block` is what one rank has of the whole
  }
  return 0;
}

std::string joined(const std::vector<std::string> &parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "tp" for the axes tpg, tpr when the mesh calls them so together.
std::string nameOf(const Mesh &mesh, const Axes &axes) {
  Axes primitive = primitiveAxes(mesh, axes);
  if (primitive.size() > 1)
    for (const auto &[name, list] : mesh.named)
      if (list == primitive)
        return name;
  return joined(primitive);
}

std::string overOf(const Mesh &mesh, const Collective &c) {
  return c.stages.empty() ? nameOf(mesh, c.axes) : fmt::format("stages {}", fmt::join(c.stages, ", "));
}

// --- One stage

struct Work {
  double flops = 0;
  std::vector<double> attention; // FLOPs of each rank along the axes of sequences
  std::map<std::pair<std::string, std::string>, Traffic> traffic; // by operation and group

  void add(const Traffic &one, int64_t times) {
    Traffic &sum = traffic.try_emplace({one.operation, one.over}, Traffic{one.operation, one.over, one.ranks})
                       .first->second;
    sum.count += one.count * times;
    sum.bytes += one.bytes * double(times);
  }
  void add(const Work &other, int64_t times) {
    flops += other.flops * double(times);
    attention.resize(std::max(attention.size(), other.attention.size()));
    for (size_t i = 0; i < other.attention.size(); ++i)
      attention[i] += other.attention[i] * double(times);
    for (const auto &[key, one] : other.traffic)
      add(one, times);
  }
};

// FLOPs of the attention on each rank of one group along the axes of sequences.
std::vector<double> attentionWork(const Mesh &mesh, const Attention &attention) {
  std::vector<double> work;
  const int64_t parts = groupSize(mesh, attention.queryAxes);
  for (int64_t rank : groupOf(mesh, 0, plan::axesOf(mesh, plan::AxisRole::sequence)))
    work.push_back(flopsOf(attention) *
                   (attention.zigzag > 0
                        ? shareOfPart(attention, coordinate(mesh, rank, attention.queryAxes), parts)
                        : 1));
  return work;
}

Work workOf(const Mesh &mesh, const Program &program) {
  Work work;
  for (const Instruction &instruction : program.instructions) {
    work.flops += flopsOf(instruction.body);
    if (auto *attention = std::get_if<Attention>(&instruction.body))
      work.add({.attention = attentionWork(mesh, *attention)}, 1);
    if (auto *c = std::get_if<Collective>(&instruction.body)) {
      int64_t ranks = groupSize(mesh, *c);
      work.add({std::string(plan::nameOf(c->kind)), overOf(mesh, *c), ranks, 1, bytesSent(*c, double(ranks))},
               1);
    }
  }
  return work;
}

std::vector<Work> worksOfChunks(const StagePlan &stage, const std::vector<Work> &programs) {
  std::vector<Work> works;
  for (const Chunk &chunk : stage.chunks) {
    Work &work = works.emplace_back();
    for (const Call &call : chunk.calls)
      work.add(programs[call.program], 1);
  }
  return works;
}

// A chunk may run in parts: one of them has the last call.
bool runsLastCall(const Chunk &chunk, const ScheduleStep &step) {
  const auto calls = static_cast<int64_t>(chunk.calls.size());
  return step.endCall(chunk.calls.size()) == calls && (calls == 0 || step.firstCall < calls);
}

Work workOfStep(const StagePlan &stage, const std::vector<Work> &chunks) {
  Work work;
  for (const ScheduleStep &step : stage.schedule) {
    if (step.kind == ScheduleStep::Kind::run && runsLastCall(stage.chunks[step.chunk], step))
      work.add(chunks[step.chunk], 1);
    if (step.kind == ScheduleStep::Kind::send)
      work.add({"send", fmt::format("stage {}", step.peer), 2, 1, double(step.bytes)}, 1);
  }
  return work;
}

int64_t parametersOf(const Plan &plan, int64_t stage) {
  int64_t sum = 0;
  for (const Parameter &parameter : plan.parameters)
    for (const Parameter::Place &place : parameter.places) {
      int64_t elements = place.stage == stage ? 1 : 0;
      for (const ParameterDim &dim : parameter.dims)
        elements *= dim.size / groupSize(plan.mesh, dim.axes);
      sum += elements;
    }
  return sum;
}

int64_t parametersOf(const Plan &plan) {
  int64_t sum = 0;
  for (const Parameter &parameter : plan.parameters) {
    int64_t elements = 1;
    for (const ParameterDim &dim : parameter.dims)
      elements *= dim.valid;
    sum += elements;
  }
  return sum;
}

std::vector<double> sharesOf(std::vector<double> work) {
  const double sum = std::accumulate(work.begin(), work.end(), 0.0);
  for (double &one : work)
    one *= double(work.size()) / sum;
  return work.size() > 1 && sum > 0 ? work : std::vector<double>();
}

StageFacts factsOf(const Plan &plan, int64_t index, const Work &work) {
  const StagePlan &stage = plan.stages[index];
  StageFacts facts;
  facts.layersBegin = stage.layersBegin;
  facts.layersEnd = stage.layersEnd;
  facts.bytes = stage.bytes;
  facts.leastBytes = stage.leastBytes;
  facts.parameters = parametersOf(plan, index);
  facts.flops = work.flops;
  facts.attentionShares = sharesOf(work.attention);
  for (const Region &region : stage.regions) {
    auto same = [&](const auto &entry) { return entry.first == region.kind; };
    auto found = std::find_if(facts.memory.begin(), facts.memory.end(), same);
    if (found == facts.memory.end())
      facts.memory.emplace_back(region.kind, region.bytes);
    else
      found->second += region.bytes;
  }
  for (const auto &entry : work.traffic)
    facts.traffic.push_back(entry.second);
  return facts;
}

// --- The schedule

schedule::ScheduledTask taskOf(const Chunk &chunk, int64_t microbatch) {
  return {chunk.task, isPerVirtualStage(chunk.task) ? chunk.virtualStage : -1, microbatch};
}

schedule::Solution solutionOf(const Plan &plan) {
  schedule::Solution solution;
  solution.schedule = plan.schedule;
  solution.shape = cost::shapeOf(plan);
  for (const StagePlan &stage : plan.stages) {
    std::vector<schedule::Step> &steps = solution.stages.emplace_back().steps;
    std::map<std::pair<int64_t, int64_t>, int64_t> parts; // (chunk, microbatch) -> those so far
    for (const ScheduleStep &step : stage.schedule) {
      schedule::Step &out = steps.emplace_back();
      out.kind = schedule::Step::Kind(step.kind);
      if (step.kind == ScheduleStep::Kind::run)
        out.task = taskOf(stage.chunks[step.chunk], step.microbatch);
      if (step.kind == ScheduleStep::Kind::run && step.callCount >= 0)
        out.task.part = parts[{step.chunk, step.microbatch}]++;
      out.peer = step.peer;
      out.value = step.value;
      out.microbatch = step.microbatch;
      out.bytes = step.bytes;
      out.waits = step.waits;
    }
  }
  return solution;
}

// Seconds of a machine that does one FLOP in a second.
schedule::Costs costsOf(const Plan &plan, const schedule::Shape &shape,
                        const std::vector<std::vector<Work>> &chunks) {
  schedule::Costs costs;
  costs.chunks.assign(shape.chunks(), {0, 0, 0, 0});
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (size_t i = 0; i < plan.stages[stage].chunks.size(); ++i) {
      schedule::ScheduledTask task = taskOf(plan.stages[stage].chunks[i], 0);
      schedule::ChunkCost &cost = costs.chunks[shape.globalChunk(int64_t(stage), task.chunk)];
      double flops = chunks[stage][i].flops;
      if (task.kind == schedule::TaskKind::forward)
        cost.forward = flops;
      if (task.kind == schedule::TaskKind::backward)
        cost.backward = flops;
      if (task.kind == schedule::TaskKind::input)
        cost.input = flops;
      if (task.kind == schedule::TaskKind::weight)
        cost.weight = flops;
    }
  return costs;
}

} // namespace

PlanFacts mgc::cost::factsOf(const Plan &plan, int64_t columns) {
  PlanFacts facts;
  facts.parameters = parametersOf(plan);
  std::vector<Work> programs;
  for (const Program &program : plan.programs)
    programs.push_back(workOf(plan.mesh, program));
  std::vector<std::vector<Work>> chunks;
  int64_t ranksPerStage = plan.mesh.worldSize() / stageCount(plan.mesh);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    chunks.push_back(worksOfChunks(plan.stages[stage], programs));
    facts.stages.push_back(::factsOf(plan, int64_t(stage), workOfStep(plan.stages[stage], chunks.back())));
    facts.flops += facts.stages.back().flops * double(ranksPerStage);
  }
  schedule::Solution solution = solutionOf(plan);
  schedule::Timing timing = schedule::simulate(solution, costsOf(plan, solution.shape, chunks));
  for (size_t stage = 0; stage < facts.stages.size(); ++stage)
    facts.stages[stage].idle = timing.stages[stage].idle;
  facts.bubble = timing.idle;
  facts.picture = schedule::draw(solution, {}, columns);
  return facts;
}
