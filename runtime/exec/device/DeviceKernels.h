// The row kernels of a plan on a device: the file that suits it, loaded, and what its kernels must be given.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/Plugin.h"

#include <map>

namespace mgc {

class DeviceKernels final : public KernelFacts {
public:
  // Finds all row kernels of the plan. Refuses a device with a lower compute capability than all files of the bundle, and
  // a file whose bytes do not hash to its hash.
  static Result<std::unique_ptr<DeviceKernels>> load(const plan::Plan &plan, const std::string &bundle,
                                                     const plugin::PluginDevice &device);
  std::optional<KernelNeeds> needsOf(const std::string &symbol) const override;
  const plugin::Kernel &kernel(const std::string &symbol) const { return kernels_.at(symbol).kernel; }

private:
  struct Known {
    plugin::Kernel kernel;
    std::vector<int64_t> needs; // as the file has it
  };
  Status add(const std::string &symbol);
  plugin::Module module_;
  std::map<std::string, Known> kernels_;
};

} // namespace mgc
