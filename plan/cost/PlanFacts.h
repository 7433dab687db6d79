// The facts of a plan, in numbers that no machine changes. In: a plan that passed provePlan. Out: per
// stage its memory, parameters, work and traffic, and the picture of the schedule. `mgc explain` prints it.
#pragma once

#include "plan/Plan.h"
#include "plan/cost/Fit.h"

#include <tuple>

namespace mgc::cost {

// Data that one rank sends in one training step for equal operations over equal axes: bytesSent of plan/instructions/Work.h; send: the
// bytes of the message.
struct Traffic {
  std::string operation; // "all_reduce", ..., "send"
  std::string over;      // "tp", "dp", "stages 0, 1", "stage 1"
  int64_t ranks = 0;     // size of the group
  int64_t count = 0;
  double bytes = 0;
};

// Layers [begin, end), each stack's by numbers of its own.
struct LayerRange {
  int64_t begin = 0, end = 0;
  bool operator==(const LayerRange &) const = default;
};

// Layers of a block that have a policy of recomputation.
struct LayerPolicy {
  std::string block, policy; // "layer"; plan::Program::policy
  int64_t unit = 1;          // layers that are recomputed together
  bool isOffloaded = false;  // some of what they save is on the host
  std::vector<LayerRange> layers;
  bool isLike(const LayerPolicy &other) const {
    return std::tie(block, policy, unit, isOffloaded) ==
           std::tie(other.block, other.policy, other.unit, other.isOffloaded);
  }
};

struct StageFacts {
  // In order, with other stages' layers between them; the first of the decoder where there is an encoder.
  std::vector<LayerRange> layers, encoderLayers;
  std::vector<LayerPolicy> policies;                   // blocks of which some program has another than the standard one
  int64_t bytes = 0;                                   // size of a rank's allocation
  int64_t leastBytes = 0, hostBytes = 0;               // as plan::StagePlan
  int64_t roomBeyondMean = 0;                          // plan::roomBeyondMean
  std::vector<std::pair<std::string, int64_t>> memory; // bytes by Region::kind, in order of first appearance
  int64_t parameters = 0;                              // elements on a rank, padding of the vocabulary included
  double flops = 0;                                    // one rank's in a training step; the mean where ranks differ
  // Attention work of each rank along the axes of the role sequence, relative to the mean. Empty: one rank.
  std::vector<double> attentionShares;
  std::vector<Traffic> traffic;
};

// The model's, tied ones once, without padding.
struct ParameterCounts {
  int64_t all = 0;
  int64_t active = 0;  // parameters that a token uses (Parameter::activeShare)
  int64_t trained = 0; // parameters that are not frozen
};
ParameterCounts parametersOf(const plan::Plan &plan);

struct PlanFacts {
  std::vector<StageFacts> stages;
  ParameterCounts parameters;
  std::optional<Fit> fit; // on the machine that the plan was compiled for; nothing: it names none
  double flops = 0;       // all ranks' in a training step
  std::string picture;    // the schedule, a backward two and everything else one unit long
};

// `columns`: of the picture.
PlanFacts factsOf(const plan::Plan &plan, int64_t columns = 120);

} // namespace mgc::cost
