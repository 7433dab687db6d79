#include "runtime/exec/RowKernels.h"

#include "runtime/base/File.h"
#include "runtime/random/Philox.h"

#include <algorithm>

namespace mgc {

namespace {

int64_t capabilityOf(const plan::KernelFile &file) { return plan::factsOf(file.level).capability; }

std::string describeCpu(int64_t level) {
  return fmt::format("x86-64-v{} ({})", level, level >= 4 ? "AVX-512" : "AVX2, FMA");
}

std::string describeGpu(int64_t capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }

Status refuse(const plan::KernelFile &least, const mgc_device_facts &facts) {
  const int64_t needed = capabilityOf(least), found = facts.capability;
  if (!facts.host_memory)
    return errorf("the plan's kernels need compute capability {} ({}), this device, {}, has {}; compile the "
                  "plan with --target cuda:sm_{}, if it is one of those that mgc compiles for",
                  describeGpu(needed), nameOf(least.level), facts.name, describeGpu(found), found);
  if (found == 0)
    return errorf("the plan's kernels need a CPU with {}, this one has less; no kernels can be compiled for "
                  "it: run the plan on another machine",
                  describeCpu(needed));
  return errorf("the plan's kernels need a CPU with {}, this one has {}; compile the plan without "
                "--target-cpu, or for this CPU with --target-cpu native",
                describeCpu(needed), describeCpu(found));
}

Result<const plan::KernelFile *> chooseFile(const std::vector<plan::KernelFile> &files, const mgc_device_facts &facts) {
  const plan::KernelFile *best = nullptr;
  for (const plan::KernelFile &file : files)
    if (capabilityOf(file) <= facts.capability && (!best || capabilityOf(file) > capabilityOf(*best)))
      best = &file;
  if (best)
    return best;
  return refuse(*std::ranges::min_element(files, {}, capabilityOf), facts);
}

std::vector<const plan::RowKernel *> rowsOf(const plan::Plan &plan) {
  std::vector<const plan::RowKernel *> rows;
  for (const plan::Program &program : plan.programs)
    for (const plan::Instruction &instruction : program.instructions)
      if (const auto *row = std::get_if<plan::RowKernel>(&instruction.body))
        rows.push_back(row);
  return rows;
}

} // namespace

Result<std::unique_ptr<RowKernels>> RowKernels::load(const plan::Plan &plan, const std::string &bundle,
                                                     const plugin::PluginDevice &device) {
  auto kernels = std::make_unique<RowKernels>();
  const std::vector<const plan::RowKernel *> rows = rowsOf(plan);
  if (plan.kernels.empty())
    return rows.empty() ? Result(std::move(kernels))
                        : errorf("kernel '{}': the plan names no file of kernels", rows[0]->symbol);
  MGC_ASSIGN(facts, device.describe());
  kernels->isOnHost_ = facts.host_memory != 0;
  MGC_ASSIGN(chosen, chooseFile(plan.kernels, facts));
  const std::string path = bundle + "/" + chosen->path;
  MGC_ASSIGN(file, MappedFile::open(path));
  if (const uint64_t found = hashName(file.text()); found != chosen->hash)
    return errorf("{}: its bytes hash to {:016x}, the plan was written for {:016x}; compile the plan again", path,
                  found, chosen->hash);
  MGC_SET(kernels->module_, device.loadModule(path, file.text()).at(path));
  for (const plan::RowKernel *row : rows)
    MGC_TRY(kernels->add(row->symbol).at(path));
  return kernels;
}

// Kernels that people write for the CPU may say nothing of what they need.
Status RowKernels::add(const std::string &symbol) {
  if (kernels_.contains(symbol))
    return Status::ok();
  MGC_ASSIGN(kernel, module_.find(symbol));
  MGC_ASSIGN(array, module_.array(symbol + std::string(plan::kNeedsSuffix)));
  std::optional<KernelNeeds> needs = array ? needsIn(*array) : std::nullopt;
  if (!needs && (array || !isOnHost_))
    return errorf("kernel '{}': the file does not say what it must be given; compile the plan again", symbol);
  if (needs && needs->range > 0 && kernel.blocks < 1)
    return errorf("kernel '{}': the file has it launched with {} blocks, which do nothing of its range of "
                  "{}; expected at least 1: compile the plan again",
                  symbol, kernel.blocks, needs->range);
  kernels_[symbol] = {kernel, std::move(needs)};
  return Status::ok();
}

std::optional<KernelNeeds> RowKernels::needsOf(const std::string &symbol) const { return kernels_.at(symbol).needs; }

// On the host a block is a row of the range.
plugin::Kernel RowKernels::kernel(const plan::RowKernel &row) const {
  plugin::Kernel kernel = kernels_.at(row.symbol).kernel;
  if (isOnHost_)
    kernel.blocks = row.range;
  return kernel;
}

} // namespace mgc
