// Whether the memory of this machine suffices for a run on CPUs, before any of it is taken.
//   in:  the plans of the run, its options, who shares the machine
//   out: an error that says what is needed and what would fit (VerifyMemory.h)
#pragma once

#include "runtime/comm/bootstrap/Processes.h"
#include "runtime/exec/VerifyMemory.h"
#include "runtime/train/Training.h"

namespace mgc {

// The ranks of this machine and the bytes of each in addition to the plan's: the plan that evaluates, and the copy of
// the state that --async-save writes. Null `evaluation`: there is none; null `processes`: all ranks are in this one.
std::vector<LocalRank> ranksOfRun(const TrainingOptions &options, const plan::Plan &plan, const plan::Plan *evaluation,
                                  const Processes *processes);

// For people: "2 ranks of this machine take 17.2 MiB, of 5.1 GiB (MemAvailable of /proc/meminfo)", the tightest limit; of a plan
// for a device its own memory.
std::string describeMemory(const plan::Plan &plan, std::span<const LocalRank> ranks,
                           std::span<const MemoryLimit> limits);

// `limits` are as they were before any process of the run allocated.
Status verifyRunMemory(const TrainingOptions &options, const plan::Plan &plan, const plan::Plan *evaluation,
                       const Processes *processes, std::span<const MemoryLimit> limits);

} // namespace mgc
