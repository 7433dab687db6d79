#include "compiler/assemble/TaskTimes.h"

#include "dialects/mg/Target.h"
#include "plan/cost/ProgramTime.h"

using namespace mlir;

namespace mgc {

Result<cost::Machine> machineNamedIn(ModuleOp module) {
  const std::string &machine = trainingOf(module).machine;
  if (machine.starts_with('{'))
    return cost::parseMachine(machine);
  if (!machine.empty())
    return cost::findMachine(machine);
  auto target = module->getAttrOfType<StringAttr>(kTargetAttr);
  return cost::machineForTarget(target ? std::string_view(target.getValue()) : plan::nameOf(plan::Target::cpu));
}

Result<ProgramSeconds> ProgramSeconds::of(ModuleOp module, const ProgramDecisions &programs) {
  MGC_ASSIGN(machine, machineNamedIn(module));
  const plan::Mesh mesh = meshOf(module);
  const cost::Cluster cluster{machine, mesh, targetOf(module)};
  ProgramSeconds out;
  for (const auto &[function, number] : programs.byFunction)
    out.seconds_[function] = cost::secondsOf(cluster, programs.programs[size_t(number)].program).seconds();
  out.messages_ = cost::messageRates(cluster);
  return out;
}

double ProgramSeconds::of(const BlockFunction &function) const {
  if (!function)
    return 0;
  const auto found = seconds_.find(func::FuncOp(function.function).getName().str());
  return found == seconds_.end() ? 0 : found->second;
}

double ProgramSeconds::message(int64_t bytes) const {
  return messages_.latency + messages_.secondsPerByte * double(bytes);
}

schedule::ChunkCost ProgramSeconds::of(const ChunkLayout &chunk) const {
  const auto all = [&](plan::Task task) {
    double seconds = 0;
    for (const ChunkLayout::Call &call : chunk.callsOf(task))
      seconds += call.function ? of(*call.function) : 0;
    return seconds;
  };
  return {all(plan::Task::forward), all(plan::Task::backward), all(plan::Task::input), all(plan::Task::weight)};
}

Status addTimes(ModuleOp module, const std::vector<StageDecisions> &stages, const ProgramDecisions &programs,
                schedule::Problem &problem) {
  MGC_ASSIGN(seconds, ProgramSeconds::of(module, programs));
  problem.costs.resize(problem.shape.chunks());
  for (size_t stage = 0; stage < stages.size(); ++stage)
    for (size_t chunk = 0; chunk < std::min(stages[stage].chunks.size(), size_t(problem.shape.virtualStages)); ++chunk)
      problem.costs[problem.shape.globalChunk(int64_t(stage), int64_t(chunk))] =
          seconds.of(stages[stage].chunks[chunk]);
  if (!problem.bytes.empty() && !problem.bytes.front().empty()) // else no message
    problem.messageSeconds = seconds.message(problem.bytes[0][0][size_t(schedule::BufferKind::output)]);
  return Status::ok();
}

} // namespace mgc
