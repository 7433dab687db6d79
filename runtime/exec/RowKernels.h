// The row kernels of a plan on a device: the file that suits it, loaded, and what its kernels must be given.
#pragma once

#include "plan/Plan.h"
#include "runtime/device/KernelNeeds.h"
#include "runtime/device/Plugin.h"

#include <map>

namespace mgc {

class RowKernels final : public KernelFacts {
public:
  // Finds all row kernels of the plan in the one of its files that suits the device best; `bundle`: their folder. Refuses a
  // device that is of a lower level than all of them, and a file whose bytes do not hash (hashName of
  // runtime/random/Philox.h) to its hash.
  static Result<std::unique_ptr<RowKernels>> load(const plan::Plan &plan, const std::string &bundle,
                                                  const plugin::PluginDevice &device);
  std::optional<KernelNeeds> needsOf(const std::string &symbol) const override;
  // With its launch.
  plugin::Kernel kernel(const plan::RowKernel &row) const;

private:
  struct Known {
    plugin::Kernel kernel;
    std::optional<KernelNeeds> needs;
  };
  Status add(const std::string &symbol);
  bool isOnHost_ = false;
  plugin::Module module_;
  std::map<std::string, Known> kernels_;
};

} // namespace mgc
