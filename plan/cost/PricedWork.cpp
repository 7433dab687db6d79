// See PricedWork.h.
#include "plan/cost/PricedWork.h"

#include "plan/EvenLoad.h"
#include "plan/cost/InstructionTime.h"
#include "plan/cost/PlanWalk.h"

#include <algorithm>

namespace mgc::cost {

using plan::Instruction;

namespace {

size_t useOf(const plan::Mesh &mesh, const plan::InstructionBody &body, const plan::RankGroup &group) {
  if (std::holds_alternative<plan::ExchangeRows>(body))
    return kRowExchanges;
  if (!group.stages.empty())
    return size_t(plan::AxisRole::stage);
  size_t outermost = 0;
  const plan::Axes names = primitiveAxes(mesh, group.axes);
  for (const plan::Axis &axis : mesh.axes)
    if (std::ranges::find(names, axis.name) != names.end())
      outermost = std::max(outermost, size_t(axis.role));
  return outermost;
}

// The rule of a stack for collectives of a use.
Overlap overlapOf(const SoftwareStack &stack, size_t use) {
  if (use == kRowExchanges || use == size_t(plan::AxisRole::data))
    return stack.overlap.experts;
  return use == size_t(plan::AxisRole::sequence) ? stack.overlap.context : stack.overlap.tensor;
}

PricedCollective pricedCollective(const Cluster &cluster, const plan::InstructionBody &body,
                                  const plan::RankGroup &group) {
  PricedCollective priced;
  priced.use = useOf(cluster.mesh, body, group);
  priced.taken = double(unitsTaken(cluster, body)) / double(cluster.machine.products.units);
  priced.ranks = membersOf(cluster, group).back();
  priced.isGather = communicationOf(cluster.mesh, body).operation == plan::nameOf(plan::Collective::Kind::allGather);
  priced.rule = overlapOf(cluster.stack, priced.use);
  return priced;
}

PricedWork pricedWork(const Cluster &cluster, const Instruction &instruction, const plan::EvenLoad &load,
                      double rowBytes) {
  plan::Work work = load.workOf(instruction);
  if (kindOf(instruction.body) == plan::WorkKind::row)
    work.bytes *= rowBytes;
  PricedWork priced{kindOf(instruction.body), secondsOf(cluster, instruction.body, work), work.flops};
  if (const std::optional<plan::RankGroup> group = groupOf(instruction.body))
    priced.collective = pricedCollective(cluster, instruction.body, *group);
  return priced;
}

std::vector<PricedWork> pricesOnce(const Cluster &cluster, const plan::Program &program, double rowBytes) {
  const plan::EvenLoad load(cluster.mesh, program, cluster.imbalance);
  std::vector<PricedWork> prices;
  for (const Instruction &instruction : program.instructions)
    prices.push_back(pricedWork(cluster, instruction, load, rowBytes));
  return prices;
}

} // namespace

std::vector<PricedWork> pricesOf(const Cluster &cluster, const plan::Program &program, double rowBytes) {
  const std::vector<PricedWork> once = pricesOnce(cluster, program, rowBytes);
  if (program.repeats.empty())
    return once;
  std::vector<PricedWork> prices;
  plan::forEachRun(program.instructions.size(), program.repeats,
                   [&](int64_t number, int64_t) { prices.push_back(once[number]); });
  return prices;
}

std::vector<double> secondsOfInstructions(const Cluster &cluster, const plan::Program &program) {
  std::vector<double> seconds;
  for (const PricedWork &work : pricesOnce(cluster, program, 1))
    seconds.push_back(work.seconds);
  return seconds;
}

} // namespace mgc::cost
