// The CPU as a device: memory of this process, kernels of a shared object.
#pragma once

#include "runtime/device/Device.h"

#include <optional>

namespace mgc {

// The highest level that this CPU and its system have; nothing below x86-64-v3.
std::optional<plan::KernelLevel> levelOfThisCpu();

struct CpuDeviceOptions {
  std::optional<plan::KernelLevel> level = levelOfThisCpu(); // kernels beyond it are not used
  bool poison = false; // fill new memory with 0xFF: every f32 a NaN, every i32 -1
};

std::unique_ptr<Device> makeCpuDevice(const CpuDeviceOptions &options = {});

} // namespace mgc
