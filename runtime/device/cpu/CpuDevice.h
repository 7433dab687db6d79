// The CPU as a device: memory of this process, row kernels of a shared object, matrix products and attention of
// runtime/kernels.
//
// A stream does what it is given before it returns, on the thread that gives it, with the device's threads; a stream of
// high priority, which runs concurrently with another, with that thread alone. So every event is done once it is
// recorded. There are no graphs, no products with epilogues, and no communicators: runtime/comm has those of host
// memory.
#pragma once

#include "plan/Plan.h"
#include "runtime/device/Plugin.h"

#include <optional>

namespace mgc {

// The highest level that this CPU and its system have; nothing below x86-64-v3.
std::optional<plan::KernelLevel> levelOfThisCpu();

struct CpuDeviceOptions {
  int threads = 1;                                           // threads of a stream
  std::optional<plan::KernelLevel> level = levelOfThisCpu(); // kernels beyond it are not used
};

plugin::PluginDevice openCpuDevice(const CpuDeviceOptions &options = {});

} // namespace mgc
