// The cost of an instruction, whatever the machine: its kind states it, plan/cost makes seconds of it, profiles compare it
// with what they measure.
#pragma once

#include "plan/Types.h"

#include <string_view>
#include <vector>

namespace mgc::plan {

// The limit of an instruction, and the name under which profiles sum it. transfer: a step of the schedule, no instruction.
enum class WorkKind { product, attention, row, collective, move, hostCopy, transfer };
template <>
inline constexpr auto enumNames<WorkKind> = std::to_array<std::string_view>(
    {"product", "attention", "row kernel", "collective", "move", "host copy", "transfer"});

// Whether the work keeps the cores of a device so busy that it hides a concurrent collective.
constexpr bool hidesCollectives(WorkKind kind) { return kind == WorkKind::product || kind == WorkKind::attention; }

// A matrix product of [m, k] and [k, n], `count` times.
struct ProductSizes {
  int64_t m = 0, n = 0, k = 0, count = 1;
};

// Work on one rank; where ranks have unequal parts, the mean of them.
struct Work {
  DType type = DType::f32; // type of the factors
  double flops = 0;        // floating point operations
  // Memory traffic, each byte that is read or written counted once. -1: the operands' bytes.
  double bytes = -1;
  bool isBackward = false;   // attention only
  ProductSizes product = {}; // products only
  // The work of a rank relative to the mean, by its coordinate along the axes. Empty: all have as much.
  Axes axes = {};
  std::vector<double> shares = {};
};

// How data moves in a group of n ranks.
//   ring         a block goes around: n - 1 hops
//   ringOrTree   twice around, or up and down a tree where that is faster
//   direct       every rank sends to every other at once
//   neighbour    every rank sends to the next
enum class CommunicationPattern { ring, ringOrTree, direct, neighbour };

// Communication of one rank in a group.
struct Communication {
  std::string_view operation; // "all_gather"
  CommunicationPattern pattern = CommunicationPattern::ring;
  double bytesSent = 0;
};

} // namespace mgc::plan
