// The CPU as a device: memory of this process, kernels of a shared object.
#pragma once

#include "runtime/device/Device.h"

namespace mgc {

struct CpuDeviceOptions {
  bool poison = false; // fill new memory with 0xFF: every f32 a NaN, every i32 -1
};

std::unique_ptr<Device> makeCpuDevice(const CpuDeviceOptions &options = {});

} // namespace mgc
