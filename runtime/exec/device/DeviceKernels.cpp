#include "runtime/exec/device/DeviceKernels.h"

#include "runtime/base/File.h"
#include "runtime/random/Philox.h"

#include <algorithm>

namespace mgc {

namespace {

std::string versionOf(int64_t capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }

int64_t capabilityOf(const plan::KernelFile &file) { return plan::factsOf(file.level).computeCapability; }

Result<const plan::KernelFile *> chooseFile(const std::vector<plan::KernelFile> &files,
                                            const mgc_device_facts &facts) {
  const plan::KernelFile *best = nullptr;
  for (const plan::KernelFile &file : files)
    if (capabilityOf(file) <= facts.compute_capability && (!best || capabilityOf(file) > capabilityOf(*best)))
      best = &file;
  if (best)
    return best;
  const auto least = std::ranges::min_element(files, {}, capabilityOf);
  return errorf(
      "the plan's kernels need compute capability {} ({}), this device, {}, has {}; compile the plan with "
      "--target cuda:sm_{}, if it is one of those that mgc compiles for",
      versionOf(capabilityOf(*least)), nameOf(least->level), facts.name, versionOf(facts.compute_capability),
      facts.compute_capability);
}

} // namespace

Result<std::unique_ptr<DeviceKernels>> DeviceKernels::load(const plan::Plan &plan, const std::string &bundle,
                                                           const plugin::PluginDevice &device) {
  auto kernels = std::make_unique<DeviceKernels>();
  if (plan.kernels.empty())
    return kernels;
  MGC_ASSIGN(facts, device.describe());
  MGC_ASSIGN(chosen, chooseFile(plan.kernels, facts));
  const std::string path = bundle + "/" + chosen->path;
  MGC_ASSIGN(file, MappedFile::open(path));
  if (const uint64_t found = hashName(file.text()); found != chosen->hash)
    return errorf("{}: its bytes hash to {:016x}, the plan was written for {:016x}; compile the plan again",
                  path, found, chosen->hash);
  Result<plugin::Module> module = device.loadModule(file.text());
  if (!module.isOk())
    return Status(module.status()).at(path);
  kernels->module_ = module.take();
  for (const plan::Program &program : plan.programs)
    for (const plan::Instruction &instruction : program.instructions)
      if (const auto *row = std::get_if<plan::RowKernel>(&instruction.body))
        MGC_TRY(kernels->add(row->symbol).at(path));
  return kernels;
}

Status DeviceKernels::add(const std::string &symbol) {
  if (kernels_.contains(symbol))
    return Status::ok();
  MGC_ASSIGN(kernel, module_.find(symbol));
  MGC_ASSIGN(needs, module_.array(symbol + std::string(plan::kNeedsSuffix)));
  if (!needs || !needsIn(*needs))
    return errorf("kernel '{}': the file does not say what it must be given; compile the plan again", symbol);
  if (const int64_t range = needs->front(); range > 0 && kernel.blocks < 1)
    return errorf("kernel '{}': the file has it launched with {} blocks, which do nothing of its range of "
                  "{}; expected at "
                  "least 1: compile the plan again",
                  symbol, kernel.blocks, range);
  kernels_[symbol] = {kernel, std::move(*needs)};
  return Status::ok();
}

std::optional<KernelNeeds> DeviceKernels::needsOf(const std::string &symbol) const {
  return needsIn(kernels_.at(symbol).needs);
}

} // namespace mgc
