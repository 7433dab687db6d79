// The time of a training step, predicted. In: a plan that passed provePlan, and a machine. Out:
// seconds, what takes them, and how much of the machine's peak they use. docs/cost.md defines every number.
#pragma once

#include "plan/cost/RunTime.h"
#include "plan/play/PlanLists.h"

namespace mgc::cost {

// Seconds of the parts of a step; their sum is the step. Each is the mean over the stages. Where ranks of a stage have
// unequal work, the slowest counts.
struct StepParts {
  double products = 0, attention = 0, rows = 0, moves = 0;
  double launches = 0;            // the device waits for the host to start kernels; of other stacks than our own
  double tensor = 0, context = 0; // collectives of the layers that nothing hides
  double experts = 0;             // exchanges of rows that nothing hides
  double gradients = 0;           // collectives of gradients and updated parameters that nothing hides
  double optimizer = 0;           // begin, norm, clipping and update, without those
  double hostCopies = 0;          // copies between host and device that nothing hides
  double messages = 0;            // the step is so much longer than with messages that take no time
  double bubble = 0;              // waiting for other stages, with messages that take no time
};

struct StageTime {
  double busy = 0; // seconds of a step
  double idle = 0; // fraction of the step: waiting for messages, other stages, or its gradients
};

struct StepCost {
  std::string stack;    // SoftwareStack::name
  double imbalance = 1; // Cluster::imbalance
  double seconds = 0;   // one training step
  StepParts parts;
  // Seconds of collectives, and of those of experts, hidden behind other work, mean over the stages.
  double hiddenLayers = 0, hiddenExchanges = 0, hiddenGradients = 0;
  double hiddenHostCopies = 0; // behind each other and the update
  std::vector<StageTime> stages;
  schedule::PlayCosts costs;  // the seconds that the schedule was played with
  double tokensPerSecond = 0; // per device, in tokens of the sequences that have labels
  double modelFlops = 0;      // all devices' in a step: ModelFlops.h
  double hardwareFlops = 0;   // the same as the plan runs them: matrix products and attention
  // Fractions of the peak at the plan's type.
  double modelUtilisation = 0, hardwareUtilisation = 0;
  double bubble() const { return seconds > 0 ? parts.bubble / seconds : 0; } // fraction of the step
};

// Seconds of all chunks and of messages, but not of pairs of runs. Tasks of all stages take as long as on the slowest. A schedule
// is not needed: the steps of the plan's stages are not read.
schedule::PlayCosts costsOf(const Cluster &cluster, const plan::Plan &plan);

// How the step is computed, where it is not by ourselves with even load: Stack.h; Cluster::imbalance.
struct StepAssumptions {
  const SoftwareStack &stack = ownStack();
  double imbalance = 1;
};

StepCost predict(const plan::Plan &plan, const Machine &machine, const StepAssumptions &assumptions = {});

// The machine that a plan is predicted on where none is named: the one that it was compiled for, if the library has it; else the
// first for its target.
Machine machineOf(const plan::Plan &plan);

} // namespace mgc::cost
