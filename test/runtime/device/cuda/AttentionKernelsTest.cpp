// The plugin's own attention, with the interpreter of PTX in place of a device.
#include "runtime/device/cuda/AttentionCalls.h"
#include "test/emulate/cuda/ptx/Ptx.h"
#include "test/runtime/device/cuda/AttentionOnDevice.h"

using namespace mgc;
using namespace mgc::test;

// --- The plugin's requests to a device.

namespace {

ptx::AddressSpace space; // device addresses are host addresses

struct InterpretedKernel {
  const ptx::Module *module;
  std::string symbol;
};

const ptx::Module &interpreted(const cuda::OwnModule &own) {
  static std::map<const cuda::OwnModule *, std::unique_ptr<ptx::Module>> modules;
  std::unique_ptr<ptx::Module> &module = modules[&own];
  if (!module) {
    auto loaded = ptx::Module::load(own.text, space);
    if (!loaded.isOk())
      throw std::runtime_error(loaded.status().message());
    module = loaded.take();
  }
  return *module;
}

} // namespace

Status mgc_device::enter() { return Status::ok(); }

Status cuda::allocate(mgc_device *, int64_t bytes, mgc_address *address) {
  *address = space.add(std::malloc(size_t(bytes)), size_t(bytes));
  return Status::ok();
}
void cuda::release(mgc_device *, mgc_address address) {
  EXPECT_TRUE(space.remove(address));
  std::free(reinterpret_cast<void *>(address));
}
Status cuda::copyInNow(mgc_device &, mgc_address to, const void *from, int64_t bytes) {
  std::memcpy(reinterpret_cast<void *>(to), from, size_t(bytes));
  return Status::ok();
}
Status cuda::fill(mgc_stream *, mgc_address, uint8_t, int64_t) { return errorf("there is no device"); }
Result<CUfunction> cuda::ownKernel(mgc_device &, const OwnModule &own, const char *symbol) {
  static std::map<std::pair<const OwnModule *, std::string>, InterpretedKernel> kernels;
  InterpretedKernel &kernel = kernels[{&own, symbol}];
  kernel = {&interpreted(own), symbol};
  if (!kernel.module->kernel(symbol))
    return errorf("{} has no kernel {}", own.name, symbol);
  return reinterpret_cast<CUfunction>(&kernel);
}

Status cuda::launchWith(mgc_stream &, CUfunction function, const KernelLaunch &launch, void **arguments,
                        std::string_view) {
  const auto &kernel = *reinterpret_cast<const InterpretedKernel *>(function);
  const auto parameters = ptx::packParameters(*kernel.module->kernel(kernel.symbol), arguments);
  const auto [x, y, z] = launch.blocks;
  const auto [i, j, k] = launch.threads;
  return kernel.module
      ->launch(kernel.symbol, {.grid = {x, y, z},
                               .block = {i, j, k},
                               .sharedBytes = launch.sharedBytes,
                               .parameters = parameters,
                               .workers = 2})
      .status();
}

namespace {

void run(DeviceAttention &attention) {
  mgc_device device;
  mgc_stream stream = {&device, nullptr};
  auto made = cuda::makeOwnAttention(device, planOf(attention.facts));
  ASSERT_TRUE(made.isOk()) << made.status().message();
  std::vector<uint64_t> addresses;
  for (auto &memory : attention.memory)
    addresses.push_back(memory.empty() ? 0 : space.add(memory.data(), memory.size()));
  mgc_attention_operands operands = {};
  for (const DeviceAttention::Operand &operand : attention.operands)
    operands.*operand.field = addresses[operand.memory] ? addresses[operand.memory] + uint64_t(operand.offset) : 0;
  const Status status = (*made)->run(stream, operands);
  EXPECT_TRUE(status.isOk()) << status.message();
  for (const uint64_t address : addresses)
    EXPECT_TRUE(address == 0 || space.remove(address));
}

} // namespace

#include "test/runtime/device/cuda/AttentionCases.h"
