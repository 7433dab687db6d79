// The memory that a plan's ranks take, beside that of a machine's devices and hosts.
#pragma once

#include "plan/Plan.h"

#include <optional>
#include <string>

namespace mgc::cost {

struct Machine;

struct FitOfMemory {
  int64_t needed = 0, available = 0; // bytes of the rank that takes most
  int64_t spare() const { return available - needed; }
};

struct Fit {
  std::string machine; // its name
  FitOfMemory device, host;
  bool fits() const { return device.spare() >= 0 && host.spare() >= 0; }
};

Fit fitOf(const plan::Plan &plan, const Machine &machine);
// On the machine that the plan was compiled for; nothing: it names none.
std::optional<Fit> fitOf(const plan::Plan &plan);

// "fits h100: a rank needs 4.00 GiB of 74.51 GiB, 70.51 GiB to spare"
std::string describe(const Fit &fit);
// Whether the plan has changes for it: it does not fit, and is on the plan's machine.
bool knowsChanges(const plan::Plan &plan, const Fit &fit);
// A line for each change that the plan knows, under a head; empty: none.
std::string changesText(const plan::Plan &plan, const Fit &fit);

} // namespace mgc::cost
