// The engine whose ranks are on a device of a plugin: all ranks share one device, or each has a process and a device of its
// own. docs/device-engine.md.
#pragma once

#include "runtime/comm/nccl/NcclRank.h"
#include "runtime/exec/Engine.h"

namespace mgc {

struct DeviceOptions {
  std::string plugin; // file; empty: where mgrun is
  int ordinal = 0;
  bool deterministic = true; // equal bits from run to run
  bool poison = false;       // fill the memory with NaN first
  bool graphs = true;        // of one rank per process: replay a step instead of enqueueing it
  bool tuneProducts =
      false;             // measure which algorithm of the device's library is the fastest for each product
  std::string tuneCache; // file that keeps what was measured; empty: none
  Share share = nullptr; // between processes, where ranks are processes: EngineOptions::communicator
};

// With EngineOptions::communicator, which is of the hosts, this process has one rank and the others are processes too; without,
// all ranks share the device. Opens the plugin for the plan's target and its device. The plan must have passed verifyPlan. Before anything is
// allocated, what the ranks need is held against what is free.
Result<std::unique_ptr<Engine>> makeDeviceEngine(plan::Plan plan, const std::string &bundle,
                                                 const DeviceOptions &device, EngineOptions options = {});

} // namespace mgc
