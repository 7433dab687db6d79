// Whether a plan fits into the memory of the machine that it was compiled for, and what else would (docs/memory.md, Does it fit).
// For people: `mgc compile`, `mgc explain`, pages and `mgrun` show it, and nothing else reads it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mgc::plan {

struct PlanFit {
  // Flags that were tried in addition to the plan's, or in their place: how many ranks there are then, bytes of the largest, and a
  // step as predicted.
  struct Change {
    std::string flags;
    int64_t ranks = 0, bytes = 0;
    double seconds = 0;
    bool operator==(const Change &) const = default;
  };
  // The name of the machine; empty: that is not known, as for CPUs where no machine was named.
  std::string machine;
  // Memory of the device, and of the host for each device.
  int64_t deviceBytes = 0, hostBytes = 0;
  // Some that fit where the plan does not, the fastest first.
  std::vector<Change> changes;
  bool operator==(const PlanFit &) const = default;
};

} // namespace mgc::plan
