#include "test/emulate/cuda/ptx/Encoder.h"
#include "test/emulate/cuda/ptx/Interpreter.h"
#include "test/emulate/cuda/ptx/Parser.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

namespace mgc::ptx {

const Forms &forms() {
  static const Forms &all = *[] { // never destroyed: kernels may run while the process ends
    auto *forms = new Forms;
    addIntegers(*forms);
    addFloats(*forms);
    addConversions(*forms);
    addMemory(*forms);
    addWarpWide(*forms);
    return forms;
  }();
  return all;
}

Module::Module(AddressSpace &space) : space_(space) {}

Module::~Module() {
  for (const auto &[name, region] : globals_)
    space_.remove(region.begin);
}

namespace {

// Writes the addresses that an initialiser names.
Status relocate(const Variable &variable, const std::map<std::string, Region, std::less<>> &globals) {
  const Region &region = globals.find(variable.name)->second;
  for (const Relocation &relocation : variable.relocations) {
    auto target = globals.find(relocation.symbol);
    if (target == globals.end())
      return errorf("the initial value of {} names {}, which is no variable of this module", variable.name,
                    relocation.symbol);
    uint64_t address = target->second.begin + relocation.addend;
    std::memcpy(region.host + relocation.at, &address, sizeof(address));
  }
  return Status::ok();
}

constexpr uint64_t kAlignment = 256;

} // namespace

Result<std::unique_ptr<Module>> Module::load(std::string_view text, AddressSpace &space) {
  std::unique_ptr<Module> module(new Module(space));
  MGC_SET(module->text_, parse(text));
  for (const Variable &variable : module->text_->variables) {
    if (variable.space == ".shared" || variable.isExtern)
      continue;
    auto &storage = module->storage_.emplace_back(new std::byte[variable.bytes + kAlignment]());
    auto begin = reinterpret_cast<uintptr_t>(storage.get());
    std::byte *host = storage.get() + (kAlignment - begin % kAlignment) % kAlignment;
    std::memcpy(host, variable.initial.data(), variable.initial.size());
    module->globals_[std::string(variable.name)] = {space.add(host, variable.bytes), variable.bytes, host};
  }
  for (const Variable &variable : module->text_->variables)
    if (variable.space != ".shared" && !variable.isExtern)
      MGC_TRY(relocate(variable, module->globals_));
  for (const auto &[name, function] : module->text_->functions) {
    if (!function.isEntry || !function.body)
      continue;
    MGC_ASSIGN(program, Encoder(*module->text_, module->globals_).encode(function));
    module->programs_[std::string(name)] = std::move(program);
  }
  return module;
}

int Module::target() const { return text_->target; }

const KernelInfo *Module::kernel(std::string_view name) const {
  auto program = programs_.find(name);
  return program == programs_.end() ? nullptr : &program->second->info;
}

std::optional<Region> Module::global(std::string_view name) const {
  auto global = globals_.find(name);
  return global == globals_.end() ? std::nullopt : std::optional(global->second);
}

namespace {

Status check(const Program &program, const Launch &launch) {
  auto volume = [](const Dim3 &size) { return uint64_t(size.x) * size.y * size.z; };
  const uint64_t threads = volume(launch.block);
  if (threads == 0 || threads > program.info.maxThreads || volume(launch.grid) == 0)
    return errorf("kernel {}: {} blocks of {} threads; expected at least one block of 1 to {} threads", program.name,
                  volume(launch.grid), threads, program.info.maxThreads);
  if (launch.parameters.size() < program.info.parameterBytes)
    return errorf("kernel {}: {} bytes of parameters; it takes {}", program.name, launch.parameters.size(),
                  program.info.parameterBytes);
  return Status::ok();
}

} // namespace

Result<uint64_t> Module::launch(std::string_view kernel, const Launch &launch) const {
  auto found = programs_.find(kernel);
  if (found == programs_.end())
    return errorf("the module has no kernel {}", kernel);
  const Program &program = *found->second;
  MGC_TRY(check(program, launch));
  const uint64_t blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
  std::atomic<uint64_t> next = 0, instructions = 0;
  std::mutex mutex;
  Status fault;
  auto work = [&] {
    Interpreter interpreter(program, launch, space_);
    for (uint64_t block = next++; block < blocks; block = next++) {
      Status status = interpreter.runBlock(block);
      if (status.isOk())
        continue;
      std::lock_guard lock(mutex);
      if (fault.isOk())
        fault = status;
      next = blocks;
    }
    instructions += interpreter.instructions();
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < std::min<uint64_t>(launch.workers, blocks); ++i)
    others.emplace_back(work);
  work();
  for (std::thread &other : others)
    other.join();
  if (!fault.isOk())
    return fault;
  return instructions.load();
}

} // namespace mgc::ptx
