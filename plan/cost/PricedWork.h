// Prices of the works of a program (plan/Joins.h). In: a program and the devices that run it. Out: seconds of each work by itself, and
// how it goes along with others (Stack.h).
#pragma once

#include "plan/cost/ProgramTime.h"

#include <optional>
#include <vector>

namespace mgc::cost {

// The rest that is needed of a collective.
struct PricedCollective {
  size_t use = 0;                // outermost role of its axes, or kRowExchanges
  double taken = 0;              // share of the device's units
  int64_t ranks = 1;             // in its group
  bool isGather = false;         // for what follows; others are of what came before
  Overlap rule = Overlap::waits; // the stack's, for a collective of a layer
};

struct PricedWork {
  plan::WorkKind kind = plan::WorkKind::move;
  double seconds = 0, flops = 0;
  std::optional<PricedCollective> collective = {};
};

inline bool isHostCopy(const PricedWork &work) { return work.kind == plan::WorkKind::hostCopy; }

// `rowBytes`: bytes of row kernels over those of the program.
std::vector<PricedWork> pricesOf(const Cluster &cluster, const plan::Program &program, double rowBytes = 1);

// Seconds of each instruction of the program by itself, run once: a collective also where it is hidden.
std::vector<double> secondsOfInstructions(const Cluster &cluster, const plan::Program &program);

} // namespace mgc::cost
