// SoftwareStack: how a training program computes the step of a plan, where it does otherwise than this project's runtime: what it fuses,
// repeats and overlaps. A published run is predicted as it ran: the plan's layout, priced by the stack that ran it.
// docs/cost.md, Stacks, describes the file.
#pragma once

#include "plan/Reflection.h"
#include "runtime/base/Status.h"

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mgc::cost {

// When the collectives of layers are over.
//   waits    before anything else runs
//   follows  hidden by the products and attention behind it, up to what touches its operands: the order of our plans
//   sliced   as many slices as ranks: all but the first are hidden by the product that takes them, or that makes them
enum class Overlap { waits, follows, sliced };

} // namespace mgc::cost

namespace mgc::plan {
template <>
inline constexpr auto enumNames<cost::Overlap> = std::to_array<std::string_view>({"waits", "follows", "sliced"});
} // namespace mgc::plan

namespace mgc::cost {

struct StackAttention {
  // One kernel computes all of attention. Otherwise its products are products of all pairs of positions, and kernels between them
  // pass the scores through memory so often in forward and backward, reads and writes counted.
  bool isFused = true;
  double times = 1; // seconds of the fused kernel, over the machine's: an older one
  double forwardPasses = 0, backwardPasses = 0;
};

// Seconds of the grouped products of experts, over those of one kernel for all groups.
struct StackProducts {
  double grouped = 1;
};

// Bytes of row kernels, over those of the plan's.
struct StackRows {
  double layers = 1, optimizer = 1;
};

struct StackOverlap {
  Overlap tensor = Overlap::follows, context = Overlap::follows, experts = Overlap::follows;
  Overlap units = Overlap::follows; // gathers of parameters and sums of gradients of ZeRO-2 and 3: waits or follows
};

struct SoftwareStack {
  std::string name, description;
  StackAttention attention;
  StackProducts products;
  StackRows rows;
  StackOverlap overlap;
  bool repeatsLastProduct = false; // full recomputation runs all of a layer's forward pass again
  double kernel = 0; // seconds of the host for a kernel: a program takes as long as those of all its kernels
  std::map<std::string, std::string> sources; // by field: where its numbers come from
};

// The names of the stacks that the library has; the first is this project's own.
std::vector<std::string> stackNames();

// The stack of that name, or of a file where `nameOrPath` is none and a file is there. Errors name the file and field, what was
// found and what was expected.
Result<SoftwareStack> findStack(const std::string &nameOrPath);

// The text of the stack's file as it stands, with the same errors.
Result<std::string> stackText(const std::string &nameOrPath);

// This project's own runtime.
const SoftwareStack &ownStack();

// A stack from the text of its file; the text is hostile.
Result<SoftwareStack> parseStack(std::string_view text);

} // namespace mgc::cost
