// See Sensitivity.h.
#include "tools/auto/Sensitivity.h"

namespace mgc::tools {

namespace {

using cost::Machine;

// Numbers of a machine's file that are measured or fitted, and so never exact.
struct FittedRates {
  const char *name;
  void (*scale)(Machine &machine, double factor);
};

constexpr FittedRates kFittedRates[] = {
    {"products",
     [](Machine &machine, double factor) {
       for (cost::ProductTile &tile : machine.products.tiles)
         tile.fraction *= factor;
     }},
    {"attention", [](Machine &machine,
                     double factor) { machine.attention.forward *= factor, machine.attention.backward *= factor; }},
    {"memory", [](Machine &machine, double factor) { machine.memory.fraction *= factor; }},
};

} // namespace

std::vector<MachineChange> changesOf(const Machine &machine) {
  constexpr double kLinks = 0.8, kError = 0.05;
  std::vector<MachineChange> changes = {{fmt::format("links at {} of their bandwidth", kLinks), machine}};
  for (cost::LinkLevel &level : changes.back().machine.links)
    level.bandwidth *= kLinks;
  for (const FittedRates &rates : kFittedRates)
    for (const double error : {-kError, kError}) {
      changes.push_back(
          {fmt::format("{} {:.0f} % {}", rates.name, 100 * kError, error < 0 ? "slower" : "faster"), machine});
      rates.scale(changes.back().machine, 1 + error);
    }
  return changes;
}

std::vector<ChangedMachine> sensitivityOf(const std::vector<Proof> &proofs, const std::vector<MachineChange> &changes) {
  std::vector<ChangedMachine> machines;
  for (size_t i = 0; i < changes.size(); ++i) {
    ChangedMachine &machine = machines.emplace_back(ChangedMachine{changes[i].text, {}});
    for (const Proof &proof : proofs)
      if (proof.trial.hasPlan())
        machine.seconds.push_back(proof.trial.secondsOn[i]);
  }
  return machines;
}

} // namespace mgc::tools
