// Controls of the stand-in device by a test, through its symbol mgc_host_plugin_controls. A control is read where it is
// used, so that a test sets it while no device is open.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace mgc::test {

struct HostPluginControls {
  // Guards against threads of streams that read, one that hangs beyond its test, and the thread that resets all.
  std::mutex mutex;
  uint64_t seed = 0;          // seed of the pauses before work of streams; 0: none
  int64_t longestPause = 300; // us
  int64_t totalBytes = int64_t(1) << 30;
  int32_t devices = 1, computeCapability = 90;
  std::string faultyKernel; // symbol; its call number `faultyCall` (from 0) breaks the device
  int64_t faultyCall = 0;
  std::string hangingKernel; // symbol; does not return before `released`
  std::atomic<bool> released{false};
  int64_t algorithms = 1, fastestAlgorithm = 0; // algorithms of matrix products: they all compute alike
  int64_t choosingBytes = 0;                    // more that choosing needs than the operands
  // Counted by the plugin:
  std::atomic<int64_t> launchedGraphs{0}, allocations{0}, liveBytes{0};
  std::atomic<int64_t> choices{0}, otherAlgorithms{0}; // products measured; made with another algorithm than 0
};

inline constexpr const char *kControlsSymbol = "mgc_host_plugin_controls"; // HostPluginControls *(*)()

} // namespace mgc::test
