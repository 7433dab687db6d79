// See PipelineJson.h.
#include "tools/page/PipelineJson.h"

#include "plan/Expand.h"
#include "plan/cost/PlanWalk.h"

using namespace mgc;
using namespace mgc::cost;
using mgc::tools::nanoseconds;
using Json = nlohmann::json;

namespace {

Json jsonOf(const Cluster &cluster, const plan::Program &program) {
  const std::vector<double> seconds = secondsOfInstructions(cluster, program);
  std::vector<int64_t> runs(seconds.size());
  plan::forEachRun(seconds.size(), program.repeats, [&](int64_t number, int64_t) { ++runs[number]; });
  Json instructions = Json::array();
  for (size_t i = 0; i < seconds.size(); ++i) {
    const plan::Instruction &instruction = program.instructions[i];
    instructions.push_back({instruction.label, nameOf(kindOf(instruction.body)), nanoseconds(seconds[i]), runs[i]});
  }
  return {{"name", program.name}, {"instructions", std::move(instructions)}};
}

Json jsonOf(const plan::Chunk &chunk) {
  Json calls = Json::array();
  forEachCall(chunk, [&](const plan::Call &call, int64_t runs) { calls.push_back({call.program, runs}); });
  return {{"name", chunk.name()}, {"task", nameOf(chunk.task)}, {"calls", std::move(calls)}};
}

Json boxesOf(const plan::StagePlan &stage, const schedule::StepTimes &times) {
  Json boxes = Json::array();
  size_t index = 0;
  for (const plan::ExpandedStep &step : plan::expandedSchedule(stage)) {
    if (step.kind == plan::ExpandedStep::Kind::run)
      boxes.push_back({step.chunk, step.microbatch, nanoseconds(times.start[index]), nanoseconds(times.end[index])});
    ++index;
  }
  return boxes;
}

} // namespace

Json mgc::tools::pipelineJson(const plan::Plan &plan, const Machine &machine,
                              const std::vector<schedule::StepTimes> &times) {
  const Cluster cluster{machine, plan.mesh, plan.target};
  Json programs = Json::array(), stages = Json::array();
  for (const plan::Program &program : plan.programs)
    programs.push_back(jsonOf(cluster, program));
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    Json chunks = Json::array();
    for (const plan::Chunk &chunk : plan.stages[stage].chunks)
      chunks.push_back(jsonOf(chunk));
    stages.push_back({{"chunks", std::move(chunks)}, {"boxes", boxesOf(plan.stages[stage], times[stage])}});
  }
  return {{"programs", std::move(programs)}, {"stages", std::move(stages)}};
}
