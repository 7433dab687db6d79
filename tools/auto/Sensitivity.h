// mgc compile --sensitivity: whether the order of the first layouts is another on machines that differ a little.
#pragma once

#include "plan/cost/Machine.h"
#include "tools/auto/ProveLayouts.h"

namespace mgc::tools {

struct MachineChange {
  std::string text; // "links at 0.8 of their bandwidth"
  cost::Machine machine;
};
std::vector<MachineChange> changesOf(const cost::Machine &machine);

// `proofs`: with the seconds on the machines of `changes`.
std::vector<ChangedMachine> sensitivityOf(const std::vector<Proof> &proofs, const std::vector<MachineChange> &changes);

} // namespace mgc::tools
