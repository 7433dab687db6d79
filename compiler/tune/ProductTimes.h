// How long each path of a matrix product takes on this machine, and which of them to use.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"
#include "runtime/device/Plugin.h"

#include <array>
#include <span>

namespace mgc::tune {

// The times of one path. A round of a measurement has every path once, and every second round belongs to the other
// half: the difference of the two halves is the machine's noise.
struct PathTimes {
  plan::GemmPath path;
  std::array<double, 2> best; // seconds, of each half
};

// The path whose worse half is the best, if it beats the better half of `byRule` by more than 1 %; else `byRule`.
plan::GemmPath fastest(std::span<const PathTimes> times, plan::GemmPath byRule);

class ProductTimer {
public:
  // Calls to measure() come from one thread, which has as many cores to itself.
  static Result<ProductTimer> create(int threads);

  // Times every path that applies, out of cache. A matrix product too long for a few hundred milliseconds is measured
  // with its longest sides halved: the rest of it is more of the same.
  std::vector<PathTimes> measure(const plan::Gemm &gemm);

private:
  ProductTimer(plugin::PluginDevice device, plugin::DeviceBuffer memory, int threads)
      : device_(std::move(device)), memory_(std::move(memory)), threads_(threads) {}
  plugin::PluginDevice device_;
  plugin::DeviceBuffer memory_;
  int threads_;
};

} // namespace mgc::tune
