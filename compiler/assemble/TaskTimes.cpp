#include "compiler/assemble/TaskTimes.h"

#include "dialects/mg/Target.h"
#include "plan/cost/ProgramTime.h"

using namespace mlir;

namespace mgc {

namespace {

Result<cost::Machine> machineNamedIn(ModuleOp module) {
  const std::string &machine = trainingOf(module).machine;
  if (machine.starts_with('{'))
    return cost::parseMachine(machine);
  if (!machine.empty())
    return cost::findMachine(machine);
  auto target = module->getAttrOfType<StringAttr>(kTargetAttr);
  return cost::machineForTarget(target ? std::string_view(target.getValue()) : plan::nameOf(plan::Target::cpu));
}

// Seconds of the tasks of one microbatch in a chunk of these instances, without what reduces gradients of units: it is the same in every
// order. `seconds`: those of the programs.
schedule::ChunkCost costOf(ArrayRef<Instance> chunk, const ProgramDecisions &programs,
                           const std::vector<double> &seconds) {
  schedule::ChunkCost cost{0, 0, 0, 0};
  const auto add = [&](double &sum, const BlockFunction &function) {
    if (!function)
      return;
    func::FuncOp made = function.function;
    const auto program = programs.byFunction.find(made.getName().str());
    sum += program == programs.byFunction.end() ? 0 : seconds[size_t(program->second)];
  };
  for (const Instance &instance : chunk) {
    add(cost.forward, instance.block->forward);
    add(cost.backward, instance.block->backward);
    add(cost.input, instance.block->input);
    add(cost.weight, instance.block->weight);
  }
  return cost;
}

} // namespace

Status addTimes(ModuleOp module, const std::vector<StageDecisions> &stages, const ProgramDecisions &programs,
                schedule::Problem &problem) {
  MGC_ASSIGN(machine, machineNamedIn(module));
  const plan::Mesh mesh = meshOf(module);
  const cost::Cluster cluster{machine, mesh, targetOf(module)};
  std::vector<double> seconds;
  for (const AssembledProgram &program : programs.programs)
    seconds.push_back(cost::secondsOf(cluster, program.program).seconds());
  problem.costs.resize(problem.shape.chunks());
  for (size_t stage = 0; stage < stages.size(); ++stage)
    for (size_t chunk = 0; chunk < std::min(stages[stage].chunks.size(), size_t(problem.shape.virtualStages)); ++chunk)
      problem.costs[problem.shape.globalChunk(int64_t(stage), int64_t(chunk))] =
          costOf(stages[stage].chunks[chunk].instances(), programs, seconds);
  const cost::MessageRates messages = cost::messageRates(cluster);
  if (problem.bytes.empty() || problem.bytes.front().empty())
    return Status::ok(); // no message
  const int64_t bytes = problem.bytes[0][0][size_t(schedule::BufferKind::output)];
  problem.messageSeconds = messages.latency + messages.secondsPerByte * double(bytes);
  return Status::ok();
}

} // namespace mgc
