// Whether the memory of this machine suffices for the ranks that run on it, before any of it is taken: an allocation
// succeeds where the kernel overcommits, and what is killed later is somebody's process.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/MachineMemory.h"
#include "runtime/base/Status.h"

#include <span>

namespace mgc {

// Bytes that a rank of the stage takes of the machine's memory: for a CPU all, for another device what the plan has on the host.
inline int64_t machineBytes(const plan::Plan &plan, const plan::StagePlan &stage) {
  return plan.target == plan::Target::cpu ? stage.bytes : stage.hostBytes;
}
// Whether ranks take any.
bool takesMachineMemory(const plan::Plan &plan);

// "3.1 times less"; of less than twice as much the difference, since 1.04 times less says little. available > 0.
std::string howMuchLess(int64_t bytes, int64_t available);

struct LocalRank {
  int64_t rank = 0;
  bool isOwn = true;       // belongs to this process
  std::string memoryGroup; // memory group of its process
  int64_t extra = 0;       // bytes that it needs in addition to the plan's
};

// The limits are as they were before any of `ranks`, which are all of this machine, allocated. `threads`: of this
// process, whose stacks take address space too. An error tells what is needed and available, and what would fit.
Status verifyMemory(const plan::Plan &plan, std::span<const LocalRank> ranks, int64_t threads,
                    std::span<const MemoryLimit> limits);

} // namespace mgc
