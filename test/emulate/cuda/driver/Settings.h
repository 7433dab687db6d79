// MGC_EMULATE_CUDA, settings of emulated devices: "capability=80,memory=1073741824,delay=500,seed=7,fail-launch=12".
#pragma once

#include <cstdint>

namespace mgc::emulate {

struct Settings {
  int devices = 1;
  int capability = 90;          // 90: 9.0
  uint64_t memory = 8ull << 30; // bytes of each device
  uint64_t seed = 0;            // seed of the delays
  uint64_t delay = 0;           // the longest pause before an operation of a stream, in microseconds; 0: none
  uint64_t failLaunch = 0;      // the kernel launch that fails as by a bad address, counted from 1; 0: none
  uint64_t hangLaunch = 0;      // the kernel launch that never ends
  uint64_t failAllocation = 0;  // the allocation of device memory that finds none left
  uint64_t calls = 0;           // 1: print how often each function was called, and how many kernels ran, at the end
};

// Read once; an unknown name ends the process with a message.
const Settings &settings();

// The most shared memory of a block; the multiprocessor has 1 KiB more. CUDA C++ Programming Guide, technical specifications
// by compute capability.
int mostSharedBytes();

} // namespace mgc::emulate
