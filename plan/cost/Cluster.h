// Collectives and messages on the links of a machine. In: a machine, a mesh and a plan's target. Out: seconds.
//
// Ranks are numbered as the mesh does (tp fastest), and a domain of a level of links is so many consecutive ranks.
// With 8 ranks to a node, tp 4, dp 16 and pp 2 of 128 ranks, a group of tp lies inside a node; one of dp has 2 ranks
// in each of 8 nodes; one of pp has 1 rank in each of 2 nodes.
#pragma once

#include "plan/cost/Machine.h"
#include "plan/cost/Stack.h"
#include "plan/instructions/Instruction.h"

namespace mgc::cost {

// Devices of the machine that run a plan of the target, a rank of the mesh each, as the stack does. The machine, the mesh and the
// stack must outlive it.
struct Cluster {
  const Machine &machine;
  const plan::Mesh &mesh;
  plan::Target target = plan::Target::cpu;
  const SoftwareStack &stack = ownStack();
  double imbalance = 1; // rows of experts of the fullest rank, over the mean
};

// The ranks of a group inside one domain of each level of links; of the last level: all.
using GroupMembers = std::vector<int64_t>;

// The least that any group along these axes has. Where domains cut groups unevenly: a divisor of the group.
GroupMembers membersOf(const Cluster &cluster, const plan::Axes &axes);
GroupMembers membersOf(const Cluster &cluster, const plan::RankGroup &group);

// Seconds of a communication once all its ranks have come, without the launch, by the pattern of its traffic:
//   ring         sum over levels of hops x latency, + the bytes sent over the slowest level; n - 1 hops
//   ringOrTree   twice as many hops, or where it is faster up and down a tree: 2 ceil(log2 of the fan-out) hops of each level
//   direct       every rank sends to every other at once: one latency, each level carries what goes through it
//   neighbour    every rank sends to the next: one latency, the bytes sent over the slowest level
// A collective takes LinkLevel::base besides, once: the most of the levels that it passes. A ring passes the border of a domain once, with as many links as it has ranks in the domain: p ranks of a node send
// with p adapters. In: a communication.
double communicationSeconds(const Cluster &cluster, const plan::InstructionBody &body);

// Units of the device that a communication takes from concurrent products: those of the outermost level that it passes.
int64_t unitsTaken(const Cluster &cluster, const plan::InstructionBody &body);

// Messages between neighbouring stages, over the slowest link that one of them takes.
struct MessageRates {
  double latency = 0, secondsPerByte = 0;
};
MessageRates messageRates(const Cluster &cluster);

} // namespace mgc::cost
